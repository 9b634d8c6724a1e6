"""On macOS and Windows job processes are spawned, not forked: what of that can be tested on any system."""

from __future__ import annotations

import math
import multiprocessing
import signal
import sys

import cloudpickle
import pytest

from core.jobs import process, wire
from tests.core.jobs_helpers import PATIENCE_SECONDS, is_gone, linux_only, start_app, wait_until


@linux_only
def test_processes_can_be_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows spawn each process; the same code must work there."""
    monkeypatch.setattr(process, "_CONTEXT", multiprocessing.get_context("spawn"))
    spawned = process.JobProcess("cpu")
    try:
        header = {"sys_path": sys.path, "directory": "", "memory_limit_bytes": 10**9, "max_result_bytes": 10**6}
        wire.send(spawned.connection, header, [cloudpickle.dumps((math.factorial, (5,), {}))])
        assert spawned.connection.poll(PATIENCE_SECONDS)
        assert spawned.wait_for_message()
        answer, blobs = wire.receive(spawned.connection, 10**6)
        assert answer == {"kind": "result"}
        assert cloudpickle.loads(blobs[0]) == 120
        assert spawned.alive
    finally:
        assert spawned.end() == -signal.SIGKILL
    assert is_gone(spawned.pid)


SPAWN = """
import multiprocessing, sys
from tests.core import jobs_functions
context = multiprocessing.get_context("spawn")
ours, theirs = context.Pipe()
process = context.Process(target=jobs_functions.end_with_parent, args=(theirs,))
process.start()
ours.recv_bytes()
print(process.pid, flush=True)
sys.stdin.readline()
"""


def test_a_spawned_process_ends_with_its_agent() -> None:
    app = start_app(SPAWN)
    assert app.stdout is not None
    pid = int(app.stdout.readline())
    assert not is_gone(pid)
    app.kill()
    app.wait(PATIENCE_SECONDS)
    app.communicate()
    wait_until(lambda: is_gone(pid))
