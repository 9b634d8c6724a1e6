"""Jobs that take too much, crash or fail: each gives a clear error, and the next one works."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from core import jobs
from tests.core import jobs_functions as functions
from tests.core.jobs_helpers import (
    Own,
    error_of,
    finished,
    linux_only,
    result_of,
    until,
)

# --- limits -----------------------------------------------------------------------------------------------------


@linux_only
@pytest.mark.parametrize("function", [functions.long_matmul, functions.ignore_signals_in_c, time.sleep])
def test_timeout_kills(function: Callable[..., Any]) -> None:
    error = error_of(function, *([600] if function is time.sleep else []), timeout=0.3)
    assert isinstance(error, jobs.JobTimeout)
    assert str(error) == "The job was stopped at its time limit of 300 ms."


@linux_only
@pytest.mark.parametrize("function", [functions.allocate_numpy_bytes, functions.allocate_torch_bytes])
def test_allocation_above_the_limit_is_refused(function: Callable[..., Any]) -> None:
    error = error_of(function, 3 * 10**9, memory_limit_bytes=10**9)
    assert isinstance(error, jobs.JobOutOfMemory)
    assert str(error) == "The job asked for more memory than its limit of 1.00 GB."
    assert "Traceback" in error.detail


def test_allocation_below_the_limit_works() -> None:
    assert result_of(functions.allocate_torch_bytes, 9 * 10**8, memory_limit_bytes=10**9) == 9 * 10**8


@linux_only
def test_memory_that_the_system_does_not_refuse_is_watched() -> None:
    error = error_of(functions.touch_shared_memory, 3 * 10**8, memory_limit_bytes=10**8)
    assert isinstance(error, jobs.JobOutOfMemory)
    assert str(error) == "The job was stopped at its memory limit of 100 MB."


def test_requests_are_checked() -> None:
    with pytest.raises(ValueError, match="positive number of seconds, for example 60; received -1"):
        jobs.submit(math.factorial, 1, timeout=-1)
    with pytest.raises(ValueError, match="positive number of bytes; received 0"):
        jobs.submit(math.factorial, 1, memory_limit_bytes=0)
    with pytest.raises(ValueError, match='named like "cpu" or "cuda:0"; received \'The GPU\''):
        jobs.submit(math.factorial, 1, device="The GPU")
    with pytest.raises(jobs.JobRefused, match=r"cannot be sent to its process"):
        jobs.submit(len, threading.Lock())
    with pytest.raises(jobs.JobRefused, match=r"may run for 60.0 min at most"):
        jobs.submit(math.factorial, 1, timeout=1e6)
    with pytest.raises(jobs.JobRefused, match="of memory; a job may take"):
        jobs.submit(math.factorial, 1, memory_limit_bytes=2**60)


def test_sizes_and_queue_are_bounded() -> None:
    own = Own(max_queued_jobs=2, max_message_bytes=10_000)
    try:
        sleeping = own.submit(functions.say_pid_and_sleep)
        until(sleeping, lambda now: now.state == "running", own.wait)
        queued = [own.submit(functions.return_bytes, 20_000) for _ in range(2)]
        with pytest.raises(jobs.JobRefused, match="2 jobs wait already, and 2 may wait at most; try again later"):
            own.submit(math.factorial, 1)
        with pytest.raises(jobs.JobRefused, match=r"function and arguments have 20.0 kB; 10.0 kB may be sent at most"):
            own.submit(len, bytes(20_000))
        own.backend.cancel(sleeping)
        error = finished(queued[0], own.wait).error
        assert isinstance(error, jobs.JobFailed)
        assert str(error) == "The job's result has 20.0 kB, and 10.0 kB may be sent back at most."
    finally:
        own.backend.close()


def test_old_jobs_are_forgotten() -> None:
    own = Own(max_kept_jobs=2)
    try:
        ids = []
        for _ in range(4):
            ids.append(own.submit(math.factorial, 1))
            finished(ids[-1], own.wait)
        assert [own.wait(job_id, 0, -1, 0).state for job_id in ids] == ["lost", "lost", "done", "done"]
    finally:
        own.backend.close()


def test_limits_come_from_the_environment() -> None:
    limits = jobs.Limits.from_environment(
        {
            "NAPKIN_JOB_TIMEOUT_SECONDS": "7200",
            "NAPKIN_JOB_MEMORY_BYTES": "1000000",
            "NAPKIN_MAX_JOB_MEMORY_BYTES": "2000000",
            "NAPKIN_MAX_QUEUED_JOBS": "7",
        }
    )
    assert (limits.default_timeout_seconds, limits.max_timeout_seconds) == (7200, 7200)
    assert (limits.default_memory_limit_bytes, limits.max_memory_limit_bytes) == (10**6, 2 * 10**6)
    assert limits.max_queued_jobs == 7
    default = jobs.Limits.from_environment({})
    assert default.default_timeout_seconds == 120
    assert 0 < default.default_memory_limit_bytes <= 4 * 2**30
    assert jobs.Limits.from_environment({"NAPKIN_MAX_JOB_TIMEOUT_SECONDS": "10"}).default_timeout_seconds == 10


@pytest.mark.parametrize("value", ["0", "-3", "two", "", "nan", "inf"])
@pytest.mark.parametrize("name", ["NAPKIN_JOB_TIMEOUT_SECONDS", "NAPKIN_JOB_MEMORY_BYTES", "NAPKIN_MAX_QUEUED_JOBS"])
def test_bad_limits_are_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        jobs.Limits.from_environment({name: value})
    assert repr(value) in str(caught.value)


def test_a_default_above_its_maximum_is_named() -> None:
    with pytest.raises(ValueError, match="NAPKIN_JOB_TIMEOUT_SECONDS must be at most the maximum of 5; received 9"):
        jobs.Limits.from_environment({"NAPKIN_JOB_TIMEOUT_SECONDS": "9", "NAPKIN_MAX_JOB_TIMEOUT_SECONDS": "5"})


# --- how a job can go wrong -------------------------------------------------------------------------------------


@linux_only
@pytest.mark.parametrize(
    ("function", "args", "ending"),
    [
        (functions.segfault, (), "was killed by signal 11 (SIGSEGV) before it gave a result."),
        (functions.exit_at_once, (3,), "exited with code 3 before it gave a result."),
        (functions.exit_at_once, (0,), "exited with code 0 before it gave a result."),
        (functions.exit_politely, (4,), "exited with code 4 before it gave a result."),
        (
            functions.kill_itself,
            (),
            "was killed by signal 9 (SIGKILL) before it gave a result, as the system does when memory runs out.",
        ),
    ],
)
def test_crashes(function: Callable[..., Any], args: tuple[Any, ...], ending: str) -> None:
    error = error_of(function, *args)
    assert isinstance(error, jobs.JobCrashed)
    assert str(error) == f"The job's process {ending}"


@linux_only
def test_a_job_that_closes_its_connection_is_killed() -> None:
    error = error_of(functions.close_all_files)
    assert isinstance(error, jobs.JobCrashed)


def test_value_error_passes_through() -> None:
    with pytest.raises(ValueError, match=r"^d must be a positive integer, for example 256; received −1$"):
        list(jobs.run(functions.raise_value_error))


def test_other_exceptions_become_job_failed() -> None:
    with pytest.raises(jobs.JobFailed, match=r"^The job failed: KeyError: 'weights'$") as caught:
        list(jobs.run(functions.raise_key_error))
    assert "raise_key_error" in caught.value.detail


def test_result_that_cannot_be_pickled() -> None:
    error = error_of(functions.return_generator)
    assert isinstance(error, jobs.JobFailed)
    assert str(error).startswith("The job's result cannot be sent back: TypeError: ")
