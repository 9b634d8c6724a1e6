"""FLOPs & MFU: counts, rates, and a matrix multiply predicted, measured and explained (CS336 lecture 2, §5.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import flops, hardware, jobs, units
from core.lessons import flops_mfu as lessons
from core.words import _, plural
from pages._ui import cards, charts, code_view, frame, inputs, jobs_view, machine, scripts
from pages._ui.charts import flops_mfu as flops_mfu_charts

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
        name = plural("{n} × {name}, {weeks:g} week", "{n} × {name}, {weeks:g} weeks", 1 if weeks == 1 else 2).format(
            n=devices, name=peak.name, weeks=weeks
        )
        rows.append((name, prediction.value, "predicted"))
        gpt3 = flops.weeks_of_training(flops.GPT3_TRAINING_FLOPS, devices, peak.flop_per_sec, mfu)
        st.markdown(
            _("GPT-3's training would keep it busy for **{weeks} weeks**.").format(weeks=units.significant(gpt3, 4))
        )
    alt_text = "; ".join(f"{label}: {units.si(value, 'FLOP')}" for label, value, _kind in rows)
    charts.show(flops_mfu_charts.landmarks, tuple(rows), alt_text=alt_text)


@frame.section(_("How many FLOPs is a matrix multiply?"), _("Count"), needs_torch=True)
def count() -> None:
    columns = st.columns([1, 1, 1, 2], vertical_alignment="bottom")
    b, d, k = dims(columns)
    with columns[3]:
        inputs.presets(PRESETS)
    comparison = flops.compare_matmul_flops(b, d, k)
    if not cards.predict_measure_explain(
        "count",
        comparison.prediction,
        comparison,
        script=scripts.matmul_count(b, d, k),
        labels=cards.Labels(measured=_("torch's own count"), ratio=_("torch's count over 2·B·D·K")),
    ):
        return
    exact = flops.exact_matmul_flops(b, d, k)
    message = _(
        "To the last operation it is (2D − 1)·B·K = **{exact:,}**: the first product of each sum needs no add, "
        "which is {less:,} fewer ({share:.2%})."
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
    now = measurement()
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
    now = measurement(needed=True)
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
    rows = tuple((name, now.runs[name].flop_per_sec, now.peaks[name].flop_per_sec) for name in now.dtypes)
    alt_text = "; ".join(f"{name}: {units.si(rate, 'FLOP/s')}" for name, rate, _peak in rows)
    charts.show(flops_mfu_charts.rates, rows, alt_text=alt_text)
    st.caption(_("Solid: achieved. Hollow: the peak, {source}.").format(source=now.peaks[dtype].source))


@frame.section(_("Does the way of timing change the answer?"), _("Timing"))
def method() -> None:
    now = measurement(needed=True)
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
    text = _("five cold calls, mean {mean}; warm median {median}")
    alt_text = text.format(mean=run.lecture_time.text, median=run.time.text)
    charts.show(flops_mfu_charts.trial_times, run.time, run.lecture_time, alt_text=alt_text)


@dataclass(frozen=True)
class Measured:
    """The settings of a measurement, the peaks to hold it against, and the runs made with these very settings."""

    b: int
    d: int
    k: int
    dtypes: list[str]
    peaks: dict[str, flops.Peak]
    calibration: hardware.Calibration
    runs: dict[str, flops.MatmulRun]
    script: str

    def choose_dtype(self) -> str:
        """The dtype to explain; a control only where several were measured."""
        return self.dtypes[0] if len(self.dtypes) == 1 else inputs.choice(_("Explain"), "explained", self.dtypes)


def dims(columns: Sequence[DeltaGenerator]) -> list[int]:
    """B, D and K, shared by the sections of this page."""
    sizes = []
    for column, name, size in zip(columns, ("b", "d", "k"), (1024, 256, 64), strict=False):
        with column:
            sizes.append(inputs.whole_number(name.upper(), name, size, 1, flops.MAX_DIM))
    return sizes


def measurement(*, needed: bool = False) -> Measured | None:
    """The controls of a measurement and what it led to; None while the machine is calibrated, or if it is needed."""
    device = machine.choose_device()
    columns = st.columns([1, 1, 1, 1, 2])
    b, d, k = dims(columns)
    cores = hardware.available_cores()
    with columns[3]:
        threads = inputs.whole_number(_("Threads"), "threads", cores, 1, cores)
    with columns[4]:
        options = [dtype for dtype in flops.DTYPES if dtype in device.supported_dtypes]
        dtypes = inputs.several(_("Dtypes"), "dtypes", options, ["fp32"])
    calibration = machine.calibration(device, threads)
    if calibration is None:
        return None
    expected = {dtype: calibration.peak_flop_per_sec(dtype) for dtype in dtypes}

    def check() -> None:
        for dtype in dtypes:
            flops.check_matmul(b, d, k, dtype, device.id, expected[dtype])

    with st.container(horizontal=True, vertical_alignment="center"):
        runs = jobs_view.button_and_progress(
            "measured", _("Measure"), flops.measure_matmuls, b, d, k, tuple(dtypes), device.id,
            device=device.id, check=check, threads=threads, expected_flop_per_sec=expected, on_progress=jobs.report,
        )  # fmt: skip
        inputs.presets(PRESETS)
    fitting = {run.dtype: run for run in runs or () if run.settings == (b, d, k, device.id, threads)}
    missing = not set(dtypes) <= set(fitting)
    if missing and runs:
        st.caption(_("The settings have changed since the last measurement: measure again."))
    if missing and needed:
        st.info(_("Press Measure to see it."))
        return None
    peaks = {dtype: flops.choose_peak(device, dtype, calibration) for dtype in dtypes}
    script = scripts.matmul_time(b, d, k, dtypes[0], device.id, threads)
    return Measured(b, d, k, dtypes, peaks, calibration, {} if missing else fitting, script)


frame.page("flops_mfu", _("FLOPs & MFU"), [scale, count, measure, utilization, method])
