"""A job on a page: the button that starts it, its place in the queue, its progress, its end.

The job's number is in the address. A click elsewhere, a page change or a reload finds it again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import streamlit as st

from core import jobs, units
from core.words import _
from pages._ui import inputs, prose

REFRESH_SECONDS = 0.3


def button_and_progress(
    key: str,
    label: str,
    function: Callable[..., Any],
    *args: Any,
    device: str = "cpu",
    timeout: float | None = None,
    check: Callable[[], None] | None = None,
    **kwargs: Any,
) -> Any:
    """The result of the last job started here, None while there is none.

    ``check`` runs before the button is offered; where it raises ValueError, its sentence stands beside a button that
    cannot be pressed.
    """
    refused = _refusal(check)
    job_id = inputs.hidden(key)
    now = jobs.status(job_id) if job_id else None
    if not inputs.first_here(f"{key}_start"):
        return now.result if now is not None and now.state == "done" else None
    running = now if now is not None and not now.finished else None

    def start() -> None:
        try:
            inputs.set_values(**{key: jobs.submit(function, *args, device=device, timeout=timeout, **kwargs)})
            st.session_state.pop(f"{key}_refused", None)
        except (jobs.JobError, ValueError) as error:
            st.session_state[f"{key}_refused"] = str(error)

    # The button needs a row of its own only with something beside it.
    row = nullcontext() if running is None else st.container(horizontal=True, vertical_alignment="center")
    with row:
        st.button(
            label,
            key=f"{key}_start",
            type="primary",
            on_click=start,
            disabled=running is not None or refused is not None,
        )
        if running is not None:
            st.button(_("Cancel"), key=f"{key}_cancel", on_click=jobs.cancel, args=(running.id,))
            watch(running.id)
    if refused is not None:
        st.warning(prose.plain(refused))
    _say_how_it_ended(now, st.session_state.get(f"{key}_refused"))
    return now.result if now is not None and now.state == "done" else None


def watch(job_id: str) -> None:
    """Show a job's progress until it is over, then run the page again."""

    @st.fragment(run_every=REFRESH_SECONDS)
    def progress() -> None:
        now = jobs.status(job_id)
        if now.finished:
            st.rerun()
        st.progress(*_progress(now))

    progress()


def _progress(now: jobs.Status) -> tuple[float, str]:
    if now.state == "queued":
        return 0.0, _("waiting: number {place} in the queue").format(place=now.place)
    if now.progress is None:
        return 0.0, _("running for {time}").format(time=units.seconds(now.seconds or 0.0))
    return now.progress.fraction or 0.0, now.progress.message or _("running")


def _refusal(check: Callable[[], None] | None) -> str | None:
    try:
        if check is not None:
            check()
    except ValueError as error:
        return str(error)
    return None


def _say_how_it_ended(now: jobs.Status | None, refused: str | None) -> None:
    if refused:
        st.error(prose.plain(refused))
    elif now is None or now.state in ("queued", "running", "done"):
        return
    elif now.state == "cancelled":
        st.info(_("Cancelled. Nothing was kept."))
    elif now.state == "lost":
        st.info(_("What was measured under this link is no longer here. Measure again."))
    else:
        st.error(prose.plain(str(now.error)))
