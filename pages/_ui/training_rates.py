"""Learning rates of Training: the schedule, and the sweep."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core import jobs, training, units
from core.claims import Comparison, Conditions, Measurement, Prediction
from core.training import TrainConfig
from core.words import _
from pages._ui import inputs, jobs_view, tables, training_jobs
from pages._ui.charts import training as training_charts
from pages._ui.training_settings import TASKS

COUNTED = Conditions("cpu", _("counted"), "fp64", threads=1, warmup=0, trials=1)

# Schedule


def schedule() -> tuple[tuple[float, float, int, int], Comparison]:
    """The cosine's controls, and its mean learning rate: predicted in closed form, and averaged."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        highest = inputs.real_number("max_lr", "cosine_max", 0.001, 1e-9, 1e3, step=0.001, format="%g", width=130)
        lowest = inputs.real_number("min_lr", "cosine_min", 0.0001, 0.0, 1e3, step=0.0001, format="%g", width=130)
        warmup = inputs.whole_number("warmup_steps", "cosine_warmup", 50, 0, 20_000, width=140)
        total = inputs.whole_number("total_steps", "cosine_total", 1000, 1, 20_000, width=140)
    if lowest > highest:
        message = _("min_lr must be at most max_lr, {high:g}; received {low:g}")
        raise ValueError(message.format(high=highest, low=lowest))
    if warmup >= total - 1:
        message = _("the rise must end before the last step: warmup_steps below {limit:,}; received {value:,}")
        raise ValueError(message.format(limit=total - 1, value=warmup))
    return (highest, lowest, warmup, total), compare_mean_lr(highest, lowest, warmup, total)


@functools.lru_cache(maxsize=64)
def rates(highest: float, lowest: float, warmup: int, total: int) -> tuple[float, ...]:
    return tuple(training.cosine_lr(step, highest, lowest, warmup, total) for step in range(total))


@functools.lru_cache(maxsize=64)
def compare_mean_lr(highest: float, lowest: float, warmup: int, total: int) -> Comparison:
    """The rise has a mean of max·(w + 1)/2w, the fall, the half cosine being odd about its middle, of (max + min)/2."""
    quantity = _("mean learning rate")
    value = (highest * (warmup + 1) / 2 + (total - warmup) * (highest + lowest) / 2) / total
    formula = f"({warmup:,} + 1)/2 · {highest:g} + {total - warmup:,} · ({highest:g} + {lowest:g})/2, / {total:,}"
    if not warmup:
        value, formula = (highest + lowest) / 2, f"({highest:g} + {lowest:g})/2"
    every = rates(highest, lowest, warmup, total)
    measurement = Measurement(quantity, (math.fsum(every) / total,), "", replace(COUNTED, dtype="fp64"))
    return Comparison(Prediction(quantity, value, "", formula), measurement)


# Sweep

_LRS = {
    "regression": (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    "text": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1),
}
_BATCHES = {"regression": (1, 2, 4, 8, 16, 32), "text": (2, 4, 8, 16, 32, 64)}
_TEXT: dict[str, Any] = {
    "task": "text",
    "dim": 32,
    "num_layers": 1,
    "num_heads": 2,
    "context_length": 32,
    "batch_size": 16,
}
_FIRST = {"regression": ("sgd", 0.001, 100), "text": ("adamw", 0.01, 100)}
SWEPT = {"lr": _("learning rate"), "batch_size": _("batch size")}


@dataclass(frozen=True)
class Swept:
    """The sweep that is asked for, and its points once it has been run."""

    config: TrainConfig
    setting: str
    values: tuple[float, ...]
    points: Any


def swept() -> Swept:
    """The controls of the sweep, its button, and its points once it has been run."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        setting = inputs.choice(_("Swept"), "sweep_setting", list(SWEPT), SWEPT.__getitem__)
        task = inputs.choice(_("Task"), "sweep_task", list(TASKS), TASKS.__getitem__)
        first, lr, steps = _FIRST[task]
        optimizer = inputs.choice(
            _("Optimizer"), f"sweep_optimizer_{task}", ["sgd", "momentum", "adam", "adamw"], default=first
        )
        steps = inputs.whole_number(_("Steps"), "sweep_steps", steps, 10, 1000, width=110)
        if setting == "batch_size":
            lr = inputs.real_number(
                _("Learning rate"), f"sweep_lr_{task}", lr, 1e-9, 1e3, step=0.001, format="%g", width=120
            )
        config = TrainConfig(optimizer=optimizer, lr=lr, num_steps=steps, **(_TEXT if task == "text" else {}))
        values = (_LRS if setting == "lr" else _BATCHES)[task]
        done = jobs_view.button_and_progress(
            "sweep_job", _("Sweep"), training_jobs.sweep, config, setting, values, on_progress=jobs.report
        )
    points = done[1] if done is not None and done[0] == (config, setting, values) else None
    return Swept(config, setting, values, points)


def sweep_claim(one: Swept) -> tuple[Prediction, Comparison | None]:
    """Which value ends lowest: nobody has a formula, so it is a bet."""
    quantity = _("the best {setting}").format(setting=SWEPT[one.setting])
    unknown = _("no formula tells it: bet, then sweep")
    prediction = Prediction(quantity, None, "", f"sweep {one.setting} {one.config.task}", unknown=unknown)
    if one.points is None:
        return prediction, None
    best = min(one.points, key=lambda point: point.final_loss)
    note = _("the lowest mean loss of the last tenth, of {n} runs").format(n=len(one.points))
    conditions = Conditions("cpu", _("this machine"), "fp32", 1, 0, 1, notes=(note,))
    return prediction, Comparison(prediction, Measurement(quantity, (best.value,), "", conditions))


def sweep_results(one: Swept) -> None:
    """The loss at the end against the value, after the same tokens and, of batch sizes, after the same steps."""
    text, by_batch = one.config.task == "text", one.setting == "batch_size"
    same_tokens = _("same tokens") if by_batch else _("loss at the end")
    lines = {same_tokens: [(point.value, point.final_loss) for point in one.points]}
    if by_batch:
        shortest = min(len(point.losses) for point in one.points)
        lines[_("same {n:,} steps").format(n=shortest)] = [
            (point.value, point.loss_after(shortest)) for point in one.points
        ]
    title = _("{setting} (log)").format(setting=SWEPT[one.setting])
    y_title = _("loss (nats)") if text else _("loss (log)")
    left, right = st.columns([5, 4])
    with left:
        training_charts.curves(lines, title, y_title, not text, title, height=170, log_x=True)
    rows = [_sweep_row(point, list(lines.values()), text, at) for at, point in enumerate(one.points)]
    best = min(range(len(rows)), key=lambda at: one.points[at].final_loss)
    with right:
        tables.show([SWEPT[one.setting], *lines, _("speed")], rows, _("the runs of the sweep"), dense=True, marked=best)
    gone = ", ".join(f"{point.value:g}" for point in one.points if point.final_loss == math.inf)
    if gone:
        st.caption(_("Diverged, so not on the chart: {values}.").format(values=gone))
    if by_batch:
        st.caption(
            _(
                "As a rule a large batch gets more from a step, whose gradient is less noisy, and less from a token: "
                "of the same tokens it makes fewer steps."
            )
        )


def _sweep_row(point: Any, lines: list[list[tuple[float, float]]], text: bool, at: int) -> list[tables.Cell]:
    losses = [line[at][1] for line in lines]
    shown: list[tables.Cell] = [
        (units.significant(loss, 4) if math.isfinite(loss) else _("diverged"), repr(loss)) for loss in losses
    ]
    rate = units.si(point.tokens_per_sec, "tokens/s" if text else _("rows/s"))
    return [f"{point.value:g}", *shown, (rate, f"{len(point.losses):,} steps, {point.seconds:.3g} s")]
