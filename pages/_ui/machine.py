"""This machine on a page: which device to use, and its calibrated ceilings, measured once for all visitors."""

from __future__ import annotations

import functools
import threading

import streamlit as st

from core import hardware, jobs
from core.hardware import Calibration, Device
from core.hardware.calibration import BUSY
from core.words import _
from pages._ui import inputs, jobs_view, markup

CALIBRATED_DTYPES = ("fp32", "bf16", "fp16", "fp64")
_known: dict[tuple[str, int], Calibration] = {}
_jobs: dict[tuple[str, int], str] = {}
_lock = threading.Lock()


@functools.cache
def devices() -> tuple[Device, ...]:
    """The devices of this machine; asked of the system once, without touching CUDA in this process."""
    return hardware.devices()


@functools.cache
def cores() -> int:
    """The cores available to this process; reading them anew takes 2 ms."""
    return hardware.available_cores()


def choose_device() -> Device:
    """The device to measure on; no control where there is only the CPU."""
    by_id = {device.id: device for device in devices()}
    if len(by_id) == 1:
        return devices()[0]
    return by_id[inputs.select(_("Device"), "device", list(by_id), lambda one: f"{one}: {by_id[one].name}")]


def chosen_device() -> Device:
    """The device that is chosen, without showing the control again."""
    chosen = st.session_state.get("device")
    return next((device for device in devices() if device.id == chosen), devices()[0])


def calibration(device: Device, threads: int) -> Calibration | None:
    """The ceilings of a device with that many threads: measured in a job the first time that anybody needs them.

    While that job runs, its progress is shown and None returned. It is one job for all visitors.
    """
    key = (device.id, threads)
    with _lock:
        known, job_id = _known.get(key), _jobs.get(key)
    if known is not None:
        _describe(known, device, threads)
        return known
    if job_id is None:
        job_id = _submit(device, threads)
    now = jobs.status(job_id)
    first = inputs.first_here("np_calibrating")
    if now.state == "done":
        with _lock:
            _known[key] = now.result
        return calibration(device, threads)
    if not first:
        return None
    if now.finished:
        st.warning(
            _("The calibration of {name} ended early: {error}").format(name=device.name, error=now.error or now.state)
        )
        st.button(_("Calibrate again"), key="np_recalibrate", on_click=forget, args=(device, threads))
        return None
    if device.accelerator is None:
        st.caption(_("No data sheet names this processor, so its ceiling is being calibrated, once, in a few seconds."))
    else:
        st.caption(_("What this device reaches of its data sheet is being measured, once, in a few seconds."))
    jobs_view.watch(job_id)
    return None


def forget(device: Device, threads: int) -> None:
    """Calibrate anew when the ceilings are needed next."""
    with _lock:
        _known.pop((device.id, threads), None)
        _jobs.pop((device.id, threads), None)


def _submit(device: Device, threads: int) -> str:
    dtypes = tuple(dtype for dtype in CALIBRATED_DTYPES if dtype in device.supported_dtypes)
    job_id = jobs.submit(
        hardware.calibrate, device.id, dtypes, on_progress=jobs.report, threads=threads,
        device=device.id, key=f"calibrate {device.id} {threads}",
    )  # fmt: skip
    with _lock:
        _jobs[device.id, threads] = job_id
    return job_id


def offer_again(message: str, device: Device, threads: int, key: str = "np_recalibrate") -> None:
    """Say what is wrong with the ceilings, and offer to take them again; two things may be, each with its ``key``."""
    if not inputs.first_here(key):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        markup.show(f'<p class="np-warning">{message}</p>', width="content")
        st.button(_("Calibrate again"), key=key, on_click=forget, args=(device, threads), type="tertiary")


def _describe(known: Calibration, device: Device, threads: int) -> None:
    busy = known.busy_fraction
    if busy is not None and busy >= BUSY:
        message = _(
            "The ceilings were calibrated while {share:.0%} of the processor went to other work: they may be too low."
        )
        offer_again(message.format(share=busy), device, threads)
