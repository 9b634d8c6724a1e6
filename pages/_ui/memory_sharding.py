"""One device of many: what it holds and sends by prediction, and the same run on two processes of this machine."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import units
from core.claims import Comparison, Measurement, Prediction
from core.memory.config import StepConfig
from core.memory.predict import predict_step, sharded
from core.memory.sharding import NOT_SHARDED, STAGES
from core.memory.sharding_claims import (
    compare_sent_bytes,
    compare_sharding,
    predict_device_bytes,
    predict_gathered_bytes,
    predict_paper_bytes,
    predict_sent_bytes,
)
from core.memory.sharding_measure import ShardingCase, ShardingRun, check_case, measurable_cases, measure_shardings
from core.memory.step_memory import StepMemory
from core.models import TransformerConfig
from core.optimizers import OPTIMIZERS
from core.words import _
from pages._ui import inputs, jobs_view, memory_view, tables
from pages._ui.memory_view import STAGE_NAMES
from pages._ui.scripts import optimizer_memory as scripts

PROCESSES = 2
VIEWS = {"predicted": _("of those devices"), "here": _("of two processes here")}


@dataclass(frozen=True)
class AskedSharding:
    """The step on the devices that were asked for; or its model, or a small one like it, on two processes here."""

    config: StepConfig
    devices: int
    cases: tuple[ShardingCase, ...] = ()
    runs: Sequence[ShardingRun] | None = None

    @property
    def here(self) -> bool:
        return bool(self.cases)

    @property
    def script(self) -> str:
        alone = self.config.change(sharding=None, num_devices=1)
        return scripts.sharding_here(alone) if self.here else scripts.sharding(alone, self.devices)

    def claim(self) -> tuple[Prediction, Comparison | None, str]:
        """The peak on the fullest device; or the states on it, predicted and measured here."""
        if not self.here:
            return memory_view.peak(predict_step(self.config)), None, ""
        at = STAGES.index(self.config.sharding or NOT_SHARDED)
        if self.runs is not None:
            return *_states(self.runs[at]), ""
        prediction = predict_device_bytes(check_case(self.cases[at], PROCESSES))
        return dataclasses.replace(prediction, terms=()), None, _("press Measure: every stage, half a minute")


def _states(run: ShardingRun) -> tuple[Prediction, Comparison]:
    """Parameters, gradients and optimizer state of the fullest device, together."""
    fullest = run.sharding.fullest.rank
    prediction = dataclasses.replace(predict_device_bytes(run.sharding, fullest), terms=())
    held = compare_sharding(run, fullest)[:3]
    total = sum(int(one.measurement.value) for one in held)
    measured = Measurement(prediction.quantity, (total,), "B", held[0].measurement.conditions)
    return prediction, Comparison(prediction, measured)


def asked() -> AskedSharding:
    """The controls, the button that runs every stage on two processes, and what came of it."""
    one = memory_view.controls(of_devices=True)
    config = one.config
    with one.row:
        view = inputs.choice(_("What one holds"), "mem_view", list(VIEWS), VIEWS.__getitem__)
    if view == "predicted":
        return AskedSharding(config, one.devices)
    cases = measurable_cases(config, PROCESSES)
    with st.container(horizontal=True, vertical_alignment="center"):
        runs: Any = jobs_view.button_and_progress("mem_sharded", _("Measure"), measure_shardings, cases, PROCESSES)
        st.markdown(_small_in_words(config, cases[0].config))
    if runs is not None and tuple(run.case for run in runs) != cases:
        st.caption(_("The settings have changed since the last measurement: measure again."))
        runs = None
    return AskedSharding(config, one.devices, cases, runs)


def _small_in_words(config: StepConfig, model: TransformerConfig) -> str:
    if model == config.model:
        return _("This very model fits here.")
    message = _("{name} does not fit twice here: a model like it, of {n} parameters, runs in its place.")
    return message.format(name=config.model.name, n=units.si(model.num_params, ""))


def stages(config: StepConfig, devices: int) -> dict[str, StepMemory]:
    """The step on the device that holds most, under every stage."""
    found = {}
    for stage in STAGES:
        alone = stage == NOT_SHARDED
        one = config.change(sharding=None if alone else stage, num_devices=1 if alone else devices)
        found[STAGE_NAMES[stage]] = predict_step(one)
    return found


@functools.lru_cache(maxsize=256)
def in_words(config: StepConfig) -> str:
    """The paper's formula for the states, what is gathered for a moment, and what goes over the wire."""
    dealt = sharded(config)
    size = 2 if config.precision == "bf16" else 4
    state = size * OPTIMIZERS[config.optimizer].state_per_parameter
    paper = predict_paper_bytes(dealt.num_params, config.sharding, config.num_devices, size, size, state)
    message = _(
        "States: **{states}** on the fullest device ({paper} by the paper's formula); **{gathered}** of whole "
        "parameters for a moment; **{sent}** sent in a step."
    )
    return message.format(
        states=units.si_bytes(dealt.fullest.total_bytes), paper=paper.text,
        gathered=predict_gathered_bytes(dealt).text, sent=predict_sent_bytes(dealt).text,
    )  # fmt: skip


def runs_table(runs: Sequence[ShardingRun]) -> None:
    """Every stage: bytes on the fullest device, gathered and sent, predicted and measured; what the wire adds."""
    head = (
        "", _("states"), _("measured"), _("gathered"), _("measured"), _("sent"), _("measured"), _("more on the wire"),
    )  # fmt: skip
    rows = []
    for run in runs:
        comparison, (gathered, sent) = _states(run)[1], (compare_sharding(run)[3], compare_sent_bytes(run))
        cells = [*_pair(comparison), *_pair(gathered), *(_pair(sent) if sent else ("", _("unknown")))]
        parts = sorted(sent.parts, key=lambda part: -part.value) if sent else []
        more = "; ".join(f"{part.name}: {units.si_bytes(part.value)}" for part in parts if part.value)
        rows.append((STAGE_NAMES[run.case.stage], *cells, more))
    tables.show(head, rows, _("what one of two processes holds and sends, predicted and measured"), dense=True)


def _pair(one: Comparison) -> tuple[tuple[str, str], tuple[str, str]]:
    predicted, measured = one.prediction.value, one.measurement.value
    assert predicted is not None
    return (units.si_bytes(predicted), f"{predicted:,} B"), (units.si_bytes(measured), f"{measured:,} B")
