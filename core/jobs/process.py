"""A job's process as the agent holds it: started ahead, given one job, and killed when that is over."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing import connection
from pathlib import Path
from typing import Any

import psutil

from core.jobs import wire, worker

# On Linux a process is forked from a server that has loaded torch and never ran it: milliseconds. Forking a process
# that has loaded Apple's libraries is unsafe, and Windows cannot fork: there each process loads torch by itself, ahead
# of its job.
_LINUX: bool = sys.platform == "linux"
# Every optimizer imports torch._dynamo, which takes longer than torch itself. A module that is missing is skipped.
_PRELOAD = os.environ.get("NAPKIN_JOB_PRELOAD", "torch,torch._dynamo,einops,jaxtyping,beartype")
_CONTEXT: Any = multiprocessing.get_context("forkserver" if _LINUX else "spawn")
if _LINUX:
    _CONTEXT.set_forkserver_preload([*_PRELOAD.split(","), "numpy.random", "cloudpickle", "core.jobs.worker"])

# multiprocessing looks at all processes when it starts one, and is not written for two threads at it.
_multiprocessing_lock = threading.Lock()
_started: set[JobProcess] = set()


class JobProcess:
    """One process for one job. Starting it may take as long as importing torch does."""

    def __init__(self, device: str) -> None:
        ours, theirs = _CONTEXT.Pipe()
        self.connection: wire.Wire = ours
        self._ended = threading.Lock()  # held while killing, so that no process of the same number is hit later
        self._gone = False
        try:
            self._process: Any = _CONTEXT.Process(target=worker.main, args=(theirs, device))
            with _multiprocessing_lock:
                self._process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid: int = self._process.pid
        _started.add(self)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return not connection.wait([self._process.sentinel], 0)

    def wait_for_message(self) -> bool:
        """Wait until the process says something or ends; False where it has ended and said nothing more."""
        ready = connection.wait([self.connection, self._process.sentinel])
        return self.connection in ready or self.connection.poll(0)

    def kill(self) -> None:
        """End the process and everything that it started, now."""
        with self._ended:
            if self._gone:
                return
            children: list[psutil.Process] = []
            with contextlib.suppress(psutil.Error):
                children = psutil.Process(self.pid).children(recursive=True)
            if sys.platform != "win32":
                # Its group first: nothing in it can start another process after this.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                self._process.kill()
            for child in children:
                with contextlib.suppress(psutil.Error):
                    child.kill()

    def end(self, patience: float = 0.0) -> int | None:
        """Kill what is left, after ``patience`` seconds to end by itself; its exit code, negative for a signal."""
        connection.wait([self._process.sentinel], patience)
        self.kill()
        connection.wait([self._process.sentinel], 10)
        with self._ended:
            self._gone = True
            with _multiprocessing_lock:
                self._process.join(1)
                exit_code: int | None = self._process.exitcode
        self.connection.close()
        _started.discard(self)
        return exit_code

    def resident_bytes(self) -> int:
        """The memory that the process holds in RAM for itself: without the program's own files, where that is known."""
        try:
            if _LINUX:
                lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
                return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))
            memory = psutil.Process(self.pid).memory_info()
            return int(getattr(memory, "private", memory.rss))  # Windows knows what is private
        except (OSError, ValueError, psutil.Error):  # it has just ended
            return 0


def kill_all() -> None:
    """Kill every job process of this agent."""
    for process in list(_started):
        process.kill()
