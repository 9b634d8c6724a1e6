"""Controls and claims that the sections of Optimizer memory share."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import hardware, units
from core.claims import Prediction, Term
from core.hardware import Accelerator
from core.memory.config import MAX_ACCUMULATION_STEPS, MAX_BATCH_SIZE, MAX_SEQ_LEN, StepConfig
from core.memory.cruncher import MAX_BATCH, MAX_DIM, MAX_LAYERS, TRAINERS, CruncherRun, measure_cruncher
from core.memory.paper_depth import step_on_paper
from core.memory.result import GRADIENT, OPTIMIZER_STATE, PARAMETER, TEMPORARY, Moment
from core.memory.sharding import DTYPE_BYTES, MAX_DEVICES, Sharding, shard, transformer_units
from core.memory.sharding_claims import predict_gathered_bytes, predict_paper_bytes, predict_sent_bytes
from core.models import PRESETS, TransformerConfig
from core.optimizers import OPTIMIZERS
from core.words import _
from pages._ui import inputs
from pages._ui.charts.optimizer_memory import NAMES as CATEGORY_NAMES
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
    _("GPT-2, batch 4"): {"mem_model": "gpt2", "mem_batch": 4, "mem_length": 1024, "mem_precision": "fp32",
                          "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1},
    _("CS336: GPT-2 XL"): {"mem_model": "gpt2-xl", "mem_batch": 1, "mem_length": 1024, "mem_precision": "fp32",
                           "mem_attention": "eager", "mem_every": 0, "mem_micro": 1, "mem_optimizer": "adamw"},
    _("Llama 2 7B, bf16"): {"mem_model": "llama2-7b", "mem_batch": 1, "mem_length": 2048, "mem_precision": "bf16",
                            "mem_attention": "sdpa", "mem_every": 0, "mem_micro": 1},
}  # fmt: skip


# A step


def step_config() -> StepConfig:
    """The controls of a training step, which sections share. Raises ValueError for what cannot be one."""
    labels = {name: one.name for name, one in PRESETS.items()} | {OWN: _("your own")}
    columns = st.columns([1.6, 1.1, 2.1, 0.9, 1])
    with columns[0]:
        name = inputs.select(_("Model"), "mem_model", list(labels), labels.__getitem__)
    with columns[1]:
        optimizer = _optimizer()
    with columns[2]:
        precision = inputs.choice(_("Precision"), "mem_precision", list(PRECISIONS), PRECISIONS.__getitem__)
    with columns[3]:
        batch = inputs.whole_number(_("Batch B"), "mem_batch", 4, 1, MAX_BATCH_SIZE)
    with columns[4]:
        length = inputs.whole_number(_("Length T"), "mem_length", 1024, 1, MAX_SEQ_LEN)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        attention = inputs.choice(_("Attention"), "mem_attention", ["sdpa", "eager"])
        every = inputs.whole_number(_("Checkpoint every (0: no)"), "mem_every", 0, 0, 10**4, width=190)
        micro = inputs.whole_number(_("Micro-batches"), "mem_micro", 1, 1, MAX_ACCUMULATION_STEPS, width=150)
        inputs.presets(STEPS)
    return StepConfig(
        _own_model() if name == OWN else name, batch_size=batch, seq_len=length, attention=attention,
        precision=precision, checkpointing=every or None, accumulation_steps=micro, optimizer=optimizer,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def moments(config: StepConfig) -> tuple[Moment, ...]:
    """A step on paper, moment by moment."""
    return step_on_paper(config).moments


def peak(config: StepConfig) -> Prediction:
    """The most that the step holds, and when."""
    highest = max(moments(config), key=lambda one: one.highest_bytes)
    terms = tuple(Term(CATEGORY_NAMES[name], size) for name, size in highest.highest.items())
    formula = " + ".join(f"{units.si_bytes(term.value)} {term.name}" for term in terms)
    return Prediction(_("peak of a step"), highest.highest_bytes, "B", formula, terms)


def _optimizer() -> str:
    names = {name: one.class_name for name, one in OPTIMIZERS.items()}
    return inputs.select(_("Optimizer"), "mem_optimizer", list(names), names.__getitem__, default="adamw")


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


@dataclass(frozen=True)
class AskedSharding:
    """States dealt out to devices, under every stage."""

    model: str
    stage: str
    num_devices: int
    optimizer: str
    dtype: str
    by_stage: dict[str, Sharding]
    device: Accelerator

    @property
    def chosen(self) -> Sharding:
        return self.by_stage[self.stage]

    @property
    def script(self) -> str:
        return scripts.sharding(self.model, self.stage, self.num_devices, self.optimizer, self.dtype)

    @property
    def bars(self) -> dict[str, dict[str, int]]:
        """What the fullest device holds under every stage, and what comes and goes beside it."""
        bars = {}
        for stage, one in self.by_stage.items():
            device = one.fullest
            bars[STAGE_NAMES[stage]] = {
                PARAMETER: device.parameter_bytes, OPTIMIZER_STATE: device.optimizer_state_bytes,
                GRADIENT: device.gradient_bytes, TEMPORARY: max(one.gathered_bytes, one.reduce_bytes),
            }  # fmt: skip
        return bars

    def in_words(self) -> str:
        """The paper's formula for the same bytes, what is gathered for a moment, and what goes over the wire."""
        size = DTYPE_BYTES[self.dtype]
        state = size * OPTIMIZERS[self.optimizer].state_per_parameter
        paper = predict_paper_bytes(self.chosen.num_params, self.stage, self.num_devices, size, size, state)
        message = _(
            "By the paper's formula it is {paper}. Beside it, **{gathered}** of whole parameters for a moment, and "
            "**{sent}** sent in a step. The dashed line is the memory of the {device}."
        )
        return message.format(
            paper=paper.text, gathered=predict_gathered_bytes(self.chosen).text,
            sent=predict_sent_bytes(self.chosen).text, device=self.device.name,
        )  # fmt: skip


def asked_sharding() -> AskedSharding:
    """The controls of sharding, and every stage with them."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        stage = inputs.choice(_("Sharding"), "mem_stage", list(STAGE_NAMES), STAGE_NAMES.__getitem__, default="zero3")
        devices = inputs.whole_number(_("Devices"), "mem_devices", 8, 1, MAX_DEVICES, width=140)
        dtype = inputs.choice("dtype", "mem_dtype", ["fp32", "bf16"])
    columns = st.columns([3, 2, 3])
    with columns[0]:
        labels = {name: one.name for name, one in PRESETS.items()}
        model = inputs.select(_("Model"), "mem_sharded", list(labels), labels.__getitem__, default="llama3-8b")
    with columns[1]:
        optimizer = _optimizer()
    with columns[2]:
        device = accelerator()
    return AskedSharding(model, stage, devices, optimizer, dtype, _sharded(model, devices, optimizer, dtype), device)


@functools.lru_cache(maxsize=64)
def _sharded(model: str, num_devices: int, optimizer: str, dtype: str) -> dict[str, Sharding]:
    units = transformer_units(PRESETS[model])
    return {stage: shard(units, stage, num_devices, optimizer, dtype) for stage in STAGE_NAMES}


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
