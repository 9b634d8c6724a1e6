"""What is measured: a model, its blocks and its loss, ours or Hugging Face's, with the optimizers that train it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from core.memory.config import StepConfig
from core.models.config import TransformerConfig
from core.models.transformer import TransformerLM
from core.optimizers.registry import make
from core.words import _

LR = 1e-3


class Trained(Protocol):
    """What says how a model is trained."""

    @property
    def optimizer(self) -> str: ...

    @property
    def optimizer_implementation(self) -> str: ...


@dataclass(frozen=True)
class Subject:
    """A language model with its loss: ``loss(tokens, labels)``. ``head`` is the module whose output are the logits."""

    model: nn.Module
    blocks: Sequence[nn.Module]
    head: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]


def napkin(config: StepConfig) -> Subject:
    """``core.models``' Transformer and torch's cross-entropy over the next token."""
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    model = TransformerLM(config.model, config.attention, checkpoint_every=config.checkpointing, dtype=dtype)

    def loss(tokens: Tensor, labels: Tensor) -> Tensor:
        logits = rearrange(model(tokens), "batch seq vocab -> (batch seq) vocab")
        return functional.cross_entropy(logits, rearrange(labels, "batch seq -> (batch seq)"))

    return Subject(model, list(model.blocks), model, loss)


def of(config: StepConfig) -> Subject:
    """The config's model, ours or Hugging Face's."""
    if config.implementation == "napkin":
        return napkin(config)
    return huggingface(huggingface_fields(config.model), config.attention, config.precision, config.checkpointing == 1)


def huggingface_fields(model: TransformerConfig) -> dict[str, Any]:
    """The config.json of transformers' model of this shape, without dropout."""
    common = {"vocab_size": model.vocab_size, "tie_word_embeddings": model.tied_head, "use_cache": False}
    if model.learned_positions:
        activation = {"gelu_tanh": "gelu_new"}.get(model.activation, model.activation)
        return common | {
            "model_type": "gpt2", "n_embd": model.d_model, "n_layer": model.num_layers, "n_head": model.num_heads,
            "n_inner": model.d_ff, "n_positions": model.learned_positions, "activation_function": activation,
            "layer_norm_epsilon": model.norm_eps, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        }  # fmt: skip
    own = {"llama": {"attention_bias": model.bias, "mlp_bias": model.bias}, "qwen2": {}, "qwen3": {}}
    kind = "qwen3" if model.qk_norm else "qwen2" if model.qkv_bias and not model.bias else "llama"
    return common | own[kind] | {
        "model_type": kind, "hidden_size": model.d_model, "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads, "num_key_value_heads": model.num_kv_heads, "head_dim": model.head_dim,
        "intermediate_size": model.d_ff, "max_position_embeddings": model.context_length,
        "rms_norm_eps": model.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_theta}, "pad_token_id": None,
    }  # fmt: skip


def huggingface(fields: Mapping[str, Any], attention: str, precision: str, checkpointing: bool) -> Subject:
    """transformers' causal language model of a config.json, built from the installed package alone."""
    transformers = import_transformers()
    fields = dict(fields)
    kind = fields.pop("model_type")
    made = transformers.AutoConfig.for_model(kind, **fields)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # under fake tensors a model cannot be cast after it is made
    try:
        model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation=attention, dtype=dtype)
    finally:
        torch.set_default_dtype(before)
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})

    def loss(tokens: Tensor, labels: Tensor) -> Tensor:
        with _no_packing(transformers):
            out: Tensor = model(input_ids=tokens, labels=labels, use_cache=False).loss
        return out

    return Subject(model, _blocks(model), model.get_output_embeddings(), loss)


@contextlib.contextmanager
def _no_packing(transformers: Any) -> Iterator[None]:
    """One sequence a row: transformers cannot read that from fake tensors, and would make a mask for each block."""
    module, name = transformers.masking_utils, "find_packed_sequence_indices"
    before = getattr(module, name, None)
    if before is not None:
        setattr(module, name, lambda position_ids: None)
    try:
        yield
    finally:
        if before is not None:
            setattr(module, name, before)


def import_transformers() -> Any:
    """The transformers package; ValueError, saying how to get it, where it is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when it is imported: nothing here ever downloads
    try:
        import transformers
    except ImportError:
        message = _("measuring Hugging Face's models needs the transformers package: pip install transformers")
        raise ValueError(message) from None
    return transformers


def _blocks(model: nn.Module) -> Sequence[nn.Module]:
    """The longest list of modules in a model: its blocks."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    return list(max(lists, key=lambda one: sum(1 for _block in one), default=nn.ModuleList()))


def optimizers(config: Trained, model: nn.Module) -> list[torch.optim.Optimizer]:
    """What trains the model; for Muon a second one, AdamW, for all but the blocks' matrices."""
    parameters = list(model.parameters())
    if config.optimizer_implementation != "napkin":
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
        which = config.optimizer_implementation
        return [kind(parameters, lr=LR, foreach=which == "foreach", fused=which == "fused")]
    if config.optimizer != "muon":
        return [make(config.optimizer, parameters, LR)]
    matrices = [p for name, p in model.named_parameters() if is_muons(name, p.dim())]
    others = [p for name, p in model.named_parameters() if not is_muons(name, p.dim())]
    return [make("muon", matrices, LR), make("adamw", others, LR)]


def is_muons(name: str, num_axes: int) -> bool:
    """Whether Muon trains the parameter: the blocks' matrices, not embeddings, head and vectors."""
    return num_axes == 2 and (name.startswith("blocks.") or ".h." in name or ".layers." in name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' advice on the console."""
    loggers = [logging.getLogger("transformers"), logging.getLogger("torch")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
