"""Rules of thumb of the field, to be held against ``predict_step``: the lesson in why napkins need checking."""

from __future__ import annotations

from core.claims import Prediction, Term
from core.memory.config import StepConfig
from core.words import _


def sixteen_bytes_per_parameter(config: StepConfig) -> Prediction:
    """16 bytes for each parameter: fp32 parameters, gradients and Adam's two moments, or bf16 with a master copy.

    It knows nothing of activations, and of what comes and goes.

    >>> sixteen_bytes_per_parameter(StepConfig("gpt2")).value
    1991036928
    """
    n = config.model.num_params
    terms = (
        Term(_("parameters and gradients"), 8 * n, _("fp32: 4 + 4; mixed: 2 + 2, and an fp32 copy of 4")),
        Term(_("Adam's moments"), 8 * n, "4 + 4"),
    )
    source = "Rajbhandari et al. 2020, ZeRO, §3.1"
    return Prediction(_("memory of a step"), 16 * n, "B", f"16 · {n:,}", terms, source)


def korthikanti_activations(config: StepConfig) -> Prediction:
    """34·s·b·h + 5·a·b·s² bytes for each layer, in 16 bit with dropout: eager attention, an MLP of 4·h.

    Letters as there: s length, b batch, h width, a heads. Embedding, head and loss are left out; with 2·s·b·h a layer
    where every block is checkpointed.

    >>> korthikanti_activations(StepConfig("gpt2", batch_size=4, seq_len=1024)).value
    4303355904
    """
    model, s, b = config.model, config.seq_len, config.batch_size
    h, a, layers = model.d_model, model.num_heads, model.num_layers
    source = "Korthikanti et al. 2022, equations 1 and 3"
    quantity = _("activations of a step")
    if config.checkpointing is not None:
        value = 2 * s * b * h * layers
        return Prediction(quantity, value, "B", f"{layers:,} · 2 · {s:,} · {b:,} · {h:,}", (), source)
    linear, square = 34 * s * b * h, 5 * a * b * s * s
    terms = (
        Term("34·s·b·h", layers * linear, _("norms, projections, feed-forward")),
        Term("5·a·b·s²", layers * square, _("scores, their softmax and its dropout")),
    )
    formula = f"{layers:,} · (34 · {s:,} · {b:,} · {h:,} + 5 · {a:,} · {b:,} · {s:,}²)"
    return Prediction(quantity, layers * (linear + square), "B", formula, terms, source)
