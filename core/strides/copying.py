"""The strides that new tensors get: a copy keeps the order of the dimensions, not always the strides themselves.

Sources: ATen's infer_dense_strides (ExpandUtils.cpp), TensorIterator (fast setup, reorder_dimensions) and
TensorIterator's restrided index (TensorAdvancedIndexing.cpp), torch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.strides.layout import Layout, contiguous_strides


def new(x: Layout, shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """A tensor in a storage of its own, without gaps."""
    return Layout(tuple(shape), tuple(strides), 0, math.prod(shape), x.item_bytes)


def contiguous_copy(x: Layout) -> Layout:
    """What contiguous() and triu() make: row-major."""
    return new(x, x.shape, contiguous_strides(x.shape))


def preserving_copy(x: Layout) -> Layout:
    """What clone() and flip() make: the same strides if they are dense, else dense ones in the same order.

    >>> transposed = Layout((3, 2), (1, 3), 0, 6)
    >>> preserving_copy(transposed).strides, preserving_copy(Layout((3,), (2,), 0, 6)).strides
    ((1, 3), (1,))
    """
    return new(x, x.shape, x.strides if x.is_dense else packed_in_order(x.shape, x.strides))


def unary_copy(x: Layout) -> Layout:
    """What sqrt() makes: with one operand TensorIterator has a shortcut for contiguous and for dense tensors."""
    if x.is_contiguous:
        return contiguous_copy(x)
    if x.is_channels_last:
        _n, c, h, w = x.shape
        return new(x, x.shape, (h * w * c, 1, w * c, c))
    return new(x, x.shape, x.strides) if x.is_dense else binary_copy(x)


def binary_copy(x: Layout) -> Layout:
    """What x + 1 makes: no shortcut, since the number is a second operand, of no dimensions.

    With a dimension of size 1 it can differ from sqrt(): for (1, 3) with strides (1, 1) sqrt() gives (3, 1), x + 1
    keeps (1, 1).
    """
    return _iterated(x, x.shape, x.strides)


def picked_copy(x: Layout, dim: int, count: int) -> Layout:
    """What x[:, [0, 2]] makes. TensorIterator sees two operands: x, with a stride of 0 in the indexed dimension, and
    the list as a tensor whose other dimensions have size 1, or, where x is larger there, a stride of 0."""
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    strides = (*x.strides[:dim], 0, *x.strides[dim + 1 :])
    of_list = [(1 if d >= dim else count) if shape[d] == 1 or d == dim else 0 for d in range(x.dim)]
    return _iterated(x, shape, strides, of_list)


def packed_in_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Dense strides that keep the order of the dimensions in storage."""
    if len(shape) < 2:
        return (1,) * len(shape)
    return _packed(shape, iteration_order(shape, strides))


def iteration_order(shape: Sequence[int], *strides: Sequence[int]) -> list[int]:
    """The dimensions from the fastest to the slowest, as TensorIterator sorts them for operands with these strides.

    An insertion sort by the first operand's strides; with equal strides the smaller size goes first. What the first
    cannot tell, the next one may: a stride of 0 compares with nothing. What none can tell stays where it is.

    >>> iteration_order((6, 5, 4, 3, 2), (6, 0, 120, 0, 1))
    [4, 3, 0, 1, 2]
    """
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        moving = start
        for other in range(start - 1, -1, -1):
            comparison = _compare(shape, strides, order[other], order[moving])
            if comparison > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif comparison < 0:
                break
    return order


def _compare(shape: Sequence[int], operands: Sequence[Sequence[int]], a: int, b: int) -> int:
    """Above 0 where a comes after b, below 0 where before it, 0 where that cannot be told."""
    for strides in operands:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return 1 if strides[a] > strides[b] else -1
        if shape[a] > shape[b]:
            return 1
    return 0


def _iterated(x: Layout, shape: Sequence[int], *strides: Sequence[int]) -> Layout:
    """The result of an iteration over operands with these strides: row-major where the order is."""
    order = iteration_order(shape, *strides)
    if order == list(range(len(shape) - 1, -1, -1)):
        return new(x, shape, contiguous_strides(shape))
    return new(x, shape, _packed(shape, order))


def _packed(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        step *= shape[d]
    return tuple(strides)
