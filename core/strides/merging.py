"""The rule behind ``view``: which dimensions merge, which strides the new shape gets, and which pair stands in the way.

Two neighbouring dimensions merge into one when the outer steps over exactly what the inner spans: stride[outer] ==
size[inner] · stride[inner]. A view may split and merge inside runs of dimensions that merge, never across two runs.
Source: torch's at::detail::computeStride (ATen/TensorUtils.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.strides.layout import contiguous_strides
from core.words import _


@dataclass(frozen=True)
class Broken:
    """Why a view cannot be: two dimensions that do not merge, and the dimension of the new shape that needs them to.

    ``needed`` is the stride that the outer one would have to have.
    """

    outer: int
    inner: int
    new_dim: int
    needed: int
    outer_size: int
    outer_stride: int
    inner_size: int
    inner_stride: int
    new_size: int

    @property
    def text(self) -> str:
        """The pair in words and numbers."""
        message = _(
            "dimensions {outer} (size {outer_size}, stride {outer_stride}) and {inner} (size {inner_size}, stride "
            "{inner_stride}) cannot merge: that takes stride[{outer}] = size[{inner}] · stride[{inner}] = {inner_size} "
            "· {inner_stride} = {needed}, and it is {outer_stride}. The new dimension {new_dim} (size {new_size}) "
            "would cross from one to the other."
        )
        return message.format(**self.__dict__)


def view_strides(shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]) -> tuple[int, ...] | Broken:
    """The strides that show the same elements, in the same order, as another shape of as many elements.

    >>> view_strides((2, 3), (3, 1), (3, 2))
    (2, 1)
    >>> broken = view_strides((3, 2), (1, 3), (2, 3))
    >>> (broken.outer, broken.inner, broken.needed, broken.outer_stride)
    (0, 1, 6, 1)
    """
    assert math.prod(shape) == math.prod(new_shape), (shape, new_shape)
    if not shape:
        return (1,) * len(new_shape)
    if math.prod(shape) == 0:
        return tuple(strides) if tuple(shape) == tuple(new_shape) else contiguous_strides(new_shape)
    new_strides = [0] * len(new_shape)
    new_dim = len(new_shape) - 1
    step, run, taken = strides[-1], 1, 1  # of the current run: its innermost stride, its elements, those given out
    for d in range(len(shape) - 1, -1, -1):
        run *= shape[d]
        if d and (shape[d - 1] == 1 or strides[d - 1] == run * step):
            continue  # merges with the next
        while new_dim >= 0 and (taken < run or new_shape[new_dim] == 1):
            new_strides[new_dim] = taken * step
            taken *= new_shape[new_dim]
            new_dim -= 1
        if taken != run:
            return _broken(shape, strides, d, new_shape, new_dim + 1)
        if d:
            step, run, taken = strides[d - 1], 1, 1
    return tuple(new_strides)


def merged_runs(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The dimensions in groups that merge into one each; a size of 1 goes with its neighbour, whatever its stride.

    >>> merged_runs((2, 3, 4), (12, 4, 1)), merged_runs((2, 4, 3), (12, 1, 4))
    (((0, 1, 2),), ((0,), (1,), (2,)))
    """
    runs: list[tuple[int, ...]] = []
    step, run = 0, 1
    for d in range(len(shape) - 1, -1, -1):
        if runs and (shape[d] == 1 or run == 1 or strides[d] == run * step):
            runs[-1] = (d, *runs[-1])
            step, run = strides[d] if run == 1 else step, run * shape[d]
        else:
            runs.append((d,))
            step, run = strides[d], shape[d]
    return tuple(reversed(runs))


def _broken(shape: Sequence[int], strides: Sequence[int], d: int, new_shape: Sequence[int], new_dim: int) -> Broken:
    """The run from d on does not merge with d − 1. Sizes of 1 merge with anything: none of the three is one."""
    inner = next(one for one in range(d, len(shape)) if shape[one] != 1)
    crossing = next(one for one in range(new_dim, len(new_shape)) if new_shape[one] != 1)
    return Broken(
        outer=d - 1,
        inner=inner,
        new_dim=crossing,
        needed=shape[inner] * strides[inner],
        outer_size=shape[d - 1],
        outer_stride=strides[d - 1],
        inner_size=shape[inner],
        inner_stride=strides[inner],
        new_size=new_shape[crossing],
    )
