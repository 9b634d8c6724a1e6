"""A run on screen: its buttons, its curve while it trains, and the runs before it."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import streamlit as st

from core import jobs, training, units
from core.training import STDLIB, RunInfo, StepRecord, TrainConfig, runs
from core.words import _
from pages._ui import inputs, markup, prose, tables, training_settings
from pages._ui.charts import training as training_charts
from pages._ui.training_settings import Settings

RUN = "train_run"
REFRESH_SECONDS = 0.4
MAX_POINTS = 400  # of a curve on screen
EARLIER_RUNS = 5
_REFUSED = "_train_refused"
_STATES = {
    "queued": _("waiting"), "running": _("running"), "paused": _("paused"), "done": _("done"),
    "stopped": _("stopped"), "failed": _("failed"), "interrupted": _("killed"),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A run and its records so far."""

    info: RunInfo
    records: tuple[StepRecord, ...]


def current() -> Seen | None:
    """The run of the address, None where there is none or it is no longer kept."""
    run_id = inputs.hidden(RUN)
    if not run_id:
        return None
    try:
        info = training.find_run(run_id)
        return Seen(info, records_of(run_id))
    except ValueError as gone:
        st.info(str(gone))
        return None


def run_id() -> str:
    """The id in the address, empty where there is none."""
    return inputs.hidden(RUN)


_kept: dict[str, tuple[tuple[int, int], tuple[StepRecord, ...]]] = {}


def records_of(run_id: str) -> tuple[StepRecord, ...]:
    """The records of a run; those read before are not read again, unless the run has gone back behind them."""
    stamp, before = _kept.get(run_id, ((0, 0), ()))
    now = runs.records_stamp(run_id)
    if now == stamp:
        return before
    fresh = training.read_records(run_id, max(0, len(before) - 1))
    if before and (not fresh or fresh[0] != before[-1]):
        before, fresh = (), training.read_records(run_id)
    records = before[:-1] + fresh
    if len(_kept) >= 16 and run_id not in _kept:
        _kept.pop(next(iter(_kept)), None)
    _kept[run_id] = now, records
    return records


# Buttons


def controls(asked: Settings) -> Seen | None:
    """The buttons that fit what the run does; the run of the address, where there is one."""
    config = asked.config
    seen = current()
    if not inputs.first_here("train_buttons"):
        return seen
    info = None if seen is None else seen.info
    active = info is not None and info.active
    waiting = info is not None and info.state in ("paused", "stopped", "failed", "interrupted")
    run_id = "" if info is None else info.id

    def start() -> None:
        if asked.refused:
            raise ValueError(asked.refused)
        if asked.text is not None:
            training.store_text(asked.text)
        inputs.set_values(**{RUN: training.start(config, checkpoint_every=20, delay_seconds=pace)})

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        pace = training_settings.pace_seconds(config.task)
        if active:
            _button(_("Pause"), "pause", lambda: training.control(run_id, "pause"), primary=True)
            _button(_("Stop"), "stop", lambda: training.control(run_id, "stop"))
            _button(_("Kill"), "kill", lambda: kill(run_id))
        elif waiting:
            _button(_("Resume"), "resume", lambda: training.resume(run_id), primary=True)
            _button(_("Step"), "step", lambda: training.resume(run_id, 1))
        if not active:
            _button(_("Start anew") if waiting else _("Start"), "start", start, primary=not waiting)
        if info is not None:
            _button(_("Reset"), "reset", lambda: training.reset(run_id))
            _change_rate(info, config)
        inputs.switch(_("Earlier runs"), "train_earlier", default=True)
        if info is not None and not info.active:
            markup.show(f'<p class="np-quiet" style="margin:0">{escape(_state_in_words(info))}</p>', width="content")
    refused = st.session_state.pop(_REFUSED, "") or asked.refused
    if refused:
        st.warning(prose.plain(refused))
    return seen


def _button(label: str, name: str, action: Callable[[], None], *, primary: bool = False) -> None:
    def press() -> None:
        try:
            action()
        except (ValueError, jobs.JobError) as error:
            st.session_state[_REFUSED] = str(error)

    kind: Any = "primary" if primary else "secondary"
    st.button(label, key=f"train_{name}", on_click=press, type=kind)


def kill(run_id: str) -> None:
    """End the process that trains, at once, in the middle of whatever it does."""
    jobs.cancel(training.find_run(run_id).job_id)


def _change_rate(info: RunInfo, config: TrainConfig) -> None:
    """Give the run the learning rate on screen, where that is another."""
    unfinished = info.state not in ("done", "failed")
    other = config.task == info.config.task and config.lr != st.session_state.get(
        f"_train_lr_{info.id}", info.config.lr
    )

    def change() -> None:
        training.control(info.id, "lr", config.lr)
        st.session_state[f"_train_lr_{info.id}"] = config.lr

    if unfinished and other:
        _button(_("Go on with lr {lr:g}").format(lr=config.lr), "lr", change)


def _state_in_words(info: RunInfo) -> str:
    text = _("{state}: {done:,} of {all:,} steps")
    text = text.format(state=_STATES[info.state], done=info.num_records, all=info.config.num_steps)
    if info.state == "interrupted" and info.checkpoint_step is not None:
        text += _("; resumes at step {step:,}").format(step=info.checkpoint_step)
    return f"{text}. {info.message}" if info.message else text


# The curve


def live(seen: Seen, others: Sequence[Seen]) -> None:
    """The curve; while the run trains it is read anew, and when that ends the page runs again."""
    if not seen.info.active:
        curve(seen, others)
        return

    @st.fragment(run_every=REFRESH_SECONDS)
    def following() -> None:
        try:
            info = training.find_run(seen.info.id)
            now = Seen(info, records_of(info.id))
        except ValueError:
            st.rerun()
        if not now.info.active:
            st.rerun()
        done = now.info.num_records / now.info.config.num_steps
        st.progress(min(1.0, done), _progress(now))
        with markup.drawn_together():
            curve(now, others)

    following()


def _progress(seen: Seen) -> str:
    last = seen.info.last
    if last is None:
        return seen.info.message or _("starting")
    text = _("step {step:,} of {all:,} · loss {loss} · lr {lr:.3g}")
    return text.format(
        step=last.step + 1, all=seen.info.config.num_steps, loss=units.significant(last.loss), lr=last.lr
    )


def curve(seen: Seen, others: Sequence[Seen]) -> None:
    """The losses of the run and of those before it, against the step."""
    lines = {"run": _points(seen)}
    lines |= {f"#{number}": _points(one) for number, one in enumerate(others, 1)}
    last = seen.info.last
    alt = _("no step yet") if last is None else _("loss {loss} at step {step:,}").format(
        loss=units.significant(last.loss), step=last.step
    )  # fmt: skip
    training_charts.losses(lines, seen.info.config.task == "regression", seen.info.config.num_steps, alt)


def _points(seen: Seen) -> tuple[tuple[float, float], ...]:
    return _thinned(seen.info.id, len(seen.records), seen.records[-1]) if seen.records else ()


@functools.lru_cache(maxsize=64)
def _thinned(run_id: str, _count: int, _last: StepRecord) -> tuple[tuple[float, float], ...]:
    records = records_of(run_id)
    every = max(1, math.ceil(len(records) / MAX_POINTS))
    kept = [*records[::every], *(records[-1:] if (len(records) - 1) % every else ())]
    return tuple((record.step, record.loss) for record in kept)


# The runs before


def earlier(seen: Seen | None, task: str) -> list[Seen]:
    """The latest other runs of the task that are kept, where they are wanted."""
    if not st.session_state.get("train_earlier", True):
        return []
    mine = None if seen is None else seen.info.id
    found = (info for info in runs.each_run(12) if info.config.task == task and info.id != mine and info.last)
    return [Seen(info, records_of(info.id)) for info in itertools.islice(found, EARLIER_RUNS)]


def runs_table(seen: Seen | None, others: Sequence[Seen]) -> None:
    """Settings, last loss and speed of the runs on the chart."""
    named = [*((_("run"), one) for one in ([seen] if seen else [])), *((f"#{n}", o) for n, o in enumerate(others, 1))]
    rows = [_run_row(name, one) for name, one in named if one.records]
    if rows:
        head = ["", _("settings"), _("steps"), _("last loss"), _("step time"), _("state")]
        if named[0][1].info.config.task == "text":
            head.insert(4, _("bits/byte"))
        tables.show(head, rows, _("the runs on the chart"), dense=True, marked=0 if seen and seen.records else None)


def _run_row(name: str, one: Seen) -> list[tables.Cell]:
    last = one.records[-1]
    seconds = statistics.median(record.step_seconds for record in one.records)
    config = one.info.config
    row: list[tables.Cell] = [
        name,
        _settings_cell(config),
        f"{len(one.records):,} / {config.num_steps:,}",
        (units.significant(last.loss), repr(last.loss)),
        units.seconds(seconds),
        _STATES[one.info.state],
    ]
    if config.task == "text":
        row.insert(4, _bits_a_byte(one.info, last))
    return row


@functools.lru_cache(maxsize=64)
def _settings_cell(config: TrainConfig) -> tuple[str, str]:
    return settings_in_words(config), config.to_json()


def _bits_a_byte(info: RunInfo, last: StepRecord) -> tables.Cell:
    """The last loss in bits a byte of text: the same measure whatever the vocabulary."""
    length = training.bytes_per_token(info.config.corpus, info.config.vocab_size, runs.run_folder(info.id))
    if length is None:
        return "?"
    message = _("{loss} nats a token / log 2 / {length:.4g} bytes a token")
    exact = message.format(loss=repr(last.loss), length=length)
    return units.significant(training.bits_per_byte(last.loss, length)), exact


def settings_in_words(config: TrainConfig) -> str:
    """What a run was, on one line."""
    parts = [config.optimizer, f"lr {config.lr:g}", f"B {config.batch_size}", f"D {config.dim}×{config.num_layers}"]
    if config.model == "deep network":
        parts[-1] += _(" deep")
    if config.task == "text":
        parts.insert(3, f"T {config.context_length}")
        parts += [f"V {config.vocab_size:,}"] * (config.vocab_size != 256) + [_("own text")] * (config.corpus != STDLIB)
    if config.schedule != "constant":
        parts.append(config.schedule)
    if config.precision != "fp32":
        parts.append(config.precision)
    if config.max_grad_norm:
        parts.append(_("clip {limit:g}").format(limit=config.max_grad_norm))
    return " · ".join([*parts, _("seed {seed}").format(seed=config.seed)])
