"""What fits, the exercise, checkpoints and rules of thumb: claims and words of Optimizer memory's other sections."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import streamlit as st

from core import flops, units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.hardware import Accelerator
from core.memory import result
from core.memory.config import StepConfig
from core.memory.exercise import BATCH_SIZE, MFU, NUM_STEPS, predict_exercise_time
from core.memory.fits import Checkpointing, PeakLine, checkpointing_choices, largest_batch, largest_model, peak_line
from core.memory.predict import predict_step
from core.memory.rules import korthikanti_activations, sixteen_bytes_per_parameter
from core.memory.step_memory import NAMES, StepMemory
from core.models import PRESETS
from core.words import _
from pages._ui import inputs
from pages._ui.memory_view import PRECISIONS, accelerator

XL_MODELS = {"gpt2-xl": "GPT-2 XL", "cs336-xl": _("the assignment's own (RoPE, SwiGLU)")}


@dataclass(frozen=True)
class Fit:
    """A device's memory, the batch that it holds of a step, and the line that the peak follows there."""

    config: StepConfig
    device: Accelerator
    batch: int
    line: PeakLine

    @property
    def memory_bytes(self) -> int:
        assert self.device.memory_bytes is not None
        return self.device.memory_bytes

    @property
    def prediction(self) -> Prediction:
        formula = _("({memory} − {b}) / {a}, rounded down").format(
            memory=units.si_bytes(self.memory_bytes), a=units.si_bytes(self.line.bytes_per_sequence),
            b=units.si_bytes(self.line.constant_bytes),
        )  # fmt: skip
        if not self.batch:
            formula = _("not even one sequence: {b}").format(b=units.si_bytes(_with_batch(self.config, 1).peak_bytes))
        return Prediction(_("largest batch"), self.batch, _("sequences"), formula)


@functools.lru_cache(maxsize=256)
def fit(config: StepConfig, device: Accelerator) -> Fit:
    assert device.memory_bytes is not None
    batch = largest_batch(config, device.memory_bytes)
    return Fit(config, device, batch, peak_line(config.change(batch_size=max(1, batch))))


def _with_batch(config: StepConfig, batch_size: int) -> StepMemory:
    return predict_step(config.change(batch_size=batch_size))


@functools.lru_cache(maxsize=256)
def _largest_preset(config: StepConfig, memory_bytes: int) -> str | None:
    shallowest = min(one.num_layers for one in PRESETS.values())
    every = None if config.checkpointing is None else min(config.checkpointing, shallowest)
    return largest_model(
        memory_bytes, batch_size=config.batch_size, seq_len=config.seq_len, precision=config.precision,
        attention=config.attention, optimizer=config.optimizer, checkpointing=every,
        accumulation_steps=config.accumulation_steps, sharding=config.sharding, num_devices=config.num_devices,
    )  # fmt: skip


def bars(one: Fit) -> dict[str, StepMemory]:
    """The step itself, with the largest batch, and the largest model with this step's batch."""
    found = {_("this step"): predict_step(one.config)}
    if one.batch:
        found[_("largest batch")] = _with_batch(one.config, one.batch)
    name = _largest_preset(one.config, one.memory_bytes)
    if name is not None:
        every = None if one.config.checkpointing is None else min(one.config.checkpointing, PRESETS[name].num_layers)
        found[_("largest model")] = predict_step(one.config.change(model=PRESETS[name], checkpointing=every))
    return found


@functools.lru_cache(maxsize=256)
def verdict(one: Fit) -> str:
    """Whether the step fits, and the largest preset that does."""
    peak = predict_step(one.config)
    holds = peak.peak_bytes <= one.memory_bytes
    message = _("**{verdict}**: {peak} at its peak ({moment}), of {memory}.")
    name = _largest_preset(one.config, one.memory_bytes)
    largest = _("None of the listed models fits with this batch.")
    if name is not None:
        largest = _("Largest listed model with this batch: **{name}**.").format(name=PRESETS[name].name)
    return message.format(
        verdict=_("Fits") if holds else _("Does not fit"), peak=units.si_bytes(peak.peak_bytes),
        moment=peak.peak_moment, memory=units.si_bytes(one.memory_bytes),
    ) + f" {largest}"  # fmt: skip


# The exercise


def exercise() -> Fit:
    """GPT-2 XL in fp32 with eager attention, as the assignment has it, or another way; and the device."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = inputs.choice(_("Model"), "xl_model", list(XL_MODELS), XL_MODELS.__getitem__)
        precision = inputs.choice(_("Precision"), "xl_precision", list(PRECISIONS), PRECISIONS.__getitem__)
        attention = inputs.choice(_("Attention"), "xl_attention", ["eager", "sdpa"])
    with st.container(horizontal=True, vertical_alignment="bottom"):
        device = accelerator()
        checkpointed = inputs.switch(_("Checkpoint every block"), "xl_checkpoint")
    every = 1 if checkpointed else None
    return fit(StepConfig(model, precision=precision, attention=attention, checkpointing=every), device)


def exercise_in_words(one: Fit) -> str:
    """The line, what 16 bytes for every parameter would have said, and the days."""
    seconds = predict_exercise_time(one.config.model).value
    assert seconds is not None
    rule = sixteen_bytes_per_parameter(one.config)
    message = _(
        "Peak = **{a} · B + {b}**, at {moment} (16 bytes a parameter: {rule}). {steps:,} steps of {batch:,} "
        "sequences on one A100, fp32, MFU {mfu:g}: **{days:,.0f} days**."
    )
    return message.format(
        a=units.si_bytes(one.line.bytes_per_sequence), b=units.si_bytes(one.line.constant_bytes),
        moment=one.line.moment, rule=rule.text, steps=NUM_STEPS, batch=BATCH_SIZE, mfu=MFU, days=seconds / 86400,
    )  # fmt: skip


# Checkpoints


@functools.lru_cache(maxsize=256)
def choices(config: StepConfig) -> tuple[Checkpointing, ...]:
    return checkpointing_choices(config)


def predict_best(config: StepConfig) -> Prediction:
    """The lowest peak that checkpoints give, and how far apart they are then."""
    every = [one for one in choices(config) if one.every is not None]
    best = min(every, key=lambda one: (one.peak_bytes, -(one.every or 0)))
    formula = _("a checkpoint every {k} of {layers} blocks; √{layers} = {root}").format(
        k=best.every, layers=config.num_layers, root=units.significant(config.num_layers**0.5)
    )
    return Prediction(_("lowest peak"), best.peak_bytes, "B", formula, source="Chen et al. 2016")


@functools.lru_cache(maxsize=256)
def checkpoints_in_words(config: StepConfig) -> str:
    """What is saved, and what the second forward costs."""
    without = next(one for one in choices(config) if one.every is None)
    best = min(choices(config)[1:], key=lambda one: one.peak_bytes)
    step = flops.transformer_flops(config.model, config.batch_size, config.seq_len).total_flops
    message = _(
        "Without checkpoints the peak is **{without}**, {factor} of the lowest. The second forward is {again} on "
        "top of {step}: **{share:.0%}** more, whatever k is."
    )
    again = best.recompute_flops / config.accumulation_steps
    return message.format(
        without=units.si_bytes(without.peak_bytes), factor=units.factor(without.peak_bytes / best.peak_bytes),
        again=units.si(again, "FLOP"), step=units.si(step, "FLOP"), share=again / step,
    )  # fmt: skip


# Rules of thumb


@functools.lru_cache(maxsize=256)
def compare_rules(config: StepConfig) -> Comparison:
    """16 bytes for every parameter and 34·s·b·h + 5·a·b·s² for every block, beside the step's exact peak."""
    step, states, kept = predict_step(config), sixteen_bytes_per_parameter(config), korthikanti_activations(config)
    assert states.value is not None
    assert kept.value is not None
    found = step.peak.highest
    held = sum(found.get(name, 0) for name in (result.PARAMETER, result.GRADIENT, result.OPTIMIZER_STATE))
    rest = {name: size for name, size in found.items() if name in (result.INPUT, result.BUFFER, result.TEMPORARY)}
    parts = [
        Term(_("states"), held - states.value, _("what is there at that moment: {m}").format(m=step.peak_moment)),
        Term(NAMES[result.ACTIVATION], found.get(result.ACTIVATION, 0) - kept.value, kept.source),
    ]
    parts += [Term(NAMES[name], size, _("no rule counts them")) for name, size in rest.items()]
    quantity, value = _("peak of a step"), states.value + kept.value
    terms = (Term(_("16 bytes a parameter"), states.value), Term("34·s·b·h + 5·a·b·s²", kept.value))
    formula = f"{states.formula} + {kept.formula}"
    prediction = Prediction(quantity, value, "B", formula, terms, f"{states.source}; {kept.source}")
    conditions = Conditions("paper", _("every tensor written down"), config.precision, 1, 0, 1)
    measured = Measurement(quantity, (step.peak_bytes,), "B", conditions)
    return Comparison(prediction, measured, tuple(part for part in parts if part.value))


def rules(config: StepConfig) -> list[tuple[str, float, float]]:
    """Each rule's bytes, and exactly what it speaks of: states at the end of backward, activations."""
    step, states, kept = predict_step(config), sixteen_bytes_per_parameter(config), korthikanti_activations(config)
    assert states.value is not None
    assert kept.value is not None
    exact = step.parameter_bytes + step.gradient_bytes + step.optimizer_state_bytes
    return [
        (_("16 bytes a parameter"), states.value, exact),
        ("L · (34·s·b·h + 5·a·b·s²)", kept.value, step.activation_bytes),
    ]
