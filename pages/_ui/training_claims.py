"""What a run is predicted to do, and what it did: the bet on its last loss, and a row for each claim."""

from __future__ import annotations

import functools
import math

import streamlit as st

from core import flops, units
from core.claims import Comparison, Conditions, Measurement, Prediction
from core.flops.explain import Peak
from core.training import TrainConfig, predict, runs
from core.words import _
from pages._ui import machine, tables
from pages._ui.training_view import Seen


def last_loss(config: TrainConfig) -> Prediction:
    """The loss at the last step: nobody has a formula for it, so it is what the student bets on."""
    step = config.num_steps - 1
    quantity = _("loss at step {step:,}").format(step=step)
    unknown = _("no formula tells it: bet, then train. From 0² + 1² + … it can go to 0, since y is linear in x")
    if config.task == "text":
        start = _("no formula tells it: bet, then train. It begins at log {vocab} = {nats:.3g}")
        unknown = start.format(vocab=config.vocab_size, nats=math.log(config.vocab_size))
    unit = "nats" if config.task == "text" else ""
    return Prediction(quantity, None, unit, repr(config), unknown=unknown)


def compare_last_loss(seen: Seen | None, config: TrainConfig) -> tuple[Comparison | None, str]:
    """The bet beside the last record of the run that has these settings, or why there is none."""
    if seen is None:
        return None, _("press Start")
    if seen.info.config != config:
        return None, _("the run below has other settings: press Start for these")
    last = seen.info.last
    if seen.info.state != "done" or last is None:
        return None, _("the last step is yet to come")
    if not math.isfinite(last.loss):
        return None, _("the loss has left what the format can hold: the run diverged")
    prediction = last_loss(config)
    note = _("one batch of {rows:,}").format(rows=config.batch_size)
    conditions = Conditions(config.device, _("this machine"), config.precision, machine.cores(), 0, 1, notes=(note,))
    return Comparison(prediction, Measurement(prediction.quantity, (last.loss,), prediction.unit, conditions)), ""


def claims(seen: Seen) -> None:
    """Predicted against measured, a row each: the loss at step 0, FLOPs, memory, seconds, MFU."""
    config, records = seen.info.config, seen.records
    if not records:
        return
    place = st.container()  # above what the calibration has to say
    pairs = [(_("loss at step 0"), predict.compare_initial_loss(config, records[0]))]
    counted = runs.read_counted(seen.info.id)
    if counted is not None:
        pairs.append((_("FLOPs of a step"), predict.compare_step_flops(config, counted.flops)))
        pairs.append((_("memory of a step"), _step_memory(config, tuple(counted.live_bytes.items()))))
    peak = None if seen.info.active else _peak(config)
    if peak is not None:
        pairs.append((_("step time"), predict.compare_step_seconds(config, records, peak, machine.cores())))
        pairs.append((_("FLOP/s (ratio: MFU)"), predict.compare_step_rate(config, records, peak, machine.cores())))
    rows = [_row(name, one) for name, one in pairs]
    with place:
        tables.show(["", _("predicted"), _("measured"), _("ratio")], rows, _("predicted against measured"), dense=True)


def _row(name: str, one: Comparison) -> list[tables.Cell]:
    ratio = "?" if one.ratio is None else units.factor(one.ratio)
    told = f"{one.prediction.formula}; {one.measurement.conditions.text}"
    for part in one.parts:
        told += f"; {part.name} {part.value:+,.4g} {one.prediction.unit}" + (f" ({part.note})" if part.note else "")
    exact = f"{one.prediction.value!r} {one.prediction.unit} = {one.prediction.formula}"
    return [
        name,
        (one.prediction.text, one.prediction.unknown if one.prediction.value is None else exact),
        (one.measurement.text, f"{one.measurement.value!r} {one.measurement.unit}"),
        (ratio, told),
    ]


@functools.lru_cache(maxsize=64)
def _step_memory(config: TrainConfig, live_bytes: tuple[tuple[str, int], ...]) -> Comparison:
    """Predicting a deep Transformer's memory takes some milliseconds."""
    from core.training.step_memory import compare_step_memory

    return compare_step_memory(config, dict(live_bytes))


def _peak(config: TrainConfig) -> Peak | None:
    device = next((one for one in machine.devices() if one.id == config.device), machine.devices()[0])
    calibration = machine.calibration(device, machine.cores())
    if calibration is None:
        return None
    from core.training.loop import PEAK_DTYPES

    return flops.choose_peak(device, PEAK_DTYPES[config.precision], calibration)
