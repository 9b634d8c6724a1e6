"""What the hand predicts of a gradient beside what torch left: claims for the cards of a page."""

from __future__ import annotations

import math

from core import units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.gradients.check import EPSILON, DifferenceCurve
from core.gradients.graph import Graph, gradient_by_hand
from core.gradients.inputs import Vector
from core.gradients.semantics import Trace
from core.words import _


def vector(values: tuple[float, ...] | None) -> str:
    """Entries as text: (0.5,) is 0.5, None is None.

    >>> vector((1.0, -2.0)), vector((0.5,)), vector(None)
    ('[1, −2]', '0.5', 'None')
    """
    if values is None:
        return "None"
    texts = [f"{value:.4g}".replace("-", "−") for value in values]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def compare_w_grad(graph: Graph, x_N: Vector, w_N: Vector, y: float) -> tuple[Prediction, Comparison | None]:
    """The largest entry of w.grad: the chain rule by hand beside what torch left, None where it left nothing.

    >>> from core.gradients import explain_graph
    >>> x, w = (1.0, 2.0, 3.0), (1.0, 1.0, 1.0)
    >>> prediction, comparison = compare_w_grad(explain_graph(x, w, 5.0), x, w, 5.0)
    >>> prediction.value, comparison.ratio
    (3.0, 1.0)
    """
    by_hand, _x_grad = gradient_by_hand(x_N, w_N, y)
    pred_y, entry = graph.node("pred_y").value[0], max(abs(each) for each in x_N)
    quantity = _("largest entry of w.grad")
    terms = (
        Term(_("upstream: |x·w − y|"), abs(pred_y - y), _("the gradient of the loss with respect to pred_y"), ""),
        Term(_("local: the largest |xᵢ|"), entry, _("the derivative of x·w with respect to wᵢ"), ""),
    )
    formula = f"|{vector((pred_y,))} − {vector((y,))}| · {vector((entry,))}"
    largest = max(map(abs, by_hand))
    prediction = Prediction(quantity, largest, "", formula, terms, "CS336 lecture 2, §5.5")
    grad = graph.node("w").grad
    if grad is None:
        return prediction, None
    measurement = Measurement(quantity, (max(map(abs, grad)),), "", _in_torch("fp32"))
    difference = measurement.value - largest
    bound = _fp32_error(x_N, w_N, y)
    note = _("torch computes in fp32, the hand in fp64: on these numbers that is off by {bound} at most")
    rounding = Term(_("rounding"), difference, note.format(bound=units.significant(bound)))
    parts = (rounding,) if difference and abs(difference) <= bound else ()
    return prediction, Comparison(prediction, measurement, parts)


def compare_best_step(curve: DifferenceCurve) -> Comparison:
    """The step at which truncation and rounding are smallest together, beside the step with the smallest error.

    >>> from core.gradients import finite_difference_check
    >>> check = finite_difference_check((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, loss="quartic")
    >>> 0.2 < compare_best_step(check.curve("central", "fp64")).ratio < 5
    True
    """
    quantity, first = _("best step"), curve.points[0]
    tried = [point.step for point in curve.points]
    order, power = (1, "h") if curve.method == "forward" else (2, "h²")
    slope, noise = first.truncation / first.step**order, first.rounding * first.step
    if curve.predicted_best_step is not None:
        predicted, formula = curve.predicted_best_step, _("where {slope}·{power} + {noise}/h is smallest")
    elif noise:
        predicted, formula = max(tried), _("nothing is cut off, and {noise}/h falls: the largest step tried")
    else:
        unknown = _("x·w is y: the loss and its slope are 0, and what the steps beside it round is not predicted")
        predicted, formula = None, unknown
    texts = {"slope": units.significant(slope), "noise": units.significant(noise)}
    source = "Press et al., Numerical Recipes, §5.7"
    how = _("smallest error of {count} steps: {error}")
    how = how.format(count=len(tried), error=units.significant(curve.best_error))
    measurement = Measurement(quantity, (curve.best_step,), "", _in_torch(curve.dtype, how))
    if predicted is None:
        return Comparison(Prediction(quantity, None, "", formula, (), source, unknown=formula), measurement)
    prediction = Prediction(quantity, predicted, "", formula.format(power=power, **texts), (), source)
    nearest = min(curve.points, key=lambda point: abs(math.log(point.step / predicted)))
    note = _("only these {count} steps are tried, two in a factor of ten; the nearest is {nearest}")
    parts = [
        Term(
            _("steps tried"),
            nearest.step - predicted,
            note.format(count=len(tried), nearest=units.significant(nearest.step)),
        )
    ]
    if nearest.error == curve.best_error and nearest.step != curve.best_step:
        parts.append(Term(_("ties"), curve.best_step - nearest.step, _("as small an error at a smaller step")))
    return Comparison(prediction, measurement, tuple(part for part in parts if part.value))


def compare_accumulated(
    trace: Trace, x_N: Vector, w_N: Vector, target: float, summed: int
) -> tuple[Prediction, Comparison | None]:
    """The largest entry that w.grad holds in the end, if it is the sum of that many gradients, beside torch's.

    >>> from core.gradients import accumulation
    >>> trace = accumulation((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, times=3)
    >>> prediction, comparison = compare_accumulated(trace, (1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, 3)
    >>> prediction.value, comparison.measurement.value
    (9.0, 9.0)
    """
    quantity = _("largest entry of w.grad at the end")
    entry = max(map(abs, gradient_by_hand(x_N, w_N, target)[0]))
    terms = (
        Term(_("gradients added up"), summed, "", ""),
        Term(_("largest entry of one"), entry, _("(x·w − y)·x by hand"), ""),
    )
    formula = f"{summed} · {vector((entry,))}"
    total = summed * entry
    prediction = Prediction(quantity, total, "", formula, terms, "CS336 lecture 2, §5.5")
    last = trace.values("w.grad")[-1]
    if not isinstance(last, tuple):
        return prediction, None
    measured = Measurement(quantity, (max(map(abs, last)),), "", _in_torch("fp32"))
    difference = measured.value - total
    bound = summed * _fp32_error(x_N, w_N, target) + summed * EPSILON["fp32"] * total
    note = _("torch computes in fp32, the hand in fp64: on these numbers that is off by {bound} at most")
    rounding = Term(_("rounding"), difference, note.format(bound=units.significant(bound)))
    close = difference and abs(difference) <= bound
    return prediction, Comparison(prediction, measured, (rounding,) if close else ())


def _fp32_error(x_N: Vector, w_N: Vector, y: float) -> float:
    """How far off an entry of w.grad may be in fp32: what cancels in x·w − y, each rounded, times the largest |xᵢ|."""
    cancelling = math.fsum(abs(a * b) for a, b in zip(x_N, w_N, strict=True)) + abs(y)
    return EPSILON["fp32"] * (len(x_N) + 2) * cancelling * max(abs(each) for each in x_N)


def _in_torch(dtype: str, how: str = "loss.backward()") -> Conditions:
    return Conditions("cpu", how, dtype, threads=1, warmup=0, trials=1)
