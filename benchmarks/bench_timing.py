"""What core.timing adds to what it times, and how far it repeats. Run: python -m benchmarks.bench_timing"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import repeat

import torch

from core.hardware import available_cores
from core.timing import time_calls, wall_chunk

Row = tuple[str, float, str, str]

PAIRS = 61
WINDOW_SECONDS = 0.005  # short, so that some windows are undisturbed on a machine that others use


def matmul(n: int) -> Callable[[], object]:
    a_NN, b_NN, c_NN = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
    return lambda: torch.matmul(a_NN, b_NN, out=c_NN)


def bare_seconds(function: Callable[[], object], calls: int) -> float:
    """The loop without anything else."""
    start = time.perf_counter()
    for _ in repeat(None, calls):
        function()
    return time.perf_counter() - start


def timed_seconds(function: Callable[[], object], calls: int) -> float:
    """The same calls, each timed by core.timing."""
    start = time.perf_counter()
    wall_chunk(function, 1, calls, time.perf_counter)
    return time.perf_counter() - start


def overhead(n: int) -> float:
    """Timed over bare less 1, in percent, from the fastest of many alternating windows."""
    function = matmul(n)
    calls = max(1, int(WINDOW_SECONDS / (bare_seconds(function, 5) / 5)))
    bare, timed = [], []
    for pair in range(PAIRS):
        # Which goes first alternates too.
        for measure, into in ((bare_seconds, bare), (timed_seconds, timed))[:: 1 if pair % 2 else -1]:
            into.append(measure(function, calls))
    return (min(timed) / min(bare) - 1) * 100


def fixed_cost_microseconds() -> float:
    """What timing adds to a call, whatever the call: an empty function's trial less its bare call."""

    def nothing() -> None:
        return None

    calls = 5_000
    timed = min(timed_seconds(nothing, calls) for _ in range(PAIRS))
    return (timed - min(bare_seconds(nothing, calls) for _ in range(PAIRS))) / calls * 1e6


def repeats(n: int, times: int = 5) -> tuple[float, float, float]:
    """Spread of the minimum and of the median over repeated 1 s windows in percent; the largest busy fraction."""
    runs = [time_calls(matmul(n)) for _ in range(times)]
    minima, medians = [run.minimum for run in runs], [run.median for run in runs]
    busy = max(run.conditions.busy_fraction or 0.0 for run in runs)
    return (max(minima) / min(minima) - 1) * 100, (max(medians) / min(medians) - 1) * 100, busy


def main() -> list[Row]:
    """Every figure as (name, value, unit, target)."""
    rows: list[Row] = []
    # One thread: threads that wait for each other suffer most from other work, and the overhead is the same.
    torch.set_num_threads(1)
    for n in (256, 512, 1024):
        several = [overhead(n) for _ in range(3)]
        rows.append((f"timing overhead, {n}³ fp32 matmul, 1 thread", statistics.median(several), "%", "at most 1"))
    cost = fixed_cost_microseconds()
    rows.append(("timing overhead a call", cost, "µs", ""))
    torch.set_num_threads(available_cores())
    function = matmul(256)
    fastest = min(bare_seconds(function, 1) for _ in range(PAIRS)) * 1e6
    rows.append((f"that over the fastest 256³, {available_cores()} threads", cost / fastest * 100, "%", "at most 1"))
    minimum, median, busy = repeats(256)
    rows.append(("256³ over five windows of 1 s: spread of the minimum", minimum, "%", "at most 5"))
    rows.append(("256³ over five windows of 1 s: spread of the median", median, "%", ""))
    rows.append(("largest busy fraction meanwhile", busy, "", ""))
    return rows


if __name__ == "__main__":
    for name, value, unit, target in main():
        print(f"{name:55} {value:9.3f} {unit:3} {target}")
