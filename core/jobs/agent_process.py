"""The agent as the app sees it: a child process, its private socket, and connections to it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from core.jobs import wire
from core.jobs.limits import Limits

# A loaded laptop may take seconds to start a Python; what has not answered after these is taken for dead.
START_SECONDS = 30
REPLY_SECONDS = 30
_ROOT = Path(__file__).resolve().parents[2]
_MAX_UNIX_PATH = 100  # the system's limit is 104 on macOS and 108 on Linux


class AgentGoneError(Exception):
    """The agent died or does not answer."""


class AgentProcess:
    """One running agent. It ends when this process does: it reads from a pipe that only this process holds open."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._key = os.urandom(32)
        self._idle: list[wire.Wire] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        self._started = time.monotonic()
        self.directory = _private_directory()
        self.address = (
            str(self.directory / "agent.sock") if self.directory else rf"\\.\pipe\napkin-{secrets.token_urlsafe(16)}"
        )
        search_path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "core.jobs.agent", self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=_ROOT,  # not the app's directory, where a random.py could shadow the library's
            env={**os.environ, "PYTHONPATH": search_path},
        )
        settings = {
            "key": self._key.hex(),
            "max_queued_jobs": limits.max_queued_jobs,
            "max_message_bytes": limits.max_message_bytes,
            "keep_seconds": limits.keep_seconds,
            "max_kept_jobs": limits.max_kept_jobs,
            "max_kept_bytes": limits.max_kept_bytes,
        }
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # an agent that died at once is noticed at the first call
            self.process.stdin.write(json.dumps(settings).encode() + b"\n")
            self.process.stdin.flush()

    @property
    def alive(self) -> bool:
        """Whether the agent's process runs."""
        return not self._closed and self.process.poll() is None

    def call(
        self, header: wire.Header, blobs: Sequence[bytes] = (), timeout: float = 0
    ) -> tuple[wire.Header, list[bytes]]:
        """Ask the agent something that it answers within ``timeout``. Raises AgentGoneError."""
        connection = self._take_connection()
        try:
            wire.send(connection, header, blobs)
            if not connection.poll(timeout + REPLY_SECONDS):
                raise TimeoutError("the agent does not answer")
            reply = wire.receive(connection, 2 * self._limits.max_message_bytes + 64 * 2**20)
        except wire.BROKEN as error:
            connection.close()
            raise AgentGoneError(str(error)) from error
        except BaseException:  # interrupted between question and answer: the connection is of no more use
            connection.close()
            raise
        with self._idle_lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
        return reply

    def close(self) -> None:
        """End the agent and all its jobs; harmless where it has ended."""
        with self._idle_lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # the agent ends when it reads the end of the pipe
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _take_connection(self) -> wire.Wire:
        with self._idle_lock:
            if self._idle:
                return self._idle.pop()
        while True:
            try:
                return wire.connect(self.address, self._key)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # Not listening yet, which the agent has START_SECONDS to begin with.
                if not self.alive or time.monotonic() > self._started + START_SECONDS:
                    raise AgentGoneError("the agent does not listen") from error
                time.sleep(0.005)
            except wire.BROKEN as error:
                raise AgentGoneError(str(error)) from error


def _private_directory() -> Path | None:
    """A directory for the agent's socket that only this user can enter; None on Windows, where a pipe has a name."""
    if os.name != "posix":
        return None
    directory = Path(tempfile.mkdtemp(prefix="napkin-"))
    if len(str(directory / "agent.sock")) > _MAX_UNIX_PATH:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="napkin-", dir="/tmp"))
    return directory
