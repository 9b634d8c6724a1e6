"""What a caller of `core.jobs` sees: updates, the status of a job, and the errors that a job can end with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["queued", "running", "done", "failed", "cancelled", "lost"]

UNFINISHED: tuple[State, ...] = ("queued", "running")


class JobError(Exception):
    """A job did not give a result. The message is one sentence for the reader of a page.

    ``detail`` is for logs: a traceback of the job, where there is one.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class JobTimeout(JobError):  # noqa: N818 - the names are the public API
    """The job ran longer than its limit and was stopped."""


class JobOutOfMemory(JobError):  # noqa: N818 - the names are the public API
    """The job asked for more memory than its limit."""


class JobCrashed(JobError):  # noqa: N818 - the names are the public API
    """The job's process ended before it gave a result: a signal or an exit."""


class JobCancelled(JobError):  # noqa: N818 - the names are the public API
    """The job was cancelled."""


class JobFailed(JobError):  # noqa: N818 - the names are the public API
    """The job's function raised an exception, or its result cannot be sent back."""


class JobLost(JobError):  # noqa: N818 - the names are the public API
    """Nothing is known of the job any more: the agent that ran it ended, or the job is long over."""


class JobRefused(JobError):  # noqa: N818 - the names are the public API
    """The job was not accepted: it asks for more than a limit, or too many jobs wait."""


_ERRORS: dict[str, type[JobError]] = {
    kind.__name__: kind
    for kind in (JobTimeout, JobOutOfMemory, JobCrashed, JobCancelled, JobFailed, JobLost, JobRefused)
}

JobProblem = JobError | ValueError


def error_from(kind: str, message: str, detail: str = "") -> JobProblem:
    """The exception that a name, a message and a detail stand for; a ValueError stays one.

    >>> error_from("JobTimeout", "The job was stopped at its time limit of 2.00 s.")
    JobTimeout('The job was stopped at its time limit of 2.00 s.')
    >>> error_from("ValueError", "d must be positive; received 0")
    ValueError('d must be positive; received 0')
    """
    if kind == "ValueError":
        return ValueError(message)
    return _ERRORS[kind](message, detail)


@dataclass(frozen=True)
class Progress:
    """What a job reported last: the fraction done (None where unknown), a message, and its latest record."""

    fraction: float | None = None
    message: str = ""
    data: Any = None


@dataclass(frozen=True)
class Update:
    """One sign of life of a job that is not finished.

    ``place`` is 1 for the next job to run, and None once it runs. ``records`` holds what the job reported as data
    since the last update; ``seconds`` is its running time so far.
    """

    id: str
    state: State
    place: int | None = None
    progress: Progress | None = None
    records: tuple[Any, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Status:
    """A snapshot of a job.

    ``result`` is set only where the state is "done", ``error`` only where it is "failed", "cancelled" or "lost".
    ``records`` holds the data that the job reported, the last 10,000 at most; ``record_count`` counts all of it, so
    passing it as ``records_after`` to the next call fetches only what is new. ``version`` grows with every change.
    """

    id: str
    state: State
    place: int | None = None
    progress: Progress | None = None
    result: Any = None
    error: JobProblem | None = None
    seconds: float = 0.0
    records: tuple[Any, ...] = field(default=(), repr=False)
    record_count: int = 0
    version: int = 0

    @property
    def finished(self) -> bool:
        """Whether the job is over, in whatever way.

        >>> Status("job", "queued", place=1).finished, Status("job", "done", result=120).finished
        (False, True)
        """
        return self.state not in UNFINISHED


def lost(job_id: str) -> Status:
    """The status of a job of which nothing is known.

    >>> lost("job").error
    JobLost('The job is lost: what ran it has ended, or it was over too long ago. Run it again.')
    """
    message = "The job is lost: what ran it has ended, or it was over too long ago. Run it again."
    return Status(job_id, "lost", error=JobLost(message))
