"""How much of the processor time that a measurement asked for went to others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

# The system counts the machine's time in ticks of 10 ms: over less than this they are mostly rounding.
_SHORTEST_SECONDS = 0.2


@dataclass(frozen=True)
class Snapshot:
    """Clocks in seconds, each since some fixed moment.

    ``own_cpu``: CPU time of this process. ``waited``: how long its threads stood ready to run while the core was
    another's (Linux alone counts this; None elsewhere). ``machine_cpu``: CPU time of all processes. ``stolen``: what
    the hypervisor gave to other machines.
    """

    wall: float
    own_cpu: float
    waited: float | None
    machine_cpu: float
    stolen: float = 0.0


def snapshot() -> Snapshot:
    """The clocks now. Costs about 0.3 ms, so take it before and after a window, not inside.

    >>> before, after = snapshot(), snapshot()
    >>> after.wall > before.wall
    True
    """
    times = psutil.cpu_times()
    busy = sum(getattr(times, field, 0.0) for field in ("user", "nice", "system", "irq", "softirq"))
    return Snapshot(time.perf_counter(), time.process_time(), _waited(), busy, getattr(times, "steal", 0.0))


def busy_fraction(before: Snapshot, after: Snapshot) -> float | None:
    """The share of the asked processor time that went to others between two snapshots; None where it cannot be told.

    On Linux, asked is what the threads got and what they waited for, at least one core for the whole window: threads
    that sleep or wait for each other ask for nothing, and a neighbour on a free core takes nothing. Elsewhere it is
    the share of the whole machine that other processes used, which also counts a neighbour on a free core. Neither
    sees neighbours that share the memory bus, the caches or the clock budget. Source for Linux:
    Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat".

    Two threads ran for 1.5 s together, and waited for 0.5 s while another process had their core:

    >>> busy_fraction(Snapshot(0, 0, 0, 0), Snapshot(1, 1.5, 0.5, 2.0))
    0.25
    >>> busy_fraction(Snapshot(0, 0, 0, 0), Snapshot(1, 1.0, 0.0, 2.0))  # one thread; the neighbour had a free core
    0.0
    """
    wall = after.wall - before.wall
    own = after.own_cpu - before.own_cpu
    machine = after.machine_cpu - before.machine_cpu
    if wall <= 0:
        return None
    # The hypervisor does not say whom it stole from: a process loses by its share of the machine's work.
    stolen = (after.stolen - before.stolen) * min(1.0, own / machine) if machine > 0 else 0.0
    if before.waited is not None and after.waited is not None:
        lost = max(0.0, after.waited - before.waited) + stolen
        return min(1.0, lost / max(own + lost, wall))
    if wall < _SHORTEST_SECONDS:
        return None
    others = max(0.0, machine - own) + stolen
    return min(1.0, others / ((os.cpu_count() or 1) * wall))


def _waited() -> float | None:
    """Run-queue delay of this process's threads, in seconds; None where the system does not count it."""
    waits = []
    for path in Path("/proc/self/task").glob("*/schedstat"):
        try:
            waits.append(int(path.read_text().split()[1]))
        except (OSError, ValueError, IndexError):  # a thread that just ended
            continue
    return sum(waits) / 1e9 if waits else None
