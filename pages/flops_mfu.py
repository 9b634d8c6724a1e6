"""FLOPs & MFU: counts, rates, and a matrix multiply predicted, measured and explained (CS336 lecture 2, §5.4)."""

import streamlit as st

from core import flops, hardware, units
from core.flops import MatmulRun
from core.lessons import flops_mfu as lessons
from core.words import _
from pages._ui import cards, charts, code_view, frame, inputs, jobs_view, machine, scripts

PRESETS = {
    _("lecture, CPU"): {"b": 1024, "d": 256, "k": 64},
    _("lecture, GPU"): {"b": 16384, "d": 32768, "k": 8192},
    "256³": {"b": 256, "d": 256, "k": 256},
    "1024³": {"b": 1024, "d": 1024, "k": 1024},
}
LESSON_LIMIT_FLOPS = 10**9


@frame.section(_("What is the difference between FLOPs and FLOP/s?"), _("Scale"))
def scale() -> None:
    columns = st.columns([2, 1, 1, 1, 1])
    with columns[4]:
        dtype = inputs.select(_("Dtype"), "scale_dtype", ["bf16", "fp16", "fp8", "fp32"])
    peaks = flops.promised_peaks(dtype)
    with columns[0]:
        peak = peaks[inputs.select(_("Accelerator"), "accelerator", list(peaks))]
    with columns[1]:
        devices = inputs.whole_number(_("Devices"), "devices", 8, 1, 1_000_000)
    with columns[2]:
        weeks = inputs.real_number(_("Weeks"), "weeks", 1.0, 0.01, 520.0)
    with columns[3]:
        mfu = inputs.real_number("MFU", "mfu", 1.0, 0.01, 1.5)
    prediction = flops.predict_budget(devices, peak.flop_per_sec, weeks, mfu)
    script = scripts.budget(devices, peak.flop_per_sec, weeks, mfu)
    if not cards.predict_measure_explain("budget", prediction, script=script):
        return
    if peak.doubt:
        st.caption(_("This peak is disputed: {doubt}").format(doubt=peak.doubt))
    rows = [(landmark.label, landmark.flops, "known") for landmark in flops.LANDMARKS]
    if prediction.value is not None:
        name = _("{devices:,} × {name}, {weeks:g} weeks").format(devices=devices, name=peak.name, weeks=weeks)
        rows.append((name, prediction.value, "predicted"))
        gpt3 = flops.weeks_of_training(flops.GPT3_TRAINING_FLOPS, devices, peak.flop_per_sec, mfu)
        st.markdown(
            _("GPT-3's training would keep it busy for **{weeks} weeks**.").format(weeks=units.significant(gpt3, 4))
        )
    alt_text = "; ".join(f"{label}: {units.si(value, 'FLOP')}" for label, value, _kind in rows)
    charts.show(charts.landmarks, tuple(rows), alt_text=alt_text)


@frame.section(_("How many FLOPs is a matrix multiply?"), _("Count"))
def count() -> None:
    b, d, k = matmul_dims()
    comparison = flops.compare_matmul_flops(b, d, k)
    if not cards.predict_measure_explain(
        "count",
        comparison.prediction,
        comparison,
        script=scripts.matmul_count(b, d, k),
        ratio_label=_("torch's count over 2·B·D·K"),
    ):
        return
    exact = flops.exact_matmul_flops(b, d, k)
    message = _(
        "To the last operation it is (2D − 1)·B·K = **{exact:,}**: the first product of each sum needs no add, which is {less:,} fewer ({share:.2%})."
    )
    st.markdown(message.format(exact=exact, less=b * k, share=b * k / (2 * b * d * k)))
    values = {"b": b, "d": d, "k": k}
    if 2 * b * d * k > LESSON_LIMIT_FLOPS:
        values = PRESETS[_("lecture, CPU")]
        st.caption(
            _("These sizes are too large to run while you type: the code below runs with the lecture's for a CPU.")
        )
    code_view.lesson("linear_model", lessons.linear_model, **values)


@frame.section(_("How long does it take on this machine?"), _("Measure"))
def measure() -> None:
    chosen = measurement()
    if chosen is None:
        return
    (b, d, k), dtypes, peaks, calibration, runs, script = chosen
    dtype = dtypes[0] if len(dtypes) == 1 else inputs.choice(_("Explain"), "explained", dtypes)
    run = runs.get(dtype)
    comparison = None if run is None else flops.compare_matmul_time(run, peaks[dtype], calibration)
    prediction = flops.predict_matmul_time(b, d, k, peaks[dtype])
    waiting = _("press Measure")
    cards.predict_measure_explain(f"time_{dtype}", prediction, comparison, script=script, waiting=waiting)


@frame.section(_("What share of the peak was used?"), _("MFU"))
def utilization() -> None:
    chosen = measurement()
    if chosen is None:
        return
    _dims, dtypes, peaks, calibration, runs, script = chosen
    if not runs:
        st.info(_("Press Measure to see it."))
        return
    dtype = dtypes[0] if len(dtypes) == 1 else inputs.choice(_("Explain"), "explained", dtypes)
    comparison = flops.compare_matmul_rate(runs[dtype], peaks[dtype], calibration)
    if not cards.predict_measure_explain(
        f"rate_{dtype}", comparison.prediction, comparison, script=script, ratio_label="MFU", draw=False
    ):
        return
    rows = tuple((name, run.flop_per_sec, peaks[name].flop_per_sec) for name, run in runs.items())
    alt_text = "; ".join(f"{name}: {units.si(rate, 'FLOP/s')}" for name, rate, _peak in rows)
    charts.show(charts.rates, rows, alt_text=alt_text)
    st.caption(_("Solid: achieved. Hollow: the peak. {source}").format(source=peaks[dtype].source))


@frame.section(_("Does the way of timing change the answer?"), _("Timing"))
def method() -> None:
    chosen = measurement()
    if chosen is None:
        return
    _dims, dtypes, _peaks, _calibration, runs, script = chosen
    if not runs:
        st.info(_("Press Measure to see it."))
        return
    dtype = dtypes[0] if len(dtypes) == 1 else inputs.choice(_("Explain"), "explained", dtypes)
    comparison = flops.compare_lecture_method(runs[dtype])
    if not cards.predict_measure_explain(
        f"method_{dtype}",
        comparison.prediction,
        comparison,
        script=script,
        ratio_label=_("Lecture's over warm"),
        draw=False,
    ):
        return
    run = runs[dtype]
    text = _("five cold calls, mean {mean}; warm median {median}").format(
        mean=run.lecture_time.text, median=run.time.text
    )
    charts.show(charts.trial_times, run.time, run.lecture_time, alt_text=text)


def matmul_dims() -> tuple[int, int, int]:
    """B, D and K, shared by the sections of this page, with the lecture's sizes at hand."""
    columns = st.columns([1, 1, 1, 2])
    sizes = []
    for column, name, size in zip(columns, ("b", "d", "k"), (1024, 256, 64), strict=False):
        with column:
            sizes.append(inputs.whole_number(name.upper(), name, size, 1, flops.MAX_DIM))
    with columns[3]:
        inputs.presets(PRESETS)
    return sizes[0], sizes[1], sizes[2]


def measurement():  # type: ignore[no-untyped-def]
    """The controls of a measurement and what they led to; None while the machine is being calibrated."""
    b, d, k = matmul_dims()
    device = machine.choose_device()
    options = [dtype for dtype in flops.DTYPES if dtype in device.supported_dtypes]
    columns = st.columns([2, 1, 2])
    with columns[0]:
        dtypes = inputs.several(_("Dtypes"), "dtypes", options, ["fp32"])
    with columns[1]:
        cores = hardware.available_cores()
        threads = inputs.whole_number(_("Threads"), "threads", cores, 1, cores)
    calibration = machine.calibration(device, threads)
    if calibration is None:
        return None
    rates = {dtype: calibration.peak_flop_per_sec(dtype) for dtype in dtypes}
    rates = {dtype: rate for dtype, rate in rates.items() if rate}

    def check() -> None:
        for dtype in dtypes:
            flops.check_matmul(b, d, k, dtype, device.id, rates.get(dtype))

    with columns[2]:
        runs = jobs_view.button_and_progress(
            "measured", _("Measure"), flops.measure_matmuls, b, d, k, tuple(dtypes), device.id,
            device=device.id, threads=threads, expected_flop_per_sec=rates, check=check,
        )  # fmt: skip
    peaks = {dtype: flops.choose_peak(device, dtype, calibration) for dtype in dtypes}
    fitting = fitting_runs(runs, b, d, k, device.id, threads)
    if runs and not set(dtypes) <= set(fitting):
        fitting = {}
        st.caption(_("The settings have changed since the last measurement: measure again."))
    return (b, d, k), dtypes, peaks, calibration, fitting, scripts.matmul_time(b, d, k, dtypes[0], device.id, threads)


def fitting_runs(
    runs: tuple[MatmulRun, ...] | None, b: int, d: int, k: int, device: str, threads: int
) -> dict[str, MatmulRun]:
    """The runs that were made with these very settings, by dtype."""
    return {
        run.dtype: run
        for run in runs or ()
        if (run.b, run.d, run.k, run.device, run.time.conditions.threads) == (b, d, k, device, threads)
    }


frame.page("flops_mfu", _("FLOPs & MFU"), [scale, count, measure, utilization, method])
