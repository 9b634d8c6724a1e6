"""Strides & views: storage, views and copies, what they cost, elementwise work and matmul (CS336 lecture 2, §5.2)."""

import streamlit as st

from core import strides, units
from core.words import _
from pages._ui import cards, code_view, frame, inputs, strides_cells, strides_chain, strides_view
from pages._ui.charts import strides_views as charts
from pages._ui.scripts import strides_views as scripts

lessons = code_view.Lessons("strides_views")


@frame.section(_("Where does an element lie?"), _("Storage"), needs_torch=True)
def storage() -> None:
    shape, index = strides_view.element()
    comparison = strides_view.compare_place(shape, index)
    script = scripts.place(shape, index)
    if not cards.predict_measure_explain("place", comparison.prediction, comparison, script=script, draw=False):
        return
    strides_view.pick_element(shape)
    rows, columns, row, column = (*shape, *index) if len(shape) == 2 else (4, 4, 1, 2)
    if len(shape) != 2:
        st.caption(_("The code below is for two dimensions: here with the lecture's."))
    code_view.lesson(
        "storage_of_a_tensor", lessons.storage_of_a_tensor, rows=rows, columns=columns, row=row, column=column
    )


@frame.section(_("View, copy or error?"), _("Chain"), needs_torch=True)
def chain() -> None:
    made, beside = strides_chain.chain()
    known = strides_chain.known_steps(made)
    charts.chain_table(made.shape, made.steps[:known], made.ran[:known])
    strides_chain.say_guess(made, known)
    if known:
        charts.verdict(made.steps[known - 1], made.ran[known - 1])
    if known < len(made.steps):
        strides_chain.ask(made, known, "strides")
    strides_chain.tensor_of(made, known, scripts.chain(made.shape, made.text()), beside)


@frame.section(_("When does view refuse?"), _("View"), needs_torch=True)
def view() -> None:
    made, new_shape = strides_view.reordered()
    step, ran = made.steps[-1], made.ran[-1]
    if not strides_chain.may_show(made, 1):
        strides_chain.ask(made, 1, "strides_view")
        return
    strides_chain.say_guess(made, 2)
    broken = (step.broken.outer, step.broken.inner) if step.broken else None
    charts.dimensions(step.before, broken)
    charts.verdict(step, ran)
    if step.kind == "view" or step.broken is not None:
        strides_cells.needed_places("strides_needed", step.before, strides.inferred_shape(step.before, new_shape))
    cards.copy_as_python("view", scripts.chain(made.shape, made.text()))


@frame.section(_("What else changes when I write?"), _("Write"), needs_torch=True)
def write() -> None:
    made = strides_chain.same_chain()
    done = strides_view.element_to_write(made)
    comparison = strides.compare_write(done)
    script = scripts.write(made.shape, made.text(), done.step, done.index)
    if not cards.predict_measure_explain("written", comparison.prediction, comparison, script=script, draw=False):
        return
    strides_cells.written("strides_written", done, strides_view.pick_write)
    code_view.lesson("views_and_copies", lessons.views_and_copies)


@frame.section(_("How many bytes does a view hold?"), _("Bytes"), needs_torch=True)
def held_bytes() -> None:
    shape, operations, text = strides_view.bytes_chain()
    comparison = strides_view.compare_bytes(shape, operations)
    labels = cards.Labels(
        predicted=_("The tensor claims"), measured=_("Its storage holds"), ratio=_("Storage over claim")
    )
    script = scripts.held_bytes(shape, text)
    if not cards.predict_measure_explain("bytes", comparison.prediction, comparison, script=script, labels=labels):
        return
    claims, holds = comparison.prediction.value or 0, comparison.measurement.value
    message = _("`{chain}.clone()` would hold {size}, and let go of the rest.")
    if claims >= holds:
        message = _("`{chain}.clone()` would hold {size}: nothing less.")
    if claims > holds:
        message = _("`{chain}.clone()` would hold {size}: an element for each place, where the view shows some again.")
    st.markdown(message.format(chain=text, size=units.si_bytes(claims)))


@frame.section(_("Why can torch not walk backwards?"), _("Flip"), needs_torch=True)
def backwards() -> None:
    n = inputs.whole_number("n", "strides_backwards", 6, 1, 12, width=140)
    comparison = strides.compare_flip(n)
    if not cards.predict_measure_explain(
        "backwards", comparison.prediction, comparison, script=scripts.backwards(n), draw=False
    ):
        return
    charts.backwards(strides.negative_strides(n))
    strides_cells.backwards("strides_backwards", n)


@frame.section(_("What do strides cost?"), _("Cost"), needs_torch=True)
def cost() -> None:
    chosen = strides_view.cost()
    if chosen.calibration is None:
        return
    key, script = f"cost_{chosen.name}", chosen.script
    if chosen.run is None:
        prediction = strides.predict_cost(chosen.name, chosen.n, chosen.calibration.bytes_per_sec)
        waiting = _("press Measure: it takes about six seconds")
        cards.predict_measure_explain(key, prediction, script=script, waiting=waiting)
        return
    comparison = strides.compare_cost(chosen.run, chosen.name, chosen.calibration)
    if cards.predict_measure_explain(key, comparison.prediction, comparison, script=script, draw=False):
        charts.costs(chosen.run, chosen.calibration, comparison)


@frame.section(_("Does x² reuse the memory of x?"), _("x²"), needs_torch=True)
def elementwise() -> None:
    text = inputs.text(_("x"), "strides_values", "1, 4, 9", 80, width=360)
    ran = strides.apply_elementwise(strides.parse_values(text))
    comparison = strides.compare_elementwise(ran)
    script = scripts.elementwise(ran.values)
    if not cards.predict_measure_explain("elementwise", comparison.prediction, comparison, script=script, draw=False):
        return
    strides_view.results(ran)
    code_view.lesson("elementwise", lessons.elementwise)


@frame.section(_("What does triu let through?"), _("Mask"), needs_torch=True)
def mask() -> None:
    with st.container(horizontal=True):
        n = inputs.whole_number(_("Positions"), "strides_mask", 3, 1, 16, width=140)
        diagonal = inputs.whole_number(_("Diagonal"), "strides_diagonal", 0, -16, 16, width=140)
    made = strides_view.triu_mask(n, diagonal)
    comparison = strides_view.compare_mask(made)
    script = scripts.mask(n, diagonal)
    if not cards.predict_measure_explain("mask", comparison.prediction, comparison, script=script, draw=False):
        return
    strides_cells.mask("strides_mask", made)
    code_view.lesson("causal_mask", lessons.causal_mask)


@frame.section(_("Which matrices does a batch multiply?"), _("Matmul"), needs_torch=True)
def matmul() -> None:
    shapes = strides_view.operands()
    comparison = strides_view.compare_matmul_flops(shapes)
    script = scripts.matmul(shapes.a, shapes.b)
    if comparison is None:
        charts.alignment(shapes)
        charts.shape_error(shapes)
        return
    if not cards.predict_measure_explain("batched", comparison.prediction, comparison, script=script, draw=False):
        return
    charts.alignment(shapes)
    st.markdown(strides_view.matmul_in_words(shapes))
    code_view.lesson("matmuls", lessons.matmuls)


SECTIONS = [storage, chain, view, write, held_bytes, backwards, cost, elementwise, mask, matmul]
frame.page("strides_views", _("Strides"), SECTIONS)  # short: ten sections stand beside it
