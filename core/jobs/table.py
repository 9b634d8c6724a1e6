"""The agent's jobs: what waits, what runs, what is over. Threads of the agent share one table."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from core import units
from core.jobs.reporting import MAX_RECORDS
from core.jobs.types import UNFINISHED, State

# The records of one job, and the arguments of all waiting jobs, may hold this much.
MAX_RECORDS_BYTES = 32 * 2**20
MAX_QUEUED_BYTES = 512 * 2**20

Error = tuple[str, str, str]  # kind, message, detail: see types.error_from


class Process(Protocol):
    """What a table needs of a job's process."""

    def resident_bytes(self) -> int:
        """The memory that it holds now."""
        ...

    def kill(self) -> None:
        """End the process and its children now."""
        ...


@dataclass
class Job:
    """One job, as the agent knows it. Byte strings are never opened here."""

    id: str
    device: str
    call: bytes
    timeout_seconds: float
    memory_limit_bytes: int
    sys_path: list[str]
    directory: str
    key: str | None = None
    state: State = "queued"
    version: int = 0
    fraction: float | None = None
    message: str = ""
    reported: bool = False
    records: deque[bytes] = field(default_factory=deque)
    record_bytes: int = 0
    record_count: int = 0
    result: bytes | None = None
    error: Error | None = None
    process: Process | None = None
    resident_bytes_at_start: int = 0
    stop_reason: Error | None = None
    started: float = 0.0
    ended: float = 0.0

    @property
    def finished(self) -> bool:
        return self.state not in UNFINISHED

    @property
    def seconds(self) -> float:
        """Its running time, so far or in all."""
        if not self.started:
            return 0.0
        return (self.ended or time.monotonic()) - self.started

    @property
    def kept_bytes(self) -> int:
        return self.record_bytes + len(self.result or b"") + len(self.call)


class JobTable:
    """All jobs of an agent, oldest first; every method may be called from any thread."""

    def __init__(self, max_queued_jobs: int, keep_seconds: float, max_kept_jobs: int, max_kept_bytes: int) -> None:
        self._max_queued_jobs = max_queued_jobs
        self._keep_seconds = keep_seconds
        self._max_kept_jobs = max_kept_jobs
        self._max_kept_bytes = max_kept_bytes
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, deque[Job]] = {}
        self._running: dict[str, Job] = {}
        self._keys: dict[str, Job] = {}
        self._version = 0

    def add(self, job: Job) -> tuple[str, Error | None]:
        """Queue a job; returns its id, or that of an unfinished job with its key, or an error."""
        with self._changed:
            known = self._jobs.get(job.id) or (self._keys.get(job.key) if job.key is not None else None)
            if known is not None:
                return known.id, None
            waiting = sum(map(len, self._queues.values()))
            if waiting >= self._max_queued_jobs:
                text = (
                    f"{waiting:,} jobs wait already, and {self._max_queued_jobs:,} may wait at most; try again later."
                )
                return job.id, ("JobRefused", text, "")
            waiting_bytes = sum(len(other.call) for queue in self._queues.values() for other in queue)
            if waiting_bytes + len(job.call) > MAX_QUEUED_BYTES:
                size, limit = units.si_bytes(waiting_bytes), units.si_bytes(MAX_QUEUED_BYTES)
                text = f"Waiting jobs hold {size} of arguments already, and {limit} is the most; try again later."
                return job.id, ("JobRefused", text, "")
            self._forget_old()
            self._jobs[job.id] = job
            if job.key is not None:
                self._keys[job.key] = job
            self._queues.setdefault(job.device, deque()).append(job)
            self._touch(job)
            return job.id, None

    def wait_for_job(self, device: str, timeout: float) -> bool:
        """Whether a job waits for the device, now or within the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._queues.get(device)), timeout)

    def begin(self, device: str, process: Process | None) -> Job | None:
        """Take the first job in the device's queue to run in that process; None where it was cancelled meanwhile."""
        with self._changed:
            queue = self._queues.get(device)
            if not queue:
                return None
            job = queue.popleft()
            job.state, job.started, job.process = "running", time.monotonic(), process
            job.resident_bytes_at_start = process.resident_bytes() if process is not None else 0
            self._running[device] = job
            self._touch(job, *queue)
            return job

    def progress(self, job: Job, fraction: float | None, message: str, records: list[bytes]) -> None:
        """Note what a running job reported."""
        with self._changed:
            job.reported = True
            job.fraction = job.fraction if fraction is None else fraction
            job.message = message or job.message
            job.records.extend(records)
            job.record_count += len(records)
            job.record_bytes += sum(map(len, records))
            while len(job.records) > MAX_RECORDS or job.record_bytes > MAX_RECORDS_BYTES:
                job.record_bytes -= len(job.records.popleft())
            self._touch(job)

    def finish(self, job: Job, result: bytes | None = None, error: Error | None = None) -> None:
        """Note how a job ended; a job that was told to stop ends with the reason for that."""
        with self._changed:
            if job.finished:
                return
            if result is None:
                error = job.stop_reason or error
            self._end(job, result, error)

    def stop(self, job: Job, reason: Error) -> None:
        """Kill a running job; it ends with the reason."""
        with self._changed:
            if job.finished or job.stop_reason is not None:
                return
            job.stop_reason = reason
            process = job.process
        if process is not None:
            process.kill()

    def cancel(self, job_id: str, timeout: float) -> None:
        """Take a job out of the queue or kill it; returns when it is over, or after the timeout."""
        reason = ("JobCancelled", "The job was cancelled.", "")
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None or job.finished:
                return
            if job.state == "queued":
                queue = self._queues[job.device]
                queue.remove(job)
                self._end(job, None, reason)
                self._touch(*queue)
                return
        self.stop(job, reason)
        with self._changed:
            self._changed.wait_for(lambda: job.finished, timeout)

    def running(self) -> list[Job]:
        """The jobs that run now, at most one per device."""
        with self._changed:
            return list(self._running.values())

    def wait_for_running(self, timeout: float) -> None:
        """Return once any job runs, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._running), timeout)

    def wait(
        self, job_id: str, timeout: float, after_version: int, records_after: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        """A snapshot of a job once its version differs from ``after_version``, or after the timeout."""
        with self._changed:
            job = self._jobs.get(job_id)
            if job is None:
                return {"state": "lost"}, []
            self._changed.wait_for(lambda: job.finished or job.version != after_version, timeout)
            return self._snapshot(job, records_after)

    def _snapshot(self, job: Job, records_after: int) -> tuple[dict[str, Any], list[bytes]]:
        place = None
        if job.state == "queued":
            place = self._queues[job.device].index(job) + 1
        result = [] if job.result is None else [job.result]
        data = [job.records[-1]] if job.records else []
        first = job.record_count - len(job.records)
        new = list(job.records)[max(0, records_after - first) :] if records_after < job.record_count else []
        header = {
            "state": job.state,
            "place": place,
            "version": job.version,
            "seconds": job.seconds,
            "has_progress": job.reported,
            "fraction": job.fraction,
            "message": job.message,
            "has_result": bool(result),
            "has_data": bool(data),
            "record_count": job.record_count,
            "error": job.error,
        }
        return header, result + data + new

    def _end(self, job: Job, result: bytes | None, error: Error | None) -> None:
        job.result, job.error = result, error
        if error is None:
            job.state = "done"
        else:
            job.state = "cancelled" if error[0] == "JobCancelled" else "failed"
        job.ended, job.process, job.call = time.monotonic(), None, b""
        if self._running.get(job.device) is job:
            del self._running[job.device]
        if job.key is not None and self._keys.get(job.key) is job:
            del self._keys[job.key]
        # The newest end is the last to be forgotten.
        with contextlib.suppress(KeyError):
            del self._jobs[job.id]
        self._jobs[job.id] = job
        self._touch(job)
        self._forget_old()

    def _forget_old(self) -> None:
        finished = [job for job in self._jobs.values() if job.finished]
        excess_jobs = len(finished) - self._max_kept_jobs
        excess_bytes = sum(job.kept_bytes for job in finished) - self._max_kept_bytes
        oldest = time.monotonic() - self._keep_seconds
        for job in finished[:-1]:  # the one that ended last stays, whatever its size
            if excess_jobs <= 0 and excess_bytes <= 0 and job.ended > oldest:
                return
            del self._jobs[job.id]
            excess_jobs -= 1
            excess_bytes -= job.kept_bytes

    def _touch(self, *jobs: Job) -> None:
        for job in jobs:
            self._version += 1
            job.version = self._version
        self._changed.notify_all()
