"""A class of fifty: ``python -m benchmarks load``.

Fifty sessions open a page over the websocket protocol that browsers speak; then each changes a random number input of
the page once a second, to a value that it has not had, for twenty seconds. A rerun's time runs from the moment when
the change was due, not from when it could be sent, to the server's "script finished": a slow server cannot hide its
queue. The sessions run in this process, on the same cores as the server. Each page gets a new server.

CPU is the server process's, without the job agent's; memory is what its resident size grows by while the sessions
open. A failure is a session that broke off; an error is an exception shown on a page.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time

from benchmarks._server import NAPKIN, Row, Server, cpu_seconds, resident_mb, serve, wait_until_quiet
from benchmarks._session import Session

PAGES = ("", "flops_mfu")
SESSIONS = 50
PERIOD_SECONDS = 1.0
SECONDS = 20.0
OPEN_AT_ONCE = 10
TARGET_P95_MS = 200.0


class Class:
    """The sessions of one page and what was measured of them."""

    def __init__(self, server: Server, page: str) -> None:
        self.pid = server.pid
        self.sessions = [Session(server.url, page) for _ in range(SESSIONS)]
        self.waits_ms: list[float] = []
        self.failures = 0

    async def open(self) -> list[float]:
        """Open all sessions, some at a time; milliseconds that each one's first run took."""
        opened: list[float] = []
        for first in range(0, SESSIONS, OPEN_AT_ONCE):
            opened += await asyncio.gather(*(one.open() for one in self.sessions[first : first + OPEN_AT_ONCE]))
        return opened

    async def drive(self, session: Session, seed: int, start: float) -> None:
        """Change a control of a session once a period until the time is over."""
        choose = random.Random(seed)
        due, step = start + PERIOD_SECONDS * choose.random(), 0
        while due < start + SECONDS:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() > start + SECONDS:
                return  # the server is behind, and the time is over
            step += 1
            number = choose.choice(session.of_kind("number_input"))
            try:
                await session.change(number, number.value(SESSIONS * step + seed))
            except Exception as failure:  # a session that breaks off is a result
                self.failures += 1
                print(f"a session broke off: {failure!r}", file=sys.stderr)
                return
            self.waits_ms.append(1e3 * (time.perf_counter() - due))
            due += PERIOD_SECONDS

    async def run(self) -> tuple[float, float]:
        """Drive all sessions; the seconds it took and the CPU seconds of the server meanwhile."""
        before, start = cpu_seconds(self.pid) or float("nan"), time.perf_counter()
        await asyncio.gather(*(self.drive(one, seed, start) for seed, one in enumerate(self.sessions)))
        return time.perf_counter() - start, (cpu_seconds(self.pid) or float("nan")) - before

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self.sessions), return_exceptions=True)


async def measure(server: Server, page: str) -> list[Row]:
    """The figures of one page."""
    first = Session(server.url, page)  # not counted: the first visitor of a page imports what others share
    await first.open()
    await first.close()
    visitors = Class(server, page)
    empty_mb = resident_mb(server.pid) or float("nan")
    opened = await visitors.open()
    await asyncio.sleep(1.0)
    full_mb = resident_mb(server.pid) or float("nan")
    seconds, cpu = await visitors.run()
    await visitors.close()
    waits, name = visitors.waits_ms, f"/{page}"
    return [
        (f"{name}: {SESSIONS} sessions open, p50 of the first run", statistics.median(opened), "ms", None),
        (f"{name}: rerun, p50", statistics.median(waits), "ms", None),
        (f"{name}: rerun, p95", statistics.quantiles(waits, n=20)[-1], "ms", TARGET_P95_MS),
        (f"{name}: rerun, longest", max(waits), "ms", None),
        (f"{name}: reruns, {SESSIONS / PERIOD_SECONDS:.0f} a second asked for", len(waits) / seconds, "/s", None),
        (f"{name}: CPU of a rerun", 1e3 * cpu / len(waits), "ms", None),
        (f"{name}: memory of a session", (full_mb - empty_mb) / SESSIONS, "MB", None),
        (f"{name}: memory of the server at the end", resident_mb(server.pid) or float("nan"), "MB", None),
        (f"{name}: sessions that broke off", float(visitors.failures), "", 0.0),
        (f"{name}: errors on the page", float(sum(one.errors for one in visitors.sessions)), "", 0.0),
    ]


def main() -> list[Row]:
    """A new server for each page."""
    rows: list[Row] = []
    for page in PAGES:
        with serve(NAPKIN) as server:
            wait_until_quiet(server.pid, least=6.0)
            rows += asyncio.run(measure(server, page))
    return rows
