"""What there is to draw of a tensor: its elements by index, its storage by place, and where each value came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.strides.layout import Layout
from core.strides.operation import ELEMENTWISE, Operation
from core.strides.running import base_tensor, run_chain, run_operation
from core.words import _

MAX_DRAWN = 4096
MAX_SIDE = 12
MAX_PARTS = 8  # two-dimensional parts of a tensor of more dimensions


@dataclass(frozen=True)
class Place:
    """A place in storage: its value, the element of x that the value came from (None: from none), and its user.

    ``origin`` counts the elements of x from 0. ``index`` is the first index that lies there, None where the tensor
    does not reach.
    """

    value: float
    origin: int | None
    index: tuple[int, ...] | None


@dataclass(frozen=True)
class Picture:
    """A tensor of a chain and its whole storage; ``shown`` is the shape cut down to what can be drawn."""

    layout: Layout
    shown: tuple[int, ...]
    places: tuple[Place, ...]


def draw(shape: Sequence[int], operations: Sequence[Operation], number: int) -> Picture:
    """What to draw of tensor ``number`` of a chain (0 is x); the chain must reach it.

    Errors: ValueError where a tensor on the way has more than 4,096 elements.

    >>> from core.strides.parsing import parse_chain
    >>> drawn = draw((2, 3), parse_chain("x.transpose(0, 1).contiguous()"), 2)
    >>> [place.origin for place in drawn.places], drawn.places[1].index
    ([0, 3, 1, 4, 2, 5], (0, 1))
    """
    import torch

    done = operations[:number]
    ran = run_chain(shape, done)
    tensor = ran[-1].tensor if ran else base_tensor(shape)
    assert tensor is not None, ran
    layouts = [Layout.contiguous(shape), *(one.layout for one in ran if one.layout is not None)]
    layout, largest = layouts[-1], max(max(one.numel, one.storage_size) for one in layouts)
    if largest > MAX_DRAWN:
        message = _("tensors of at most {most:,} elements are drawn; this chain has one of {largest:,}")
        raise ValueError(message.format(most=MAX_DRAWN, largest=largest))
    last_copy = max((at + 1 for at, one in enumerate(ran) if one.kind == "copy"), default=0)
    origins = _origins(shape, done, last_copy, layouts[last_copy])
    first: dict[int, tuple[int, ...]] = {}
    for index, place in zip(layout.indices(), layout.addresses(), strict=True):
        first.setdefault(place, index)
    values = torch.as_strided(tensor, (layout.storage_size,), (1,), 0).tolist()
    places = tuple(Place(value, origins[at], first.get(at)) for at, value in enumerate(values))
    return Picture(layout, shown_shape(layout.shape), places)


def shown_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape cut down to at most 12 along each of the last two dimensions, and 8 such parts.

    >>> shown_shape((100, 3)), shown_shape((4, 4, 2, 2)), shown_shape((0, 5))
    ((12, 3), (2, 4, 2, 2), (0, 5))
    """
    shown = [min(size, MAX_SIDE) for size in shape]
    for d in range(len(shown) - 2):
        inner = math.prod(shown[d + 1 : -2])
        shown[d] = min(shown[d], max(1, MAX_PARTS // max(inner, 1)))
    return tuple(shown)


def _origins(shape: Sequence[int], operations: Sequence[Operation], last_copy: int, layout: Layout) -> list[int | None]:
    """For each place of the last storage, the element of x whose value went there: the chain run on numbers from 1.

    Elementwise operations change values: here each multiplies by 1, as a new storage has strides of its own, on which
    a later view depends. A 0 is what triu put there.
    """
    tensor = base_tensor(shape) + 1
    for operation in operations[:last_copy]:
        made = tensor * 1 if operation.name in ELEMENTWISE else run_operation(tensor, operation).tensor
        assert made is not None, operation
        tensor = made
    found: list[int | None] = [None] * layout.storage_size
    for place, value in zip(layout.addresses(), tensor.flatten().tolist(), strict=True):
        found[place] = int(value) - 1 if value else None
    return found
