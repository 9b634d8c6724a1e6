"""The record of one update, and records as lines of a file. Works without torch."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class StepRecord:
    """One update. ``step`` counts from 0; ``loss`` is that of the batch before the update, in nats for text.

    ``gradient_norm`` is the norm before clipping; ``tokens_per_sec`` counts rows where the task is the regression.
    ``mfu`` is None where no peak is known for the device and dtype. ``memory_bytes`` is the highest that torch has
    allocated on a GPU, and what the process holds in RAM elsewhere; ``loss_scale`` is that of fp16, None without one.
    """

    step: int
    loss: float
    gradient_norm: float
    lr: float
    step_seconds: float
    tokens_per_sec: float
    flop_per_sec: float
    mfu: float | None
    memory_bytes: int | None
    loss_scale: float | None = None


@dataclass(frozen=True)
class StepCount:
    """What one update was found to take: live bytes by category where they are highest, and FLOPs of its products."""

    live_bytes: dict[str, int]
    flops: int


FIELDS = tuple(field.name for field in dataclasses.fields(StepRecord))


def to_line(record: StepRecord) -> bytes:
    """A record as one line of JSON; floats come back to the bit, NaN and infinities too.

    >>> record = StepRecord(0, 0.1, float("inf"), 1e-3, 0.01, 400.0, 1e6, None, None)
    >>> from_line(to_line(record)) == record
    True
    """
    return json.dumps(vars(record)).encode() + b"\n"


def from_line(line: bytes) -> StepRecord:
    """The record of such a line. Raises ValueError for any other."""
    try:
        return StepRecord(**json.loads(line))
    except TypeError as error:
        raise ValueError(f"this line is no record of a step: {line[:80]!r}") from error


def read_lines(path: Path, after: int = 0) -> tuple[StepRecord, ...]:
    """The records of a file, without the first ``after``; none where there is no file. A torn last line is left out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    return tuple(from_line(line) for line in content.split(b"\n")[after:-1])


def last_record(path: Path) -> StepRecord | None:
    """The last whole record of a file, found from its end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4096))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    return from_line(lines[-2]) if len(lines) >= 2 else None


def cut_lines(path: Path, count: int) -> IO[bytes]:
    """The file opened to write record number ``count`` next: what it holds beyond that is dropped.

    A run that goes on from a checkpoint writes the later records again. Raises ValueError where some are missing.
    """
    file = path.open("a+b")
    file.seek(0)
    kept = list(itertools.islice((line for line in file if line.endswith(b"\n")), count))
    if len(kept) < count:
        file.close()
        raise ValueError(f"the file of records holds {len(kept):,} steps, and its checkpoint is of step {count:,}")
    file.truncate(sum(map(len, kept)))
    file.seek(0, 2)
    return file


def to_csv(records: Iterable[StepRecord]) -> str:
    """Records as a table for a spreadsheet, unknown values empty.

    >>> print(to_csv([StepRecord(0, 0.5, 1.0, 1e-3, 0.01, 400.0, 1e6, None, None)]).splitlines()[1])
    0,0.5,1.0,0.001,0.01,400.0,1000000.0,,,
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(FIELDS)
    writer.writerows([getattr(record, name) for name in FIELDS] for record in records)
    return text.getvalue()
