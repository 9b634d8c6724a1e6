"""What the tests of jobs share: bounded waits, and a backend of one's own."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

from core import jobs
from core.jobs.client import LocalBackend

# Nothing here is expected to take nearly this long: the bound only keeps a broken test from hanging.
PATIENCE_SECONDS = 60.0

# Most of these tests start an agent; loading what only optimizers need would double their time.
os.environ.setdefault("NAPKIN_JOB_PRELOAD", "torch")

ROOT = Path(__file__).resolve().parents[2]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux processes")


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(
    job_id: str, condition: Callable[[jobs.Status], Any], wait: Callable[..., jobs.Status] = jobs.wait
) -> jobs.Status:
    end = time.monotonic() + PATIENCE_SECONDS
    now = wait(job_id, 0, -1, 0)
    while not condition(now):
        assert not now.finished, now
        assert time.monotonic() < end, f"waited in vain; last seen: {now}"
        now = wait(job_id, 5, now.version, 0)
    return now


def finished(job_id: str, wait: Callable[..., jobs.Status] = jobs.wait) -> jobs.Status:
    return until(job_id, lambda now: now.finished, wait)


def result_of(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    *_, result = jobs.run(function, *args, **options)
    return result


def error_of(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The error of a job; and whatever that was, the next job works."""
    error = finished(jobs.submit(function, *args, **options)).error
    assert result_of(math.factorial, 5) == 120
    return error


def reported(job_id: str, wait: Callable[..., jobs.Status] = jobs.wait) -> Any:
    """What the job reported first as data."""
    return until(job_id, lambda now: now.records, wait).records[0]


class Own:
    """A backend with its own agent and limits."""

    def __init__(self, **limits: Any) -> None:
        self.backend = LocalBackend(jobs.Limits(**limits))

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> str:
        return self.backend.submit(jobs.Request(cloudpickle.dumps((function, args, {})), **options))

    @property
    def wait(self) -> Callable[..., jobs.Status]:
        return self.backend.wait

    @property
    def agent(self) -> Any:
        assert self.backend._agent is not None
        return self.backend._agent


def start_app(script: str, *args: str) -> subprocess.Popen[str]:
    """Run a script as an app of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
