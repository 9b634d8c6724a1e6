"""The backend that runs jobs on this machine, under an agent that it starts and restarts by itself."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import secrets
import sys
import threading
from typing import Any, cast

from core import units
from core.jobs import wire
from core.jobs.agent_process import AgentGoneError, AgentProcess
from core.jobs.backend import Request
from core.jobs.limits import Limits
from core.jobs.types import JobFailed, JobLost, JobRefused, Progress, State, Status, error_from, lost

# The agent answers a long poll after this at the latest; the caller then asks again.
MAX_WAIT_SECONDS = 20.0
CANCEL_SECONDS = 10.0


class LocalBackend:
    """Runs jobs on this machine; implements `core.jobs.backend.Backend`.

    >>> backend = LocalBackend(Limits())
    >>> backend.wait("no such job", timeout=0, after_version=-1, records_after=0).state
    'lost'
    >>> backend.close()
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = Limits.from_environment() if limits is None else limits
        self._lock = threading.Lock()
        self._agent: AgentProcess | None = None
        self._closed = False
        self._pid = os.getpid()
        atexit.register(self.close)

    def submit(self, request: Request) -> str:
        """Queue a job and return its id; a dead agent is replaced. Raises ValueError, JobRefused or JobLost."""
        if len(request.call) > self.limits.max_message_bytes:
            size, limit = units.si_bytes(len(request.call)), units.si_bytes(self.limits.max_message_bytes)
            raise JobRefused(f"The job's function and arguments have {size}; {limit} may be sent at most.")
        if not isinstance(request.device, str) or not isinstance(request.key, str | None):
            raise ValueError(f"a job's device and key are text; received {request.device!r} and {request.key!r}")
        header = {
            "op": "submit",
            "id": secrets.token_urlsafe(16),
            "key": request.key,
            "device": request.device,
            "timeout_seconds": self.limits.timeout_seconds(request.timeout_seconds),
            "memory_limit_bytes": self.limits.memory_limit_bytes(request.memory_limit_bytes),
            "sys_path": [str(entry) for entry in sys.path],
            "directory": _current_directory(),
        }
        for _ in range(2):
            agent = self._running_agent()
            try:
                reply, _blobs = agent.call(header, [request.call])
            except AgentGoneError:
                self._discard(agent)
                continue
            if "error" in reply:
                raise error_from(*reply["error"])
            return str(reply["id"])
        raise JobLost("The process that runs jobs ended twice while it was given this one; its log may say why.")

    def wait(self, job_id: str, timeout: float, after_version: int, records_after: int) -> Status:
        """The status once it differs from ``after_version``, or after ``timeout`` seconds (20 at most)."""
        agent = self._agent
        if agent is None or not agent.alive:
            return lost(job_id)
        timeout = min(max(timeout, 0.0), MAX_WAIT_SECONDS)
        header = {
            "op": "wait",
            "id": str(job_id),
            "timeout": timeout,
            "after_version": int(after_version),
            "records_after": int(records_after),
        }
        try:
            reply, blobs = agent.call(header, timeout=timeout)
        except AgentGoneError:
            self._discard(agent)
            return lost(job_id)
        return _status(job_id, reply, blobs)

    def cancel(self, job_id: str) -> None:
        """Kill the job's process, or take the job out of the queue."""
        agent = self._agent
        if agent is None or not agent.alive:
            return
        try:
            agent.call({"op": "cancel", "id": str(job_id)}, timeout=CANCEL_SECONDS)
        except AgentGoneError:
            self._discard(agent)

    def warm(self) -> None:
        """Start the agent, if none runs, without waiting for it."""
        if self._agent is not None and self._agent.alive:
            return

        def start() -> None:
            with contextlib.suppress(JobLost):
                self._running_agent()

        threading.Thread(target=start, name="start agent", daemon=True).start()

    def close(self) -> None:
        """Stop the agent and all jobs."""
        if os.getpid() != self._pid:  # a forked child leaves its parent's agent alone
            return
        with self._lock:
            self._closed = True
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()
        atexit.unregister(self.close)

    def _running_agent(self) -> AgentProcess:
        with self._lock:
            if self._closed:
                raise JobLost("Jobs have been shut down; start the app again.")
            if self._agent is not None and not self._agent.alive:
                self._agent.close()
                self._agent = None
            if self._agent is None:
                try:
                    self._agent = AgentProcess(self.limits)
                except OSError as error:
                    raise JobLost(f"The process that runs jobs cannot be started: {error}.") from error
            return self._agent

    def _discard(self, agent: AgentProcess) -> None:
        """Give up an agent that does not answer, so that the next job gets a new one."""
        with self._lock:
            if self._agent is not agent:
                return
            self._agent = None
        agent.process.kill()
        agent.close()


def _current_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # deleted meanwhile
        return ""


def _status(job_id: str, reply: wire.Header, blobs: list[bytes]) -> Status:
    """A status out of the agent's answer: a result if there is one, the latest record if there is one, new records."""
    if reply["state"] == "lost":
        return lost(job_id)
    state = cast(State, reply["state"])
    error = error_from(*reply["error"]) if reply["error"] else None
    result: Any = None
    progress, records = None, ()
    try:
        if reply["has_result"]:
            result = pickle.loads(blobs.pop(0))  # noqa: S301 - made by the user's own job
        data = pickle.loads(blobs.pop(0)) if reply["has_data"] else None  # noqa: S301
        if reply["has_progress"]:
            progress = Progress(reply["fraction"], reply["message"], data)
        records = tuple(pickle.loads(blob) for blob in blobs)  # noqa: S301
    except Exception as problem:
        text = f"The job's result cannot be read here: {type(problem).__name__}: {problem}"
        state, result, error = "failed", None, JobFailed(text)
    return Status(
        id=job_id,
        state=state,
        place=reply["place"],
        progress=progress,
        result=result,
        error=error,
        seconds=reply["seconds"],
        records=records,
        record_count=reply["record_count"],
        version=reply["version"],
    )
