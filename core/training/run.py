"""Runs that outlive the page: started in a job, told what to do through their folder, resumed after any end.

A run trains in a queue of its own on the CPU (so that a measurement elsewhere does not wait an hour for it; its
conditions say that the machine is busy) and in the device's queue on a GPU. Paused, it holds nothing: its job is over.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import IO, Any

from core import jobs
from core.checks import whole_number
from core.jobs.limits import Limits
from core.training import runs
from core.training.config import MAX_STEPS, TrainConfig
from core.training.folders import remove_parts, write_atomically
from core.training.records import StepRecord, cut_lines, last_record, to_line
from core.words import _

CPU_QUEUE = "training"
CHECKPOINT, RECORDS = "checkpoint.pt", "records.jsonl"
LOOK_SECONDS = 0.05  # between two looks at the commands, two flushes of the records, two reports
LAST_SECONDS = 15.0  # before its job's time limit a run pauses by itself
MAX_DELAY_SECONDS = 10.0


def start(config: TrainConfig, *, checkpoint_every: int = 50, delay_seconds: float = 0.0) -> str:
    """Start a run in a job of its own; its id at once.

    A checkpoint is written every ``checkpoint_every`` steps, before every change of the learning rate, and at every
    end that is not a kill. ``delay_seconds`` is waited after each step, for a class to watch. Raises ValueError for
    what is out of range or does not fit the disk, JobRefused or JobLost where no job starts.
    """
    checkpoint_every = whole_number("checkpoint_every", checkpoint_every, 1, MAX_STEPS)
    if not 0 <= delay_seconds <= MAX_DELAY_SECONDS:
        message = _("the delay must be from 0 to {high:g} seconds; received {value}")
        raise ValueError(message.format(high=MAX_DELAY_SECONDS, value=repr(delay_seconds)[:40]))
    state = runs.RunState(
        "queued", checkpoint_every=checkpoint_every, delay_seconds=float(delay_seconds), started=time.time()
    )
    run_id = runs.new_folder(config, state)
    _submit(run_id, config, None)
    return run_id


def resume(run_id: str, steps: int | None = None) -> None:
    """Go on from the last checkpoint, whatever ended the run; with ``steps``, for that many steps, then pause.

    The records after the checkpoint are written again, and are the same to the bit. Raises ValueError for a run that
    trains or has done all its steps.
    """
    info = runs.find_run(run_id)
    if info.active:
        raise ValueError(_("this run trains already"))
    if info.state == "done":
        raise ValueError(_("this run has done all of its {count:,} steps").format(count=info.config.num_steps))
    folder = runs.run_folder(run_id)
    runs.forget_commands(folder)
    runs.write_job(folder, "")
    runs.change_state(folder, state="queued", message="", owner=None)
    _submit(run_id, info.config, None if steps is None else whole_number("steps", steps, 1, MAX_STEPS))


def reset(run_id: str) -> None:
    """Back to before the first step: records and checkpoint are deleted, the settings stay. A job of it is ended."""
    info = runs.find_run(run_id)
    if info.active:
        jobs.cancel(info.job_id)
        if runs.find_run(run_id).active:
            raise ValueError(_("this run trains in another process: stop it there first"))
    folder = runs.run_folder(run_id)
    for name in (CHECKPOINT, RECORDS, runs.COUNTED):
        (folder / name).unlink(missing_ok=True)
    for path in (folder / "commands").glob("*"):
        path.unlink(missing_ok=True)
    runs.change_state(folder, state="paused", message="", owner=None, checkpoint_step=None)


def queue_of(config: TrainConfig) -> str:
    """The queue that its job waits in.

    >>> queue_of(TrainConfig()), queue_of(TrainConfig(device="cuda:0"))
    ('training', 'cuda:0')
    """
    return CPU_QUEUE if config.device.split(":")[0] == "cpu" else config.device


def _submit(run_id: str, config: TrainConfig, steps: int | None) -> None:
    seconds = Limits.from_environment().max_timeout_seconds
    folder = runs.run_folder(run_id)
    try:
        job_id = jobs.submit(
            train_in_folder, str(folder), steps, max_seconds=seconds - LAST_SECONDS, timeout=seconds,
            device=queue_of(config), key=f"training {folder}",
        )  # fmt: skip
    except (jobs.JobError, ValueError) as error:
        runs.change_state(folder, state="failed", message=str(error))
        raise
    runs.write_job(folder, job_id)


def train_in_folder(folder: str, steps: int | None = None, *, max_seconds: float = float("inf")) -> str:
    """Train a run from where its folder says it is; the state that it ends in. What a job runs.

    Raises ValueError where another process trains it, and whatever the training raises, after the folder says so.
    """
    path = Path(folder)
    state = runs.read_state(path)
    if runs.is_alive(state.owner) and state.owner != runs.this_process():
        raise ValueError(_("this run is trained by another process already"))
    remove_parts(path / CHECKPOINT)
    runs.change_state(path, state="running", message="", owner=runs.this_process())
    try:
        ended, message = _Run(path, steps, max_seconds).go()
    except BaseException as error:
        runs.change_state(path, state="failed", message=str(error)[:500] or type(error).__name__, owner=None)
        raise
    runs.change_state(path, state=ended, message=message, owner=None)
    return ended


class _Run:
    """One stretch of a run: from its checkpoint to its end, a command, its budget of steps or its time limit."""

    def __init__(self, folder: Path, steps: int | None, max_seconds: float) -> None:
        from core.training.loop import Trainer

        self.folder, self.state = folder, runs.read_state(folder)
        self.config = TrainConfig.from_json((folder / "config.json").read_text())
        self.trainer = Trainer(self.config, data=self._data())
        if (folder / CHECKPOINT).exists():
            self.trainer.load(folder / CHECKPOINT)
        self.until = self.config.num_steps if steps is None else min(self.config.num_steps, self._done() + steps)
        self.end_at = time.monotonic() + max_seconds
        self.saved = self.trainer.step if (folder / CHECKPOINT).exists() else -1
        self.looked = self.reported = -1.0
        self.records: IO[bytes] = cut_lines(folder / RECORDS, self.trainer.step)

    def go(self) -> tuple[str, str]:
        """Train; the state it ends in, and a sentence where there is something to say."""
        with self.records:
            while True:
                ended = self._look()
                if ended is None and self.trainer.finished:
                    ended = "done", ""
                if ended is None and self.trainer.step >= self.until:
                    ended = "paused", ""
                if ended is not None:
                    self._save()
                    return ended
                record = self._advance()
                self.records.write(to_line(record))
                if self.trainer.step % self.state.checkpoint_every == 0:
                    self._save()
                self._report(record)

    def _data(self) -> Any:
        """The tokens of a run on text: of its own copy, where it has one."""
        if self.config.task != "text":
            return None
        from core.training.bpe import tokens_of

        return tokens_of(self.config.corpus, self.config.vocab_size, self.folder)

    def _advance(self) -> StepRecord:
        """An update; the second with its memory and FLOPs counted."""
        from core.training.step_memory import COUNTED_STEP, advance_counted

        if self.trainer.step != COUNTED_STEP:
            return self.trainer.advance()
        record, counted = advance_counted(self.trainer)
        write_atomically(self.folder / runs.COUNTED, lambda file: file.write(json.dumps(vars(counted)).encode()))
        return record

    def _done(self) -> int:
        """Steps that the class has seen; those after the checkpoint are computed again before new ones count."""
        last = last_record(self.folder / RECORDS)
        return max(self.trainer.step, 0 if last is None else last.step + 1)

    def _look(self) -> tuple[str, str] | None:
        """Flush, and obey what has been said since the last look: how to end, None to go on."""
        wait_until = self._next_step()
        while True:
            now = time.monotonic()
            if now - self.looked >= LOOK_SECONDS or now < wait_until:
                self.looked = now
                self.records.flush()
                for command, value in runs.take_commands(self.folder):
                    if command == "lr":
                        assert value is not None
                        self.trainer.change_lr(value)
                        self.saved = -1  # the same step, with another rate
                        self._save()
                    else:
                        return ("paused", "") if command == "pause" else ("stopped", "")
                if now >= self.end_at:
                    return "paused", _("the time limit of a job is reached: resume to go on")
            if now >= wait_until:
                return None
            time.sleep(min(LOOK_SECONDS, wait_until - now))

    def _next_step(self) -> float:
        delay = self.state.delay_seconds
        return time.monotonic() + delay if delay and self.trainer.step and self.trainer.step < self.until else 0.0

    def _save(self) -> None:
        """A checkpoint, unless there is one of this step; the records before it, so that none is missing."""
        if self.saved == self.trainer.step:
            return
        self.records.flush()
        os.fsync(self.records.fileno())
        self.trainer.save(self.folder / CHECKPOINT)
        self.saved = self.trainer.step
        runs.change_state(self.folder, checkpoint_step=self.saved)

    def _report(self, record: StepRecord) -> None:
        if time.monotonic() - self.reported >= LOOK_SECONDS:
            self.reported = time.monotonic()
            message = _("step {step:,} of {all:,}, loss {loss:.3g}")
            text = message.format(step=record.step + 1, all=self.config.num_steps, loss=record.loss)
            jobs.report((record.step + 1) / self.config.num_steps, text)
