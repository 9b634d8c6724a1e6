"""Initialization: how large weights start, what depth makes of it, and a model's parameters (CS336 lecture 2, §6)."""

import streamlit as st

from core.models.picture import kinds_of
from core.words import _
from pages._ui import cards, code_view, frame, initialization_view
from pages._ui.charts import initialization as initialization_charts
from pages._ui.scripts import initialization as scripts

lessons = code_view.Lessons("initialization")


@frame.section(_("How large is a layer's output?"), _("Output"), needs_torch=True)
def output() -> None:
    scheme, d, k, seed = initialization_view.one_layer()
    comparison = initialization_view.output_std(scheme, d, k, seed)
    script = scripts.output_std(scheme, d, k, initialization_view.BATCH_SIZE, seed)
    if not cards.predict_measure_explain("init_output", comparison.prediction, comparison, script=script, draw=False):
        return
    points = initialization_view.output_stds(k, seed)
    initialization_charts.output_stds(points, initialization_view.DIMS, scheme, d, comparison, k)
    st.caption(initialization_view.chance(comparison, k))
    code_view.lesson("one_layer", lessons.one_layer, **initialization_view.lesson_sizes(d, k))


@frame.section(_("What does truncating at ±3 truncate?"), _("Truncation"), needs_torch=True)
def truncation() -> None:
    bound, d, seed = initialization_view.truncation()
    drawn = {name: initialization_view.truncated(name, d, seed) for name in initialization_view.BOUNDS}
    run, bins = drawn[bound]
    script = scripts.truncation(bound, d, initialization_view.NUM_WEIGHTS, seed)
    claim = run.comparison
    if not cards.predict_measure_explain("init_truncation", claim.prediction, claim, script=script, draw=False):
        return
    st.markdown(initialization_view.truncation_in_words(run, bins))
    labels = initialization_view.BOUNDS
    initialization_charts.histogram({labels[name]: one for name, (_run, one) in drawn.items()}, labels[bound])


@frame.section(_("What do many layers make of it?"), _("Depth"), needs_torch=True)
def depth() -> None:
    asked = initialization_view.depth()
    prediction, comparison, waiting = asked.claim()
    if not cards.predict_measure_explain(
        "init_gain", prediction, comparison, script=asked.script, waiting=waiting, draw=False
    ):
        return
    left, right = st.columns(2)
    for column, of in ((left, "activations"), (right, "gradients")):
        with column:
            initialization_charts.through_depth(asked.runs, asked.dim, asked.num_layers, asked.relu, of)


@frame.section(_("How many parameters, and where?"), _("Parameters"), needs_torch=True)
def parameters() -> None:
    model = initialization_view.model()
    if model is None:
        st.info(_("Nothing is downloaded: paste the file's text, or choose the file."))
        return
    comparison = None if model.listing is None else model.listing.comparison
    if not cards.predict_measure_explain(
        "init_parameters", model.prediction, comparison, script=model.script, draw=False
    ):
        return
    st.markdown(initialization_view.parameters_in_words(model))
    if model.listing is None:
        return
    left, right = st.columns([3, 4])
    with left:
        initialization_charts.kinds(kinds_of(model.listing.parameters))
    with right:
        initialization_charts.tensors(model.listing)
    sizes = initialization_view.cruncher_sizes(model.listing)
    if sizes is not None:
        code_view.lesson("cruncher", lessons.cruncher, **sizes)


frame.page("initialization", _("Initialization"), [output, truncation, depth, parameters])
