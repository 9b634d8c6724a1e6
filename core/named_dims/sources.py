"""Which cells of the input make each cell of the output."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from core.named_dims.explain import Explanation
from core.strides.layout import contiguous_strides
from core.words import _

MAX_SOURCES = 20_000


@dataclass(frozen=True)
class CellSources:
    """For one cell of the output, the flat places of the cells of each operand that it is made of."""

    cells: tuple[tuple[int, ...], ...]


def number_of_sources(explanation: Explanation) -> int:
    """How many pairs of output cell and input cell there are."""
    sizes = dict(explanation.sizes)
    total = 0
    for dims in explanation.inputs:
        gone = {key for keys in dims for key in keys} - set(explanation.right)
        total += math.prod(explanation.output_shape) * math.prod(sizes[key] for key in gone)
    return total


@functools.lru_cache(maxsize=32)
def sources(explanation: Explanation) -> tuple[CellSources, ...]:
    """For each cell of the output, in order, the flat places of its input cells in every operand.

    Raises ValueError where there are more pairs than are shown.

    >>> from core.named_dims.explain import explain
    >>> [one.cells for one in sources(explain("a b -> b", (2, 3), operation_="sum"))]
    [((0, 3),), ((1, 4),), ((2, 5),)]
    """
    pairs = number_of_sources(explanation)
    if pairs > MAX_SOURCES:
        message = _("{n:,} links between cells; at most {most:,} are shown: take smaller sizes")
        raise ValueError(message.format(n=pairs, most=MAX_SOURCES))
    by_operand = [_of_operand(explanation, number) for number in range(len(explanation.shapes))]
    return tuple(CellSources(cells) for cells in zip(*by_operand, strict=True))


def _of_operand(explanation: Explanation, number: int) -> list[tuple[int, ...]]:
    """For each cell of the output the flat places in one operand."""
    import numpy

    sizes = dict(explanation.sizes)
    shape, dims = explanation.shapes[number], explanation.inputs[number]
    gone = [key for key in dict.fromkeys(key for keys in dims for key in keys) if key not in explanation.right]
    order = [*explanation.right, *gone]
    # The coordinate of every axis at every (output cell, summed-over position), then the place in the operand.
    grid = dict(zip(order, numpy.indices([sizes[key] for key in order]), strict=True))
    flat = numpy.zeros([sizes[key] for key in order], dtype=numpy.int64)
    for size, keys, stride in zip(shape, dims, contiguous_strides(shape), strict=True):
        place = _coordinate(keys, grid, sizes)
        flat = flat + stride * (place if size != 1 else 0 * place)  # a size of 1 is repeated by einsum
    outputs = math.prod(explanation.output_shape)
    rows = flat.reshape(outputs, math.prod(sizes[key] for key in gone)).tolist()
    return [tuple(row) for row in rows]


def _coordinate(keys: tuple[str, ...], grid: dict[str, Any], sizes: dict[str, int]) -> Any:
    """The place in a dimension that is made of those axes, the last of them the fastest."""
    place: Any = 0
    for key in keys:
        place = place * sizes[key] + grid[key]
    return place
