"""Where the elements of a tensor lie: strides after each step, and whether a step can be a view.

Strides are in elements. torch decides by the same rule (``Tensor.view``'s documentation); the tests compare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Shape = tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """The strides of a fresh tensor: the last dimension is the fastest.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def reshaped_strides(shape: Shape, strides: Shape, new_shape: Shape) -> Shape | None:
    """The strides of a view of that new shape; None where no view can have it, so that reshape must copy.

    Dimensions can be merged where one step along the outer one is as far as all steps along the inner one.

    >>> reshaped_strides((2, 3, 4), (12, 4, 1), (6, 4))
    (4, 1)
    >>> reshaped_strides((3, 2, 4), (4, 12, 1), (6, 4)) is None  # a transpose in between
    True
    """
    assert math.prod(shape) == math.prod(new_shape), (shape, new_shape)
    if math.prod(shape) == 0:
        return strides if shape == new_shape else contiguous_strides(new_shape)
    blocks = _blocks(shape, strides)
    new_strides: list[int] = []
    remaining, step = 1, 1
    for size in new_shape:
        if size == 1:
            new_strides.append(step)
            continue
        if remaining == 1:
            remaining, stride = blocks.pop(0)
            step = remaining * stride
        if remaining % size:
            return None
        remaining //= size
        step = remaining * stride
        new_strides.append(step)
    return tuple(new_strides)


def unmergeable(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """The first two dimensions next to each other that cannot be merged; None where all can.

    >>> unmergeable((3, 2, 4), (4, 12, 1))
    (0, 1)
    """
    real = [index for index, size in enumerate(shape) if size != 1]
    for outer, inner in itertools.pairwise(real):
        if strides[outer] != shape[inner] * strides[inner]:
            return outer, inner
    return None


def _blocks(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """The dimensions merged as far as they can be: sizes and strides."""
    blocks: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == size * stride:
            blocks[-1] = blocks[-1][0] * size, stride
        else:
            blocks.append((size, stride))
    return blocks
