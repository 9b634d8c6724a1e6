"""What a change of a control costs the server, section by section: ``python -m benchmarks rerun``.

Sessions speak the websocket protocol that browsers speak; the clock runs from sending the changed value to the
server's "script finished", so the browser's own drawing is left out. Each control of each section of each page is
changed in a session of its own, opened by the section's link: a number or a text to values that it has not had ("new"),
then back to ones it has had ("again": charts come from the cache); a choice, a switch, a slider or a cell that can be
pressed goes round a few ("again"); before a button is pressed ("again") the next one is, which is not counted. Beside
it, turn by turn, the same is done to a control of the same kind in

- *its controls alone*: controls of the same kinds and bound alike, in a fragment and nothing else. A change should cost
  at most 1.5 times that.
- *its elements, nothing computed*, for the first control of a section: as many texts, charts, grids and containers too,
  of as many bytes. That is what Streamlit asks for whatever is shown; what a section takes beyond it is its own work.

Nothing else is open. Both run as Streamlit comes, ours with what ``pages/_ui/serving.py`` changes. A ratio is the
median of the rounds'. Where it is above 1.5, which of 700 figures some are by chance, it is measured anew in three
times as many rounds, and those count. Left out are buttons that start jobs, and what reruns a whole page.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from operator import truediv

from benchmarks._server import NAPKIN, SAME_CONTROLS, Row, serve, wait_until_quiet
from benchmarks._session import Session

ROUNDS = 9  # for each of 500 controls
MORE_ROUNDS = 27
WARMUPS = 5
TARGET = 1.5
CALIBRATION_SECONDS = 60.0
ALONE = "— its {count} controls alone"
ELEMENTS = "— its {count} elements, nothing computed"
Times = tuple[list[float], list[float]]  # "new" and "again", in milliseconds


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


async def reruns(which: str, seen: int, rounds: int, *beside: Session) -> list[Times]:
    """Milliseconds of reruns side by side: for each session all of "new" and all of "again".

    ``which`` is the control's id in the first session; the others change their first one of its kind. The first
    ``seen`` values are not counted: they have been measured, or build what later ones share.
    """
    times: list[Times] = []
    pairs = []
    for session in beside:
        await session.open()
        first = beside[0].controls[which]
        control = session.controls.get(which) or session.of_kind(first.kind)[0]
        others = [one for one in session.of_kind(control.kind) if one.fragment == control.fragment]
        pairs.append((control, others[(others.index(control) + 1) % len(others)]))
        times.append(([], []))
    steps: list[tuple[bool | None, int]]
    steps = [(None, step) for step in range(1, seen + 1)]
    steps += [(False, seen + step) for step in range(1, rounds + 1) if first.is_typed]
    steps += [(True, 1 + step % WARMUPS) for step in range(rounds)]
    for again, step in steps:
        for session, (control, other), kept in zip(beside, pairs, times, strict=True):
            if control.kind == "button":
                await session.change(other, True)
            taken = await session.change(control, control.value(step))
            if again is not None:
                kept[again].append(taken)
    for session in beside:
        await session.close()
    return times


def over(own: Times, other: Times) -> list[float]:
    """The ratios of "new" and "again", round by round, as a shared machine is now quicker and now slower."""
    return [statistics.median(map(truediv, *pair)) if pair[0] else 0.0 for pair in zip(own, other, strict=True)]


def twin(url: str, kinds: list[str]) -> Session:
    """A session with the app that has elements of those kinds, and nothing else."""
    return Session(url, query="elements=" + ".".join(kinds))


async def measure(twin_url: str, napkin_url: str) -> list[Row]:
    """The medians of all sections, of their controls alone, and of their elements with nothing computed."""
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {ALONE: [], ELEMENTS: []}
    errors = 0
    for name, section in {"empty app": Session(twin_url), **await find_sections(napkin_url)}.items():
        if name == "empty app":
            await section.open()
            await section.close()
        controls = [one for one in section.controls.values() if one.fragment]
        for place, control in enumerate(controls):
            counted = {ALONE: section.kinds(control.fragment)}
            if control.kind == "bidi_component":  # which is in the way of no other control
                counted[ALONE].append(control.kind)
            if not place:
                counted[ELEMENTS] = section.kinds(control.fragment, everything=True)
            beside = {what: twin(twin_url, kinds) for what, kinds in counted.items() if name != "empty app"}
            one = Session(section.server, section.page, section.query)
            for seen, rounds in ((WARMUPS, ROUNDS), (WARMUPS + ROUNDS, MORE_ROUNDS)):
                own, *others = await reruns(control.proto.id, seen, rounds, one, *beside.values())
                if not others or max(over(own, others[0])) <= TARGET:
                    break
            errors += one.errors
            for which, value in enumerate(("new value", "value again")):
                if not own[which]:
                    continue
                rows.append((f"{name}: {control.label}, {value}", statistics.median(own[which]), "ms", None))
                for what, other in zip(beside, others, strict=True):
                    ratios[what].append(over(own, other)[which])
                    milliseconds = statistics.median(other[which])
                    label = f"{what.format(count=len(counted[what]))}, {value} ({milliseconds:.1f} ms): over it"
                    rows.append((label, ratios[what][-1], "×", TARGET if what == ALONE else None))
    for what, found in ratios.items():
        rows.append((f"all controls, both values: over {what.format(count='n')}, median", statistics.median(found), "×",
                     TARGET))  # fmt: skip
        rows.append((f"controls and values within {TARGET} × of it", sum(one <= TARGET for one in found), "", None))
        rows.append(("of", len(found), "", None))
    rows.append(("errors on the pages", float(errors), "", 0.0))
    return rows


def main() -> list[Row]:
    """Start both servers, wait for what they import in the background, measure."""
    with serve(SAME_CONTROLS) as twin, serve(NAPKIN) as napkin:
        wait_until_quiet(napkin.pid, least=6.0)
        return asyncio.run(measure(twin.url, napkin.url))
