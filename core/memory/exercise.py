"""CS336's first assignment: GPT-2 XL trained with AdamW on one A100, in days."""

from __future__ import annotations

from core.checks import positive_number, whole_number
from core.claims import Prediction, Term
from core.flops import transformer_flops
from core.flops.transformer_shapes import TransformerShape
from core.words import _

BATCH_SIZE, NUM_STEPS, MFU = 1024, 400_000, 0.5
A100_FP32_FLOP_PER_SEC = 19.5e12
MAX_STEPS = 10**9
SOURCE = "CS336 spring 2025, assignment 1, §4.3: adamwAccounting"


def predict_exercise_time(
    model: TransformerShape,
    seq_len: int = 1024,
    batch_size: int = BATCH_SIZE,
    num_steps: int = NUM_STEPS,
    mfu: float = MFU,
    peak_flop_per_sec: float = A100_FP32_FLOP_PER_SEC,
) -> Prediction:
    """Seconds for that many steps: the FLOPs of all matrix products, backward twice forward, at that share of the peak.

    The optimizer's own few FLOPs a parameter are left out: next to the products of 1024 sequences they are nothing.

    >>> from core.models import preset
    >>> predict_exercise_time(preset("gpt2-xl")).text, predict_exercise_time(preset("cs336-xl")).text
    ('14.0 years', '18.0 years')
    """
    batch, steps = whole_number("B", batch_size, 1, 2**20), whole_number("steps", num_steps, 1, MAX_STEPS)
    share, peak = positive_number("MFU", mfu), positive_number("peak FLOP/s", peak_flop_per_sec)
    flops = transformer_flops(model, batch, seq_len).total_flops
    terms = (
        Term(_("FLOPs of a step"), flops, unit="FLOP"),
        Term(_("seconds for a step"), flops / (share * peak), unit="s"),
    )
    formula = f"{flops:.4g} · {steps:,} / ({share:g} · {peak:.4g})"
    return Prediction(_("training time"), flops * steps / (share * peak), "s", formula, terms, SOURCE)
