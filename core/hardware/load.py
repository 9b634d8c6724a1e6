"""How much of the processor a measurement really had."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

# The kernel counts processor time in ticks of 10 ms: below this, the machine's own figures are mostly rounding.
_SHORTEST_SECONDS = 0.2
_SHORTEST_LAP_SECONDS = 0.01


@dataclass(frozen=True)
class Snapshot:
    """Clocks in seconds since some fixed moment: wall, this process's CPU time, the whole machine's, time throttled."""

    wall: float
    own_cpu: float
    machine_cpu: float
    throttled: float = 0.0


def snapshot() -> Snapshot:
    """The clocks now. Machine time is everything but idle, stolen time (by a hypervisor's other guests) included.

    >>> before, after = snapshot(), snapshot()
    >>> after.wall >= before.wall
    True
    """
    times = psutil.cpu_times()
    busy = sum(getattr(times, field, 0.0) for field in ("user", "nice", "system", "irq", "softirq", "steal"))
    return Snapshot(time.perf_counter(), time.process_time(), busy, _throttled_seconds())


def _throttled_seconds() -> float:
    """How long this container was held back by its CPU quota so far; 0 where there is none."""
    try:
        lines = Path("/sys/fs/cgroup/cpu.stat").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("throttled_usec")) / 1e6


def busy_share(before: Snapshot, after: Snapshot, asked_cores: int) -> float | None:
    """The share of ``asked_cores`` over the window that went to others; None for a window too short to tell.

    Two bounds, and the smaller one counts. What the process did not get: wall × cores less its own CPU time (alone,
    this would blame the machine for an operation that merely waited). What others took: the machine's CPU time,
    stolen time and throttling, less its own (alone, this would count a neighbour on a core nobody asked for).

    Two cores for 1 s, of which the process had 1.5 s; the other 0.5 s went to another process:

    >>> busy_share(Snapshot(0, 0, 0), Snapshot(1, 1.5, 2.0), asked_cores=2)
    0.25
    >>> busy_share(Snapshot(0, 0, 0), Snapshot(1, 1.0, 2.0), asked_cores=1)  # the neighbour ran on a free core
    0.0
    >>> busy_share(Snapshot(0, 0, 0), Snapshot(1, 1.0, 1.0), asked_cores=2)  # it slept, nobody was in the way
    0.0
    """
    wall = after.wall - before.wall
    if wall < _SHORTEST_SECONDS:
        return None
    asked = asked_cores * wall
    own = after.own_cpu - before.own_cpu
    not_received = asked - own
    taken = after.machine_cpu - before.machine_cpu - own + after.throttled - before.throttled
    return max(0.0, min(not_received, taken, asked)) / asked


class LoadMeter:
    """Watches a window of work, lap by lap.

    How many cores the work asks for is taken from its best lap, rounded up, so that an operation which uses one
    core of two is not called short of processor time. What it cannot see: neighbours that share the memory bus, the
    caches or the clock budget.

    >>> meter = LoadMeter()
    >>> meter.lap()
    >>> meter.asked_cores
    1
    """

    def __init__(self, read: Callable[[], Snapshot] = snapshot) -> None:
        self._read = read
        self._first = read()
        self._lap_wall, self._lap_cpu = self._first.wall, self._first.own_cpu
        self._best_ratio = 0.0

    def lap(self) -> None:
        """Ends a lap; laps under 10 ms are joined with the next. Costs about a microsecond."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.add_lap(wall, cpu)

    def add_lap(self, wall: float, own_cpu: float) -> None:
        """The same, with the clocks given."""
        if wall - self._lap_wall < _SHORTEST_LAP_SECONDS:
            return
        self._best_ratio = max(self._best_ratio, (own_cpu - self._lap_cpu) / (wall - self._lap_wall))
        self._lap_wall, self._lap_cpu = wall, own_cpu

    @property
    def asked_cores(self) -> int:
        """How many cores the work used at its best: at least 1, at most all."""
        return max(1, min(math.ceil(self._best_ratio - 0.1), os.cpu_count() or 1))

    def busy_fraction(self) -> float | None:
        """The share of the asked processor time that went to others since the start; see ``busy_share``."""
        return busy_share(self._first, self._read(), self.asked_cores)
