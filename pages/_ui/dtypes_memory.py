"""Controls, jobs and tables that the sections of Tensors in memory share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from core import dtypes, jobs, units
from core.claims import Comparison, Prediction
from core.hardware import Device
from core.words import _
from pages._ui import cards, cells, inputs, jobs_view, machine, markup, tables

SHAPES = {
    _("lecture, 4 × 8"): {"tm_shape": "4, 8", "tm_dtype": "fp32"},
    _("GPT-3 matrix"): {"tm_shape": "49152, 12288", "tm_dtype": "fp32"},
    _("the same in bf16"): {"tm_shape": "49152, 12288", "tm_dtype": "bf16"},
}
CLAIM_LABELS = cards.Labels(
    predicted=_("The shape claims"), measured=_("The storage takes"), ratio=_("Storage over claim")
)
CORNER_HUE = 4


def label_of(name: str) -> str:
    """A dtype's name with its width."""
    return dtypes.FORMATS[name].label


# Making


def corner(made: dtypes.NewTensor) -> None:
    """The first entries of a new tensor as cells, and what all of them are like."""
    rows = _cells(tuple(tuple(map(repr, line)) for line in made.corner))
    shown = f"{len(made.corner)} × {len(made.corner[0])}"
    title = _("{code}, the first {shown} of {rows:,} × {columns:,}")
    text = title.format(code=made.code, shown=shown, rows=made.shape[0], columns=made.shape[1])
    cells.show("tm_corner", [cells.Grid(text, rows)], text)
    figures = ((_("mean"), made.mean), (_("standard deviation"), made.deviation), (_("smallest"), made.low),
               (_("largest"), made.high))  # fmt: skip
    st.caption(" · ".join(f"{name} {units.significant(value)}" for name, value in figures))


@functools.lru_cache(maxsize=64)
def _cells(corner: tuple[tuple[str, ...], ...]) -> list[list[cells.Cell]]:
    """A cell for each entry; entries come as text, since -0.0 and 0.0 would be found as one."""
    return [
        [cells.Cell(_entry(float(one)), f"{row},{column}", hue=CORNER_HUE, note=one) for column, one in enumerate(line)]
        for row, line in enumerate(corner)
    ]


def _entry(value: float) -> str:
    if value != value or (not 1e-4 <= abs(value) < 1e6 and value):
        return f"{value:.1e}" if value == value else _("other")
    return units.significant(value)


def what_empty_held(made: dtypes.NewTensor) -> str:
    """What was found in memory that nobody initialised."""
    if not made.left_behind:
        return _("not what was freed just before: zeros, or other data of this program, which is not shown")
    message = _("{share:.1%} of the entries are π: left behind by a tensor that was freed just before")
    return message.format(share=made.left_behind)


# Bytes


def units_table(count: int) -> None:
    """The bytes in each unit, and which of them is 10⁹ and which 2³⁰."""
    sizes = dtypes.in_every_unit(count)
    means = {"B": _("bytes"), "MB": "10⁶ B", "MiB": "2²⁰ B", "GB": "10⁹ B", "GiB": "2³⁰ B"}
    body = "".join(
        f'<div><span class="np-quiet">{escape(means[unit])}</span><br><b>{escape(text)}</b> {unit}</div>'
        for unit, text in sizes.items()
    )
    lecture = _("The lecture calls this 2.3 GB: it is {gib} GiB or {gb} GB.").format(gib=sizes["GiB"], gb=sizes["GB"])
    told = f'<p class="np-legend">{escape(lecture)}</p>' if count == dtypes.tensor_bytes((49152, 12288)) else ""
    markup.show(f'<div style="display:flex;flex-wrap:wrap;gap:.4rem 2.2rem;color:var(--ink)">{body}</div>{told}')


def claim_table(claims: Sequence[dtypes.Claim], chosen: str) -> None:
    """What each tensor's shape claims, what its storage takes, and why."""
    rows = [
        [(one.code, ""), (str(one.shape), ""), (f"{one.claimed_bytes:,} B", ""), (f"{one.storage_bytes:,} B", ""),
         (one.why, "")]
        for one in claims
    ]  # fmt: skip
    head = (_("tensor"), _("shape"), _("claims"), _("storage"), "")
    marked = [one.code for one in claims].index(chosen)
    tables.show(head, rows, _("claims and storages"), marked=marked, dense=True)


# Devices


def choose_device() -> Device:
    """The device, shared by the sections of this page; no control where there is only the CPU."""
    by_id = {one.id: one for one in machine.devices()}
    if len(by_id) == 1:
        return machine.devices()[0]
    return by_id[inputs.select(_("Device"), "tm_device", list(by_id), lambda one: f"{one}: {by_id[one].name}")]


def memory_taken(shape: tuple[int, ...], dtype: str, count: int, device: Device) -> dtypes.DeviceMemory | None:
    """The tensors made: on the CPU at once, on a GPU in a job."""
    if device.id == "cpu":
        return dtypes.measure_device_memory(shape, dtype, count)
    done: dtypes.DeviceMemory | None = jobs_view.button_and_progress(
        "tm_taken", _("Measure"), dtypes.measure_device_memory, shape, dtype, count, device.id, device=device.id,
        check=lambda: dtypes.check_device_memory(shape, dtype, count),
    )  # fmt: skip
    if done is not None and done.settings == (shape, dtype, count, device.id):
        return done
    st.info(_("Press Measure: the tensors are made on {name}, its allocator asked before and after.").format(
        name=device.name
    ))  # fmt: skip
    return None


def on_a_gpu(done: dtypes.DeviceMemory) -> None:
    """What the storages add up to, and what a GPU's allocator makes of it."""
    rounded = dtypes.allocated_bytes(done.shape, done.dtype, done.count)
    exact = done.count * dtypes.tensor_bytes(done.shape, done.dtype)
    message = escape(_("Storages: {exact}. On a GPU, in blocks of 512 B: {rounded}."))
    text = message.format(exact=f"<b>{exact:,} B</b>", rounded=f"<b>{rounded:,} B</b>")
    markup.show(f'<p style="color:var(--ink)">{text}</p>')


@dataclass(frozen=True)
class Moved:
    """A move: predicted, and compared where it was measured; ``bytes_per_sec`` is the CPU's calibrated bandwidth."""

    prediction: Prediction
    comparison: Comparison | None
    bytes_per_sec: float | None


def moved(count_bytes: int, device: Device) -> Moved | None:
    """The calibration, the button, and the run made with these very settings; None while nothing can be predicted."""
    rate = None
    if device.id == "cpu":
        calibration = machine.calibration(device, machine.cores())
        if calibration is None:
            return None
        rate = calibration.bytes_per_sec
    run: dtypes.MoveRun | None = jobs_view.button_and_progress(
        "tm_moved", _("Measure"), dtypes.measure_move, count_bytes, device.id, device=device.id,
        threads=machine.cores(), on_progress=jobs.report,
    )  # fmt: skip
    if run is not None and run.settings == (count_bytes, device.id):
        comparison = dtypes.compare_move(run, rate)
        return Moved(comparison.prediction, comparison, rate)
    if run is not None:
        st.caption(_("The settings have changed since the last measurement: measure again."))
    if rate is None:
        st.info(_("Press Measure: the bandwidth to {name} is measured with a large copy.").format(name=device.name))
        return None
    return Moved(dtypes.predict_move(count_bytes, rate, device.id), None, rate)
