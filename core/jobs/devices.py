"""What the agent does with its jobs: a thread per device runs them one by one, and a watchdog holds the limits."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback

from core import units
from core.jobs import wire
from core.jobs.process import JobProcess
from core.jobs.reporting import MAX_PENDING_BYTES
from core.jobs.table import Error, Job, JobTable

# How often the watchdog looks at a running job's memory.
MEMORY_POLL_SECONDS = 0.1
# A process that closed its connection is about to exit; if it does not, it is killed.
EXIT_SECONDS = 2.0
# How often an idle device looks whether the process that it keeps ready still lives.
IDLE_SECONDS = 5.0


class DeviceThread(threading.Thread):
    """Runs the jobs of one device, one at a time, in the order they came.

    The next job's process starts as soon as the last job is over, never beside a running job, which may be measuring.
    """

    def __init__(self, device: str, table: JobTable, max_message_bytes: int) -> None:
        super().__init__(name=f"jobs on {device}", daemon=True)
        self._device = device
        self._table = table
        self._max_message_bytes = max_message_bytes

    def run(self) -> None:
        """Run jobs until the agent ends."""
        process: JobProcess | None = None
        while True:
            if process is None or not process.alive:
                process = self._fresh_process(process)
            if not self._table.wait_for_job(self._device, IDLE_SECONDS):
                continue
            if process is None:  # what failed while nobody waited may work now
                process = self._fresh_process(None)
            if process is not None and not process.alive:
                continue
            job = self._table.begin(self._device, process)
            if job is None:  # cancelled meanwhile
                continue
            try:
                self._run_job(job, process)
            except Exception:  # our mistake; it must not leave the jobs behind this one waiting for ever
                traceback.print_exc()
                if process is not None:
                    process.kill()
                self._table.finish(job, error=("JobCrashed", "The job could not be run; the app's log says why.", ""))
            process = None

    def _fresh_process(self, ended: JobProcess | None) -> JobProcess | None:
        try:
            if ended is not None:
                ended.end()
            return JobProcess(self._device)
        except Exception:  # no memory for a process, a broken torch: the jobs fail, and later ones may work
            traceback.print_exc()
            return None

    def _run_job(self, job: Job, process: JobProcess | None) -> None:
        if process is None:
            text = "The job's process could not be started; the app's log says why."
            self._table.finish(job, error=("JobCrashed", text, ""))
            return
        result: bytes | None = None
        error: Error | None = None
        with contextlib.suppress(*wire.BROKEN):  # the process ended, or is about to
            result, error = self._converse(job, process)
        if result is None and error is None:
            error = crash(process.end(EXIT_SECONDS))
        self._table.finish(job, result, error)
        process.end()

    def _converse(self, job: Job, process: JobProcess) -> tuple[bytes | None, Error | None]:
        """Give the process its job and listen to it; a result, an error, or neither where it ended without."""
        header = {
            "sys_path": job.sys_path,
            "directory": job.directory,
            "memory_limit_bytes": job.memory_limit_bytes,
            "max_result_bytes": self._max_message_bytes,
        }
        wire.send(process.connection, header, [job.call])
        while process.wait_for_message():
            answer, blobs = wire.receive(process.connection, self._max_message_bytes + 2 * MAX_PENDING_BYTES)
            if answer["kind"] == "progress":
                self._table.progress(job, answer["fraction"], answer["message"], blobs)
            elif answer["kind"] == "result":
                return blobs[0], None
            else:
                kind, message, detail = answer["error"]
                return None, (kind, message, detail)
        return None, None


def crash(exit_code: int | None) -> Error:
    """What to say of a process that ended without a result.

    >>> crash(-11)[1]
    "The job's process was killed by signal 11 (SIGSEGV) before it gave a result."
    >>> crash(3)[1]
    "The job's process exited with code 3 before it gave a result."
    """
    if exit_code is None:
        return "JobCrashed", "The job's process ended before it gave a result.", ""
    if exit_code >= 0:
        return "JobCrashed", f"The job's process exited with code {exit_code} before it gave a result.", ""
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "unknown"
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    text = f"The job's process was killed by signal {-exit_code} ({name}) before it gave a result{why}."
    return "JobCrashed", text, ""


def watch(table: JobTable, timeout: float) -> None:
    """Hold the running jobs to their limits for ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        jobs = table.running()
        if not jobs:
            table.wait_for_running(left)
            continue
        for job in jobs:
            _hold_to_limits(table, job)
        next_timeout = min(job.timeout_seconds - job.seconds for job in jobs)
        time.sleep(max(0.001, min(MEMORY_POLL_SECONDS, next_timeout, left)))


def _hold_to_limits(table: JobTable, job: Job) -> None:
    if job.seconds >= job.timeout_seconds:
        text = f"The job was stopped at its time limit of {units.seconds(job.timeout_seconds)}."
        table.stop(job, ("JobTimeout", text, ""))
        return
    process = job.process
    taken_bytes = process.resident_bytes() - job.resident_bytes_at_start if process is not None else 0
    if taken_bytes > job.memory_limit_bytes:
        text = f"The job was stopped at its memory limit of {units.si_bytes(job.memory_limit_bytes)}."
        table.stop(job, ("JobOutOfMemory", text, ""))
