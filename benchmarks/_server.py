"""A Streamlit server for a benchmark: started on a free port of this machine, always stopped."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Row = tuple[str, float, str, float | None]  # name, value, unit, what it should not exceed

ROOT = Path(__file__).resolve().parents[1]
NAPKIN = ROOT / "app.py"
HELLO = ROOT / "benchmarks" / "apps" / "hello.py"
SAME_CONTROLS = ROOT / "benchmarks" / "apps" / "same_controls.py"

START_SECONDS = 60.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def is_healthy(port: int) -> bool:
    """Whether the server answers its health check."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def serve(app: Path) -> Iterator[Server]:
    """``streamlit run app`` from the repository's root, from its first answer until the block is left.

    Every app gets the settings in the repository's .streamlit/config.toml: no file watcher, no garbage collection
    after a rerun, no magic, no usage statistics, the same theme. Raises RuntimeError with the end of the server's log
    where it does not come up.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(app), f"--server.port={port}"]
    command += ["--server.headless=true", "--server.address=127.0.0.1"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            give_up = time.perf_counter() + START_SECONDS
            while not is_healthy(port):
                if process.poll() is not None or time.perf_counter() > give_up:
                    log.seek(0)
                    raise RuntimeError(f"{app.name} did not start: {log.read()[-2000:].decode(errors='replace')}")
                time.sleep(POLL_SECONDS)
            yield Server(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_seconds(pid: int) -> float | None:
    """The CPU time of a process so far, its children's not included; None where the system has no /proc."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float | None:
    """The resident memory of a process in MB (1e6 bytes); None where the system has no /proc."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


def wait_until_quiet(pid: int, least: float = 1.0, most: float = 60.0) -> None:
    """Wait until a server has imported what it imports in the background: a second with under 5% of a core."""
    time.sleep(least)
    give_up = time.perf_counter() + most
    while (before := cpu_seconds(pid)) is not None and time.perf_counter() < give_up:
        time.sleep(1.0)
        if (cpu_seconds(pid) or 0.0) - before < 0.05:
            return
    if cpu_seconds(pid) is None:
        time.sleep(10.0)
