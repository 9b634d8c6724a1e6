"""Heavy work outside the web process.

Each job runs in a process of its own under a local agent that starts by itself: one job at a time per device, the
rest queued. A job that crashes, hangs or takes too much memory is stopped and leaves the app and the next job alone.

A page that must find its job again after a click or a reload keeps the id that `submit` returns, for example in the
link, and asks `status`. `run` is for code that stays to the end: when its loop is left, the job is cancelled.

>>> import math
>>> *updates, result = run(math.factorial, 5)
>>> result
120
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from core.jobs.backend import Backend, Request, get_backend
from core.jobs.limits import Limits
from core.jobs.reporting import report
from core.jobs.types import (
    JobCancelled,
    JobCrashed,
    JobError,
    JobFailed,
    JobLost,
    JobOutOfMemory,
    JobRefused,
    JobTimeout,
    Progress,
    State,
    Status,
    Update,
)

__all__ = [
    "Backend",
    "JobCancelled",
    "JobCrashed",
    "JobError",
    "JobFailed",
    "JobLost",
    "JobOutOfMemory",
    "JobRefused",
    "JobTimeout",
    "Limits",
    "Progress",
    "Request",
    "State",
    "Status",
    "Update",
    "cancel",
    "report",
    "run",
    "status",
    "submit",
    "wait",
    "warm",
]

T = TypeVar("T")

# How often `run` yields an update while nothing changes, so that a page can show the seconds and notice a click.
HEARTBEAT_SECONDS = 0.5


def run(
    function: Callable[..., T],
    *args: Any,
    timeout: float | None = None,
    memory_limit_bytes: int | None = None,
    device: str = "cpu",
    **kwargs: Any,
) -> Iterator[Update | T]:
    """Run a function in a process of its own: yield updates at least twice a second, then the result as the last item.

    ``timeout`` is in seconds of running (waiting in the queue does not count); ``memory_limit_bytes`` is host memory
    on top of what Python and torch take. Both have defaults: see `Limits`. Closing the generator cancels the job.

    Raises what the job ended with: a JobError, or the ValueError that the function raised; JobRefused or ValueError
    where the job was not accepted.

    >>> *updates, result = run(sorted, [3, 1, 2], reverse=True, timeout=60)
    >>> result
    [3, 2, 1]
    """
    backend = get_backend()
    job_id = backend.submit(_request(function, args, kwargs, timeout, memory_limit_bytes, device, None))
    finished, version, records_after = False, -1, 0
    try:
        while True:
            now = backend.wait(job_id, HEARTBEAT_SECONDS, version, records_after)
            version, records_after = now.version, now.record_count
            finished = now.finished
            if not finished or now.records:
                state: State = "running" if finished else now.state
                yield Update(job_id, state, now.place, now.progress, now.records, now.seconds)
            if now.error is not None:
                raise now.error
            if finished:
                yield now.result
                return
    finally:
        if not finished:
            backend.cancel(job_id)


def submit(
    function: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
    memory_limit_bytes: int | None = None,
    device: str = "cpu",
    key: str | None = None,
    **kwargs: Any,
) -> str:
    """Queue a job and return its id at once; limits as in `run`.

    With ``key``, a job that was submitted under the same key and is not finished is joined: its id is returned, and
    no second job starts.

    Raises ValueError for a limit or device that makes no sense, JobRefused where a limit forbids the job, JobLost
    where no agent can be started.

    >>> wait(submit(len, "four"), timeout=60).state in ("queued", "running", "done")
    True
    """
    return get_backend().submit(_request(function, args, kwargs, timeout, memory_limit_bytes, device, key))


def status(job_id: str, records_after: int = 0) -> Status:
    """The job as it is now; "lost" for an id of which nothing is known.

    Records before number ``records_after`` are left out: pass the last status's ``record_count`` to get the new ones.

    >>> status("no such job").state
    'lost'
    """
    return get_backend().wait(job_id, timeout=0.0, after_version=-1, records_after=records_after)


def wait(job_id: str, timeout: float, after_version: int = -1, records_after: int = 0) -> Status:
    """The job once its ``version`` differs from ``after_version``, or after ``timeout`` seconds (20 at most) as is.

    >>> now = status(submit(sum, [1, 2, 3]))
    >>> while not now.finished:
    ...     now = wait(now.id, timeout=10, after_version=now.version)
    >>> now.result
    6
    """
    return get_backend().wait(job_id, timeout, after_version, records_after)


def cancel(job_id: str) -> None:
    """Stop a job now: its process and the processes that it started are killed. A job that is over stays as it is.

    >>> cancel("no such job")
    """
    get_backend().cancel(job_id)


def warm() -> None:
    """Start the agent in the background, so that the first job finds torch loaded.

    >>> warm()
    """
    get_backend().warm()


def _request(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    timeout: float | None,
    memory_limit_bytes: int | None,
    device: str,
    key: str | None,
) -> Request:
    import cloudpickle  # here, so that importing core.jobs stays cheap

    try:
        call = cloudpickle.dumps((function, args, kwargs))
    except Exception as error:
        raise JobRefused(f"The job cannot be sent to its process: {type(error).__name__}: {error}") from error
    return Request(call, timeout, memory_limit_bytes, device, key)
