"""Predicted beside measured, every difference named; and ours beside Hugging Face's model of the same shape."""

from __future__ import annotations

from dataclasses import dataclass

from core import units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.memory import result
from core.memory.config import StepConfig
from core.memory.measure import measure_step
from core.memory.predict import predict_step
from core.memory.result import Bytes
from core.memory.step_memory import NAMES, StepMemory
from core.words import _

SOURCE = _("the model's code, and what torch 2.13 keeps for each operation")


@dataclass(frozen=True)
class StepComparison:
    """The two numbers of a step that a GPU must hold or not."""

    peak: Comparison
    activations: Comparison


def predict_peak(step: StepMemory) -> Prediction:
    """The peak as a claim: its bytes by category, its moment in the formula.

    >>> prediction = predict_peak(predict_step(StepConfig("gpt2", batch_size=4, seq_len=1024)))
    >>> prediction.text, [term.name for term in prediction.terms]
    ('6.41 GB', ['parameters', 'optimizer state', 'activations', 'inputs', 'temporaries'])
    """
    terms = step.terms["peak_bytes"]
    formula = " + ".join(f"{units.si_bytes(term.value)} {term.name}" for term in terms)
    formula += f" ({step.peak_moment})"
    return Prediction(_("peak memory of a step"), step.peak_bytes, "B", formula, terms, SOURCE)


def predict_activations(step: StepMemory) -> Prediction:
    """What autograd keeps, as a claim: by the part of the model that keeps it."""
    terms = step.activation_terms
    formula = " + ".join(f"{int(term.value):,}" for term in terms)
    return Prediction(_("activations of a step"), step.activation_bytes, "B", formula, terms, SOURCE)


def compare_step(config: StepConfig, measured: StepMemory | None = None) -> StepComparison:
    """The config predicted beside it measured (now, unless a measurement is given).

    Where they differ, the parts are the categories that do, at the moment of the measured peak. On a GPU the measured
    peak is all that is taken of the device, and the parts are also what its allocator and its context add.

    >>> from core.models import TransformerConfig
    >>> tiny = TransformerConfig("tiny", num_layers=2, d_model=16, num_heads=2, d_ff=32, vocab_size=50)
    >>> comparison = compare_step(StepConfig(tiny, batch_size=2, seq_len=8))
    >>> comparison.peak.difference, comparison.activations.difference
    (0, 0)
    """
    measured = measured or measure_step(config)
    predicted = predict_step(config)
    assert measured.conditions is not None
    same = [one for one in predicted.moments if _place(one) == _place(measured.peak)]
    twin = max(same, key=lambda one: one.highest_bytes, default=predicted.peak)
    parts = _parts(twin.highest, measured.peak.highest)
    if predicted.peak_bytes != twin.highest_bytes:
        gap = twin.highest_bytes - predicted.peak_bytes
        parts = (*parts, Term(_("another moment"), gap, predicted.peak_moment))
    value = measured.peak_bytes
    if measured.allocator_terms:  # the first are the tensors themselves: what the meter did not see is unexplained
        value = sum(int(term.value) for term in measured.allocator_terms)
        parts = (*parts, *measured.allocator_terms[1:])
    peak = _comparison(predict_peak(predicted), value, measured.conditions, parts)
    prediction = predict_activations(predicted)
    difference = measured.activation_bytes - predicted.activation_bytes
    kept = (Term(NAMES[result.ACTIVATION], difference),) if difference else ()
    return StepComparison(peak, _comparison(prediction, measured.activation_bytes, measured.conditions, kept))


def _place(moment: result.Moment) -> tuple[str, int | None, int]:
    return moment.kind, moment.block, moment.micro_batch


def _parts(predicted: Bytes, measured: Bytes) -> tuple[Term, ...]:
    sizes = {name: measured.get(name, 0) - predicted.get(name, 0) for name in result.CATEGORIES}
    return tuple(Term(NAMES[name], size) for name, size in sizes.items() if size)


def _comparison(prediction: Prediction, value: int, conditions: Conditions, parts: tuple[Term, ...]) -> Comparison:
    return Comparison(prediction, Measurement(prediction.quantity, (value,), prediction.unit, conditions), parts)


def compare_implementations(config: StepConfig) -> tuple[Term, ...]:
    """What Hugging Face's model of this shape keeps beyond ours, part by part, none of them 0.

    Ours has GELU as one kernel and lets the logits keep their precision; theirs has q, k and v from one matrix.

    >>> terms = compare_implementations(StepConfig("gpt2", batch_size=4, seq_len=1024))
    >>> [(term.name, term.value) for term in terms if term.value > 1e9]
    [('blocks: feed-forward', 1811939328)]
    """
    ours, theirs = (
        {term.name: int(term.value) for term in predict_step(_house(config, house)).activation_terms}
        for house in ("napkin", "huggingface")
    )
    names = dict.fromkeys((*ours, *theirs))
    gaps = {name: theirs.get(name, 0) - ours.get(name, 0) for name in names}
    return tuple(Term(name, gap) for name, gap in gaps.items() if gap)


def _house(config: StepConfig, implementation: str) -> StepConfig:
    return config.change(implementation=implementation, optimizer_implementation=None)
