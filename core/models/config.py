"""What a decoder-only Transformer is made of: its shape, and what changes its numbers but none of its sizes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, positive_number, whole_number
from core.flops import transformer_shapes
from core.flops.transformer_shapes import MAX_WIDTH, TransformerShape
from core.words import _

MAX_LAYERS = 1024
ACTIVATIONS = ("silu", "gelu_tanh", "gelu", "relu")


@dataclass(frozen=True)
class TransformerConfig(TransformerShape):
    """A Transformer that can be built: ``TransformerShape`` (see there for every size) and how it computes.

    GPT-2 style is ``learned_positions=1024, gated_mlp=False, bias=True, norm_bias=True, tied_head=True``. Llama style
    is what is left when nothing is said: rotary positions, SwiGLU, RMSNorm, no biases, a head of its own.

    ``context_length`` is the longest context that the model is meant for; a table of ``learned_positions`` sets it.
    ``activation`` is the feed-forward's: "silu" where it is gated, "gelu_tanh" otherwise. ``qk_norm`` normalizes every
    head of q and k (Qwen3), ``notes`` says what of a published model is left out here.

    Raises ValueError for what cannot be a Transformer, with the value received and what would be right.

    >>> TransformerConfig("tiny", num_layers=2, d_model=64, num_heads=4, d_ff=256, vocab_size=1000).num_params
    259392
    >>> TransformerConfig("odd", num_layers=2, d_model=60, num_heads=4, d_ff=256, vocab_size=1000)
    Traceback (most recent call last):
    ValueError: head_dim must be even, since rotary positions turn pairs; received 15
    """

    context_length: int = 0
    activation: str = ""
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    qk_norm: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("num_layers", whole_number("num_layers", self.num_layers, 1, MAX_LAYERS))
        whole_number("num_heads · head_dim", self.q_dim, 1, MAX_WIDTH)
        if self.learned_positions and self.context_length not in (0, self.learned_positions):
            message = _("context_length must be that of the learned positions, {right:,}; received {value:,}")
            raise ValueError(message.format(right=self.learned_positions, value=self.context_length))
        context_length = self.learned_positions or self.context_length or 2048
        self._set("context_length", whole_number("context_length", context_length, 1, MAX_WIDTH))
        activation = self.activation or ("silu" if self.gated_mlp else "gelu_tanh")
        self._set("activation", one_of("activation", activation, ("silu",) if self.gated_mlp else ACTIVATIONS))
        self._set("rope_theta", positive_number("rope_theta", self.rope_theta))
        self._set("norm_eps", positive_number("norm_eps", self.norm_eps, 1.0))
        if not self.learned_positions and self.head_dim and self.head_dim % 2:
            message = _("head_dim must be even, since rotary positions turn pairs; received {value:,}")
            raise ValueError(message.format(value=self.head_dim))

    @property
    def num_layer_params(self) -> int:
        """One block: as the shape counts it, and a scale for q and one for k where they are normalized."""
        assert self.head_dim is not None
        return super().num_layer_params + self.qk_norm * 2 * self.head_dim

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)


def count_parameters(config: TransformerShape) -> int:
    """Parameters of the Transformer, a tied head counted once, in closed form: V·D + L·(attention + MLP + norms) + …

    >>> count_parameters(PRESETS["gpt2"]), count_parameters(PRESETS["llama3-8b"])
    (124439808, 8030261248)
    """
    return config.num_params


def preset(name: str) -> TransformerConfig:
    """A published model by its name.

    >>> preset("gpt2-xl").num_layers
    48
    >>> preset("gpt5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: model must be one of gpt2, gpt2-medium, gpt2-large, ...; received 'gpt5'
    """
    return PRESETS[one_of("model", name, tuple(PRESETS))]


def _published(shape_name: str, context_length: int, **fields: Any) -> TransformerConfig:
    """A shape that ``core.flops`` lists, as a model."""
    shape = dataclasses.asdict(transformer_shapes.PRESETS[shape_name])
    return TransformerConfig(**shape | fields, context_length=context_length)


def _qwen3(size: str, num_layers: int, d_model: int, num_heads: int, d_ff: int, tied_head: bool) -> TransformerConfig:
    return TransformerConfig(
        f"Qwen3 {size}",
        num_layers,
        d_model,
        num_heads,
        d_ff,
        vocab_size=151_936,
        num_kv_heads=8,
        head_dim=128,
        tied_head=tied_head,
        source=_("Yang et al. 2025, Qwen3 technical report, table 1; the model's config.json"),
        context_length=40_960,
        rope_theta=1e6,
        norm_eps=1e-6,
        qk_norm=True,
    )


PRESETS: dict[str, TransformerConfig] = {
    "gpt2": _published("GPT-2 small", 1024),
    "gpt2-medium": _published("GPT-2 medium", 1024),
    "gpt2-large": _published("GPT-2 large", 1024),
    "gpt2-xl": _published("GPT-2 XL", 1024),
    "cs336-xl": _published("CS336 assignment 1, GPT-2 XL's shape", 1024),
    "llama2-7b": _published("Llama 2 7B", 4096),
    "llama2-13b": _published("Llama 2 13B", 4096),
    "llama2-70b": _published("Llama 2 70B", 4096),
    "llama3-8b": _published("Llama 3 8B", 8192, rope_theta=5e5),
    "llama3-70b": _published("Llama 3 70B", 8192, rope_theta=5e5),
    "mistral-7b": TransformerConfig(
        "Mistral 7B v0.3", 32, 4096, 32, 14_336, 32_768, num_kv_heads=8, context_length=32_768, rope_theta=1e6,
        source=_("Jiang et al. 2023, Mistral 7B, table 1; v0.3's config.json (vocabulary, no sliding window)"),
    ),
    "qwen2.5-7b": TransformerConfig(
        "Qwen2.5 7B", 28, 3584, 28, 18_944, 152_064, num_kv_heads=4, qkv_bias=True, context_length=131_072,
        rope_theta=1e6, norm_eps=1e-6, source=_("Yang et al. 2024, Qwen2.5 technical report, table 1; its config.json"),
    ),
    "qwen3-0.6b": _qwen3("0.6B", 28, 1024, 16, 3072, tied_head=True),
    "qwen3-8b": _qwen3("8B", 36, 4096, 32, 12_288, tied_head=False),
}  # fmt: skip
