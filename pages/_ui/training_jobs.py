"""What Low precision runs in a job, where nothing of Streamlit is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.training import TrainConfig, WeightOnly


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
