"""Controls and claims that the sections of Optimizer memory share."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import hardware
from core.claims import Comparison, Measurement, Prediction
from core.hardware import Accelerator
from core.memory.compare import compare_step, predict_peak
from core.memory.config import (
    MAX_ACCUMULATION_STEPS,
    MAX_BATCH_SIZE,
    MAX_SEQ_LEN,
    TORCH_OPTIMIZERS,
    StepConfig,
)
from core.memory.cruncher import MAX_BATCH, MAX_DIM, MAX_LAYERS, TRAINERS, CruncherRun, measure_cruncher
from core.memory.huggingface import (
    HuggingFaceStep,
    check_transformers,
    huggingface_step,
    measure_huggingface_step,
)
from core.memory.measure import measure_step
from core.memory.predict import predict_step
from core.memory.sharding import MAX_DEVICES, NOT_SHARDED
from core.memory.step_memory import StepMemory
from core.models import PRESETS
from core.optimizers import OPTIMIZERS
from core.words import _
from pages._ui import inputs, jobs_view, machine, memory_models
from pages._ui.scripts import optimizer_memory as scripts

PRECISIONS = {"fp32": "fp32", "autocast": _("bf16 autocast"), "bf16": "bf16"}
STAGE_NAMES = {"none": _("not sharded"), "zero1": "ZeRO 1", "zero2": "ZeRO 2", "zero3": "ZeRO 3"}
DEFAULT_DEVICE = "NVIDIA A100 SXM4 80GB"
STEPS = {
    _("GPT-2"): {"mem_model": "gpt2", "mem_batch": 4, "mem_length": 1024, "mem_precision": "fp32",
                          "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1, "mem_stage": "none",
                          "mem_house": "napkin"},
    _("GPT-2 XL"): {"mem_model": "gpt2-xl", "mem_batch": 1, "mem_length": 1024, "mem_precision": "fp32",
                           "mem_attention": "eager", "mem_every": 0, "mem_micro": 1, "mem_stage": "none",
                          "mem_house": "napkin"},
    _("Llama 2 7B"): {"mem_model": "llama2-7b", "mem_batch": 1, "mem_length": 2048, "mem_precision": "bf16",
                            "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1, "mem_stage": "none",
                          "mem_house": "napkin"},
}  # fmt: skip


# A step


@dataclass(frozen=True)
class Controls:
    """What the controls ask for, how many devices share it, and the row that has room for a button."""

    asked: StepConfig | HuggingFaceStep
    devices: int
    row: Any

    @property
    def config(self) -> StepConfig:
        """The step, where there is a napkin for it; else ValueError, saying where to go."""
        if isinstance(self.asked, StepConfig):
            return self.asked
        message = _("There is no napkin for {kind} here, so nothing to search: the section “Step” measures it.")
        raise ValueError(message.format(kind=self.asked.model_type[:40]))


def step_config() -> StepConfig:
    """The controls of a training step, which sections share. Raises ValueError for what cannot be one."""
    return controls().config


def controls(*, of_devices: bool = False) -> Controls:
    """The controls of a training step. Raises ValueError for what cannot be one.

    ``of_devices``: the section is about several devices, so their number is always asked; presets make room for it.
    """
    fields: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="top"):
        name = memory_models.choose()
        names = {one: kind.class_name for one, kind in OPTIMIZERS.items()}
        fields["optimizer"] = inputs.select(
            _("Optimizer"), "mem_optimizer", list(names), names.__getitem__, default="adamw"
        )
        fields["precision"] = inputs.choice(_("Precision"), "mem_precision", list(PRECISIONS), PRECISIONS.__getitem__)
        houses = memory_models.HOUSES
        house = inputs.choice(_("Modules"), "mem_house", list(houses), houses.__getitem__)
        fields["batch_size"] = inputs.whole_number(_("Batch B"), "mem_batch", 4, 1, MAX_BATCH_SIZE, width=105)
        fields["seq_len"] = inputs.whole_number(_("Length T"), "mem_length", 1024, 1, MAX_SEQ_LEN, width=105)
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        fields["attention"] = inputs.choice(_("Attention"), "mem_attention", ["sdpa", "eager"])
        fields["checkpointing"] = (
            inputs.whole_number(_("Checkpoint every"), "mem_every", 0, 0, 10**4, width=130) or None
        )
        most = MAX_ACCUMULATION_STEPS
        fields["accumulation_steps"] = inputs.whole_number(_("Micro-batches"), "mem_micro", 1, 1, most, width=110)
        stage = inputs.select(_("Sharding"), "mem_stage", list(STAGE_NAMES), STAGE_NAMES.__getitem__)
        devices = 1
        if stage != NOT_SHARDED or of_devices:
            devices = inputs.whole_number(_("Devices"), "mem_devices", 8, 1, MAX_DEVICES, width=90)
        if not of_devices and name in PRESETS:
            inputs.presets(STEPS)
    model = memory_models.of(name, row)
    if isinstance(model, memory_models.Foreign):
        _one_device(stage)
        return Controls(huggingface_step(json.loads(model.fields), **fields), devices, row)
    sharding: dict[str, Any] = {} if stage == NOT_SHARDED else {"sharding": stage, "num_devices": devices}
    if house == "huggingface" and fields["optimizer"] not in TORCH_OPTIMIZERS:
        fields["optimizer_implementation"] = "napkin"  # torch has no such one, or another one by that name
    return Controls(StepConfig(model, house, **fields, **sharding), devices, row)


@dataclass(frozen=True)
class AskedStep:
    """A step that is asked for: predicted where it can be, and measured where that was done with these settings."""

    asked: StepConfig | HuggingFaceStep
    predicted: StepMemory | None
    measured: StepMemory | None

    @property
    def shown(self) -> StepMemory | None:
        """What the timeline is drawn of: the prediction, or where there is none what was measured."""
        return self.predicted or self.measured

    @property
    def script(self) -> str:
        return scripts.step(self.asked) if isinstance(self.asked, StepConfig) else scripts.file_step(self.asked)

    def claim(self) -> tuple[Prediction, Comparison | None, str]:
        """The peak: predicted, and measured where it was; or why it was not."""
        waiting = _("press Measure: two steps under a meter, about ten seconds")
        if isinstance(self.asked, HuggingFaceStep):
            return *unknown_peak(self.asked, self.measured), waiting
        assert self.predicted is not None
        prediction = peak(self.predicted)
        if self.measured is not None and self.measured.conditions is not None:
            return prediction, compare_step(self.asked, self.measured).peak, ""
        if self.asked.sharding is not None:
            waiting = _("this meter sees one device: choose “not sharded”, or see “Sharding”")
        return prediction, None, waiting


def peak(step: StepMemory) -> Prediction:
    """The most that a step holds: the states and all else at that moment; its terms are in its formula."""
    return dataclasses.replace(predict_peak(step), terms=())


def unknown_peak(asked: HuggingFaceStep, measured: StepMemory | None) -> tuple[Prediction, Comparison | None]:
    """The peak that no napkin here predicts, and what was measured of it."""
    why = _("no napkin for {kind} here: press Measure").format(kind=asked.model_type[:40])
    prediction = Prediction(_("peak memory of a step"), None, "B", "", unknown=why)
    if measured is None or measured.conditions is None:
        return prediction, None
    told = dataclasses.replace(measured.conditions, notes=(measured.peak_moment, *measured.conditions.notes))
    return prediction, Comparison(prediction, Measurement(prediction.quantity, (measured.peak_bytes,), "B", told))


def asked_step() -> AskedStep:
    """The controls of a step, the button that meters it, and what came of both."""
    one = controls()
    asked, where = one.asked, "cpu"
    function: Callable[..., StepMemory] = measure_huggingface_step
    arguments: tuple[Any, ...] = (asked,)
    with one.row:
        if isinstance(asked, StepConfig):
            where = measured_on()
            function, arguments = measure_step, (asked, where)
        measured: StepMemory | None = jobs_view.button_and_progress(
            "mem_measured", _("Measure"), function, *arguments, device=where, check=lambda: _measurable(asked)
        )
    done_on = measured.conditions.device if measured is not None and measured.conditions is not None else where
    if measured is not None and (measured.config != asked or done_on != where):
        st.caption(_("The settings have changed since the last measurement: measure again."))
        measured = None
    return AskedStep(asked, predict_step(asked) if isinstance(asked, StepConfig) else None, measured)


def measured_on() -> str:
    """Where a step is measured: over fake tensors on the CPU, or on a GPU where there is one."""
    gpus = [one.id for one in machine.devices() if one.id.startswith("cuda")]
    if not gpus:
        return "cpu"
    labels = {"cpu": _("fake tensors")} | {one: one for one in gpus}
    return inputs.choice(_("Measure on"), "mem_where", list(labels), labels.__getitem__)


def _measurable(asked: StepConfig | HuggingFaceStep) -> None:
    if isinstance(asked, StepConfig):
        _one_device(asked.sharding or NOT_SHARDED)
    if isinstance(asked, HuggingFaceStep) or asked.implementation == "huggingface":
        check_transformers()


def _one_device(stage: str) -> None:
    if stage != NOT_SHARDED:
        raise ValueError(_("A sharded step runs in several processes, and this meter sees one: choose “not sharded”."))


@functools.cache
def accelerators() -> dict[str, Accelerator]:
    """The accelerators whose memory is known."""
    return {one.name: one for one in hardware.all_accelerators() if one.memory_bytes}


def accelerator() -> Accelerator:
    known = accelerators()
    return known[inputs.select(_("Device"), "mem_device", sorted(known), default=DEFAULT_DEVICE)]


# The Cruncher


def cruncher() -> CruncherRun:
    """B, D, L and the optimizer, the lecture's at first; the step is run at once."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        b = inputs.whole_number("B", "crunch_b", 2, 1, MAX_BATCH, width=120)
        d = inputs.whole_number("D", "crunch_d", 4, 1, MAX_DIM, width=120)
        layers = inputs.whole_number("L", "crunch_l", 2, 1, MAX_LAYERS, width=120)
        names = {name: OPTIMIZERS[name].class_name for name in TRAINERS}
        optimizer = inputs.choice(_("Optimizer"), "crunch_opt", list(names), names.__getitem__, default="adagrad")
    return _crunched(b, d, layers, optimizer)


@functools.lru_cache(maxsize=256)
def _crunched(batch_size: int, dim: int, num_layers: int, optimizer: str) -> CruncherRun:
    return measure_cruncher(batch_size, dim, num_layers, optimizer)


def cruncher_quantity(names: list[str]) -> str:
    return inputs.choice(_("Count"), "crunch_of", names, label_visibility="collapsed")


def cruncher_in_words(run: CruncherRun) -> str:
    """What autograd keeps beside the parameters, against the lecture's activations."""
    message = _(
        "Autograd keeps **{saved:,}** numbers for backward where the lecture counts **{counted:,}** activations: the "
        "input and the loss are among them."
    )
    return message.format(saved=run.num_saved, counted=run.batch_size * run.dim * run.num_layers)
