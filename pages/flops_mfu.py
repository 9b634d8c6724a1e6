"""FLOPs & MFU: counts, rates, and a matrix multiply predicted, measured and explained (CS336 lecture 2, §5.4)."""

import streamlit as st

from core import flops, jobs, units
from core.words import _
from pages._ui import cards, code_view, frame, inputs, jobs_view, machine, matmul_view
from pages._ui.charts import flops_mfu as flops_mfu_charts
from pages._ui.charts import roofline as roofline_charts
from pages._ui.scripts import flops_mfu as scripts

lessons = code_view.Lessons("flops_mfu")

LESSON_LIMIT_FLOPS = 2**26  # 3 ms: a lesson holds up the answer to each change


@frame.section(_("What is the difference between FLOPs and FLOP/s?"), _("Scale"))
def scale() -> None:
    with st.container(horizontal=True):
        first = st.container()  # whose options depend on the last
        devices = inputs.whole_number(_("Devices"), "devices", 8, 1, 1_000_000, width=180)
        weeks = inputs.real_number(_("Weeks"), "weeks", 1.0, 0.01, 520.0, width=180)
        mfu = inputs.real_number("MFU", "mfu", 1.0, 0.01, 1.5, width=180)
        dtype = inputs.select(_("Dtype"), "scale_dtype", ["bf16", "fp16", "fp8", "fp32"])
    peaks = flops.promised_peaks(dtype)
    with first:
        peak = peaks[inputs.select(_("Accelerator"), "accelerator", list(peaks))]
    prediction = flops.predict_budget(devices, peak.flop_per_sec, weeks, mfu)
    script = scripts.budget(devices, peak.flop_per_sec, weeks, mfu)
    if not cards.predict_measure_explain("budget", prediction, script=script):
        return
    if peak.doubt:
        st.caption(_("This peak is disputed: {doubt}").format(doubt=peak.doubt))
    cluster = {}
    if prediction.value is not None:
        one, many = _("{n} × {name}, {weeks:g} week"), _("{n} × {name}, {weeks:g} weeks")
        name = (one if weeks == 1 else many).format(n=f"{devices:,}", name=peak.name, weeks=weeks)
        cluster[name] = prediction.value
        gpt3 = flops.weeks_of_training(flops.GPT3_TRAINING_FLOPS, devices, peak.flop_per_sec, mfu)
        message = _("GPT-3's training would keep it busy for **{weeks} weeks**.")
        st.markdown(message.format(weeks=units.significant(gpt3, 4)))
    flops_mfu_charts.landmarks({one.label: one.flops for one in flops.LANDMARKS}, cluster)


@frame.section(_("How many FLOPs is a matrix multiply?"), _("Count"), needs_torch=True)
def count() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        b, d, k = matmul_view.dims()
        inputs.presets(matmul_view.PRESETS)
    comparison = flops.compare_matmul_flops(b, d, k)
    if not cards.predict_measure_explain(
        "count",
        comparison.prediction,
        comparison,
        script=scripts.matmul_count(b, d, k),
        labels=cards.Labels(measured=_("torch's own count"), ratio=_("torch's count over 2·B·D·K")),
    ):
        return
    too_large = 2 * b * d * k > LESSON_LIMIT_FLOPS
    matmul_view.exact_count(b, d, k, too_large=too_large)
    values = matmul_view.PRESETS[_("lecture, CPU")] if too_large else {"b": b, "d": d, "k": k}
    code_view.lesson("linear_model", lessons.linear_model, **values)


@frame.section(_("How long does it take on this machine?"), _("Measure"))
def measure() -> None:
    now = matmul_view.measurement()
    if now is None:
        return
    dtype = now.choose_dtype()
    peak, run = now.peaks[dtype], now.runs.get(dtype)
    prediction = flops.predict_matmul_time(now.b, now.d, now.k, peak)
    comparison = None if run is None else flops.compare_matmul_time(run, peak, now.calibration)
    cards.predict_measure_explain(
        f"time_{dtype}", prediction, comparison, script=now.script, waiting=_("press Measure")
    )


@frame.section(_("What share of the peak was used?"), _("MFU"))
def utilization() -> None:
    now = matmul_view.measurement(needed=True)
    if now is None:
        return
    dtype = now.choose_dtype()
    comparison = flops.compare_matmul_rate(now.runs[dtype], now.peaks[dtype], now.calibration)
    if not cards.predict_measure_explain(
        f"rate_{dtype}",
        comparison.prediction,
        comparison,
        script=now.script,
        labels=cards.Labels(predicted=_("Peak"), measured=_("Achieved"), ratio="MFU", ratio_is_a_share=True),
        draw=False,
    ):
        return
    flops_mfu_charts.rates({name: now.runs[name] for name in now.dtypes}, now.peaks)
    st.caption(_("Solid: achieved. Hollow: the peak, {source}.").format(source=now.peaks[dtype].source))


@frame.section(_("Does the way of timing change the answer?"), _("Timing"))
def method() -> None:
    now = matmul_view.measurement(needed=True)
    if now is None:
        return
    dtype = now.choose_dtype()
    run = now.runs[dtype]
    comparison = flops.compare_lecture_method(run)
    labels = cards.Labels(
        _("Warm median"), _("The lecture's mean"), _("Lecture's over warm"), reference_was_measured=True
    )
    if not cards.predict_measure_explain(
        f"method_{dtype}", comparison.prediction, comparison, script=now.script, labels=labels, draw=False
    ):
        return
    flops_mfu_charts.trial_times(run.time, run.lecture_time)


@frame.section(_("From which size on is the machine busy?"), _("Sweep"))
def sweep() -> None:
    shown = {"squares": _("squares"), "skewed": _("skewed, equal work")}
    with st.container(horizontal=True):
        kind = inputs.choice(_("Shapes"), "sweep_shapes", list(shown), shown.__getitem__)
        dtypes = inputs.several(_("Dtypes"), "sweep_dtypes", list(machine.CALIBRATED_DTYPES), ["fp32"])
        threads = matmul_view.threads_control()
    device = machine.choose_device()
    calibration = machine.calibration(device, threads)
    if calibration is None:
        return
    shapes = flops.square_shapes() if kind == "squares" else flops.skewed_shapes()
    done = jobs_view.button_and_progress(
        f"swept_{kind}", _("Sweep"), flops.sweep_matmul, shapes, tuple(dtypes), device.id,
        device=device.id, threads=threads, on_progress=jobs.report,
    )  # fmt: skip
    ceiling = calibration.ceiling(dtypes[0])
    prediction = flops.predict_half_peak(ceiling)
    comparison = flops.compare_half_peak(done, ceiling) if done is not None and kind == "squares" else None
    script = scripts.half_peak(dtypes[0], device.id, threads)
    waiting = _("press Sweep")
    if done is not None and kind == "squares":
        waiting = _("no square of this sweep reached half of the peak: other work may have kept the processor busy")
    if not cards.predict_measure_explain(
        f"half_peak_{dtypes[0]}", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    if done is not None:
        roofs = {dtype: matmul_view.roof_of(device, dtype, calibration) for dtype in dtypes}
        roofline_charts.sweep(done, kind, roofs)
        for sentence in done.refused:
            st.caption(_("Left out: {sentence}").format(sentence=sentence))


@frame.section(_("Is it the arithmetic or the memory?"), _("Roofline"))
def roofline() -> None:
    with st.container(horizontal=True):
        b, d, k = matmul_view.dims()
        threads = matmul_view.threads_control()
        dtype = inputs.select(_("Dtype"), "roof_dtype", list(machine.CALIBRATED_DTYPES))
        sheets = matmul_view.choose_sheets(dtype)
    device = machine.choose_device()
    calibration = machine.calibration(device, threads)
    if calibration is None:
        return
    roof = matmul_view.roof_of(device, dtype, calibration)
    peak = roof.peak_flop_per_sec
    runs = jobs_view.button_and_progress(
        "roofed", _("Measure"), flops.measure_roofline, b, d, k, dtype, device.id, device=device.id, threads=threads,
        expected_flop_per_sec=peak, on_progress=jobs.report,
        check=lambda: flops.check_matmul(b, d, k, dtype, device.id, peak),
    )  # fmt: skip
    operations = [*flops.OPERATIONS, _("your matmul")]
    chosen = inputs.choice(_("Operation"), "operation", operations, label_visibility="collapsed")
    size = matmul_view.size_of(chosen, (b, d, k), dtype, roof)
    prediction = flops.predict_under_roof(*size, roof)
    run = next((run for run in runs or () if run.operation == chosen and (run.flops, run.moved_bytes) == size), None)
    comparison = None if run is None else flops.compare_operation(run, roof, calibration)
    script = scripts.roofline(b, d, k, dtype, device.id, threads)
    if not cards.predict_measure_explain(
        f"roof_{chosen}", prediction, comparison, script=script, waiting=_("press Measure"), draw=False
    ):
        return
    intensity = size[0] / size[1]
    matmul_view.bound_in_words(chosen, intensity, roof)
    roofline_charts.roofline([roof, *sheets], runs or (), chosen, intensity)


frame.page("flops_mfu", _("FLOPs & MFU"), [scale, count, measure, utilization, method, sweep, roofline])
