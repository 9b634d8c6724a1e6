"""Controls that sections of FLOPs & MFU share: a multiplication, where it is measured, a roof."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import streamlit as st

from core import flops, hardware, jobs, units
from core.hardware import Calibration, Device
from core.words import _
from pages._ui import inputs, jobs_view, machine, markup
from pages._ui.scripts import flops_mfu as scripts

PRESETS = {
    _("lecture, CPU"): {"b": 1024, "d": 256, "k": 64},
    _("lecture, GPU"): {"b": 16384, "d": 32768, "k": 8192},
    "256³": {"b": 256, "d": 256, "k": 256},
    "1024³": {"b": 1024, "d": 1024, "k": 1024},
}
FIELD = 140  # pixels


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


def dims() -> list[int]:
    """B, D and K, shared by the sections of this page."""
    return [
        inputs.whole_number(name.upper(), name, size, 1, flops.MAX_DIM, width=FIELD)
        for name, size in {"b": 1024, "d": 256, "k": 64}.items()
    ]


def threads_control() -> int:
    """torch's threads, shared by the sections of this page."""
    cores = machine.cores()
    return inputs.whole_number(_("Threads"), "threads", cores, 1, cores, width=FIELD)


def measurement(*, needed: bool = False) -> Measured | None:
    """The controls of a measurement and what it led to; None while the machine is calibrated, or if it is needed."""
    with st.container(horizontal=True):
        b, d, k = dims()
        threads = threads_control()
        supported = machine.chosen_device().supported_dtypes
        dtypes = inputs.several(_("Dtypes"), "dtypes", [one for one in flops.DTYPES if one in supported], ["fp32"])
    device = machine.choose_device()
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
    if not missing and any(flops.beats_ceiling(fitting[dtype], peaks[dtype]) for dtype in dtypes):
        message = _("This ran faster than the calibrated peak, which was taken in a bad moment.")
        machine.offer_again(message, device, threads, "np_recalibrate_faster")
    return Measured(b, d, k, dtypes, peaks, calibration, {} if missing else fitting, script)


def roof_of(device: Device, dtype: str, calibration: Calibration) -> flops.Roof:
    """This machine's roof for a dtype: calibrated peak and calibrated bandwidth."""
    peak = calibration.peak_flop_per_sec(dtype)
    assert peak is not None, f"{dtype} was not calibrated"
    return flops.Roof(_("this machine, calibrated"), peak, calibration.bytes_per_sec, "calibrated")


def choose_sheets(dtype: str) -> list[flops.Roof]:
    """Accelerators to draw beside this machine, by data sheet; without a figure for the dtype one is left out."""
    names = [one.name for one in hardware.all_accelerators()]
    chosen = inputs.tags(_("Beside it, by data sheet"), "sheets", names, ["NVIDIA H100 SXM5 80GB"])
    roofs = []
    for name in chosen:
        sheet = next(one for one in hardware.all_accelerators() if one.name == name)
        peak, bandwidth = sheet.peak_flop_per_sec(dtype), sheet.memory_bytes_per_sec
        if peak is not None and bandwidth is not None:
            roofs.append(flops.Roof(sheet.name, peak, bandwidth, "promised"))
    return roofs


def size_of(operation: str, own: tuple[int, int, int], dtype: str, roof: flops.Roof) -> tuple[int, int]:
    """FLOPs and bytes of an operation at the size at which it is measured."""
    if operation not in flops.OPERATIONS:
        return flops.matmul_flops(*own), flops.matmul_bytes(*own, dtype)
    one = flops.OPERATIONS[operation]
    n = flops.roofline_n(one, roof.peak_flop_per_sec)
    return one.flops(n), one.moved_bytes(n, dtype)


def exact_count(b: int, d: int, k: int, *, too_large: bool) -> None:
    """The count to the last operation, and whether the code below runs with these sizes."""
    message = escape(
        _(
            "To the last operation it is (2D − 1)·B·K = {exact}: the first product of each sum needs no add, "
            "which is {less:,} fewer ({share}%)."
        )
    )
    exact = f"<b>{flops.exact_matmul_flops(b, d, k):,}</b>"
    text = message.format(exact=exact, less=b * k, share=units.significant(100 / (2 * d)))
    note = _("These sizes are too large to run while you type: the code below runs with the lecture's for a CPU.")
    told = f'<p class="np-legend">{escape(note)}</p>' if too_large else ""
    markup.show(f'<div style="color:var(--ink)">{text}{told}</div>')


def bound_in_words(name: str, intensity: float, roof: flops.Roof) -> None:
    """On which side of the ridge an operation lies."""
    message = escape(_("{name}: {intensity} FLOP/byte, and the ridge is at {ridge}: {bound}."))
    texts = {"intensity": units.significant(intensity), "ridge": units.significant(roof.ridge_flop_per_byte)}
    text = message.format(name=escape(name), bound=f"<b>{escape(roof.bound(intensity))}</b>", **texts)
    markup.show(f'<div style="color:var(--ink)">{text}</div>')
