"""What a change of a control costs the server, section by section: ``python -m benchmarks rerun``.

Sessions speak the websocket protocol that browsers speak; the clock runs from sending the changed value to the
server's "script finished", so the browser's own drawing is left out. Each section of each page that has a number or a
text input is opened in a session of its own, by its link; the first number, or else the first text, is changed to a
value that it has not had ("new"), then back to ones it has had ("again": charts come from the cache). Beside it, turn
by turn, the same is done to two apps, and nothing else is open:

- *its controls alone*: of the same kinds and bound alike, in a fragment and nothing else. A section should cost at most
  1.5 times that.
- *its elements, nothing computed*: as many texts, charts, grids and containers too, of as many bytes. That is what
  Streamlit asks for whatever is shown; what a section takes beyond it is its own work.

Both run as Streamlit comes, ours with what ``pages/_ui/serving.py`` changes. A ratio is the median of the rounds'.

Whole pages rerun more than a fragment, so they have no target.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from operator import truediv

from benchmarks._server import NAPKIN, SAME_CONTROLS, Row, serve, wait_until_quiet
from benchmarks._session import Number, Session, Text

ROUNDS = 25
WARMUPS = 5
TARGET = 1.5
CALIBRATION_SECONDS = 60.0
ALONE = "— its {count} controls alone"
ELEMENTS = "— its {count} elements, nothing computed"


async def find_sections(url: str) -> dict[str, Session]:
    """A session for each section of each page, by "page, section". They are closed: a server looks at all open ones."""
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
            await session.close()
            name = f"/{page}, {label}" if label else f"/{page}"
            found[f"{name} (a job is running)" if session.is_waiting else name] = session
    return found


async def reruns(*beside: Session) -> tuple[Number | Text, list[tuple[list[float], list[float]]]]:
    """Milliseconds of reruns side by side: the control of the first, and for each all of "new" and of "again"."""
    times: list[tuple[list[float], list[float]]] = []
    numbers = []
    for session in beside:
        await session.open()
        numbers.append(next(iter((session.numbers or session.texts).values())))
        times.append(([], []))
        for step in range(1, WARMUPS + 1):  # not counted: first use imports and builds what later ones share
            await session.change(numbers[-1], numbers[-1].value(step))
    for again in (False, True):
        for step in range(ROUNDS):
            for session, number, kept in zip(beside, numbers, times, strict=True):
                value = number.value(1 + step % WARMUPS if again else 1 + step + WARMUPS)
                kept[again].append(await session.change(number, value))
    for session in beside:
        await session.close()
    return numbers[0], times


def twin(url: str, kinds: list[str]) -> Session:
    """A session with the app that has elements of those kinds, and nothing else."""
    return Session(url, query="elements=" + ".".join(kinds))


async def measure(twin_url: str, napkin_url: str) -> list[Row]:
    """The medians of all sections, of their controls alone, and of their elements with nothing computed."""
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {ALONE: [], ELEMENTS: []}
    errors = 0
    for name, section in {"empty app": Session(twin_url), **await find_sections(napkin_url)}.items():
        controls = list((section.numbers or section.texts).values())
        fragment = controls[0].fragment if controls else ""
        counted = {ALONE: section.kinds(fragment), ELEMENTS: section.kinds(fragment, everything=True)}
        beside = {what: twin(twin_url, kinds) for what, kinds in counted.items()} if fragment else {}
        if not controls and name != "empty app":
            continue
        number, (own, *others) = await reruns(section, *beside.values())
        errors += section.errors
        for which, value in enumerate(("new value", "value again")):
            rows.append((f"{name}: {number.proto.label}, {value}", statistics.median(own[which]), "ms", None))
            for what, other in zip(beside, others, strict=True):
                # Round by round, as a shared machine is now quicker and now slower.
                ratios[what].append(statistics.median(map(truediv, own[which], other[which])))
                milliseconds = statistics.median(other[which])
                label = f"{what.format(count=len(counted[what]))}, {value} ({milliseconds:.1f} ms): over it"
                rows.append((label, ratios[what][-1], "×", TARGET if what == ALONE else None))
    for what, found in ratios.items():
        rows.append((f"all sections, both values: over {what.format(count='n')}, median", statistics.median(found), "×",
                     TARGET))  # fmt: skip
        rows.append((f"sections and values within {TARGET} × of it", sum(one <= TARGET for one in found), "", None))
        rows.append(("of", len(found), "", None))
    rows.append(("errors on the pages", float(errors), "", 0.0))
    return rows


def main() -> list[Row]:
    """Start both servers, wait for what they import in the background, measure."""
    with serve(SAME_CONTROLS) as twin, serve(NAPKIN) as napkin:
        wait_until_quiet(napkin.pid, least=6.0)
        return asyncio.run(measure(twin.url, napkin.url))
