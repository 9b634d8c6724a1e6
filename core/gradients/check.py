"""A gradient checked by finite differences: the error at each step size, truncation against rounding.

The lecture's loss ½e², e = x·w − y, is a parabola in each weight: a central difference has no truncation error there,
and its error only falls as the step grows. The V of the textbook needs a third derivative: ¼e⁴ has one. A one-sided
difference shows the V on both. Shapes: S steps, N entries in x and in w.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.checks import one_of, positive_number
from core.gradients.inputs import Vector, check_quadratic
from core.words import _

if TYPE_CHECKING:
    import torch

LOSSES = ("square", "quartic")  # ½e² (the lecture's) and ¼e⁴
METHODS = ("central", "forward")
EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23}  # IEEE 754: the gap between 1 and the next number
STEPS = tuple(10.0 ** (half / 2) for half in range(-24, 1))  # 1e-12 to 1, two a decade
MAX_STEPS = 100
LARGEST_QUARTIC_ERROR = 1e9  # e⁴ stays below fp32's largest number, 3.4e38


@dataclass(frozen=True)
class DifferencePoint:
    """The largest error over the entries at one step size: measured, and the two parts that the napkin predicts."""

    step: float
    error: float
    truncation: float
    rounding: float


@dataclass(frozen=True)
class DifferenceCurve:
    """The error of one method in one dtype over the step sizes.

    ``best_step`` has the smallest measured error, the smallest such step where several do. ``predicted_best_step``
    is where truncation and rounding are smallest together, None where one of them is zero; ``rule_step`` is the
    textbook's: eps^(1/3) for central differences, eps^(1/2) for one-sided ones.
    """

    method: str
    dtype: str
    points: tuple[DifferencePoint, ...]
    best_step: float
    best_error: float
    predicted_best_step: float | None
    rule_step: float


@dataclass(frozen=True)
class FiniteDifferenceCheck:
    """Autograd's gradient with respect to w (fp64), the four curves, and autograd's own error in fp32."""

    loss: str
    gradient: Vector
    autograd_fp32_error: float
    curves: tuple[DifferenceCurve, ...]

    def curve(self, method: str, dtype: str) -> DifferenceCurve:
        """The curve of a method ("central", "forward") in a dtype ("fp64", "fp32")."""
        return next(one for one in self.curves if (one.method, one.dtype) == (method, dtype))


def finite_difference_check(
    x: Iterable[float], w: Iterable[float], target: float, steps: Sequence[float] = STEPS, loss: str = "square"
) -> FiniteDifferenceCheck:
    """Differences of the loss over steps of each weight, against autograd's gradient in fp64.

    ``loss`` is "square" (½e², the lecture's) or "quartic" (¼e⁴), with e = x·w − y. Errors are absolute, in units of
    the gradient. Raises ValueError for vectors that do not fit (see ``check_quadratic``), an unknown loss, no step,
    more than 100 steps, or a step that is no positive number up to 1. Source for the best steps: Press et al.,
    Numerical Recipes, §5.7.

    >>> check = finite_difference_check([1, 2, 3], [1, 1, 1], 5, loss="quartic")
    >>> check.gradient, f"{check.curve('central', 'fp64').rule_step:.1e}"
    ((1.0, 2.0, 3.0), '6.1e-06')
    >>> check.curve("central", "fp64").best_error < 1e-9
    True
    """
    x_N, w_N, y = check_quadratic(x, w, target)
    loss = one_of("loss", loss, LOSSES)
    steps_S = STEPS if steps is STEPS else _check_steps(steps)
    reach = _cancelling(x_N, w_N, y) + max(abs(entry) for entry in x_N)
    if loss == "quartic" and reach > LARGEST_QUARTIC_ERROR:
        message = _(
            "¼e⁴ overflows fp32 with numbers this large: keep Σ|x·w| + |y| below {most:,.0f}; it is {reach:,.0f}"
        )
        raise ValueError(message.format(most=LARGEST_QUARTIC_ERROR, reach=reach))
    return _differences_checked(x_N, w_N, y, steps_S, loss)


@functools.lru_cache(maxsize=64)
def _differences_checked(x_N: Vector, w_N: Vector, y: float, steps_S: Vector, loss: str) -> FiniteDifferenceCheck:
    gradient, in_fp32 = _autograd(x_N, w_N, y, loss)
    errors = {dtype: _errors(x_N, w_N, y, steps_S, loss, dtype, gradient) for dtype in EPSILON}
    curves = tuple(
        _curve(x_N, w_N, y, steps_S, loss, method, dtype, errors[dtype][method])
        for method in METHODS
        for dtype in EPSILON
    )
    fp32_error = max(abs(a - b) for a, b in zip(gradient, in_fp32, strict=True))
    return FiniteDifferenceCheck(loss, gradient, fp32_error, curves)


def _check_steps(steps: Sequence[float]) -> tuple[float, ...]:
    if not 1 <= len(steps) <= MAX_STEPS:
        message = _("give from 1 to {most} step sizes, for example 1e-4; received {count}")
        raise ValueError(message.format(most=MAX_STEPS, count=len(steps)))
    return tuple(positive_number(_("a step size"), step, 1.0) for step in steps)


def _curve(
    x_N: Vector, w_N: Vector, y: float, steps_S: Vector, loss: str, method: str, dtype: str, errors_S: list[float]
) -> DifferenceCurve:
    epsilon = EPSILON[dtype]
    slope, order = _truncation(x_N, w_N, y, loss, method)
    noise = _noise(x_N, w_N, y, loss, epsilon)
    points = [
        DifferencePoint(step, error, slope * step**order, noise / step)
        for step, error in zip(steps_S, errors_S, strict=True)
    ]
    best = min(points, key=lambda point: (point.error, point.step))
    # The derivative of slope·h^order + noise/h is zero at h = (noise / (order·slope))^(1 / (order + 1)).
    predicted = (noise / (order * slope)) ** (1 / (order + 1)) if slope > 0 and noise > 0 else None
    return DifferenceCurve(method, dtype, tuple(points), best.step, best.error, predicted, epsilon ** (1 / (order + 1)))


def _truncation(x_N: Vector, w_N: Vector, y: float, loss: str, method: str) -> tuple[float, int]:
    """(c, p) of the truncation error c·h^p, its first term: h²·f‴/6 for central differences, h·f″/2 one-sided.

    ½e²: f″ = x², f‴ = 0. ¼e⁴: f″ = 3e²x², f‴ = 6e·x³, each for the entry of x that belongs to the weight.
    """
    error, largest = _apart(x_N, w_N, y), max(abs(entry) for entry in x_N)
    if method == "central":
        return (0.0 if loss == "square" else error * largest**3), 2
    return (0.5 * largest**2 if loss == "square" else 1.5 * error**2 * largest**2), 1


def _noise(x_N: Vector, w_N: Vector, y: float, loss: str, epsilon: float) -> float:
    """How far off one value of the loss is by rounding: eps·(|f| + |∂f/∂e|·(Σ|xᵢwᵢ| + |y|)).

    The sum is what cancels in e = x·w − y. Divided by the step it is the error of a difference.
    """
    error = _apart(x_N, w_N, y)
    value, slope = (0.5 * error**2, error) if loss == "square" else (0.25 * error**4, error**3)
    return epsilon * (value + slope * _cancelling(x_N, w_N, y))


def _apart(x_N: Vector, w_N: Vector, y: float) -> float:
    """|x·w − y|; 0 where it is no more than what the sum is rounded by."""
    error = abs(_dot(x_N, w_N) - y)
    return error if error > len(x_N) * EPSILON["fp64"] * _cancelling(x_N, w_N, y) else 0.0


def _errors(
    x_N: Vector, w_N: Vector, y: float, steps_S: Vector, loss: str, dtype: str, gradient: Vector
) -> dict[str, list[float]]:
    """For each method the largest error over the entries at each step (S), all differences computed in that dtype."""
    import torch

    kind = _torch_dtype(dtype)
    x, w = torch.tensor(x_N, dtype=kind), torch.tensor(w_N, dtype=kind)
    h_S1, moved_SNN = _moves(steps_S, len(x_N), dtype)
    above_SN, below_SN = (_loss(moved @ x - y, loss) for moved in (w + moved_SNN, w - moved_SNN))
    estimates = {"central": (above_SN - below_SN) / (2 * h_S1), "forward": (above_SN - _loss(w @ x - y, loss)) / h_S1}
    exact_N = torch.tensor(gradient, dtype=torch.float64)
    return {method: (one_SN.double() - exact_N).abs().amax(1).tolist() for method, one_SN in estimates.items()}


@functools.lru_cache(maxsize=32)
def _moves(steps_S: Vector, entries: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The steps, and for each of them N moves of the weights, of one weight at a time; nobody writes to them."""
    import torch

    h_S11 = torch.tensor(steps_S, dtype=_torch_dtype(dtype))[:, None, None]
    return h_S11[:, 0], h_S11 * torch.eye(entries, dtype=h_S11.dtype)


def _autograd(x_N: Vector, w_N: Vector, y: float, loss: str) -> tuple[Vector, Vector]:
    """The gradient in fp64 and the one in fp32: one backward goes through both graphs, which share nothing."""
    import torch

    kinds = [_torch_dtype(dtype) for dtype in ("fp64", "fp32")]
    weights = [torch.tensor(w_N, dtype=kind, requires_grad=True) for kind in kinds]
    with torch.enable_grad():
        losses = [_loss(torch.tensor(x_N, dtype=w.dtype) @ w - y, loss) for w in weights]
        in_fp64, in_fp32 = torch.autograd.grad(losses, weights)
    return tuple(in_fp64.tolist()), tuple(in_fp32.tolist())


def _loss(error: torch.Tensor, loss: str) -> torch.Tensor:
    return 0.5 * error.pow(2) if loss == "square" else 0.25 * error.pow(4)


def _torch_dtype(dtype: str) -> torch.dtype:
    import torch

    return {"fp64": torch.float64, "fp32": torch.float32}[dtype]


def _cancelling(x_N: Vector, w_N: Vector, y: float) -> float:
    return math.fsum(abs(a * b) for a, b in zip(x_N, w_N, strict=True)) + abs(y)


def _dot(x_N: Vector, w_N: Vector) -> float:
    return math.fsum(a * b for a, b in zip(x_N, w_N, strict=True))
