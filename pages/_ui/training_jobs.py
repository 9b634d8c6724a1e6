"""What Training and Low precision run in a job, where nothing of Streamlit is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.training import SweepPoint, TrainConfig, WeightOnly


def train_and_round(
    config: TrainConfig, on_progress: Callable[[float], None] = lambda _fraction: None
) -> tuple[TrainConfig, tuple[WeightOnly, ...]]:
    """Train, then store the weights in each format: the settings, and a row for each."""
    from core.training import Trainer, compare_weight_only

    trainer = Trainer(config)
    while not trainer.finished:
        trainer.advance()
        on_progress(0.9 * trainer.step / config.num_steps)
    return config, compare_weight_only(trainer)


def find_underflow(config: TrainConfig, precision: str) -> tuple[TrainConfig, str, tuple[object, ...]]:
    """The gradients that underflow, layer by layer, beside what was asked for."""
    from core.training import gradient_underflow

    return config, precision, gradient_underflow(config, precision)


def sweep(
    config: TrainConfig, setting: str, values: tuple[float, ...], on_progress: Callable[[float], None]
) -> tuple[tuple[TrainConfig, str, tuple[float, ...]], tuple[SweepPoint, ...]]:
    """What was asked for, and a run with each value.

    On one thread: steps this small gain nothing from two, and on a busy machine lose most of their time to waiting.
    """
    import torch

    from core.training.sweeps import sweep

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return (config, setting, values), sweep(config, setting, values, on_progress=on_progress)
    finally:
        torch.set_num_threads(before)
