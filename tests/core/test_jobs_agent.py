"""The life of the agent: it is private, survives bad clients, is replaced when it dies, and ends with the app."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core import jobs
from core.jobs import agent_process, wire
from tests.core import jobs_functions as functions
from tests.core.jobs_helpers import (
    PATIENCE_SECONDS,
    ROOT,
    Own,
    finished,
    is_gone,
    linux_only,
    reported,
    start_app,
    until,
    wait_until,
)

pytestmark = linux_only


@pytest.fixture
def own() -> Iterator[Own]:
    made = Own()
    yield made
    made.backend.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Own]:
    """For tests that leave the agent as it is."""
    made = Own()
    yield made
    made.backend.close()


def works(own: Own) -> bool:
    return bool(finished(own.submit(math.factorial, 5), own.wait).result == 120)


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


# --- when the agent dies ----------------------------------------------------------------------------------------


def test_a_killed_agent_is_replaced(own: Own) -> None:
    job_id = own.submit(functions.say_pid_and_sleep)
    pid = reported(job_id, own.wait)
    queued = own.submit(math.factorial, 3)
    old = own.agent
    everything = family(old.process.pid)
    old.process.send_signal(signal.SIGKILL)
    for lost in (job_id, queued):
        now = until(lost, lambda now: now.finished, own.wait)
        assert now.state == "lost"
        assert str(now.error) == "The job is lost: what ran it has ended, or it was over too long ago. Run it again."
    wait_until(lambda: is_gone(pid))
    assert works(own)
    assert own.agent is not old
    assert own.wait(job_id, 0, -1, 0).state == "lost"
    wait_until(lambda: all(is_gone(process.pid) for process in everything))
    assert not old.directory.exists()


def test_waiting_for_a_job_whose_agent_is_killed_ends(own: Own) -> None:
    job_id = own.submit(functions.say_pid_and_sleep)
    reported(job_id, own.wait)
    version = own.wait(job_id, 0, -1, 0).version
    timer = threading.Timer(0.1, own.agent.process.kill)
    timer.start()
    assert own.wait(job_id, 20, version, 0).state == "lost"
    timer.join()


def test_an_agent_that_does_not_answer_is_replaced(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    assert works(own)
    old = own.agent
    old.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(old.process.pid).status() == psutil.STATUS_STOPPED)
    with monkeypatch.context() as patch:
        patch.setattr(agent_process, "REPLY_SECONDS", 0.2)
        assert own.wait("any", 0, -1, 0).state == "lost"
    assert old.process.poll() is not None
    assert works(own)


def test_killed_helpers_are_replaced(own: Own) -> None:
    job_id = own.submit(functions.say_pid_and_sleep)
    pid = reported(job_id, own.wait)
    server = psutil.Process(psutil.Process(pid).ppid())
    assert server.pid != own.agent.process.pid
    server.kill()  # what job processes are forked from, and with it the job
    assert isinstance(finished(job_id, own.wait).error, jobs.JobCrashed)
    assert works(own)


def test_a_killed_waiting_process_is_replaced(own: Own) -> None:
    assert works(own)

    def kill_waiting() -> bool:  # forked from the server, which is a child of the agent
        with contextlib.suppress(psutil.NoSuchProcess):  # the last job's process, on its way out
            helpers = psutil.Process(own.agent.process.pid).children()
            waiting = [child for helper in helpers for child in helper.children() if not is_gone(child.pid)]
            if len(waiting) == 1:
                waiting[0].kill()
                return True
        return False

    wait_until(kill_waiting)
    wait_until(lambda: works(own))  # a job given to it in the very moment of its death would fail


# --- when the app ends ------------------------------------------------------------------------------------------

APP = """
import sys
from core import jobs
from tests.core import jobs_functions
from core.jobs.backend import get_backend
job_id = jobs.submit(jobs_functions.say_pid_and_sleep)
while not (now := jobs.wait(job_id, 5)).records:
    pass
agent = get_backend()._agent
print(agent.process.pid, now.records[0], agent.directory, flush=True)
if sys.argv[1] == "stay":
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["killed", "exits"])
def test_the_agent_ends_with_the_app(how: str) -> None:
    app = start_app(APP, "stay" if how == "killed" else "go")
    assert app.stdout is not None
    agent_pid, job_pid, directory = app.stdout.readline().split()
    if how == "killed":
        assert not is_gone(int(job_pid))
        app.kill()
    app.wait(PATIENCE_SECONDS)
    app.communicate()
    wait_until(lambda: is_gone(int(agent_pid)) and is_gone(int(job_pid)) and not Path(directory).exists())


MAIN = """
from core import jobs

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

def add(pair):
    jobs.report(0.5)
    return Pair(pair.a + pair.b, 0)

if __name__ == "__main__":
    *updates, result = jobs.run(add, Pair(40, 2))
    print(type(result) is Pair, result.a)
"""


def test_functions_and_classes_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True 42\n", "", 0)


FORK = """
import math, os
from core import jobs
assert list(jobs.run(math.factorial, 5))[-1] == 120
child = os.fork()
if child == 0:
    raise SystemExit(0 if jobs.status("any").state == "lost" else 1)  # and ends like a whole program
assert os.waitpid(child, 0)[1] == 0
assert list(jobs.run(math.factorial, 5))[-1] == 120
print("the agent lives", flush=True)
"""


def test_a_forked_child_leaves_the_agent_alone() -> None:
    app = start_app(FORK)
    output, _ = app.communicate(timeout=PATIENCE_SECONDS)
    assert (output, app.returncode) == ("the agent lives\n", 0)


def test_importing_jobs_is_cheap() -> None:
    app = start_app("import sys, core.jobs; print({'torch', 'numpy', 'cloudpickle', 'psutil'} & set(sys.modules))")
    output, _ = app.communicate(timeout=PATIENCE_SECONDS)
    assert output == "set()\n"


# --- privacy and bad clients ------------------------------------------------------------------------------------


def test_the_socket_is_private(shared: Own) -> None:
    assert works(shared)
    directory, socket = shared.agent.directory, Path(shared.agent.address)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert socket.stat().st_uid == os.getuid()


def test_the_key_is_not_in_the_command_line_or_the_environment(shared: Own) -> None:
    assert works(shared)
    key = shared.agent._key
    for helper in family(shared.agent.process.pid):
        with contextlib.suppress(psutil.NoSuchProcess):  # the last job's process may just have ended
            seen = f"{helper.cmdline()} {helper.environ()}"
            assert key.hex() not in seen
            assert repr(key) not in seen


def test_a_wrong_key_is_refused(shared: Own) -> None:
    assert works(shared)
    with pytest.raises(multiprocessing.AuthenticationError):
        wire.connect(shared.agent.address, os.urandom(32))
    assert works(shared)


def test_bad_clients_do_not_stop_the_agent(shared: Own) -> None:
    assert works(shared)
    address, key = shared.agent.address, shared.agent._key
    import socket

    silent = socket.socket(socket.AF_UNIX)  # never answers the challenge
    silent.connect(address)
    half = wire.connect(address, key)
    os.write(half.fileno(), b"\x00\x00\x10\x00half a message")
    gone = wire.connect(address, key)
    gone.close()
    nonsense: list[Any] = []
    for message in (
        b"not JSON",
        b"[]",
        b"{}",
        b'{"op": "dance", "id": "x", "sizes": []}',
        b'{"op": "submit", "sizes": []}',
    ):
        connection = wire.connect(address, key)
        connection.send_bytes(message)
        nonsense.append(connection)
    try:
        assert works(shared)
        for connection in nonsense:
            with pytest.raises((EOFError, ConnectionResetError)):
                connection.recv_bytes()
    finally:
        silent.close()
        for connection in [half, *nonsense]:
            connection.close()
    assert works(shared)
