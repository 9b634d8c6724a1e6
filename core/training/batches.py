"""Where a run's batches come from: drawn one after another from a seed, and found again after a restart.

A process of several draws the whole batch's numbers too, and takes its own rows: the batch does not depend on how
many share it. Letters: B batch, D width, T context.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from core.training.bpe import tokens_of
from core.training.config import TrainConfig
from core.training.data import draw_starts, num_windows, take_windows
from core.words import _

Rows = slice


class Batches:
    """The batches of a run; ``rows`` are those that this process takes. ``drawn`` counts whole batches."""

    def __init__(self, config: TrainConfig, rows: Rows) -> None:
        self.config, self.rows, self.drawn = config, rows, 0
        self.generator = torch.Generator().manual_seed(config.seed)

    def next(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the next update."""
        self.drawn += 1
        return self._draw()

    def _draw(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The position: what has been drawn, and the generator that draws the next."""
        return {"drawn": self.drawn, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a position."""
        self.drawn = int(state["drawn"])
        self.generator.set_state(state["generator"])


class RegressionBatches(Batches):
    """x ~ N(0, 1) of shape (B, D), and y = x·(0, 1, …, D − 1): the lecture's."""

    def __init__(self, config: TrainConfig, rows: Rows, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(config, rows)
        self.dtype = dtype
        self.w_true_D = torch.arange(config.dim, dtype=torch.float32)

    def _draw(self) -> tuple[Tensor, Tensor]:
        x_BD = torch.randn(self.config.batch_size, self.config.dim, generator=self.generator)[self.rows]
        y_B = x_BD @ self.w_true_D
        device = self.config.device
        return x_BD.to(device, self.dtype, non_blocking=True), y_B.to(device, non_blocking=True)


class TextBatches(Batches):
    """Windows of the corpus, each equally likely."""

    def __init__(self, config: TrainConfig, rows: Rows, data: Any = None) -> None:
        super().__init__(config, rows)
        self.data = tokens_of(config.corpus, config.vocab_size) if data is None else data
        self.windows = num_windows(len(self.data), config.context_length)
        if config.bug == "last window missing":
            if self.windows == 1:
                raise ValueError(_("with one window, none is left when the last is missing: use a longer text"))
            self.windows -= 1

    def _draw(self) -> tuple[Tensor, Tensor]:
        starts = draw_starts(self.windows, self.config.batch_size, self.generator)[self.rows]
        return take_windows(self.data, starts, self.config.context_length, self.config.device)
