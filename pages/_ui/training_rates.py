"""Learning rates of Training: the schedule, and the sweep."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import streamlit as st

from core import jobs, training
from core.claims import Comparison, Conditions, Measurement, Prediction
from core.training import TrainConfig
from core.words import _
from pages._ui import inputs, jobs_view
from pages._ui.charts import training as training_charts

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

_LRS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
_BATCHES = (1, 2, 4, 8, 16, 32)
SWEPT = {"lr": _("learning rate"), "batch_size": _("batch size")}


def swept() -> tuple[TrainConfig, str, tuple[float, ...], Any]:
    """The sweep that is asked for, and its points once it has been run."""
    from core.training.sweeps import sweep

    with st.container(horizontal=True, vertical_alignment="bottom"):
        setting = inputs.choice(_("Swept"), "sweep_setting", list(SWEPT), SWEPT.__getitem__)
        optimizer = inputs.choice(_("Optimizer"), "sweep_optimizer", ["sgd", "momentum", "adam"])
        steps = inputs.whole_number(_("Steps"), "sweep_steps", 100, 10, 1000, width=120)
        lr = inputs.real_number(_("Learning rate"), "sweep_lr", 0.001, 1e-9, 1e3, step=0.001, format="%g", width=130)
        config = TrainConfig(optimizer=optimizer, lr=lr, num_steps=steps)
        values = _LRS if setting == "lr" else _BATCHES
        points = jobs_view.button_and_progress(
            "sweep_job", _("Sweep"), sweep, config, setting, values, on_progress=jobs.report
        )
    if points is not None and tuple(point.value for point in points) != values:
        points = None
    return config, setting, values, points


def sweep_claim(setting: str, points: Any) -> tuple[Prediction, Comparison | None]:
    """Which value ends lowest: nobody has a formula, so it is a bet."""
    quantity = _("the best {setting}").format(setting=SWEPT[setting])
    prediction = Prediction(quantity, None, "", f"sweep {setting}", unknown=_("no formula tells it: bet, then sweep"))
    if points is None:
        return prediction, None
    best = min(points, key=lambda point: point.final_loss)
    note = _("the lowest mean loss of the last tenth, of {n} runs").format(n=len(points))
    conditions = Conditions("cpu", _("this machine"), "fp32", 1, 0, 1, notes=(note,))
    return prediction, Comparison(prediction, Measurement(quantity, (best.value,), "", conditions))


def sweep_chart(setting: str, points: Any) -> None:
    """The loss at the end against the value, and what diverged."""
    line = {_("loss at the end"): [(point.value, point.final_loss) for point in points]}
    title = _("{setting} (log)").format(setting=SWEPT[setting])
    training_charts.curves(line, title, _("loss at the end (log)"), True, title, height=150, log_x=True)
    gone = ", ".join(f"{point.value:g}" for point in points if point.final_loss == float("inf"))
    if gone:
        st.caption(_("Diverged, so not on the chart: {values}.").format(values=gone))
    if setting == "batch_size":
        st.caption(_("Each saw the same number of rows: half the batch, twice the steps."))
