"""How a run is spread over processes; here: not at all. ``core.training.distributed`` spreads it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from torch import Tensor, nn

from core.training.config import TrainConfig
from core.words import _


class Parallel(Protocol):
    """What the loop asks of the processes that share a run."""

    rank: int
    world: int

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as it is called: its backward brings the processes' gradients together."""
        ...

    def gathering(self, model: nn.Module, last: bool) -> AbstractContextManager[object]:
        """A block whose backward brings gradients together only for the last part of a batch."""
        ...

    def mean(self, value: Tensor) -> Tensor:
        """The mean of the processes' values."""
        ...

    def whole(self, tensor: Any) -> Any:
        """A tensor with all its shards, where it has some; anything else as it is."""
        ...

    def like(self, whole: Any, parameter: Tensor) -> Any:
        """A whole tensor cut as the parameter is, where that has shards and this its shape."""
        ...


class Alone:
    """One process that does everything."""

    rank, world = 0, 1

    def wrap(self, model: nn.Module) -> nn.Module:
        return model

    def gathering(self, model: nn.Module, last: bool) -> AbstractContextManager[object]:
        return nullcontext()

    def mean(self, value: Tensor) -> Tensor:
        return value

    def whole(self, tensor: Any) -> Any:
        return tensor

    def like(self, whole: Any, parameter: Tensor) -> Any:
        return whole


def check_shares(config: TrainConfig, processes: int) -> None:
    """Raise ValueError where a batch cannot be dealt out to that many processes, each with whole micro-batches.

    >>> check_shares(TrainConfig(batch_size=4), 3)
    Traceback (most recent call last):
    ValueError: batch_size must be a multiple of processes · accumulation steps, 3; received 4
    """
    parts = processes * config.num_accumulation_steps
    if config.batch_size % parts:
        message = _("batch_size must be a multiple of processes · accumulation steps, {parts:,}; received {value:,}")
        raise ValueError(message.format(parts=parts, value=config.batch_size))
