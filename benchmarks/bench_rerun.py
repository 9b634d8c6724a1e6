"""What a change of a control costs the server, section by section: ``python -m benchmarks rerun``.

Sessions speak the websocket protocol that browsers speak; the clock runs from sending the changed value to the
server's "script finished", so the browser's own drawing is left out. Each section of each page that has a number
input is opened in a session of its own, by its link; the first number input is changed to a value that it has not had
("new"), then back to ones it has had ("again": charts come from the cache). Beside it, in the same rounds, the same
is done to an app that has one number input in a fragment and nothing else. A section should cost at most 1.5 times
that. Whole pages rerun more than a fragment, so they have no target.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks._server import NAPKIN, ONE_CONTROL, Row, serve, wait_until_quiet
from benchmarks._session import Number, Session

ROUNDS = 40
TARGET = 1.5
CALIBRATION_SECONDS = 60.0


async def open_sections(url: str) -> dict[str, Session]:
    """A session for each section of each page, by "page, section"."""
    start = Session(url)
    await start.open()
    await start.close()
    found: dict[str, Session] = {}
    give_up = time.perf_counter() + CALIBRATION_SECONDS
    for page in start.pages:
        first = Session(url, page)
        await first.open()
        await first.close()
        for label in first.sections or [""]:
            session = Session(url, page, f"{first.sections_key}={label}" if label else "")
            await session.open()
            while session.is_waiting and time.perf_counter() < give_up:  # the machine is being calibrated, once
                await session.close()
                await asyncio.sleep(1.0)
                session = Session(url, page, session.query)
                await session.open()
            name = f"/{page}, {label}" if label else f"/{page}"
            found[f"{name} (a job is running)" if session.is_waiting else name] = session
    return found


async def change(session: Session, number: Number, step: int) -> float:
    """Milliseconds of a rerun with the value of that step."""
    return await session.change(number, number.value(step))


async def measure(empty_url: str, napkin_url: str) -> list[Row]:
    """The medians of all sections and of the empty app."""
    empty = Session(empty_url)
    await empty.open()
    sessions = {"empty app": empty, **await open_sections(napkin_url)}
    controls = {name: next(iter(one.numbers.values())) for name, one in sessions.items() if one.numbers}
    new: dict[str, list[float]] = {name: [] for name in controls}
    again: dict[str, list[float]] = {name: [] for name in controls}
    for name, number in controls.items():  # not counted: first use imports and builds what later ones share
        await change(sessions[name], number, 1)
    for step in range(2, ROUNDS + 2):
        for name, number in controls.items():
            new[name].append(await change(sessions[name], number, step))
    for step in range(2, ROUNDS + 2):
        for name, number in controls.items():
            again[name].append(await change(sessions[name], number, step))
    for session in sessions.values():
        await session.close()
    limits = [TARGET * statistics.median(times["empty app"]) for times in (new, again)]
    rows: list[Row] = []
    for name, number in controls.items():
        targets = limits if number.fragment and name != "empty app" else [None, None]
        label = f"{name}: {number.proto.label}" if name != "empty app" else f"{name}: one control in a fragment"
        rows.append((f"{label}, new value", statistics.median(new[name]), "ms", targets[0]))
        rows.append((f"{label}, value again", statistics.median(again[name]), "ms", targets[1]))
    rows.append(("errors on the pages", float(sum(one.errors for one in sessions.values())), "", 0.0))
    return rows


def main() -> list[Row]:
    """Start both servers, wait for what they import in the background, measure."""
    with serve(ONE_CONTROL) as empty, serve(NAPKIN) as napkin:
        wait_until_quiet(napkin.pid, least=6.0)
        return asyncio.run(measure(empty.url, napkin.url))
