"""One setting, many values: the learning rate, the batch size; and a lecture loop with a bug, beside its curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.checks import one_of, whole_number
from core.training.config import BUGS, TrainConfig
from core.training.loop import Trainer
from core.words import _

OnProgress = Callable[[float], None]
SWEPT = ("lr", "batch_size")
MAX_SWEPT_VALUES = 20
MAX_SWEPT_STEPS = 20_000
LAST_SHARE = 0.1
HUNT_STEPS = 120


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep. ``final_loss`` is the mean of the last tenth of its steps, infinite where it diverged."""

    value: float
    losses: tuple[float, ...]
    tokens_per_step: int
    seconds: float

    @property
    def final_loss(self) -> float:
        return self.loss_after(len(self.losses))

    @property
    def tokens_per_sec(self) -> float:
        """Tokens (rows, of the regression) over the seconds of all steps."""
        return self.tokens_per_step * len(self.losses) / self.seconds

    def loss_after(self, steps: int) -> float:
        """The mean loss of the last tenth of the first ``steps`` steps, infinite where it diverged.

        >>> SweepPoint(0.1, (3.0, 2.0, 1.0), 4, 0.1).loss_after(2)
        2.0
        """
        last = self.losses[: max(1, steps)]
        last = last[-max(1, round(LAST_SHARE * len(last))) :]
        return statistics.fmean(last) if all(map(math.isfinite, last)) else math.inf


def sweep(
    config: TrainConfig,
    setting: str,
    values: Sequence[float],
    *,
    data: Any = None,
    on_progress: OnProgress = lambda _fraction: None,
) -> tuple[SweepPoint, ...]:
    """Train once with each value of "lr" or "batch_size", the same seed each time.

    Batch sizes are compared at the same number of tokens: half the batch, twice the steps. Raises ValueError.

    >>> [round(one.final_loss) for one in sweep(TrainConfig(num_steps=100), "lr", (1e-6, 1e-3))]
    [1546, 0]
    """
    one_of(_("the setting"), setting, SWEPT)
    whole_number(_("the number of values"), len(values), 1, MAX_SWEPT_VALUES)
    configs = []
    for value in values:
        changed: dict[str, Any] = {setting: value}
        if setting == "batch_size":
            size = whole_number("batch_size", value, 1, 2**20)
            changed = {"batch_size": size, "num_steps": max(1, config.num_steps * config.batch_size // size)}
        else:
            changed["min_lr"] = min(config.min_lr, float(value))
        configs.append(config.replace(**changed))
    total = sum(one.num_steps for one in configs)
    whole_number(_("the steps of all runs together"), total, 1, MAX_SWEPT_STEPS)
    points, done = [], 0
    for value, one in zip(values, configs, strict=True):
        trainer, records = Trainer(one, data=data), []
        while not trainer.finished:
            records.append(trainer.advance())
            done += 1
            on_progress(done / total)
        seconds = math.fsum(record.step_seconds for record in records)
        points.append(SweepPoint(value, tuple(record.loss for record in records), one.tokens_per_step, seconds))
    return tuple(points)


@dataclass(frozen=True)
class Curve:
    """A run of the hunt: its settings in words, and what its log says. ``resumed_at`` is where it was restarted."""

    group: str
    label: str
    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    resumed_at: int | None = None


@dataclass(frozen=True)
class Evidence:
    """What a loop with a bug shows. ``windows`` has how often each window of a short text was drawn, ``expected`` how
    often each should have been, on average."""

    bug: str
    curves: tuple[Curve, ...]
    windows: tuple[int, ...]
    expected: float


def bug_evidence(
    bug: str, seed: int = 0, num_steps: int = HUNT_STEPS, on_progress: OnProgress = lambda _fraction: None
) -> Evidence:
    """Runs of the lecture's regression that tell the bugs apart: two rates, two depths, a restart, accumulation.

    Every group of curves shows one bug of ``BUGS``, or none where ``bug`` is empty. Raises ValueError.

    >>> evidence = bug_evidence("ignored lr", num_steps=10)
    >>> slow, fast = (one for one in evidence.curves if one.group == "learning rate")
    >>> slow.losses == fast.losses
    True
    """
    if bug:
        one_of("bug", bug, BUGS)
    whole_number("num_steps", num_steps, 2, MAX_SWEPT_STEPS // 10)
    base = TrainConfig(optimizer="adam", lr=0.03, num_steps=num_steps, batch_size=8, seed=seed)
    rates, depths, restart, parts = _("learning rate"), _("depth"), _("restart"), _("accumulation")
    everywhere = bug if bug in ("ignored lr", "ignored depth", "no zero_grad") else ""
    resumed = bug if bug == "no optimizer restored" else everywhere
    accumulated = bug if bug == "mean for sum" else everywhere
    runs = [
        (rates, "lr 0.003", base.replace(lr=0.003, bug=everywhere), None),
        (rates, "lr 0.03", base.replace(bug=everywhere), None),
        (depths, _("1 layer"), base.replace(num_layers=1, bug=everywhere), None),
        (depths, _("4 layers"), base.replace(num_layers=4, bug=everywhere), None),
        (restart, _("never stopped"), base.replace(bug=everywhere), None),
        (restart, _("stopped and resumed"), base.replace(bug=resumed), num_steps // 2),
        (parts, _("in one part"), base.replace(bug=everywhere), None),
        (parts, _("in 4 parts"), base.replace(num_accumulation_steps=4, bug=accumulated), None),
    ]
    curves = []
    for number, (group, label, config, resumed_at) in enumerate(runs):
        trainer = Trainer(config)
        records = [trainer.advance() for _step in range(num_steps)]
        losses, norms = tuple(r.loss for r in records), tuple(r.gradient_norm for r in records)
        curves.append(Curve(group, label, losses, norms, resumed_at))
        on_progress((number + 1) / len(runs))
    windows, expected = _windows_drawn("last window missing" if bug == "last window missing" else "", seed)
    return Evidence(bug, tuple(curves), windows, expected)


def _windows_drawn(bug: str, seed: int) -> tuple[tuple[int, ...], float]:
    """How often each window of 4 of a text of 14 tokens is drawn in 200 batches of 8."""
    tokens, length, batches = 14, 4, 200
    config = TrainConfig(
        task="text", dim=16, num_layers=1, context_length=length, batch_size=8, seed=seed, bug=bug, num_steps=1
    )
    trainer = Trainer(config, data=np.arange(tokens))
    counts = np.zeros(tokens - length, dtype=int)
    for _batch in range(batches):
        inputs, _targets = trainer.batches.next()
        np.add.at(counts, inputs[:, 0].numpy(), 1)
    return tuple(counts.tolist()), batches * config.batch_size / len(counts)
