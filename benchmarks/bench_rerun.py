"""What a change of a control costs the server, section by section: ``python -m benchmarks rerun``.

Sessions speak the websocket protocol that browsers speak; the clock runs from sending the changed value to the
server's "script finished", so the browser's own drawing is left out. Each section of each page that has a number or a
text input is opened in a session of its own, by its link; the first number, or else the first text, is changed to a
value that it has not had ("new"), then back to ones it has had ("again": charts come from the cache). Beside it, in
the same rounds, the same is done to two apps:

- *its controls alone*: of the same kinds and bound alike, in a fragment and nothing else. A section should cost at most
  1.5 times that.
- *its elements, nothing computed*: as many texts, charts, grids and containers too, of as many bytes. That is what
  Streamlit asks for whatever is shown; what a section takes beyond it is its own work.

Both run as Streamlit comes: it hands on what a script has made every 5 ms, ours every millisecond.

Whole pages rerun more than a fragment, so they have no target.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks._server import NAPKIN, SAME_CONTROLS, Row, serve, wait_until_quiet
from benchmarks._session import Number, Session, Text

ROUNDS = 15
TARGET = 1.5
CALIBRATION_SECONDS = 60.0
ALONE = "— its {count} controls alone"
ELEMENTS = "— its {count} elements, nothing computed"


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


async def change(session: Session, number: Number | Text, step: int) -> float:
    """Milliseconds of a rerun with the value of that step."""
    return await session.change(number, number.value(step))


async def open_twin(url: str, kinds: list[str]) -> Session:
    """A session with the app that has elements of those kinds, and nothing else."""
    twin = Session(url, query="elements=" + ".".join(kinds))
    await twin.open()
    return twin


async def measure(twin_url: str, napkin_url: str) -> list[Row]:
    """The medians of all sections, of their controls alone, and of their elements with nothing computed."""
    one = Session(twin_url)
    await one.open()
    sessions = {"empty app": one, **await open_sections(napkin_url)}
    changed = {name: one.numbers or one.texts for name, one in sessions.items()}
    numbers = {name: next(iter(controls.values())) for name, controls in changed.items() if controls}
    pages = [name for name, number in numbers.items() if number.fragment and name != "empty app"]
    for name in pages:
        number, session = numbers[name], sessions[name]
        for what, kinds in (
            (ALONE, session.kinds(number.fragment)),
            (ELEMENTS, session.kinds(number.fragment, everything=True)),
        ):
            twin = sessions[name + what] = await open_twin(twin_url, kinds)
            same = twin.texts if isinstance(number, Text) else twin.numbers
            numbers[name + what] = next(iter(same.values()))
    new: dict[str, list[float]] = {name: [] for name in numbers}
    again: dict[str, list[float]] = {name: [] for name in numbers}
    for name, number in numbers.items():  # not counted: first use imports and builds what later ones share
        await change(sessions[name], number, 1)
    for times in (new, again):
        for step in range(2, ROUNDS + 2):
            for name, number in numbers.items():
                times[name].append(await change(sessions[name], number, step))
    for session in sessions.values():
        await session.close()
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {ALONE: [], ELEMENTS: []}
    for name, number in numbers.items():
        if name.endswith((ALONE, ELEMENTS)):
            continue
        for times, value in ((new, "new value"), (again, "value again")):
            median = statistics.median(times[name])
            rows.append((f"{name}: {number.proto.label}, {value}", median, "ms", None))
            if name not in pages:
                continue
            for what in (ALONE, ELEMENTS):
                base = statistics.median(times[name + what])
                ratios[what].append(median / base)
                count = len(sessions[name].kinds(number.fragment, everything=what == ELEMENTS))
                rows.append((f"{what.format(count=count)}, {value} ({base:.1f} ms): over it", median / base, "×",
                             TARGET if what == ALONE else None))  # fmt: skip
    for what, found in ratios.items():
        rows.append((f"all sections, both values: over {what.format(count='n')}, median", statistics.median(found), "×",
                     TARGET))  # fmt: skip
        rows.append((f"sections and values within {TARGET} × of it", sum(one <= TARGET for one in found), "", None))
        rows.append(("of", len(found), "", None))
    rows.append(("errors on the pages", float(sum(one.errors for one in sessions.values())), "", 0.0))
    return rows


def main() -> list[Row]:
    """Start both servers, wait for what they import in the background, measure."""
    with serve(SAME_CONTROLS) as twin, serve(NAPKIN) as napkin:
        wait_until_quiet(napkin.pid, least=6.0)
        return asyncio.run(measure(twin.url, napkin.url))
