"""Controls and claims that the sections of Optimizer memory share."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import hardware, units
from core.claims import Comparison, Prediction
from core.hardware import Accelerator
from core.memory.compare import compare_step, predict_peak
from core.memory.config import MAX_ACCUMULATION_STEPS, MAX_BATCH_SIZE, MAX_SEQ_LEN, StepConfig
from core.memory.cruncher import MAX_BATCH, MAX_DIM, MAX_LAYERS, TRAINERS, CruncherRun, measure_cruncher
from core.memory.measure import measure_step
from core.memory.predict import predict_step, sharded
from core.memory.sharding import MAX_DEVICES, NOT_SHARDED, STAGES
from core.memory.sharding_claims import predict_gathered_bytes, predict_paper_bytes, predict_sent_bytes
from core.memory.step_memory import StepMemory
from core.models import PRESETS, TransformerConfig
from core.optimizers import OPTIMIZERS
from core.words import _
from pages._ui import inputs, jobs_view
from pages._ui.scripts import optimizer_memory as scripts

OWN = "own"
PRECISIONS = {"fp32": "fp32", "autocast": _("bf16 autocast"), "bf16": "bf16"}
STAGE_NAMES = {"none": _("not sharded"), "zero1": "ZeRO 1", "zero2": "ZeRO 2", "zero3": "ZeRO 3"}
DEFAULT_DEVICE = "NVIDIA A100 SXM4 80GB"
OWN_FIELDS = {
    "num_layers": (_("Layers"), 4, 10**4),
    "d_model": (_("Width D"), 256, 10**7),
    "num_heads": (_("Heads"), 4, 10**5),
    "d_ff": (_("Feed-forward F"), 1024, 10**8),
    "vocab_size": (_("Vocabulary V"), 8192, 10**8),
}
STEPS = {
    _("GPT-2"): {"mem_model": "gpt2", "mem_batch": 4, "mem_length": 1024, "mem_precision": "fp32",
                          "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1, "mem_stage": "none"},
    _("GPT-2 XL"): {"mem_model": "gpt2-xl", "mem_batch": 1, "mem_length": 1024, "mem_precision": "fp32",
                           "mem_attention": "eager", "mem_every": 0, "mem_micro": 1, "mem_stage": "none"},
    _("Llama 2 7B"): {"mem_model": "llama2-7b", "mem_batch": 1, "mem_length": 2048, "mem_precision": "bf16",
                            "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1, "mem_stage": "none"},
}  # fmt: skip


# A step


def step_config() -> StepConfig:
    """The controls of a training step, which sections share. Raises ValueError for what cannot be one."""
    return _controls()[0]


def _controls() -> tuple[StepConfig, Any]:
    """The step, and the row of controls that has room for a button."""
    labels = {name: one.name for name, one in PRESETS.items()} | {OWN: _("your own")}
    columns = st.columns([1.6, 1.1, 2.1, 0.9, 1])
    with columns[0]:
        name = inputs.select(_("Model"), "mem_model", list(labels), labels.__getitem__)
    with columns[1]:
        names = {one: kind.class_name for one, kind in OPTIMIZERS.items()}
        optimizer = inputs.select(_("Optimizer"), "mem_optimizer", list(names), names.__getitem__, default="adamw")
    with columns[2]:
        precision = inputs.choice(_("Precision"), "mem_precision", list(PRECISIONS), PRECISIONS.__getitem__)
    with columns[3]:
        batch = inputs.whole_number(_("Batch B"), "mem_batch", 4, 1, MAX_BATCH_SIZE)
    with columns[4]:
        length = inputs.whole_number(_("Length T"), "mem_length", 1024, 1, MAX_SEQ_LEN)
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        attention = inputs.choice(_("Attention"), "mem_attention", ["sdpa", "eager"])
        every = inputs.whole_number(_("Checkpoint every"), "mem_every", 0, 0, 10**4, width=140)
        micro = inputs.whole_number(_("Micro-batches"), "mem_micro", 1, 1, MAX_ACCUMULATION_STEPS, width=120)
        stage = inputs.select(_("Sharding"), "mem_stage", list(STAGE_NAMES), STAGE_NAMES.__getitem__)
        devices = inputs.whole_number(_("Devices"), "mem_devices", 8, 1, MAX_DEVICES, width=95)
        inputs.presets(STEPS)
    config = StepConfig(
        _own_model() if name == OWN else name, batch_size=batch, seq_len=length, attention=attention,
        precision=precision, checkpointing=every or None, accumulation_steps=micro, optimizer=optimizer,
        sharding=None if stage == NOT_SHARDED else stage, num_devices=1 if stage == NOT_SHARDED else devices,
    )  # fmt: skip
    return config, row


@dataclass(frozen=True)
class AskedStep:
    """A step that is asked for: predicted, and measured where that was done with these very settings."""

    config: StepConfig
    predicted: StepMemory
    measured: StepMemory | None

    @property
    def script(self) -> str:
        return scripts.step(self.config)

    def claim(self) -> tuple[Prediction, Comparison | None, str]:
        """The peak: predicted, and measured where it was; or why it was not."""
        prediction = peak(self.predicted)
        if self.measured is None or self.measured.conditions is None:
            waiting = _("press Measure: two steps under a meter, about ten seconds")
            if self.config.sharding is not None:
                waiting = _("this meter sees one device: choose “not sharded”")
            return prediction, None, waiting
        return prediction, compare_step(self.config, self.measured).peak, ""


def peak(step: StepMemory) -> Prediction:
    """The most that a step holds: the states and all else at that moment; its terms are in its formula."""
    return dataclasses.replace(predict_peak(step), terms=())


def asked_step() -> AskedStep:
    """The controls of a step, the button that meters it, and what came of both."""
    config, row = _controls()
    with row:
        measured: StepMemory | None = jobs_view.button_and_progress(
            "mem_measured", _("Measure"), measure_step, config, check=lambda: _one_device(config)
        )
    if measured is not None and measured.config != config:
        st.caption(_("The settings have changed since the last measurement: measure again."))
        measured = None
    return AskedStep(config, predict_step(config), measured)


def _one_device(config: StepConfig) -> None:
    if config.sharding is not None:
        raise ValueError(_("A sharded step runs in several processes, and this meter sees one: choose “not sharded”."))


def _own_model() -> TransformerConfig:
    chosen: dict[str, Any] = {}
    columns = st.columns([*[1] * len(OWN_FIELDS), 1.3], vertical_alignment="bottom")
    for column, (field, (label, default, most)) in zip(columns, OWN_FIELDS.items(), strict=False):
        with column:
            chosen[field] = inputs.whole_number(label, f"mem_{field}", default, 1, most)
    with columns[-1]:
        gpt2 = inputs.switch(_("GPT-2 style"), "mem_gpt2")
    style: dict[str, Any] = {
        "learned_positions": 1024,
        "gated_mlp": False,
        "bias": True,
        "norm_bias": True,
        "tied_head": True,
    }
    return TransformerConfig(_("your own"), **chosen, **(style if gpt2 else {"context_length": 2048}))


@functools.cache
def accelerators() -> dict[str, Accelerator]:
    """The accelerators whose memory is known."""
    return {one.name: one for one in hardware.all_accelerators() if one.memory_bytes}


def accelerator() -> Accelerator:
    known = accelerators()
    return known[inputs.select(_("Device"), "mem_device", sorted(known), default=DEFAULT_DEVICE)]


# Sharding


def stages(config: StepConfig) -> dict[str, StepMemory]:
    """The step on the device that holds most, under every stage."""
    devices = max(2, config.num_devices) if config.sharding is None else config.num_devices
    found = {}
    for stage in STAGES:
        alone = stage == NOT_SHARDED
        one = config.change(sharding=None if alone else stage, num_devices=1 if alone else devices)
        found[STAGE_NAMES[stage]] = predict_step(one)
    return found


def sharding_in_words(config: StepConfig) -> str:
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
