"""Jobs as their callers see them: real processes, killed for real."""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jobs_functions as functions
import pytest
from jobs_helpers import (
    PATIENCE_SECONDS,
    Own,
    error_of,
    finished,
    is_gone,
    linux_only,
    reported,
    result_of,
    until,
    wait_until,
)

from core import jobs


@pytest.fixture(autouse=True)
def free_devices(tmp_path: Path) -> Iterator[None]:
    """After each test, nothing runs on the shared agent's first device."""
    yield
    assert result_of(math.factorial, 5) == 120


# --- results and progress ---------------------------------------------------------------------------------------


def test_result_comes_last_after_updates() -> None:
    *updates, result = jobs.run(functions.count_to, 4)
    assert result == "counted to 4"
    assert all(isinstance(update, jobs.Update) for update in updates)
    records = [record for update in updates for record in update.records]  # type: ignore[union-attr]
    assert records == [{"step": 1}, {"step": 2}, {"step": 3}, {"step": 4}]
    last = updates[-1]
    assert isinstance(last, jobs.Update)
    assert last.progress == jobs.Progress(1.0, "step 4 of 4", {"step": 4})


def test_states_come_in_order() -> None:
    *updates, _ = jobs.run(functions.count_to, 3)
    states = [update.state for update in updates]  # type: ignore[union-attr]
    assert states == sorted(states)  # "queued" before "running"
    assert all((update.place == 1) == (update.state == "queued") for update in updates)  # type: ignore[union-attr]


def test_keyword_arguments_and_none() -> None:
    assert result_of(sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
    assert result_of(functools.partial(print, end="")) is None


def test_lambdas_and_closures() -> None:
    base = 40
    assert result_of(lambda x: base + x, 2) == 42


def test_tensors_travel() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 4)
    assert torch.equal(result_of(torch.t, x), x.t())


def test_a_finished_job_keeps_its_result() -> None:
    job_id = jobs.submit(math.factorial, 6)
    assert finished(job_id).result == 720
    again = jobs.status(job_id)
    assert (again.state, again.result, again.error, again.place) == ("done", 720, None, None)
    assert again.seconds == jobs.status(job_id).seconds  # the clock has stopped


def test_only_new_records_are_fetched() -> None:
    job_id = jobs.submit(functions.many_records, 50)
    whole = finished(job_id)
    assert whole.records == tuple(range(50))
    assert whole.record_count == 50
    assert jobs.status(job_id, records_after=47).records == (47, 48, 49)
    assert jobs.status(job_id, records_after=50).records == ()
    assert whole.progress is not None
    assert whole.progress.data == 49


def test_records_are_bounded() -> None:
    now = finished(jobs.submit(functions.many_records, 10_050))
    assert len(now.records) <= 10_000
    assert now.records[-1] == 10_049


def test_reports_are_checked_and_ignored_outside_a_job() -> None:
    jobs.report(0.5, "nobody listens", data=object())
    problems = result_of(functions.bad_reports).splitlines()
    assert problems == [
        "a fraction of progress must be between 0 and 1; received 1.5",
        "a fraction of progress must be between 0 and 1; received -0.1",
        "a fraction of progress must be between 0 and 1; received nan",
        "a reported record must have at most 1.05 MB; received 2.10 MB",
    ]
    with pytest.raises(ValueError, match="between 0 and 1"):
        jobs.report(2)


def test_job_sees_the_callers_directory_and_path() -> None:
    directory, path = result_of(functions.working_directory_and_path)
    assert directory == str(Path.cwd())
    assert path == sys.path


def test_random_numbers_differ_between_jobs() -> None:
    first, second = result_of(functions.random_numbers), result_of(functions.random_numbers)
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_output_does_not_disturb() -> None:
    assert result_of(functions.print_things) == "printed"


@linux_only
def test_a_job_may_start_processes() -> None:
    assert result_of(functions.square_in_a_child, 7) == 49


# --- torch ------------------------------------------------------------------------------------------------------


@linux_only
def test_torch_uses_all_cores() -> None:
    from core.jobs.worker import available_cores

    threads, error, running = result_of(functions.threads_and_matmul)
    assert threads == available_cores()
    assert running >= threads
    assert error < 1e-3


def test_autograd_works() -> None:
    assert result_of(functions.backward) == 2 * 100**3


# --- the queue --------------------------------------------------------------------------------------------------


def test_places_in_the_queue(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    first = jobs.submit(functions.wait_for_file, gate)
    until(first, lambda now: now.state == "running")
    second, third = jobs.submit(math.factorial, 2), jobs.submit(math.factorial, 3)
    assert [jobs.status(job_id).place for job_id in (first, second, third)] == [None, 1, 2]
    jobs.cancel(second)
    assert jobs.status(second).state == "cancelled"
    assert jobs.status(third).place == 1
    (tmp_path / "gate").touch()
    assert finished(third).result == 6
    assert finished(first).result == gate


def test_one_at_a_time_per_device(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ids = [jobs.submit(functions.log_times, str(log), str(i)) for i in range(5)]
    for job_id in ids:
        assert finished(job_id).state == "done"
    expected = [f"{what} {i}" for i in range(5) for what in ("start", "end")]
    assert log.read_text().splitlines() == expected


def test_devices_run_side_by_side(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    first = jobs.submit(functions.wait_for_file, gate)
    until(first, lambda now: now.state == "running")
    assert result_of(math.factorial, 4, device="meta") == 24
    assert jobs.status(first).state == "running"
    jobs.cancel(first)


def test_a_key_joins() -> None:
    first = jobs.submit(functions.say_pid_and_sleep, key="calibrate cpu")
    assert jobs.submit(functions.say_pid_and_sleep, key="calibrate cpu") == first
    other = jobs.submit(functions.say_pid_and_sleep, key="calibrate disk")
    assert other != first
    assert jobs.submit(functions.say_pid_and_sleep, key="calibrate disk") == other  # a queued one too
    jobs.cancel(other)
    jobs.cancel(first)
    new = jobs.submit(math.factorial, 3, key="calibrate cpu")
    assert new != first
    assert finished(new).result == 6


def test_fifty_threads_at_once() -> None:
    results: dict[int, Any] = {}

    def ask(i: int) -> None:
        results[i] = result_of(math.factorial, i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert results == {i: math.factorial(i) for i in range(50)}


def test_ids_cannot_be_guessed() -> None:
    ids = {jobs.submit(math.factorial, 1) for _ in range(3)}
    assert len(ids) == 3
    assert all(len(job_id) >= 20 for job_id in ids)
    for job_id in ids:
        finished(job_id)


# --- cancel -----------------------------------------------------------------------------------------------------


def test_cancel_kills_the_process() -> None:
    job_id = jobs.submit(functions.say_pid_and_sleep)
    pid = reported(job_id)
    assert not is_gone(pid)
    jobs.cancel(job_id)
    assert is_gone(pid)
    now = jobs.status(job_id)
    assert now.state == "cancelled"
    assert isinstance(now.error, jobs.JobCancelled)
    assert str(now.error) == "The job was cancelled."
    jobs.cancel(job_id)
    assert jobs.status(job_id).state == "cancelled"


def test_cancel_leaves_a_finished_job_alone() -> None:
    job_id = jobs.submit(math.factorial, 3)
    finished(job_id)
    jobs.cancel(job_id)
    assert jobs.status(job_id).result == 6
    jobs.cancel("no such job")


def test_closing_the_generator_cancels() -> None:
    run = jobs.run(functions.say_pid_and_sleep)
    for update in run:
        assert isinstance(update, jobs.Update)
        if update.records:
            job_id, pid = update.id, update.records[0]
            break
    run.close()  # type: ignore[attr-defined]
    assert jobs.status(job_id).state == "cancelled"
    assert is_gone(pid)


@pytest.mark.parametrize("own_session", [False, True])
def test_children_of_a_job_die_with_it(own_session: bool) -> None:
    job_id = jobs.submit(functions.start_child_and_sleep, own_session)
    pid, child = reported(job_id)
    jobs.cancel(job_id)
    wait_until(lambda: is_gone(pid) and is_gone(child))


def test_children_left_behind_die() -> None:
    child = result_of(functions.leave_child_behind)
    wait_until(lambda: is_gone(child))


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


def test_unknown_job_is_lost() -> None:
    for now in (jobs.status("no such job"), jobs.wait("no such job", 5)):
        assert now.state == "lost"
        assert now.finished
        assert isinstance(now.error, jobs.JobLost)
