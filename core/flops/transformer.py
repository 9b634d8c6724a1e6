"""FLOPs of a Transformer, part by part: on a napkin, by the rules of thumb, and beside torch's count of a real one.

Letters: B batch, T context, D model width, H heads, Q head size, K key-value heads, F feed-forward width,
V vocabulary, L layers, N parameters. Matrix multiplies only, a multiply-add being 2: what torch's counter counts too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from core import units
from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.flops.counter import FlopCount
from core.flops.transformer_shapes import MAX_WIDTH, PRESETS, TransformerShape
from core.words import _

__all__ = [
    "CAUSAL_CONVENTIONS",
    "PRESETS",
    "CausalConvention",
    "Component",
    "ContextShares",
    "TransformerFlops",
    "TransformerShape",
    "attention_share",
    "compare_transformer_flops",
    "count_transformer",
    "predict_attention_share",
    "predict_transformer_flops",
    "transformer_flops",
]

ATTENTIONS = ("sdpa", "eager")
_LARGEST_TENSOR = 2**62  # elements; torch counts them in 64 bits


@dataclass(frozen=True)
class Component:
    """The FLOPs of one part of the Transformer over all layers; ``formula`` is the forward's, numbers put in."""

    key: str  # "qkv" | "scores" | "weighted_sum" | "output" | "feed_forward" | "head"
    name: str
    forward_flops: int
    backward_flops: int
    formula: str

    @property
    def total_flops(self) -> int:
        return self.forward_flops + self.backward_flops


@dataclass(frozen=True)
class TransformerFlops:
    """The FLOPs of one step of a Transformer on (B, T) tokens, and of its components."""

    shape: TransformerShape
    batch_size: int
    seq_len: int
    causal_half: bool
    components: tuple[Component, ...]

    @functools.cached_property
    def forward_flops(self) -> int:
        return sum(one.forward_flops for one in self.components)

    @functools.cached_property
    def backward_flops(self) -> int:
        return sum(one.backward_flops for one in self.components)

    @property
    def total_flops(self) -> int:
        return self.forward_flops + self.backward_flops

    @property
    def per_token(self) -> int:
        """FLOPs per token: exact, since every component is a multiple of B·T."""
        return self.total_flops // (self.batch_size * self.seq_len)

    @functools.cached_property
    def shares(self) -> dict[str, float]:
        """Each component's part of the total, by its key; they add up to 1."""
        return {one.key: one.total_flops / self.total_flops for one in self.components}

    @property
    def attention_share(self) -> float:
        """The part of the scores and the weighted sum, the two that grow with the square of the context."""
        return self.shares["scores"] + self.shares["weighted_sum"]


@functools.lru_cache(maxsize=512)  # a chart asks for the same dozen lengths at every click
def transformer_flops(
    shape: TransformerShape, batch_size: int, seq_len: int, *, backward: bool = True, causal_half: bool = False
) -> TransformerFlops:
    """FLOPs of a forward and its backward, exact integers.

    Backward is what autograd runs: twice forward for every product, one for each operand's gradient. That holds for
    the first layer too, with a frozen embedding as well: between the token ids and the first product is a norm, whose
    weight is trained. ``causal_half`` counts the T·(T + 1)/2 query-key pairs that a causal mask leaves instead of all
    T²; torch's counter and most published numbers count T² (``CAUSAL_CONVENTIONS``). A context beyond the table of
    learned positions is counted all the same. Raises ValueError for sizes that are not whole numbers above zero.

    >>> flops = transformer_flops(PRESETS["GPT-2 small"], 1, 1024)
    >>> flops.forward_flops, flops.total_flops, flops.per_token
    (291648307200, 874944921600, 854438400)
    >>> round(flops.attention_share, 3)
    0.133
    """
    b, t = whole_number("B", batch_size, 1, MAX_WIDTH), whole_number("T", seq_len, 1, MAX_WIDTH)
    d, q, kv, layers, v = shape.d_model, shape.q_dim, shape.kv_dim, shape.num_layers, shape.vocab_size
    pairs = t * (t + 1) // 2 if causal_half else t * t
    pairs_text = f"{t:,}·{t + 1:,}/2" if causal_half else f"{t:,}²"
    matrices = shape.num_mlp_matrices
    per_layer = f" · {layers:,}"
    parts = (
        ("qkv", _("q, k and v"), 2 * b * t * d * (q + 2 * kv) * layers,
         f"2 · {b:,}·{t:,} · {d:,} · ({q:,} + 2·{kv:,}){per_layer}"),
        ("scores", _("attention scores QKᵀ"), 2 * b * pairs * q * layers, f"2 · {b:,}·{pairs_text} · {q:,}{per_layer}"),
        ("weighted_sum", _("weighted sum of values"), 2 * b * pairs * q * layers,
         f"2 · {b:,}·{pairs_text} · {q:,}{per_layer}"),
        ("output", _("output projection"), 2 * b * t * q * d * layers, f"2 · {b:,}·{t:,} · {q:,} · {d:,}{per_layer}"),
        ("feed_forward", _("feed-forward"), 2 * b * t * d * shape.d_ff * matrices * layers,
         f"2 · {b:,}·{t:,} · {d:,} · {shape.d_ff:,} · {matrices}{per_layer}"),
        ("head", _("head"), 2 * b * t * d * v, f"2 · {b:,}·{t:,} · {d:,} · {v:,}"),
    )  # fmt: skip
    components = tuple(
        Component(key, name, forward, 2 * forward if backward else 0, formula) for key, name, forward, formula in parts
    )
    return TransformerFlops(shape, b, t, causal_half, components)


def predict_transformer_flops(
    shape: TransformerShape, batch_size: int, seq_len: int, *, backward: bool = True, causal_half: bool = False
) -> Prediction:
    """The napkin's count as a claim: one term for each component.

    >>> prediction = predict_transformer_flops(PRESETS["GPT-2 small"], 1, 1024)
    >>> prediction.text, [term.name for term in prediction.terms][-1]
    ('875 GFLOP', 'head')
    """
    flops = transformer_flops(shape, batch_size, seq_len, backward=backward, causal_half=causal_half)
    terms = tuple(Term(one.name, one.total_flops, one.formula) for one in flops.components)
    forward = " + ".join(f"{one.forward_flops:,}" for one in flops.components)
    formula = f"3 · ({forward})" if backward else forward
    source = _("matrix multiplies, 2 FLOPs a multiply-add; backward twice forward (CS336 lecture 2, §5.6)")
    return Prediction(_("FLOPs"), flops.total_flops, "FLOP", formula, terms, source)


def compare_transformer_flops(
    shape: TransformerShape, batch_size: int, seq_len: int, attention: str = "sdpa", *, backward: bool = True
) -> Comparison:
    """The napkin's count beside that of the real network in torch, on tensors without data; they agree to the last one.

    ``attention`` is "sdpa" (one fused operator) or "eager" (three). One and two layers are run and the rest follows
    exactly, so that 80 layers take no longer. Raises ValueError for sizes out of range or above torch's 64 bits.

    >>> compare_transformer_flops(PRESETS["Llama 3 70B"], 1, 8192).difference
    0
    """
    return count_transformer(shape, batch_size, seq_len, attention, backward=backward)[0]


def count_transformer(
    shape: TransformerShape, batch_size: int, seq_len: int, attention: str = "sdpa", *, backward: bool = True
) -> tuple[Comparison, FlopCount]:
    """``compare_transformer_flops``, with what was counted operator by operator beside it.

    >>> _comparison, count = count_transformer(PRESETS["GPT-2 small"], 1, 1024)
    >>> count.recomputed_flops
    19327352832
    """
    prediction = predict_transformer_flops(shape, batch_size, seq_len, backward=backward)
    one_of(_("attention"), attention, ATTENTIONS)
    b, t = whole_number("B", batch_size, 1, MAX_WIDTH), whole_number("T", seq_len, 1, MAX_WIDTH)
    if b * t * max(shape.num_heads * t, shape.vocab_size, shape.d_ff, shape.q_dim) > _LARGEST_TENSOR:
        message = _("B = {b:,} and T = {t:,} make tensors of more than 2⁶² elements: make either smaller")
        raise ValueError(message.format(b=b, t=t))

    import torch

    from core.flops.reference_block import count_reference_flops

    count = count_reference_flops(shape, b, t, attention, backward)
    layers = _("{attention} attention; 1 and 2 layers run, extended to {layers:,}")
    notes = [layers.format(attention=attention, layers=shape.num_layers)]
    if count.recomputed_flops:
        again = _("the fused backward computes QKᵀ again: {flops:,} FLOPs not counted")
        notes.append(again.format(flops=count.recomputed_flops))
    name = _("counted by torch's FlopCounterMode, with the operators that it misses, on tensors without data")
    version = str(torch.__version__)
    conditions = Conditions("meta", name, "fp32", 1, 0, 1, torch_version=version, notes=tuple(notes))
    return Comparison(prediction, Measurement(_("FLOPs"), (count.total,), "FLOP", conditions)), count


@dataclass(frozen=True)
class ContextShares:
    """What each component takes of the FLOPs at one context length, by its key."""

    seq_len: int
    shares: dict[str, float]
    attention: float  # scores and weighted sum together
    per_token: int


def attention_share(
    shape: TransformerShape, seq_lens: Iterable[int], *, causal_half: bool = False
) -> tuple[ContextShares, ...]:
    """Shares of the components against the context; forward and backward have the same ones.

    >>> [round(one.attention, 3) for one in attention_share(PRESETS["GPT-2 XL"], (1024, 16384))]
    [0.092, 0.618]
    """
    rows = []
    for seq_len in seq_lens:
        flops = transformer_flops(shape, 1, seq_len, causal_half=causal_half)
        rows.append(ContextShares(flops.seq_len, flops.shares, flops.attention_share, flops.per_token))
    return tuple(rows)


@dataclass(frozen=True)
class CausalConvention:
    """Whether somebody's formula counts only the half of attention that a causal mask leaves."""

    who: str
    halves: bool
    formula: str
    source: str


CAUSAL_CONVENTIONS = (
    CausalConvention("PaLM", False, "12·L·H·Q·T a token", _("Chowdhery et al. 2022, appendix B")),
    CausalConvention("nanoGPT", False, "12·L·H·Q·T a token", _("model.py, estimate_mfu, after PaLM")),
    CausalConvention("torchtitan", False, "12·L·H·Q·T a token", _("its comment: follows the convention, no recompute")),
    CausalConvention(
        "Megatron-LM, the paper",
        False,
        "96·B·T·L·D²·(1 + T/6D + V/16LD)",
        _("Narayanan et al. 2021, appendix; one recomputed forward included"),
    ),
    CausalConvention(
        "Megatron-LM, the code", True, "6·L·H·Q·T a token", _("training.py, num_floating_point_operations")
    ),
    CausalConvention(
        "FlashAttention",
        True,
        "4·B·T²·H·Q / 2 forward, 2.5 times that backward",
        _("its benchmarks; the 2.5 includes QKᵀ computed again"),
    ),
    CausalConvention("torch", False, "4·B·T²·H·Q forward", _("torch/utils/flop_counter.py")),
)


def predict_attention_share(
    shape: TransformerShape, batch_size: int, seq_len: int, *, causal_half: bool = False
) -> Prediction:
    """The share of scores and weighted sum in all FLOPs, in percent.

    >>> predict_attention_share(PRESETS["GPT-2 XL"], 1, 16384).text
    '61.8 %'
    """
    flops = transformer_flops(shape, batch_size, seq_len, causal_half=causal_half)
    parts = {part.key: part for part in flops.components}
    attention = parts["scores"].total_flops + parts["weighted_sum"].total_flops
    terms = (
        Term(_("attention scores and weighted sum"), attention, unit="FLOP"),
        Term(_("everything"), flops.total_flops, unit="FLOP"),
    )
    formula = f"{units.si(attention, 'FLOP')} / {units.si(flops.total_flops, 'FLOP')}"
    return Prediction(_("share of attention"), 100 * attention / flops.total_flops, "%", formula, terms)
