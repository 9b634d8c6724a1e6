"""What runs in a job's process: wait for one job, run it, send the result, end."""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import cloudpickle

from core import units
from core.jobs import reporting, wire

_MAX_ERROR_TEXT = 2000
_MAX_DETAIL = 20_000
_MAX_STACK_BYTES = 8 * 2**20
_PR_SET_PDEATHSIG = 1
# What torch and the system say, in other exceptions than MemoryError, when an allocation fails.
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "std::bad_alloc", "cannot allocate memory")


def main(connection: wire.Wire, device: str) -> None:
    """Run one job. The agent kills this process when it has the result, and everything that the job left behind."""
    _isolate()
    _prepare_torch(device)
    try:
        connection.poll(None)
        header, blobs = wire.receive(connection, 2**31 - 1)
    except (EOFError, OSError):  # the agent has ended
        return
    reporter = reporting.start(connection)
    try:
        answer, body = _run(header, blobs.pop(), device)
    except SystemExit as request:
        _flush()
        os._exit(request.code if isinstance(request.code, int) else int(request.code is not None))
    _flush()
    with contextlib.suppress(OSError):
        reporter.close()
        wire.send(connection, answer, body)
        connection.poll(30)
    os._exit(0)


def available_cores() -> int:
    """The cores that this process may use: its affinity and the container's quota.

    >>> available_cores() >= 1
    True
    """
    cores = os.cpu_count() or 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


def _isolate() -> None:
    """Make this process easy to kill with all that it starts, and the first to go when memory runs out."""
    sys.stdout = sys.stderr  # the agent's standard output goes nowhere; its standard error is the app's log
    if sys.platform == "win32":
        _end_with_parent()
        return
    import resource

    os.setsid()  # a process group of its own, which is killed as a whole
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
        if _end_with_fork_server():
            return
    _end_with_parent()


def _end_with_fork_server() -> bool:
    """On Linux, let the system kill this process if the agent is killed; False where there is no fork server.

    The fork server ends with the agent: when nobody holds a certain pipe open any more. multiprocessing gives that
    pipe to each child of the server too, so a running job must let go of it.
    """
    from multiprocessing import forkserver  # here, because Windows has none

    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is None:
        return False
    os.close(server._forkserver_alive_fd)
    server._forkserver_alive_fd = server._forkserver_address = None
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return True


def _end_with_parent() -> None:
    """Elsewhere, a thread waits for the agent's end."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="end with agent", daemon=True).start()


def _prepare_torch(device: str) -> None:
    """Load torch before the job comes, and give it the cores that it really has."""
    try:
        import numpy
        import torch

        numpy.random.seed()  # forked processes would all draw the same numbers
        if available_cores() < torch.get_num_threads():
            torch.set_num_threads(available_cores())
        if device.startswith("cuda"):
            torch.empty(1, device=device)  # makes the context, which takes a second or more
    except Exception as error:
        # The job may not need it; if it does, it fails with the same error.
        print(f"A job's process could not prepare {device}: {type(error).__name__}: {error}", file=sys.stderr)


def _run(header: wire.Header, call: bytes, device: str) -> tuple[wire.Header, list[bytes]]:
    """Run the call; the message to send. Raises SystemExit where the call does."""
    sys.path[:] = header["sys_path"]
    with contextlib.suppress(OSError):
        os.chdir(header["directory"])
    limit_bytes: int = header["memory_limit_bytes"]
    step = "The job cannot be loaded in its process"
    if device == "cpu":  # CUDA maps more memory than it uses: there the agent's watchdog holds the limit alone
        _limit_memory(limit_bytes)
    try:
        function, args, kwargs = pickle.loads(call)  # noqa: S301 - made by the user's own app
        step = "The job failed"
        result = function(*args, **kwargs)
        step = "The job's result cannot be sent back"
        body = cloudpickle.dumps(result)
    except SystemExit:
        raise
    except BaseException as error:
        _limit_memory(None)
        return _failure(error, step, limit_bytes), []
    if len(body) > header["max_result_bytes"]:
        size, limit = units.si_bytes(len(body)), units.si_bytes(header["max_result_bytes"])
        text = f"The job's result has {size}, and {limit} may be sent back at most."
        return {"kind": "error", "error": ("JobFailed", text, "")}, []
    return {"kind": "result"}, [body]


def _failure(error: BaseException, step: str, limit_bytes: int) -> wire.Header:
    detail = "".join(traceback.format_exception(error))[-_MAX_DETAIL:]
    text = str(error)
    if _is_out_of_memory(error):
        message = f"The job asked for more memory than its limit of {units.si_bytes(limit_bytes)}."
        if tried := re.search(r"Tried to allocate ([\d.]+ \w+)", text):  # a GPU's memory, where the limit is its size
            message = f"The device has too little memory free: the job tried to allocate {tried[1]}."
        return {"kind": "error", "error": ("JobOutOfMemory", message, detail)}
    if isinstance(error, ValueError) and step == "The job failed":
        return {"kind": "error", "error": ("ValueError", text[:_MAX_DETAIL], detail)}
    message = f"{step}: {type(error).__name__}" + (f": {text[:_MAX_ERROR_TEXT]}" if text else ".")
    return {"kind": "error", "error": ("JobFailed", message, detail)}


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError | OSError) and any(word in str(error).lower() for word in _OUT_OF_MEMORY)


def _limit_memory(limit_bytes: int | None) -> None:
    """Make the system refuse an allocation that would exceed the limit, before it is made; None lifts the limit.

    RLIMIT_DATA counts the private memory that can be written to. RLIMIT_AS would also count address space that is
    only reserved: torch's libraries, malloc's arenas (64 MiB a thread), CUDA's. The stacks of the threads that torch
    is about to start are allowed for. The agent's watchdog holds the limit where there is no such refusal.
    """
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if limit_bytes is None:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return
    status = Path("/proc/self/status").read_text().splitlines()
    data_bytes = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmData"))
    stack_bytes, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if not 0 < stack_bytes <= _MAX_STACK_BYTES:
        stack_bytes = _MAX_STACK_BYTES
    threads = 2 * available_cores() + 4  # OpenMP's, autograd's, and the one that sends reports
    soft = data_bytes + limit_bytes + threads * stack_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stderr.flush()
