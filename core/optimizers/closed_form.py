"""Where SGD and Momentum are after n steps on a quadratic, without a step taken: the power of a matrix.

Along an axis with curvature λ, (p, v) → M·(p, v) with M = [[1 − lr·λ, −lr·μ], [λ, μ]]; SGD is μ = 0, where p is
(1 − lr·λ)ⁿ·p₀. Both diverge from lr = 2·(1 + μ)/κ on, κ the larger curvature. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.checks import one_of, positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.optimizers.registry import OPTIMIZERS
from core.optimizers.surfaces import MAX_CONDITION, SURFACES
from core.optimizers.trajectories import MAX_COORDINATE, MAX_STEPS, Trajectory
from core.words import _

MOMENTUM = {"sgd": 0.0, "momentum": 0.9}  # those with a closed form, and their μ


def largest_stable_lr(optimizer: str, condition: float = 10.0) -> float:
    """The learning rate from which the optimizer diverges on ½(x² + κ·y²), κ at least 1: 2·(1 + μ)/κ.

    >>> largest_stable_lr("sgd", 10), largest_stable_lr("momentum", 10)
    (0.2, 0.38)
    """
    mu = MOMENTUM[one_of("optimizer", optimizer, tuple(MOMENTUM))]
    return 2 * (1 + mu) / max(1.0, positive_number(_("the condition number"), condition, MAX_CONDITION))


def predict_loss(
    surface: str, optimizer: str, lr: float, start: Sequence[float], steps: int, condition: float = 10.0
) -> Prediction:
    """The loss after that many steps; unknown where there is no closed form: another surface, another optimizer.

    >>> predict_loss("quadratic", "sgd", 0.5, (8, 4), 3, condition=3).value  # at (1, −½)
    0.875
    >>> predict_loss("rosenbrock", "sgd", 0.5, (8, 4), 3).text
    'unknown'
    """
    one_of("surface", surface, SURFACES)
    kind = OPTIMIZERS[one_of("optimizer", optimizer, tuple(OPTIMIZERS))]
    steps = whole_number("steps", steps, 0, MAX_STEPS)
    quantity, source = _("loss after {n:,} steps").format(n=steps), kind.source
    if surface != "quadratic" or optimizer not in MOMENTUM:
        where = _("{optimizer} on this surface").format(optimizer=kind.class_name)
        unknown = _("no closed form for {where}: take the steps").format(where=where)
        return Prediction(quantity, None, "", where, source=source, unknown=unknown)
    lr, kappa = positive_number("lr", lr), positive_number(_("the condition number"), condition, MAX_CONDITION)
    if len(start) != 2 or not all(abs(one) <= MAX_COORDINATE for one in start):
        message = _("a start is two numbers from −{most:,.0f} to {most:,.0f}; received {value}")
        raise ValueError(message.format(most=MAX_COORDINATE, value=repr(start)[:40]))
    mu = MOMENTUM[optimizer]
    x, y = (_power(curvature, lr, mu, steps) * float(p) for curvature, p in zip((1.0, kappa), start, strict=True))
    limit = Term(_("diverges from lr"), largest_stable_lr(optimizer, kappa), "2·(1 + μ)/κ")
    if optimizer == "sgd":
        formula = f"½(((1 − {lr:g})^{steps} · {start[0]:g})² + {kappa:g}((1 − {kappa * lr:g})^{steps} · {start[1]:g})²)"
    else:
        formula = f"M = [[1 − {lr:g}·λ, −{lr * mu:g}], [λ, {mu:g}]], M^{steps}, λ = 1, {kappa:g}"
    value = 0.5 * (x * x + kappa * y * y)
    return Prediction(quantity, value if math.isfinite(value) else math.inf, "", formula, (limit,), source)


def _power(curvature: float, lr: float, mu: float, steps: int) -> float:
    """p after that many steps from p = 1 at rest; the first entry of Mⁿ·(1, 0), by repeated squaring."""
    m = (1 - lr * curvature, -lr * mu, curvature, mu)
    power = (1.0, 0.0, 0.0, 1.0)
    while steps:
        if steps & 1:
            power = _product(power, m)
        m, steps = _product(m, m), steps >> 1
    return power[0]


def _product(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    return (
        a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
    )  # fmt: skip


def compare_loss(went: Trajectory, steps: int, condition: float = 10.0) -> Comparison | None:
    """The closed form beside the steps that were taken; None where the trajectory ends before, since it diverged.

    >>> from core.optimizers import trajectory
    >>> comparison = compare_loss(trajectory("quadratic", "momentum", 0.05, steps=100), 100)
    >>> round(comparison.ratio, 6)
    1.0
    """
    prediction = predict_loss(went.surface, went.optimizer, went.lr, went.points[0], steps, condition)
    if steps > went.num_steps:
        return None
    conditions = Conditions("cpu", _("this machine's processor"), "fp64", threads=1, warmup=0, trials=1)
    return Comparison(prediction, Measurement(prediction.quantity, (went.losses[steps],), "", conditions))
