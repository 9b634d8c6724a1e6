"""Runs as folders: settings, records, state, commands and the last checkpoint. The folder is the truth.

A page reads it after any reload; whoever trains writes it. Works without torch. The folders lie in NAPKIN_RUNS_DIR, or
in this user's cache.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core import jobs, units
from core.checks import one_of, positive_number
from core.optimizers.registry import OPTIMIZERS
from core.training.config import TrainConfig
from core.training.data import STDLIB, copy_text
from core.training.folders import cache_folder, write_atomically
from core.training.records import StepCount, StepRecord, last_record, read_lines
from core.words import _

STATES = ("queued", "running", "paused", "done", "stopped", "failed", "interrupted")
COMMANDS = ("pause", "stop", "lr")
MAX_RUNS = 100
MAX_RUNS_BYTES = 2 * 10**9
COUNTED = "counted.json"
SUBMIT_SECONDS = 30.0  # between a run's folder and its job, at most
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


@dataclass(frozen=True)
class RunState:
    """What the folder says of a run; ``owner`` is the process that trains it: its number and when it started."""

    state: str
    message: str = ""
    owner: tuple[int, float] | None = None
    checkpoint_step: int | None = None
    checkpoint_every: int = 50
    delay_seconds: float = 0.0
    started: float = 0.0


@dataclass(frozen=True)
class RunInfo:
    """A run as it is now: ``num_records`` steps are done, ``last`` is the latest.

    ``state`` is "interrupted" where whoever trained it has ended without a word: ``resume`` goes on from
    ``checkpoint_step``. ``message`` is a sentence for the reader, empty where there is nothing to say.
    """

    id: str
    config: TrainConfig
    state: str
    num_records: int
    last: StepRecord | None
    checkpoint_step: int | None
    checkpoint_every: int
    message: str
    started: float
    job_id: str

    @property
    def active(self) -> bool:
        """Whether it trains, or waits for its turn to."""
        return self.state in ("queued", "running")


def runs_folder() -> Path:
    """The folder of all runs."""
    given = os.environ.get("NAPKIN_RUNS_DIR")
    if not given:
        return cache_folder("runs")
    Path(given).mkdir(parents=True, exist_ok=True)
    return Path(given)


def run_folder(run_id: str) -> Path:
    """The folder of one run. Raises ValueError for what is no run, so that no id leads elsewhere."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        raise ValueError(_("there is no run {run}").format(run=repr(run_id)[:40]))
    folder = runs_folder() / run_id
    if not (folder / "config.json").is_file():
        raise ValueError(_("there is no run {run} any more").format(run=run_id))
    return folder


def new_folder(config: TrainConfig, state: RunState) -> str:
    """Make a folder for a run, and room for it; its id. Raises ValueError where its checkpoint would not fit."""
    need, folder = 2 * checkpoint_bytes(config), runs_folder()
    free = min(MAX_RUNS_BYTES, shutil.disk_usage(folder).free // 2)
    if need > free:
        message = _("this run's checkpoints need {need} of disk, and {free} may be used")
        raise ValueError(message.format(need=units.si_bytes(need), free=units.si_bytes(free)))
    _make_room(need)
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
    path = folder / run_id
    (path / "commands").mkdir(parents=True)
    if config.task == "text" and config.corpus != STDLIB:
        _copy_or_remove(config.corpus, path)
    write_state(path, state)
    write_atomically(path / "config.json", lambda file: file.write(config.to_json().encode()))
    return run_id


def _copy_or_remove(corpus: str, path: Path) -> None:
    """The run keeps its text as long as itself, whatever becomes of the cache."""
    try:
        copy_text(corpus, path)
    except ValueError:
        shutil.rmtree(path, ignore_errors=True)
        raise


def checkpoint_bytes(config: TrainConfig) -> int:
    """About what a checkpoint of a run takes: parameters and optimizer state, and the generators' states.

    >>> checkpoint_bytes(TrainConfig(optimizer="adamw")) // 4 // TrainConfig().num_params
    13
    """
    kind = OPTIMIZERS.get(config.optimizer)
    state = 2 if kind is None or config.optimizer == "adafactor" else kind.state_per_parameter
    return config.num_params * (2 if config.precision == "bf16" else 4) * (1 + state) + 22_000


def read_state(folder: Path) -> RunState:
    """What the folder says."""
    values = json.loads((folder / "state.json").read_text())
    owner = values.pop("owner")
    return RunState(**values, owner=None if owner is None else (int(owner[0]), float(owner[1])))


def write_state(folder: Path, state: RunState) -> None:
    """Say it, in one step."""
    write_atomically(folder / "state.json", lambda file: file.write(json.dumps(asdict(state)).encode()))


def write_job(folder: Path, job_id: str) -> None:
    """Note the job that trains a run: in a file of its own, for the job itself may write the state meanwhile."""
    write_atomically(folder / "job", lambda file: file.write(job_id.encode()))


def read_job(folder: Path) -> str:
    """The job that trained a run last; empty where that is not known."""
    try:
        return (folder / "job").read_text()
    except FileNotFoundError:
        return ""


def change_state(folder: Path, **changes: Any) -> RunState:
    """Say something new, and the rest again."""
    state = replace(read_state(folder), **changes)
    write_state(folder, state)
    return state


@functools.lru_cache(maxsize=256)
def _read_config(text: str) -> TrainConfig:
    return TrainConfig.from_json(text)


def find_run(run_id: str) -> RunInfo:
    """A run as it is now. Raises ValueError where there is none of that id."""
    return _info(run_folder(run_id))


def _info(folder: Path) -> RunInfo:
    config = _read_config((folder / "config.json").read_text())
    state = read_state(folder)
    now, message = state.state, state.message
    if now in ("queued", "running") and not is_alive(state.owner):
        state = read_state(folder)  # it may have said its last word in between
        now, message = (
            _without_owner(folder, state) if state.state in ("queued", "running") else (state.state, state.message)
        )
    last = last_record(folder / "records.jsonl")
    return RunInfo(
        folder.name, config, now, 0 if last is None else last.step + 1, last, state.checkpoint_step,
        state.checkpoint_every, message, state.started, read_job(folder),
    )  # fmt: skip


def _without_owner(folder: Path, state: RunState) -> tuple[str, str]:
    """What has become of a run that nobody trains: its job is being submitted, waits, has just begun, or is over."""
    job_id = read_job(folder)
    age_seconds = time.time() - (folder / "state.json").stat().st_mtime
    if state.state == "queued" and not job_id and age_seconds < SUBMIT_SECONDS:
        return state.state, ""
    job = jobs.status(job_id) if job_id else None
    if job is not None and job.state in ("queued", "running"):
        place = "" if job.place is None else _("number {place} in the queue").format(place=job.place)
        return ("queued" if state.owner is None else "running"), place
    return "interrupted", "" if job is None or job.error is None or job.state == "lost" else str(job.error)


def each_run(limit: int = MAX_RUNS) -> Iterator[RunInfo]:
    """The runs that are kept, the latest first; a folder that cannot be read is passed over."""
    for path in _folders()[:limit]:
        with contextlib.suppress(ValueError, OSError, KeyError, TypeError):
            yield _info(path)


def list_runs(limit: int = MAX_RUNS) -> tuple[RunInfo, ...]:
    """The runs that are kept, the latest first."""
    return tuple(each_run(limit))


def records_stamp(run_id: str) -> tuple[int, int]:
    """When a run's records were last written, in ns, and their bytes: unchanged, they need not be read again."""
    try:
        found = (run_folder(run_id) / "records.jsonl").stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def read_records(run_id: str, after: int = 0) -> tuple[StepRecord, ...]:
    """The records of a run, without the first ``after``. Raises ValueError where there is no such run."""
    return read_lines(run_folder(run_id) / "records.jsonl", after)


def read_counted(run_id: str) -> StepCount | None:
    """Memory and FLOPs of a run's second update, as it counted them; None before. Raises ValueError."""
    try:
        return StepCount(**json.loads((run_folder(run_id) / COUNTED).read_text()))
    except FileNotFoundError:
        return None


def control(run_id: str, command: str, value: float | None = None) -> None:
    """Tell a run to "pause" or "stop" after the step that it is at, or to go on with another "lr".

    It obeys within a step; "lr" is also kept for a run that is paused. Raises ValueError for another command, a
    learning rate that makes no sense, and for telling a run that does not train to pause or stop.
    """
    info = find_run(run_id)
    one_of(_("command"), command, COMMANDS)
    if command == "lr":
        positive_number("lr", value, 1e6)
    elif not info.active:
        raise ValueError(_("this run does not train: it is {state}").format(state=_(info.state)))
    text = json.dumps({"command": command, "value": value}).encode()
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    write_atomically(run_folder(run_id) / "commands" / name, lambda file: file.write(text))


def take_commands(folder: Path) -> Iterator[tuple[str, float | None]]:
    """The commands that wait, in the order they were given, each once."""
    waiting = sorted(entry.name for entry in os.scandir(folder / "commands") if entry.name.endswith(".json"))
    for name in waiting:
        path = folder / "commands" / name
        values = json.loads(path.read_text())
        path.unlink()
        yield values["command"], values["value"]


def forget_commands(folder: Path) -> None:
    """Drop commands to pause or stop that came too late; a learning rate stays."""
    for path in (folder / "commands").glob("*.json"):
        if json.loads(path.read_text())["command"] != "lr":
            path.unlink()


def delete_run(run_id: str) -> None:
    """Delete a run and all that it wrote. Raises ValueError where it trains."""
    if find_run(run_id).active:
        raise ValueError(_("this run trains: stop it before it is deleted"))
    shutil.rmtree(run_folder(run_id), ignore_errors=True)


def this_process() -> tuple[int, float]:
    """This process as an owner."""
    import psutil

    return os.getpid(), psutil.Process().create_time()


def is_alive(owner: tuple[int, float] | None) -> bool:
    """Whether the process that owned a run still runs; another process of the same number is another.

    >>> is_alive(this_process()), is_alive((this_process()[0], 0.0)), is_alive(None)
    (True, False, False)
    """
    import psutil

    if owner is None:
        return False
    try:
        process = psutil.Process(owner[0])
        return abs(process.create_time() - owner[1]) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _folders() -> list[Path]:
    folders = [path for path in runs_folder().iterdir() if _RUN_ID.fullmatch(path.name)]
    return sorted(folders, key=lambda path: path.name, reverse=True)


def _make_room(need: int) -> None:
    """Delete the oldest runs that nobody trains, until the new one fits the number and the bytes that are kept."""
    sizes = {path: sum(one.stat().st_size for one in path.rglob("*") if one.is_file()) for path in _folders()}
    for path in reversed(sizes.copy()):
        if len(sizes) < MAX_RUNS and sum(sizes.values()) + need <= MAX_RUNS_BYTES:
            return
        with contextlib.suppress(ValueError, OSError, KeyError, TypeError):
            if find_run(path.name).active:
                continue
        shutil.rmtree(path, ignore_errors=True)
        del sizes[path]
