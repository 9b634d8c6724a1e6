"""How fast jobs start, stop and queue: ``python -m benchmarks.bench_jobs``.

Times are wall-clock, on whatever else the machine is doing: the load is printed with them.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import threading
import time
from typing import Any

import cloudpickle

from core.jobs import Limits, Request, report
from core.jobs.client import LocalBackend
from core.jobs.worker import available_cores

Row = tuple[str, float, str, float | None]

CLIENTS = 50
ROUND_TRIPS = 30
CANCELS = 10


def small_matmul() -> float:
    """A tiny torch result."""
    import torch

    x = torch.ones(64, 64)
    return float((x @ x).sum())


def matmul_for_ever() -> None:
    """Keep every core busy inside torch until killed."""
    import torch

    x = torch.randn(2048, 2048) / 64
    report(0.0, "started")
    while True:
        x = (x @ x).clamp(-1, 1)


def sleep_in_c() -> None:
    """Do nothing until killed."""
    time.sleep(600)


def submit(backend: LocalBackend, function: Any, *args: Any, timeout_seconds: float | None = None) -> str:
    """Queue a function."""
    return backend.submit(Request(cloudpickle.dumps((function, args, {})), timeout_seconds))


def finish(backend: LocalBackend, job_id: str) -> Any:
    """Wait for a job to end."""
    now = backend.wait(job_id, 0, -1, 0)
    while not now.finished:
        now = backend.wait(job_id, 10, now.version, 0)
    return now


def timed(backend: LocalBackend, function: Any, *args: Any) -> float:
    """Milliseconds from submitting a job to having its result."""
    start = time.perf_counter()
    now = finish(backend, submit(backend, function, *args))
    assert now.state == "done", now.error
    return 1000 * (time.perf_counter() - start)


def cancel_to_next(backend: LocalBackend) -> float:
    """Milliseconds from cancelling a job that is busy in torch to the torch result of the next one."""
    job_id = submit(backend, matmul_for_ever)
    now = backend.wait(job_id, 0, -1, 0)
    while now.progress is None:
        now = backend.wait(job_id, 10, now.version, 0)
    time.sleep(0.2)
    start = time.perf_counter()
    backend.cancel(job_id)
    timed(backend, small_matmul)
    return 1000 * (time.perf_counter() - start)


def timeout_overshoot(backend: LocalBackend) -> float:
    """Milliseconds that a job runs beyond its time limit, as its caller sees it."""
    job_id = submit(backend, sleep_in_c, timeout_seconds=0.5)
    now = backend.wait(job_id, 0, -1, 0)
    while now.state == "queued":
        now = backend.wait(job_id, 10, now.version, 0)
    started = time.perf_counter() - now.seconds
    finish(backend, job_id)
    return 1000 * (time.perf_counter() - started - 0.5)


def many_clients(backend: LocalBackend) -> tuple[float, list[float]]:
    """Milliseconds until all of many clients, starting at once, have their result; and each client's own."""
    each: list[float] = []
    threads = [
        threading.Thread(target=lambda i=i: each.append(timed(backend, math.factorial, i))) for i in range(CLIENTS)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1000 * (time.perf_counter() - start), each


def main() -> list[Row]:
    """Measure everything; a row is (name, value, unit, what it should not exceed)."""
    rows: list[Row] = []
    backend = LocalBackend(Limits())
    start = time.perf_counter()
    try:
        backend.wait("agent", 0, -1, 0)
        timed(backend, math.factorial, 5)
        rows.append(("agent cold start to first result", 1000 * (time.perf_counter() - start), "ms", None))
        for name, function, args in (("trivial", math.factorial, (5,)), ("64 × 64 matmul", small_matmul, ())):
            for label, pause in (("back to back", 0.0), ("device idle before", 0.1)):
                times = []
                for _ in range(ROUND_TRIPS):
                    time.sleep(pause)
                    times.append(timed(backend, function, *args))
                rows.append((f"warm round trip, {name}, {label}, median", statistics.median(times), "ms", 60.0))
                rows.append((f"warm round trip, {name}, {label}, maximum", max(times), "ms", None))
        cancels = [cancel_to_next(backend) for _ in range(CANCELS)]
        rows.append(("cancel → next torch result, median", statistics.median(cancels), "ms", 150.0))
        rows.append(("cancel → next torch result, maximum", max(cancels), "ms", None))
        overshoots = [timeout_overshoot(backend) for _ in range(5)]
        rows.append(("0.5 s time limit, overshoot, median", statistics.median(overshoots), "ms", None))
        total, each = many_clients(backend)
        rows.append((f"{CLIENTS} clients, one job each, all done", total, "ms", None))
        rows.append((f"{CLIENTS} clients, one job each, p95", statistics.quantiles(each, n=20)[-1], "ms", None))
    finally:
        backend.close()
    return rows


def show(rows: list[Row]) -> None:
    """Print the machine and the rows."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{platform.platform()}, Python {platform.python_version()}, {available_cores()} cores{load}")
    for name, value, unit, target in rows:
        goal = f"  (at most {target:g})" if target is not None else ""
        print(f"{name:58} {value:9.1f} {unit}{goal}")


if __name__ == "__main__":
    show(main())
