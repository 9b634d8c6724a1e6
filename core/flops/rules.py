"""Rules of thumb for a Transformer's FLOPs, and what they leave out."""

from __future__ import annotations

from core.checks import whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.flops.transformer import transformer_flops
from core.flops.transformer_shapes import MAX_WIDTH, PRESETS, TransformerShape
from core.words import _


def six_nd(shape: TransformerShape, num_tokens: int, *, non_embedding: bool = False) -> int:
    """6·N FLOPs a token, forward and backward: the rule of thumb that forgets attention's QKᵀ and PV.

    N is every parameter, as CS336 lecture 2 has it; with ``non_embedding`` it is without token embedding, positions
    and head, as Kaplan et al. 2020 (§2.1) define it, which forgets the head's FLOPs as well.

    >>> six_nd(PRESETS["GPT-2 small"], 1024)
    764558180352
    """
    num_params = shape.num_non_embedding_params if non_embedding else shape.num_params
    return 6 * num_params * whole_number(_("number of tokens"), num_tokens, 1, 10**18)


def palm_flops_per_token(shape: TransformerShape, seq_len: int) -> int:
    """6·N + 12·L·H·Q·T FLOPs a token, forward and backward: Chowdhery et al. 2022 (PaLM), appendix B.

    N is every parameter, so that an embedding of its own, which multiplies nothing, is counted with the rest.
    (nanoGPT's ``estimate_mfu`` leaves learned positions out of N.)

    >>> palm_flops_per_token(PRESETS["GPT-2 small"], 1024)
    859885056
    """
    t = whole_number("T", seq_len, 1, MAX_WIDTH)
    return 6 * shape.num_params + 12 * shape.num_layers * shape.q_dim * t


def compare_six_nd(shape: TransformerShape, batch_size: int, seq_len: int) -> Comparison:
    """6ND with every parameter beside the exact count; what separates them is named to the last FLOP.

    >>> comparison = compare_six_nd(PRESETS["GPT-2 small"], 1, 1024)
    >>> round(comparison.ratio, 3), comparison.unexplained
    (1.144, 0.0)
    """
    exact = transformer_flops(shape, batch_size, seq_len)
    tokens = batch_size * seq_len
    six = six_nd(shape, tokens)
    formula = f"6 · {shape.num_params:,} · {tokens:,}"
    prediction = Prediction(_("FLOPs"), six, "FLOP", formula, source=_("Kaplan et al. 2020, §2.1"))
    conditions = Conditions("meta", _("component by component, as torch counts"), "", threads=1, warmup=0, trials=1)
    measurement = Measurement(_("FLOPs"), (exact.total_flops,), "FLOP", conditions)
    parts = {part.key: part for part in exact.components}
    attention = parts["scores"].total_flops + parts["weighted_sum"].total_flops
    head = shape.d_model * shape.vocab_size
    per_layer = sum(part.forward_flops for key, part in parts.items() if key in ("qkv", "output", "feed_forward"))
    multiplied = per_layer // (2 * tokens) + head
    looked_up = 0 if shape.tied_head else head
    others = shape.num_params - multiplied - looked_up
    terms = (
        Term(_("attention"), attention, _("scores and weighted sum have no parameters")),
        Term(_("embedding"), -6 * tokens * looked_up, _("a table that is looked up, not multiplied")),
        Term(_("norms, biases, positions"), -6 * tokens * others, _("parameters that multiply no matrix")),
    )
    return Comparison(prediction, measurement, tuple(term for term in terms if term.value))


__all__ = ["PRESETS", "compare_six_nd", "palm_flops_per_token", "six_nd"]
