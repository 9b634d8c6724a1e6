"""Optimizers: where each goes on a loss surface, how far its first step goes, what it keeps (CS336 lecture 2, §6.5)."""

import streamlit as st

from core import optimizers
from core.words import _
from pages._ui import cards, code_view, frame, optimizers_view
from pages._ui.charts import optimizers as optimizers_charts
from pages._ui.scripts import optimizers as scripts

lessons = code_view.Lessons("optimizers")


@frame.section(_("Which optimizer gets there?"), _("Surface"), needs_torch=True)
def surface() -> None:
    race = optimizers_view.race()
    prediction, comparison, waiting = race.claim()
    if not cards.predict_measure_explain(
        "opt_surface", prediction, comparison, script=race.script, waiting=waiting, draw=False
    ):
        return
    left, right = st.columns([3, 2])
    with left:
        optimizers_charts.surface(race.where, race.condition, race.went, race.step)
    with right:
        optimizers_charts.losses(race.where, race.went, race.step)
        optimizers_view.race_presets()
    st.caption(race.in_words())


@frame.section(_("How far does the first step go?"), _("First step"), needs_torch=True)
def first_step() -> None:
    optimizer, gradient, lr = optimizers_view.first_step()
    comparison = optimizers_view.compared_first_step(optimizer, gradient, lr)
    script = scripts.first_step(optimizer, gradient, lr)
    if not cards.predict_measure_explain("opt_first", comparison.prediction, comparison, script=script, draw=False):
        return
    optimizers_charts.first_steps(optimizers_view.first_steps(lr), abs(gradient))
    code_view.lesson("adagrad", lessons.adagrad, g=gradient, lr=lr)


@frame.section(_("What does an optimizer keep?"), _("State"), needs_torch=True)
def state() -> None:
    optimizer, dim, num_layers, dtype = optimizers_view.state()
    shapes = optimizers_view.cruncher_shapes(dim, num_layers)
    comparison = optimizers_view.compared_state(optimizer, shapes, dtype)
    script = scripts.state(optimizer, dim, num_layers, dtype)
    if not cards.predict_measure_explain("opt_state", comparison.prediction, comparison, script=script, draw=False):
        return
    every = {name: optimizers_view.compared_state(name, shapes, dtype) for name in optimizers.OPTIMIZERS}
    optimizers_charts.state_bytes(every, optimizers_view.parameter_bytes(shapes, dtype))


frame.page("optimizers", _("Optimizers"), [surface, first_step, state])
