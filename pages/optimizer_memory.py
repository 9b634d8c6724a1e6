"""Optimizer memory: what a training step holds, moment by moment, and what fits (CS336 lecture 2, §6.5; 2026)."""

import streamlit as st

from core.memory.cruncher import compare_cruncher_bytes, compare_cruncher_flops
from core.words import _
from pages._ui import cards, code_view, frame, memory_fits, memory_sharding, memory_view
from pages._ui.charts import optimizer_memory as memory_charts
from pages._ui.scripts import optimizer_memory as scripts

lessons = code_view.Lessons("optimizer_memory")


@frame.section(_("How much memory does a training step need, and when?"), _("Step"), needs_torch=True)
def step() -> None:
    asked = memory_view.asked_step()
    prediction, comparison, waiting = asked.claim()
    if not cards.predict_measure_explain(
        "mem_step", prediction, comparison, script=asked.script, waiting=waiting, draw=False
    ):
        return
    if asked.shown is not None:
        memory_charts.timeline(asked.shown, asked.measured if asked.predicted is not None else None)


@frame.section(_("What fits on this device?"), _("Fits"), needs_torch=True)
def fits() -> None:
    config = memory_view.step_config()
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    with left:
        fit = memory_fits.fit(config, memory_view.accelerator())
    if not cards.predict_measure_explain("mem_fits", fit.prediction, script=scripts.fits(config, fit.memory_bytes)):
        return
    with right:
        st.markdown(memory_fits.verdict(fit))
    memory_charts.held(memory_fits.bars(fit), (fit.memory_bytes, fit.device.name))


@frame.section(_("How large a batch of GPT-2 XL fits, and how long does it train?"), _("GPT-2 XL"), needs_torch=True)
def exercise() -> None:
    fit = memory_fits.exercise()
    if not cards.predict_measure_explain(
        "mem_exercise", fit.prediction, script=scripts.exercise(fit.config, fit.memory_bytes)
    ):
        return
    st.markdown(memory_fits.exercise_in_words(fit))
    memory_charts.by_batch(fit.line, fit.batch, fit.memory_bytes, fit.device.name)


@frame.section(_("How far apart should checkpoints be?"), _("Checkpoints"), needs_torch=True)
def checkpoints() -> None:
    config = memory_view.step_config()
    prediction = memory_fits.predict_best(config)
    if not cards.predict_measure_explain("mem_checkpoints", prediction, script=scripts.checkpoints(config)):
        return
    st.markdown(memory_fits.checkpoints_in_words(config))
    memory_charts.by_checkpoint(memory_fits.choices(config), config.num_layers, config.checkpointing)


@frame.section(_("How far off are rules of thumb?"), _("Rules"), needs_torch=True)
def rules() -> None:
    config = memory_view.step_config()
    comparison = memory_fits.compare_rules(config)
    labels = cards.Labels(predicted=_("By the rules"), measured=_("Exactly"), ratio=_("Exactly over the rules"))
    script = scripts.rules(config)
    if not cards.predict_measure_explain(
        "mem_rules", comparison.prediction, comparison, script=script, labels=labels, draw=False
    ):
        return
    memory_charts.rules(memory_fits.rules(config), comparison)


@frame.section(_("What does one of many devices hold?"), _("Sharding"), needs_torch=True)
def sharding() -> None:
    asked = memory_sharding.asked()
    prediction, comparison, waiting = asked.claim()
    key = "mem_sharding_here" if asked.here else "mem_sharding"
    if not cards.predict_measure_explain(key, prediction, comparison, script=asked.script, waiting=waiting, draw=False):
        return
    if asked.runs is not None:
        memory_sharding.runs_table(asked.runs)
    if not asked.here:
        st.markdown(memory_sharding.in_words(asked.config))
        memory_charts.held(memory_sharding.stages(asked.config, asked.devices))


@frame.section(_("What does a step on the Cruncher hold?"), _("Cruncher"), needs_torch=True)
def cruncher() -> None:
    run = memory_view.cruncher()
    claims = {_("bytes"): compare_cruncher_bytes(run), "FLOPs": compare_cruncher_flops(run)}
    of = memory_view.cruncher_quantity(list(claims))
    script = scripts.cruncher(run.batch_size, run.dim, run.num_layers, run.optimizer)
    comparison = claims[of]
    if not cards.predict_measure_explain(f"mem_{of}", comparison.prediction, comparison, script=script):
        return
    st.markdown(memory_view.cruncher_in_words(run))
    if run.optimizer == "adagrad":
        code_view.lesson("cruncher_step", lessons.cruncher_step, b=run.batch_size, d=run.dim, num_layers=run.num_layers)


frame.page("optimizer_memory", _("Optimizer memory"), [step, fits, exercise, sharding, checkpoints, rules, cruncher])
