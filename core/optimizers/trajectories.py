"""An optimizer on a loss surface, step by step, and its first step against what a napkin says of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.optimizers.registry import OPTIMIZERS, make
from core.optimizers.surfaces import Point, Surface, surface
from core.words import _

MAX_STEPS = 2000
MAX_COORDINATE = 1e6  # beyond it a trajectory counts as diverged
FIRST_STEPS = ("sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw")


@dataclass(frozen=True)
class Trajectory:
    """Where an optimizer went: the start and the point after every step, with the loss and the gradient's norm at each.

    ``diverged_at`` is the step that left every bound (|x| or |y| above a million); the trajectory ends before it.
    """

    surface: str
    optimizer: str
    lr: float
    points: tuple[Point, ...]
    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    diverged_at: int | None = None

    @property
    def num_steps(self) -> int:
        return len(self.points) - 1

    def steps_to(self, loss: float) -> int | None:
        """The first step after which the loss is at most that; None where there is none."""
        return next((step for step, reached in enumerate(self.losses) if reached <= loss), None)


def trajectory(
    on: str | Surface,
    optimizer: str,
    lr: float,
    start: Sequence[float] | None = None,
    steps: int = 200,
    *,
    condition: float = 10.0,
    **hyper: Any,
) -> Trajectory:
    """Run an optimizer of ``core.optimizers`` on a surface, in fp64, from ``start`` (the surface's own if left out).

    ``hyper`` are the optimizer's other settings. The point is a parameter of one row and two columns for Muon and
    Adafactor, which treat matrices apart, a vector otherwise: the same for all the rest. Raises ValueError for what no
    surface, optimizer, rate, start (two numbers of at most a million) or number of steps (at most 2000) can be.

    >>> trajectory("quadratic", "sgd", lr=0.5, start=(8, 4), steps=3, condition=3).points
    ((8.0, 4.0), (4.0, -2.0), (2.0, 1.0), (1.0, -0.5))
    >>> trajectory("quadratic", "sgd", lr=0.25, steps=200, condition=10).diverged_at
    34
    """
    import torch

    where = on if isinstance(on, Surface) else surface(on, condition)
    steps = whole_number("steps", steps, 1, MAX_STEPS)
    x, y = point = _check_start(where.start if start is None else start)
    points, losses, norms, diverged_at = [point], [where.loss(x, y)], [], None
    # The update itself, step after step: what ``step`` does around it, for torch's hooks, takes five times as long.
    with torch.inference_mode():
        p = torch.tensor([point] if optimizer in ("muon", "adafactor") else point, dtype=torch.float64)
        g = torch.empty_like(p)
        at, slope = p.numpy().reshape(-1), g.numpy().reshape(-1)  # the same memory
        algorithm = make(optimizer, [p], lr, **hyper)
        state, group = algorithm.new_state(p), algorithm.param_groups[0]
        for step in range(1, steps + 1):
            slope[0], slope[1] = gradient = where.gradient(x, y)
            norms.append(math.hypot(*gradient))
            algorithm.update(p, g, state, group)
            x, y = at.tolist()
            if not (abs(x) <= MAX_COORDINATE and abs(y) <= MAX_COORDINATE):
                diverged_at = step
                break
            points.append((x, y))
            losses.append(where.loss(x, y))
    if diverged_at is None:
        norms.append(math.hypot(*where.gradient(x, y)))
    return Trajectory(where.name, optimizer, float(lr), tuple(points), tuple(losses), tuple(norms), diverged_at)


def _check_start(start: Sequence[float]) -> Point:
    entries = tuple(start) if isinstance(start, (tuple, list)) else ()
    numbers = [one for one in entries if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if len(entries) != 2 or len(numbers) != 2 or not all(abs(one) <= MAX_COORDINATE for one in numbers):
        message = _("a start is two numbers from −{most:,.0f} to {most:,.0f}; received {value}")
        raise ValueError(message.format(most=MAX_COORDINATE, value=repr(start)[:40]))
    return float(numbers[0]), float(numbers[1])


def compare_first_step(optimizer: str, gradient: float, lr: float, **hyper: Any) -> Comparison:
    """How far the first step goes, from 0 and against the gradient: on a napkin, and by the optimizer itself.

    SGD and Momentum move by lr·g. AdaGrad, Adam and AdamW by lr·sign(g), RMSProp by lr·sign(g)/√(1 − α), whatever the
    gradient's size: the ε beside the root is what the difference is made of.

    >>> [round(compare_first_step("adagrad", g, lr=0.1).measurement.value, 6) for g in (0.001, 1.0, -1000.0)]
    [-0.1, -0.1, 0.1]
    >>> compare_first_step("sgd", 1000.0, lr=0.1).measurement.value
    -100.0
    """
    import torch

    one_of("optimizer", optimizer, FIRST_STEPS)
    gradient = _check_start((gradient, 0.0))[0]
    with torch.inference_mode():
        p, g = torch.zeros(1, dtype=torch.float64), torch.tensor([gradient], dtype=torch.float64)
        algorithm = make(optimizer, [p], lr, **hyper)
        group = algorithm.param_groups[0]
        algorithm.update(p, g, algorithm.new_state(p), group)
    sign = math.copysign(1.0, gradient) if gradient else 0.0
    if optimizer in ("sgd", "momentum"):
        predicted, formula = -lr * gradient, f"−{lr:g} · {gradient:g}"
    elif optimizer == "rmsprop":
        predicted, formula = (
            -lr * sign / (1 - group["alpha"]) ** 0.5,
            f"−{lr:g} · {sign:+g} / √(1 − {group['alpha']:g})",
        )
    else:
        predicted, formula = -lr * sign, f"−{lr:g} · {sign:+g}"
    source = _("{source}; CS336 lecture 2, §6.5").format(source=OPTIMIZERS[optimizer].source)
    conditions = Conditions("cpu", _("this machine's processor"), "fp64", threads=1, warmup=0, trials=1)
    measured = Measurement(_("first step"), (p.item(),), "", conditions)
    prediction = Prediction(_("first step"), predicted, "", formula, source=source)
    return Comparison(prediction, measured, _first_step_parts(optimizer, gradient, predicted, group))


def _first_step_parts(optimizer: str, gradient: float, predicted: float, group: dict[str, Any]) -> tuple[Term, ...]:
    """The ε beside the root: |g| is divided by |g| + ε, and not by |g|."""
    if optimizer in ("sgd", "momentum") or not gradient:
        return ()
    root = abs(gradient) * ((1 - group["alpha"]) ** 0.5 if optimizer == "rmsprop" else 1.0)
    value = -predicted * group["eps"] / (root + group["eps"])
    return (Term(_("ε beside the root"), value, f"ε = {group['eps']:g}"),)
