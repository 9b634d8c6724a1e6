"""A Hugging Face ``config.json`` of a GPT-2- or Llama-like model, read into a config. Nothing is ever downloaded.

What a file says is checked as what a user types is: size first, then JSON, then every value that is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from core.checks import one_of, positive_number, whole_number
from core.flops.transformer_shapes import MAX_WIDTH
from core.models.config import MAX_LAYERS, TransformerConfig
from core.words import _

MAX_FILE_BYTES = 200_000
LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
MODEL_TYPES = ("gpt2", *LLAMA_LIKE)
_GPT2_ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def config_from_huggingface(source: str | bytes | Mapping[str, Any]) -> TransformerConfig:
    """The model that a ``config.json`` describes: its text, or the dictionary in it.

    ``notes`` of the result says what the file asks for that changes numbers and no size, and is left out here: dropout,
    a sliding window, scaled rotary positions. Raises ValueError for a file that is too long, no JSON, of another
    architecture, or impossible, and never looks anything up.

    >>> text = '{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}'
    >>> config_from_huggingface(text).num_params
    124439808
    >>> config_from_huggingface('{"model_type": "bert"}')
    Traceback (most recent call last):
    ValueError: model_type must be one of gpt2, llama, mistral, qwen2, qwen3; received 'bert'
    """
    try:
        fields = _Fields(_parse(source) if isinstance(source, (str, bytes)) else source)
        model_type = one_of("model_type", fields.get("model_type"), MODEL_TYPES)
        return _gpt2(fields) if model_type == "gpt2" else _llama(fields, model_type)
    except RecursionError:
        raise ValueError(_("this config.json is nested too deeply")) from None
    except OverflowError:
        raise ValueError(_("this config.json holds a number of hundreds of digits")) from None


def _parse(source: str | bytes) -> Any:
    if len(source) > MAX_FILE_BYTES:
        message = _("a config.json has at most {most:,} bytes; this one has {size:,}")
        raise ValueError(message.format(most=MAX_FILE_BYTES, size=len(source)))
    try:
        return json.loads(source, parse_constant=_refuse_constant)
    except ValueError as error:  # JSON's own errors, a wrong encoding, a whole number of thousands of digits
        message = _("this is not a config.json: {error}")
        raise ValueError(message.format(error=str(error)[:100])) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(_("{name} is no JSON").format(name=name))


class _Fields:
    """The file's fields; each is checked when it is read. A null is as good as a field that is not there."""

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, Mapping):
            message = _("a config.json holds an object, {{...}}; this one holds {kind}")
            raise ValueError(message.format(kind=type(fields).__name__))
        self.fields = fields

    def get(self, name: str, default: Any = None) -> Any:
        value = self.fields.get(name)
        return default if value is None else value

    def whole(self, name: str, default: int | None = None, low: int = 1, high: int = MAX_WIDTH) -> int:
        value = self.get(name, default)
        if value is None:
            raise ValueError(_("this config.json lacks {name}").format(name=name))
        return whole_number(name, value, low, high)

    def number(self, name: str, default: float, high: float) -> float:
        return positive_number(name, self.get(name, default), high)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            message = _("{name} must be true or false; received {value}")
            raise ValueError(message.format(name=name, value=repr(value)[:40]))
        return value

    def refuse(self, name: str, *allowed: Any) -> None:
        """A field that asks for another architecture, unless it is one of those values or not there."""
        value = self.get(name, allowed[0])
        if isinstance(value, (Mapping, list)) or value not in allowed:
            message = _("{name} {value} is not supported here; {right} is")
            raise ValueError(message.format(name=name, value=repr(value)[:40], right=repr(allowed[0])))

    def model_name(self) -> str:
        name = self.get("_name_or_path") or self.get("model_type")
        return re.sub(r"[^\w ./-]", "", name[:60]) if isinstance(name, str) else ""

    def dropout(self, *names: str) -> tuple[str, ...]:
        asked = [name for name in names if self.get(name, 0) not in (0, 0.0, False)]
        return (_("dropout ({names}) is left out").format(names=", ".join(asked)),) if asked else ()


def _gpt2(fields: _Fields) -> TransformerConfig:
    d_model = fields.whole("n_embd")
    activation = one_of("activation_function", fields.get("activation_function", "gelu_new"), tuple(_GPT2_ACTIVATIONS))
    fields.refuse("add_cross_attention", False)
    fields.refuse("scale_attn_weights", True)
    fields.refuse("scale_attn_by_inverse_layer_idx", False)
    return TransformerConfig(
        fields.model_name(),
        num_layers=fields.whole("n_layer", high=MAX_LAYERS),
        d_model=d_model,
        num_heads=fields.whole("n_head"),
        d_ff=fields.whole("n_inner", 4 * d_model),
        vocab_size=fields.whole("vocab_size"),
        gated_mlp=False,
        tied_head=fields.flag("tie_word_embeddings", True),
        learned_positions=fields.whole("n_positions", fields.whole("n_ctx", 1024)),
        bias=True,
        norm_bias=True,
        source=_("its config.json"),
        activation=_GPT2_ACTIVATIONS[activation],
        norm_eps=fields.number("layer_norm_epsilon", 1e-5, 1.0),
        notes=fields.dropout("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    )


def _llama(fields: _Fields, model_type: str) -> TransformerConfig:
    num_heads = fields.whole("num_attention_heads")
    fields.refuse("hidden_act", "silu", "swish")
    rope = _Fields(fields.get("rope_parameters", {}))
    bias, qkv_bias = fields.flag("attention_bias", False), None
    if bias != fields.flag("mlp_bias", False):
        raise ValueError(_("attention_bias and mlp_bias must be equal here: all linear layers have biases, or none"))
    if model_type == "qwen2":
        qkv_bias = True
    return TransformerConfig(
        fields.model_name(),
        num_layers=fields.whole("num_hidden_layers", high=MAX_LAYERS),
        d_model=fields.whole("hidden_size"),
        num_heads=num_heads,
        d_ff=fields.whole("intermediate_size"),
        vocab_size=fields.whole("vocab_size"),
        num_kv_heads=fields.whole("num_key_value_heads", num_heads),
        head_dim=fields.whole("head_dim", 128) if model_type == "qwen3" else fields.get("head_dim"),
        tied_head=fields.flag("tie_word_embeddings", False),
        bias=bias,
        qkv_bias=qkv_bias,
        source=_("its config.json"),
        context_length=fields.whole("max_position_embeddings", 2048),
        rope_theta=fields.number("rope_theta", rope.number("rope_theta", 10_000.0, 1e12), 1e12),
        norm_eps=fields.number("rms_norm_eps", 1e-6, 1.0),
        qk_norm=model_type == "qwen3",
        notes=(*fields.dropout("attention_dropout"), *_window(fields, model_type), *_scaling(fields, rope)),
    )


def _window(fields: _Fields, model_type: str) -> tuple[str, ...]:
    used = model_type == "mistral" or fields.flag("use_sliding_window", False)
    window = fields.whole("sliding_window", 0, low=0) if used else 0
    return (_("the sliding window of {n:,} tokens is left out").format(n=window),) if window else ()


def _scaling(fields: _Fields, rope: _Fields) -> tuple[str, ...]:
    scaled = fields.get("rope_scaling") is not None or rope.get("rope_type", "default") != "default"
    return (_("the scaling of rotary positions is left out"),) if scaled else ()
