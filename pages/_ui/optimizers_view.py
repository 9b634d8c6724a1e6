"""Controls and claims that the sections of Optimizers share."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import streamlit as st

from core import optimizers, units
from core.claims import Comparison, Prediction
from core.optimizers import OPTIMIZERS, SURFACES, Surface, Trajectory
from core.optimizers.closed_form import MOMENTUM, compare_loss, largest_stable_lr, predict_loss
from core.words import _
from pages._ui import inputs
from pages._ui.charts import optimizers as optimizers_charts
from pages._ui.scripts import optimizers as scripts

NUM_STEPS = 200
MAX_LR = 100.0
MAX_DIM, MAX_LAYERS = 2**17, 32  # each layer's state is built while you type
NAMES = {kind.class_name: name for name, kind in OPTIMIZERS.items()}
SURFACE_NAMES = {"quadratic": _("quadratic bowl"), "rosenbrock": "Rosenbrock", "saddle": _("saddle"), "beale": "Beale"}
GRADIENTS = tuple(10.0**power for power in range(-12, 5))
RACE = ("SGD", "Momentum", "AdaGrad", "RMSProp", "Adam")
PRESETS = {
    _("bowl"): {"opt_surface": "quadratic", "opt_condition": 25.0, "opt_lr": 0.05},
    _("SGD diverges"): {"opt_surface": "quadratic", "opt_condition": 25.0, "opt_lr": 0.085},
    _("valley"): {"opt_surface": "rosenbrock", "opt_lr": 0.001},
    _("saddle"): {"opt_surface": "saddle", "opt_lr": 0.05},
}  # fmt: skip


# On a surface


@dataclass(frozen=True)
class Race:
    """What was asked for, and where every optimizer went: its class's name and its trajectory."""

    where: Surface
    condition: float
    lr: float
    start: tuple[float, float]
    followed: str
    step: int
    went: dict[str, Trajectory]

    @property
    def script(self) -> str:
        names = tuple(NAMES[one] for one in self.went)
        settings = (self.lr, self.start, self.step, self.condition)
        return scripts.surface(self.where.name, names, NAMES[self.followed], *settings)

    def claim(self) -> tuple[Prediction, Comparison | None, str]:
        """The loss that is predicted of the optimizer followed, and where it got to."""
        followed = self.went[self.followed]
        comparison = compare_loss(followed, self.step, self.condition)
        if comparison is not None:
            return comparison.prediction, comparison, ""
        settings = (self.where.name, NAMES[self.followed], self.lr, self.start, self.step, self.condition)
        waiting = _("{name} diverged: after {n:,} steps it was beyond a million").format(
            name=self.followed, n=followed.diverged_at
        )
        return predict_loss(*settings), None, waiting

    def in_words(self) -> str:
        """Who is lowest, who diverged, and from which rate on one does."""
        minimum = min(self.where.loss(*one) for one in self.where.minima)
        there = {name: one.losses[self.step] - minimum for name, one in self.went.items() if self.step <= one.num_steps}
        parts = []
        if there:
            best = min(there, key=lambda name: there[name])
            message = _("Lowest after {n:,} steps: {name}, {loss} above the minimum.")
            parts.append(message.format(n=self.step, name=best, loss=units.significant(max(0.0, there[best]))))
        lost = [f"{name} ({one.diverged_at:,})" for name, one in self.went.items() if one.diverged_at is not None]
        if lost:
            parts.append(_("Diverged, at step: {names}.").format(names=", ".join(lost)))
        if self.where.name == "quadratic":
            limits = [
                _("{name} diverges from lr = {lr} on").format(
                    name=OPTIMIZERS[name].class_name, lr=units.significant(largest_stable_lr(name, self.condition))
                )
                for name in MOMENTUM
            ]
            parts.append("; ".join(limits) + ".")
        return " ".join(parts)


def race() -> Race:
    """Surface, rate, start, and who runs; the followed one always does."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.choice(_("Surface"), "opt_surface", list(SURFACES), SURFACE_NAMES.__getitem__)
        chosen = inputs.several(_("Who runs"), "opt_who", list(NAMES), RACE)
    with st.container(horizontal=True, vertical_alignment="bottom", key="np_steps_race"):
        condition = 10.0
        if name == "quadratic":
            most = optimizers.MAX_CONDITION
            condition = inputs.real_number(
                _("κ (along y)"), "opt_condition", 25.0, 1.0, most, step=5.0, format="%g", width=100
            )
        lr = inputs.real_number(_("Learning rate"), "opt_lr", 0.05, 1e-6, MAX_LR, step=0.01, format="%g", width=120)
        where = optimizers.surface(name, condition)
        x = _coordinate("x", where, 0)
        y = _coordinate("y", where, 1)
        step = inputs.step(_("Steps taken"), "race", NUM_STEPS)
        followed = inputs.select(_("Predict"), "opt_followed", list(NAMES), default="SGD")
    shown = [one for one in NAMES if one in chosen or one == followed]
    went = {one: _trajectory(name, NAMES[one], lr, (x, y), condition) for one in shown}
    return Race(where, condition, lr, (x, y), followed, step, went)


def race_presets() -> None:
    inputs.presets(PRESETS)


def _coordinate(label: str, where: Surface, axis: int) -> float:
    """A coordinate of the start, the surface's own at first, inside its window."""
    low, high = (where.x_range, where.y_range)[axis]
    key = f"opt_{label}_{where.name}"
    return inputs.real_number(
        _("start {axis}").format(axis=label), key, where.start[axis], low, high, step=0.1, format="%g", width=85
    )


@functools.lru_cache(maxsize=512)
def _trajectory(name: str, optimizer: str, lr: float, start: tuple[float, float], condition: float) -> Trajectory:
    return optimizers.trajectory(name, optimizer, lr, start, NUM_STEPS, condition=condition)


# The first step


def first_step() -> tuple[str, float, float]:
    """An optimizer, a gradient and a learning rate."""
    names = {name: OPTIMIZERS[name].class_name for name in optimizers.FIRST_STEPS}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = inputs.choice(_("Optimizer"), "opt_first", list(names), names.__getitem__, default="adagrad")
        most = optimizers.MAX_COORDINATE
        gradient = inputs.real_number(_("Gradient g"), "opt_g", 1000.0, -most, most, format="%g", width=170)
        lr = inputs.real_number(_("Learning rate"), "opt_lr", 0.05, 1e-6, MAX_LR, step=0.01, format="%g", width=130)
    return chosen, gradient, lr


@functools.lru_cache(maxsize=4096)
def compared_first_step(optimizer: str, gradient: float, lr: float) -> Comparison:
    return optimizers.compare_first_step(optimizer, gradient, lr)


@functools.lru_cache(maxsize=64)
def first_steps(lr: float) -> optimizers_charts.FirstSteps:
    """Every optimizer's first step for gradients of very different sizes."""
    every = (
        (OPTIMIZERS[name].class_name, gradient, compared_first_step(name, gradient, lr))
        for name in optimizers.FIRST_STEPS
        for gradient in GRADIENTS
    )
    return optimizers_charts.plot_first_steps(tuple(every), lr)


# State


def state() -> tuple[str, int, int, str]:
    """An optimizer, the size of a Cruncher, and its dtype; the lecture's at first."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = inputs.choice(_("Optimizer"), "opt_state", list(NAMES), default="AdaGrad")
        dim = inputs.whole_number(_("Width D"), "opt_dim", 4, 1, MAX_DIM, width=130)
        num_layers = inputs.whole_number(_("Layers"), "opt_layers", 2, 1, MAX_LAYERS, width=120)
        dtype = inputs.choice("dtype", "opt_dtype", ["fp32", "bf16"])
    return NAMES[chosen], dim, num_layers, dtype


def cruncher_shapes(dim: int, num_layers: int) -> tuple[tuple[int, int], ...]:
    """The parameters of the lecture's Cruncher: (D, D) for each layer and the head."""
    return (*((dim, dim),) * num_layers, (1, dim))


def parameter_bytes(shapes: tuple[tuple[int, int], ...], dtype: str) -> int:
    """What Momentum keeps: exactly one number for each parameter."""
    return optimizers.state_bytes("momentum", shapes, dtype)


@functools.lru_cache(maxsize=256)
def compared_state(optimizer: str, shapes: tuple[tuple[int, int], ...], dtype: str) -> Comparison:
    return optimizers.compare_state_bytes(optimizer, shapes, dtype)
