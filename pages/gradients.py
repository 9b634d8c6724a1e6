"""Gradients: who gets a .grad, whether to trust it, and what the backward pass costs (CS336 lecture 2, §5.5, §5.6)."""

import streamlit as st

from core import gradients, units
from core.words import _
from pages._ui import cards, code_view, frame, gradients_view, inputs, markup
from pages._ui.charts import gradients as gradients_charts
from pages._ui.scripts import gradients as scripts

lessons = code_view.Lessons("gradients")

LESSON_LIMIT_FLOPS = 2**26  # 3 ms: a lesson holds up the answer to each change. The lecture's 0.5 GFLOP run once.
LECTURE = {"b": 1024, "d": 256, "k": 64}
LESSON_LIMIT_BYTES = 2**26
TABLE_WIDTH_PX = 760


@frame.section(_("Which tensors get a .grad, and why?"), _("Graph"), needs_torch=True)
def graph() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        x, w, y = gradients_view.vectors()
        retain = inputs.tags(_("retain_grad() on"), "grad_retain", list(gradients.COMPUTED), [])
        x_grad = inputs.switch(_("x requires a gradient"), "grad_x_requires")
        w_grad = inputs.switch(_("w requires a gradient"), "grad_w_requires", default=True)
    explained = gradients.explain_graph(x, w, y, x_grad, w_grad, retain)
    prediction, comparison = gradients.compare_w_grad(explained, x, w, y)
    script = scripts.gradient_graph(x, w, y, x_grad, w_grad, tuple(retain))
    waiting = "" if comparison else explained.node("w").why
    if not cards.predict_measure_explain("w_grad", prediction, comparison, script=script, waiting=waiting, draw=False):
        return
    if explained.backward_error:
        st.info(_("torch refuses backward(): “{message}”").format(message=explained.backward_error))
    gradients_charts.graph(explained)
    gradients_view.graph_table(explained)
    code_view.lesson("quadratic", lessons.quadratic, x=x, w=w, target=y)


@frame.section(_("Can the gradient be trusted?"), _("Check"), needs_torch=True)
def check() -> None:
    losses = {"square": _("½e² (the lecture's)"), "quartic": "¼e⁴"}
    methods = {"forward": _("one-sided"), "central": _("central")}
    with st.container(horizontal=True, gap="small"):
        x, w, y = gradients_view.vectors()
        loss = inputs.choice(_("Loss, e = x·w − y"), "grad_loss", list(losses), losses.__getitem__)
        method = inputs.choice(_("Difference"), "grad_method", list(methods), methods.__getitem__)
        dtype = inputs.choice(_("Explain"), "grad_dtype", ["fp64", "fp32"])
    done = gradients.finite_difference_check(x, w, y, loss=loss)
    comparison = gradients.compare_best_step(done.curve(method, dtype))
    script = scripts.finite_differences(x, w, y, loss, method, dtype)
    if not cards.predict_measure_explain(
        f"best_step_{dtype}", comparison.prediction, comparison, script=script, draw=False
    ):
        return
    curves = [done.curve(method, one) for one in ("fp64", "fp32")]
    if not any(point.error for curve in curves for point in curve.points):
        st.info(_("Every error is exactly 0: on a log axis there is nothing to draw."))
        return
    gradients_charts.errors(curves)
    message = _(
        "Solid: the largest error over the weights, against autograd in fp64. Dashed: predicted truncation + rounding. "
        "{flat}Autograd in fp32 is off by {error}."
    )
    is_flat = any(curve.points[0].error == curve.points[1].error > 0 for curve in curves)
    flat = _("Flat on the left: the step is lost in rounding. ") if is_flat else ""
    markup.caption(message.format(flat=flat, error=units.significant(done.autograd_fp32_error)))


@frame.section(_("What happens without zero_grad?"), _("Accumulation"), needs_torch=True)
def accumulation() -> None:
    watched = gradients_view.watch()
    trace = watched.trace
    if watched.summed is not None:
        ran_with = (watched.x, watched.w, watched.y, watched.summed)
        prediction, comparison = gradients.compare_accumulated(trace, *ran_with)
        if not cards.predict_measure_explain("accumulated", prediction, comparison, script=watched.script, draw=False):
            return
    st.markdown(trace.answer)
    if len(trace.values("w.grad")) == len(trace.steps):
        with st.container(horizontal=True):
            gradients_charts.trace(trace)
            gradients_view.trace_table(trace)
    else:
        gradients_view.trace_table(trace)
    if watched.summed is not None:
        code_view.lesson("accumulation", lessons.accumulation)


@frame.section(_("How many FLOPs is the backward pass?"), _("Backward"), needs_torch=True)
def backward() -> None:
    b, d, k, layers, x_grad = gradients_view.network()
    comparison = gradients.compare_backward_flops(b, d, k, x_grad, layers)
    forward = gradients.forward_flops(b, d, k, layers)
    ratio = comparison.measurement.value / forward
    values = {"b": b, "d": d, "k": k}
    small = 3 * forward <= LESSON_LIMIT_FLOPS and gradients.network_bytes(b, d, k, x_grad) <= LESSON_LIMIT_BYTES
    as_chosen = layers == 1 and (values == LECTURE or small)
    if not cards.predict_measure_explain(
        "backward_flops",
        comparison.prediction,
        comparison,
        script=scripts.backward_flops(b, d, k, x_grad, layers),
        labels=gradients_view.LABELS_COUNT,
        draw=False,
        below=gradients_view.backward_in_words(forward, ratio, as_chosen=as_chosen),
    ):
        return
    with st.container(horizontal=True):
        matmuls = gradients.backward_matmuls(b, d, k, x_grad, layers)
        gradients_view.matmul_table(matmuls, TABLE_WIDTH_PX)
        gradients_charts.ratios(gradients.ratios_by_depth(d, k, x_grad), {layers: ratio})
    values = values if as_chosen else LECTURE
    code_view.lesson("two_layers", lessons.two_layers, x_requires_grad=x_grad, **values)


@frame.section(_("Does backward take twice as long?"), _("Time"), needs_torch=True)
def time() -> None:
    run, script = gradients_view.measured_network()
    if run is None:
        return
    st.markdown(
        _("Forward took **{time}** for {flops:,} FLOPs.").format(time=run.forward.text, flops=run.forward_flops)
    )
    comparison = gradients.compare_backward_time(run)
    if not cards.predict_measure_explain("backward_time", comparison.prediction, comparison, script=script):
        return
    st.markdown(gradients_view.time_in_words(run))


frame.page("gradients", _("Gradients"), [graph, check, accumulation, backward, time])
