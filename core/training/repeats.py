"""The same run twice: equal to the bit, or different from some step on, by something that was changed between them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from core.checks import one_of, whole_number
from core.training.config import TrainConfig
from core.training.loop import Trainer
from core.words import _

OnProgress = Callable[[float], None]
# What is done to the second run. The first two are told to leave every bit as it is.
CHANGES = (
    "nothing",
    "stopped and resumed",
    "resumed without the data position",
    "resumed without the optimizer",
    "data drawn without a seed",
    "another seed",
    "another number of threads",
    "batch in two parts",
)
MAX_REPEATED_STEPS = 2000


@dataclass(frozen=True)
class Repeat:
    """Two runs of the same settings, and where they part.

    ``first_difference`` is the first step whose losses differ in any bit, None where all are equal;
    ``largest_difference`` the largest relative difference of two losses.
    """

    change: str
    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def first_difference(self) -> int | None:
        pairs = enumerate(zip(self.first, self.second, strict=True))
        return next((step for step, (one, other) in pairs if one.hex() != other.hex()), None)

    @property
    def equal(self) -> bool:
        return self.first_difference is None

    @property
    def largest_difference(self) -> float:
        pairs = [pair for pair in zip(self.first, self.second, strict=True) if pair[0].hex() != pair[1].hex()]
        return max((abs(one - other) / max(abs(one), abs(other)) for one, other in pairs), default=0.0)


def repeat_run(
    config: TrainConfig,
    change: str = "nothing",
    *,
    data: Any = None,
    on_progress: OnProgress = lambda _fraction: None,
) -> Repeat:
    """Train twice and compare every loss to the bit; the second time with one of ``CHANGES``.

    Resuming is a checkpoint after half of the steps and a process that begins with it. Raises ValueError.

    >>> repeat_run(TrainConfig(num_steps=20), "stopped and resumed").equal
    True
    >>> repeat_run(TrainConfig(num_steps=20), "resumed without the data position").first_difference
    10
    """
    one_of(_("the change"), change, CHANGES)
    whole_number("num_steps", config.num_steps, 2, MAX_REPEATED_STEPS)
    second = config
    if change == "another seed":
        second = config.replace(seed=(config.seed + 1) % 2**32)
    elif change == "batch in two parts":
        parts = 2 * config.num_accumulation_steps
        second = config.replace(num_accumulation_steps=parts)

    def losses(trainer: Trainer, start: float, share: float, until: int) -> list[float]:
        values = []
        while trainer.step < until:
            values.append(trainer.advance().loss)
            on_progress(start + share * trainer.step / config.num_steps)
        return values

    first = losses(Trainer(config, data=data), 0.0, 0.5, config.num_steps)
    with _other_threads(change == "another number of threads"):
        trainer = Trainer(second, data=data)
        if change == "data drawn without a seed":
            trainer.batches.generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
        again = losses(trainer, 0.5, 0.5, config.num_steps // 2)
        if "resumed" in change:
            trainer = _resume(trainer, change, data)
        again += losses(trainer, 0.5, 0.5, config.num_steps)
    return Repeat(change, tuple(first), tuple(again))


def _resume(trainer: Trainer, change: str, data: Any) -> Trainer:
    file = io.BytesIO()
    trainer.save(file)
    other = Trainer(trainer.config, data=data)
    careless = change == "resumed without the data position"
    other.load(file, optimizer=change != "resumed without the optimizer", rng=not careless)
    return other


@contextmanager
def _other_threads(other: bool) -> Iterator[None]:
    """One thread inside the block where torch has several, else two."""
    before = torch.get_num_threads()
    if other:
        torch.set_num_threads(1 if before > 1 else 2)
    try:
        yield
    finally:
        torch.set_num_threads(before)
