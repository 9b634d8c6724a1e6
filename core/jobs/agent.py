"""The program that runs jobs: ``python -m core.jobs.agent ADDRESS``, started by `core.jobs.client`.

It listens on a private socket, and reads its key and its limits from standard input, one line of JSON. When standard
input ends, the app has ended, and so do the agent and its jobs. It never loads torch: see `core.jobs.process`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

from core.jobs import wire
from core.jobs.devices import DeviceThread, watch
from core.jobs.process import kill_all
from core.jobs.table import Error, Job, JobTable

MAX_CONNECTIONS = 500
MAX_DEVICES = 64
MAX_WAIT_SECONDS = 25.0
CANCEL_SECONDS = 10.0
_DEVICE_NAME = re.compile(r"[a-z]{1,16}(:\d{1,3})?")


class Agent:
    """Answers clients, each connection in a thread of its own: one that stops halfway holds up nobody else."""

    def __init__(self, key: bytes, settings: dict[str, Any]) -> None:
        self._key = key
        self._max_message_bytes: int = settings["max_message_bytes"]
        self.table = JobTable(
            settings["max_queued_jobs"],
            settings["keep_seconds"],
            settings["max_kept_jobs"],
            settings["max_kept_bytes"],
        )
        self._devices: set[str] = set()
        self._lock = threading.Lock()
        self._connections = threading.Semaphore(MAX_CONNECTIONS)

    def listen(self, listener: Listener) -> None:
        """Accept connections for ever."""
        while True:
            try:
                connection: Any = listener.accept()
            except OSError:  # the peer has left already, or this process has too many files open
                time.sleep(0.01)
                continue
            if not self._connections.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), name="connection", daemon=True).start()

    def start_device(self, device: str) -> Error | None:
        """Make sure that a thread runs the device's jobs; an error where it is not a device."""
        if not _DEVICE_NAME.fullmatch(device):
            return "ValueError", f'a device is named like "cpu" or "cuda:0"; received {device[:40]!r}', ""
        with self._lock:
            if device in self._devices:
                return None
            if len(self._devices) >= MAX_DEVICES:
                return "JobRefused", f"Jobs run on {MAX_DEVICES} devices already, the most that are served.", ""
            self._devices.add(device)
        DeviceThread(device, self.table, self._max_message_bytes).start()
        return None

    def _serve(self, connection: wire.Wire) -> None:
        try:
            wire.accept(connection, self._key)
            while True:
                connection.poll(None)  # between two requests a client may be silent for ever
                header, blobs = wire.receive(connection, self._max_message_bytes)
                wire.send(connection, *self._answer(header, blobs))
        except wire.BROKEN:
            pass  # the client has left, or was no client of ours
        finally:
            connection.close()
            self._connections.release()

    def _answer(self, header: wire.Header, blobs: list[bytes]) -> tuple[wire.Header, list[bytes]]:
        job_id = header["id"]
        if header["op"] == "submit":
            error = self.start_device(header["device"])
            if error is None:
                job_id, error = self.table.add(_job(header, blobs[0]))
            return ({"error": error} if error else {"id": job_id}), []
        if header["op"] == "cancel":
            self.table.cancel(job_id, CANCEL_SECONDS)
            return {}, []
        if header["op"] == "wait":
            timeout = min(float(header["timeout"]), MAX_WAIT_SECONDS)
            return self.table.wait(job_id, timeout, header["after_version"], header["records_after"])
        raise ValueError(f"unknown request {header['op']!r}")


def _job(header: wire.Header, call: bytes) -> Job:
    return Job(
        id=str(header["id"]),
        device=header["device"],
        call=call,
        timeout_seconds=float(header["timeout_seconds"]),
        memory_limit_bytes=int(header["memory_limit_bytes"]),
        sys_path=list(header["sys_path"]),
        directory=str(header["directory"]),
        key=header["key"],
    )


def main() -> None:
    """Run the agent until standard input ends."""
    address = sys.argv[1]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the app, which then ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.stdout = sys.stderr
    # A job's process would import the main module again; it needs nothing of this one, and starts faster without.
    vars(sys.modules["__main__"]).update(__spec__=None, __file__=None)
    settings = json.loads(sys.stdin.buffer.readline())
    parent = os.getppid()
    directory = Path(address).parent if os.name == "posix" else None
    if directory is not None:
        tempfile.tempdir = str(directory)  # the fork server's socket goes here too, and away with the rest
    app_ended = threading.Event()
    agent = Agent(bytes.fromhex(settings.pop("key")), settings)
    listener = Listener(address, backlog=128)
    if directory is not None:
        Path(address).chmod(0o600)
    threading.Thread(target=_wait_for_end_of_input, args=(app_ended,), daemon=True).start()
    threading.Thread(target=agent.listen, args=(listener,), name="listen", daemon=True).start()
    agent.start_device("cpu")
    try:
        # The parent's number is a second sign of its end: a child that it forked may hold our standard input open.
        while not app_ended.is_set() and os.getppid() == parent:
            watch(agent.table, timeout=0.5)
    finally:
        kill_all()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        # Threads wait in accept and receive: an orderly exit would wait for them.
        os._exit(0)


def _wait_for_end_of_input(ended: threading.Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        while os.read(0, 4096):
            pass
    ended.set()


if __name__ == "__main__":
    main()
