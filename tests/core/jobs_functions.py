"""Functions that the tests run as jobs."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core import jobs


def count_to(n: int) -> str:
    for i in range(1, n + 1):
        jobs.report(i / n, f"step {i} of {n}", data={"step": i})
    return f"counted to {n}"


def pid() -> int:
    return os.getpid()


def say_pid_and_sleep(seconds: float = 600.0) -> str:
    jobs.report(0.0, "sleeping", data=os.getpid())
    time.sleep(seconds)
    return "slept"


def start_child_and_sleep(own_session: bool = False) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=own_session)
    jobs.report(data=(os.getpid(), child.pid))
    time.sleep(600)


def leave_child_behind() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def wait_for_file(path: str) -> str:
    jobs.report(message="waiting")
    end = time.monotonic() + 60
    while not Path(path).exists():
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.005)
    return path


def log_times(path: str, name: str) -> None:
    """Append start and end to a file, with a little time between them."""
    with Path(path).open("a") as file:
        print("start", name, file=file, flush=True)
        time.sleep(0.02)
        print("end", name, file=file, flush=True)


def segfault() -> None:
    ctypes.string_at(0)


def exit_at_once(code: int) -> None:
    os._exit(code)


def exit_politely(code: int) -> None:
    sys.exit(code)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def close_all_files() -> None:
    os.closerange(0, 1000)
    time.sleep(600)


def ignore_signals_in_c() -> None:
    """Sleep in C while holding the interpreter's lock, with every signal that can be ignored ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(600)


def long_matmul() -> None:
    import torch

    x = torch.randn(4096, 4096, dtype=torch.float64)
    while True:
        x = x @ x


def allocate_numpy_bytes(size_bytes: int) -> int:
    return len(bytearray(size_bytes))


def allocate_torch_bytes(size_bytes: int) -> int:
    import torch

    return torch.empty(size_bytes, dtype=torch.uint8).numel()


def touch_shared_memory(size_bytes: int) -> int:
    import mmap

    memory = mmap.mmap(-1, size_bytes)  # shared: the system's own limit does not count it
    for start in range(0, size_bytes, 4096):
        memory[start] = 1
    time.sleep(600)
    return size_bytes


def raise_value_error() -> None:
    raise ValueError("d must be a positive integer, for example 256; received −1")


def raise_key_error() -> None:
    raise KeyError("weights")


def return_generator() -> object:
    return (i for i in range(3))


def return_bytes(size: int) -> bytes:
    return bytes(size)


def threads_and_matmul() -> tuple[int, float, int]:
    """The threads that torch says it uses, the error of a matmul, and the threads that really ran."""
    import torch

    x = torch.randn(600, 700)
    y = torch.randn(700, 800)
    error = (x @ y - (x.double() @ y.double()).float()).abs().max().item()
    return torch.get_num_threads(), error, len(list(Path("/proc/self/task").iterdir()))


def numpy_matmul() -> float:
    import numpy as np

    x = np.arange(1e6).reshape(1000, 1000) % 7
    return float((x @ x)[123, 456] - sum(x[123, k] * x[k, 456] for k in range(1000)))


def backward() -> float:
    import torch

    x = torch.ones(100, 100, requires_grad=True)
    (x @ x).sum().backward()
    assert x.grad is not None
    return x.grad.sum().item()


def random_numbers() -> tuple[float, float]:
    import random

    import numpy as np

    return random.random(), float(np.random.random())


def bad_reports() -> str:
    problems = []
    for fraction in (1.5, -0.1, float("nan")):
        try:
            jobs.report(fraction)
        except ValueError as error:
            problems.append(str(error))
    try:
        jobs.report(data=bytes(2**21))
    except ValueError as error:
        problems.append(str(error))
    return "\n".join(problems)


def many_records(n: int) -> int:
    for i in range(n):
        jobs.report(data=i)
    return n


def working_directory_and_path() -> tuple[str, list[str]]:
    return str(Path.cwd()), list(sys.path)


def print_things() -> str:
    print("to standard output")
    print("to standard error", file=sys.stderr)
    os.write(1, b"to descriptor 1\n")
    return "printed"


def end_with_parent(connection: Any) -> None:
    from core.jobs import worker

    worker._end_with_parent()
    connection.send_bytes(b"ready")
    time.sleep(600)


def square_in_a_child(x: int) -> int:
    """A job may use multiprocessing, as a data loader does."""
    results = []
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            results.append(pool.map(abs, [-x])[0])
    assert len(set(results)) == 1
    return results[0] ** 2
