"""How a running job reports its progress."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from typing import Any

from core import units
from core.jobs import wire

MAX_RECORDS = 10_000
MAX_RECORD_BYTES = 2**20
MAX_PENDING_BYTES = 16 * 2**20
# Reports within this time travel together, so that a tight loop does not spend itself on reporting.
_COALESCE_SECONDS = 0.02


def report(fraction: float | None = None, message: str = "", data: Any = None) -> None:
    """Say how far the job is; outside a job, do nothing.

    ``fraction`` is in [0, 1]; where it is None, or the message empty, the last one stays. ``data`` is a small record
    that can be pickled: every record is kept (the last 10,000), while fractions and messages may replace each other
    before anyone sees them. Reporting never waits for the agent.

    Raises ValueError for a fraction outside [0, 1] and for a record above 1 MiB.

    >>> report(0.5, "halfway", data={"step": 50, "loss": 2.3})
    """
    if fraction is not None and not (math.isfinite(fraction) and 0 <= fraction <= 1):
        raise ValueError(f"a fraction of progress must be between 0 and 1; received {fraction!r}")
    if _reporter is not None:
        _reporter.add(fraction, message, data)


class Reporter:
    """Sends reports to the agent from a thread of its own, which starts with the first report."""

    def __init__(self, connection: wire.Wire) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._header: wire.Header | None = None
        self._records: deque[bytes] = deque(maxlen=MAX_RECORDS)
        self._record_bytes = 0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def add(self, fraction: float | None, message: str, data: Any) -> None:
        """Note a report; the thread sends it."""
        if os.getpid() != self._pid:  # in a process that the job forked, such as a data loader's worker
            return
        record = None if data is None else _pickled(data)
        with self._changed:
            header = self._header or {"kind": "progress", "fraction": None, "message": ""}
            if fraction is not None:
                header["fraction"] = float(fraction)
            if message:
                header["message"] = str(message)[:1000]
            self._header = header
            if record is not None:
                self._records.append(record)
                self._record_bytes += len(record)
                while self._record_bytes > MAX_PENDING_BYTES:  # the agent cannot keep up: the oldest go
                    self._record_bytes -= len(self._records.popleft())
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="job reports", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what is left and stop, so that the result may follow on the same connection."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._header is not None or self._closing.is_set())
                header, records = self._header, list(self._records)
                self._header = None
                self._records.clear()
                self._record_bytes = 0
            if header is None:
                return
            try:
                wire.send(self._connection, header, records)
            except OSError:  # the agent is gone, and this process is about to go
                return
            self._closing.wait(_COALESCE_SECONDS)


_reporter: Reporter | None = None


def start(connection: wire.Wire) -> Reporter:
    """Make `report` send to that connection: called once in a job's process."""
    global _reporter
    _reporter = Reporter(connection)
    return _reporter


def _pickled(data: Any) -> bytes:
    import cloudpickle  # here, so that importing core.jobs stays cheap

    record: bytes = cloudpickle.dumps(data)
    if len(record) > MAX_RECORD_BYTES:
        size, limit = units.si_bytes(len(record)), units.si_bytes(MAX_RECORD_BYTES)
        raise ValueError(f"a reported record must have at most {limit}; received {size}")
    return record
