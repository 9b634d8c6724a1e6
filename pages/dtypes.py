"""Number formats: bits, rounding, ranges, updates that vanish, loss scaling, block formats (CS336 lecture 2, §4.2)."""

import streamlit as st

from core import dtypes
from core.words import _
from pages._ui import cards, code_view, dtypes_tables, dtypes_view, frame, inputs
from pages._ui.charts import dtypes as dtypes_charts
from pages._ui.scripts import dtypes as scripts

lessons = code_view.Lessons("dtypes")

WIDTH_OF_A_TABLE_PX = 420


@frame.section(_("What does a float hold?"), _("Bits"), needs_torch=True)
def bits() -> None:
    fmt, typed = dtypes_view.number_in_a_format()
    prediction, comparison, waiting = dtypes.compare_cast(typed.exact, fmt)
    script = scripts.one_number(typed.text, fmt)
    if not cards.predict_measure_explain("dt_cast", prediction, comparison, script=script, waiting=waiting, draw=False):
        return
    if typed.decoded is None:
        return
    dtypes_view.bit_cells(typed.decoded)
    dtypes_tables.facts(typed)


@frame.section(_("What becomes of a number in each format?"), _("All formats"), needs_torch=True)
def formats() -> None:
    fmt, typed = dtypes_view.number_in_a_format()
    prediction, comparison, waiting = dtypes.compare_relative_error(typed.exact, fmt)
    script = scripts.every_format(typed.text, fmt)
    if not cards.predict_measure_explain(
        "dt_relative", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    listed = tuple(dtypes_view.with_own(fmt))
    with st.container(horizontal=True):
        dtypes_tables.survey_table(typed.exact, listed)
        dtypes_charts.relative_errors(typed.exact, listed, WIDTH_OF_A_TABLE_PX)
    value = float(typed.exact)
    if abs(value) < 1e300 and value == value:
        code_view.lesson("small_numbers", lessons.small_numbers, value=value)


@frame.section(_("How far does each format reach?"), _("Range"), needs_torch=True)
def ranges() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        fmt = dtypes_view.choose_format(integers=False)
        which = inputs.select(_("Threshold"), "dt_threshold", dtypes.THRESHOLDS, _, "largest")
        views = {"line": _("Number line"), "thresholds": _("Thresholds"), "finfo": _("Beside torch.finfo")}
        shown = inputs.choice(_("Show"), "dt_range_view", list(views), views.__getitem__)
    prediction, comparison, waiting = dtypes.compare_threshold(fmt, which)
    script = scripts.threshold(fmt, which)
    if not cards.predict_measure_explain("dt_edge", prediction, comparison, script=script, waiting=waiting, draw=False):
        return
    listed = dtypes_view.with_own(fmt)
    if shown == "line":
        dtypes_charts.number_lines(dtypes.number_lines(listed), dtypes_view.last_number())
    elif shown == "thresholds":
        dtypes_tables.threshold_table([dtypes.thresholds(one) for one in listed])
    else:
        dtypes_tables.finfo_table(dtypes.beside_finfo())


@frame.section(_("When does an update change nothing?"), _("Updates"), needs_torch=True)
def updates() -> None:
    roundings = {"nearest": _("to nearest"), "stochastic": _("stochastic")}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.choice(_("Weight in"), "dt_weight", dtypes.UPDATED, dtypes_view.label_of, "bf16")
        update = inputs.real_number(_("Update"), "dt_update", 1e-4, 1e-9, 1.0, step=1e-4, format="%g", width=150)
        steps = inputs.whole_number(_("Times"), "dt_steps", 1000, 1, dtypes.MAX_STEPS, width=140)
        rounding = inputs.choice(_("Rounding"), "dt_rounding", list(roundings), roundings.__getitem__)
    done = dtypes.accumulate(name, update, steps)
    stochastic = rounding == "stochastic"
    comparison = dtypes.compare_stochastic(done) if stochastic else dtypes.compare_accumulated(name, update, steps)
    script = scripts.updates(name, update, steps, stochastic)
    if not cards.predict_measure_explain(
        f"dt_{rounding}", comparison.prediction, comparison, script=script, draw=False
    ):
        return
    with st.container(horizontal=True):
        dtypes_charts.accumulation(done)
        dtypes_tables.updates(done, WIDTH_OF_A_TABLE_PX)


@frame.section(_("Do small gradients survive?"), _("Loss scaling"), needs_torch=True)
def scaling() -> None:
    most = dtypes.MAX_SCALE_LOG2
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.choice(_("Gradients in"), "dt_gradients", dtypes.SCALED, dtypes_view.label_of)
        middle = inputs.whole_number(_("Middle, 2 to the"), "dt_middle", -20, -60, 0, width=150)
        spread = inputs.whole_number(_("Spread, powers of 2"), "dt_spread", 5, 1, 10, width=150)
        scale = inputs.slider(_("Loss times 2 to the"), "dt_scale", 0, 0, most, width=280)
    comparison = dtypes.compare_zero_share(name, middle, spread, scale)
    script = scripts.loss_scaling(name, middle, spread, scale)
    if not cards.predict_measure_explain("dt_zero", comparison.prediction, comparison, script=script, draw=False):
        return
    measured = dtypes.measure_shares(name, middle, spread, scale)
    with st.container(horizontal=True):
        dtypes_charts.gradients(dtypes.histogram(name, middle, spread, scale), name)
        dtypes_charts.scales(dtypes.scale_curve(name, middle, spread), measured)


@frame.section(_("How few bits can a tensor live with?"), _("Blocks"))
def blocks() -> None:
    claims = {"error": _("error"), "bytes": _("bytes")}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.choice(_("Block format"), "dt_block", list(dtypes.BLOCK_FORMATS), default="MXFP4")
        distribution = inputs.select(_("Tensor of 65,536 values"), "dt_distribution", dtypes.DISTRIBUTIONS, _)
        claim = inputs.choice(_("Predict"), "dt_block_claim", list(claims), claims.__getitem__)
    if claim == "bytes":
        comparison = dtypes.compare_block_bytes(name)
    else:
        comparison = dtypes.compare_block_error(name, distribution)
    script = scripts.block_format(name, distribution)
    if not cards.predict_measure_explain(
        f"dt_block_{claim}", comparison.prediction, comparison, script=script, draw=False
    ):
        return
    left, right = st.columns([2, 3])
    with left:
        dtypes_charts.block_errors(dtypes.block_error(name, distribution))
    with right:
        dtypes_tables.block_table([dtypes.block_error(one, distribution) for one in dtypes.BLOCK_FORMATS], name)
    one = dtypes.BLOCK_FORMATS[name]
    message = _("Scale of a block of {block}: {rule}, kept as {scale}. An element takes {bits} bits.")
    st.caption(message.format(block=one.block, rule=one.rule, scale=one.scale.label, bits=one.element.bits))


frame.page("dtypes", _("Number formats"), [bits, formats, ranges, updates, scaling, blocks])
