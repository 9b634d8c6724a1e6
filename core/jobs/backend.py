"""Where jobs run: what every backend can do, and the choice of one."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Protocol

from core.jobs.types import Status


@dataclass(frozen=True)
class Request:
    """A job to run. ``call`` is the pickled function with its arguments; only the job's process opens it.

    ``key`` names what the job computes: while a job under the same key waits or runs, no second one starts.
    """

    call: bytes
    timeout_seconds: float | None = None
    memory_limit_bytes: int | None = None
    device: str = "cpu"
    key: str | None = None


class Backend(Protocol):
    """What runs jobs. Every method may be called from any thread, and none blocks without a bound.

    A backend for several machines goes beside `core.jobs.client.LocalBackend` and is chosen in `get_backend`.
    """

    def submit(self, request: Request) -> str:
        """Queue a job and return its id. Raises ValueError, JobRefused or JobLost."""
        ...

    def wait(self, job_id: str, timeout: float, after_version: int, records_after: int) -> Status:
        """The status as soon as it differs from ``after_version``, or after ``timeout`` seconds as it is then.

        Records before number ``records_after`` are left out. An unknown job is "lost"; nothing is raised.
        """
        ...

    def cancel(self, job_id: str) -> None:
        """Stop the job now, however it is busy. A finished or unknown job stays as it is."""
        ...

    def warm(self) -> None:
        """Get ready for a first job in the background."""
        ...

    def close(self) -> None:
        """Stop all jobs and end."""
        ...


_lock = threading.Lock()
_backend: Backend | None = None


def get_backend() -> Backend:
    """The backend of this process, made at the first call. Raises ValueError for a bad environment variable."""
    global _backend
    with _lock:
        if _backend is None:
            from core.jobs.client import LocalBackend

            _backend = LocalBackend()
        return _backend


def _forget_after_fork() -> None:
    # A forked child must not talk on its parent's connections; it starts an agent of its own if it needs one.
    global _backend, _lock
    _lock = threading.Lock()
    _backend = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
