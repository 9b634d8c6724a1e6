"""Blocks one after another, each computed once, or kept by its input alone and computed again in backward."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from core.checks import whole_number


def check_every(checkpoint_every: int | None, num_layers: int) -> int | None:
    """The number of blocks between checkpoints; None for no checkpointing.

    >>> check_every(0, 12)
    Traceback (most recent call last):
    ValueError: checkpoint_every must be a whole number from 1 to 12; received 0
    """
    if checkpoint_every is None:
        return None
    return whole_number("checkpoint_every", checkpoint_every, 1, num_layers)


def run_blocks(blocks: nn.ModuleList, x: Tensor, *shared: Any, checkpoint_every: int | None = None) -> Tensor:
    """x through all blocks; ``shared`` goes to each of them.

    With ``checkpoint_every=k`` autograd keeps x before every k-th block only: the activations inside are computed a
    second time when backward needs them (Chen et al. 2016).
    """

    def segment(x: Tensor, first: int, last: int) -> Tensor:
        for block in blocks[first:last]:
            x = block(x, *shared)
        return x

    if checkpoint_every is None:
        return segment(x, 0, len(blocks))
    for first in range(0, len(blocks), checkpoint_every):
        last = first + checkpoint_every
        x = checkpoint(segment, x, first, last, use_reentrant=False, preserve_rng_state=False)
    return x
