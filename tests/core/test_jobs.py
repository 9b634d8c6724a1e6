"""Jobs as their callers see them: real processes, killed for real."""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import jobs
from tests.core import jobs_functions as functions
from tests.core.jobs_helpers import (
    PATIENCE_SECONDS,
    finished,
    is_gone,
    linux_only,
    reported,
    result_of,
    until,
    wait_until,
)


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


def test_numpy_works() -> None:
    assert result_of(functions.numpy_matmul) == 0  # its threads, too, must survive the fork


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


def test_unknown_job_is_lost() -> None:
    for now in (jobs.status("no such job"), jobs.wait("no such job", 5)):
        assert now.state == "lost"
        assert now.finished
        assert isinstance(now.error, jobs.JobLost)
