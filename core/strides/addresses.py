"""From an index to a place in storage, and from a place to every element that lies there: what a write changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.strides.layout import Layout
from core.strides.operation import Operation
from core.strides.rules import predict_chain
from core.strides.running import base_tensor, check_bytes, run_operation
from core.words import _

MAX_WRITTEN = 4096  # elements of any tensor of a chain that is written to: each is looked at
LECTURE_VALUE = 100.0

Index = tuple[int, ...]


@dataclass(frozen=True)
class Address:
    """The place of one element: ``place`` = offset + Σ index · stride in elements, ``byte`` from the storage's start.

    >>> address_of(Layout.contiguous((4, 4)), (1, 2)).text
    '0 + 1·4 + 2·1 = 6'
    """

    index: Index
    strides: tuple[int, ...]
    offset: int
    place: int
    byte: int

    @property
    def text(self) -> str:
        """The arithmetic in numbers."""
        terms = [f"{one}·{stride}" for one, stride in zip(self.index, self.strides, strict=True)]
        return f"{' + '.join([str(self.offset), *terms])} = {self.place}"


def address_of(layout: Layout, index: Sequence[int]) -> Address:
    """Where the element at an index lies. Errors: ValueError for an index that is not one of the tensor's.

    >>> address_of(Layout((3, 2), (1, 3), 0, 6), (2, 1)).byte
    20
    """
    place = layout.address(index)
    return Address(tuple(index), layout.strides, layout.offset, place, place * layout.item_bytes)


@dataclass(frozen=True)
class TensorWrite:
    """One tensor of the chain when an element of another is written.

    ``storage`` numbers the storages of the chain, a copy beginning a new one; ``shares_storage``: whether it lies in
    the one that was written to. ``predicted`` are the indices whose value changes, by address alone; ``changed`` those
    whose value did change in torch; ``values`` what it then holds.
    """

    text: str
    layout: Layout
    storage: int
    shares_storage: bool
    predicted: frozenset[Index]
    changed: frozenset[Index]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Write:
    """A value written at ``index`` of tensor number ``step`` (0 is x itself), seen from every tensor of the chain."""

    step: int
    index: Index
    address: Address
    value: float
    tensors: tuple[TensorWrite, ...]


def write_through(
    shape: Sequence[int], operations: Sequence[Operation], step: int, index: Sequence[int], value: float = LECTURE_VALUE
) -> Write:
    """Run a chain on 0, 1, 2, …, write one element of its tensor number ``step``, and see what else changed.

    A chain that ends in an error is taken up to there. Where the element already has the value, one more is written,
    so that the change can be seen. Errors: ValueError for tensors of more than 4,096 elements, and for a step or an
    index that does not exist.

    >>> write = write_through((2, 3), [Operation("transpose", (0, 1)), Operation("contiguous")], 0, (0, 1))
    >>> [sorted(one.changed) for one in write.tensors], all(one.predicted == one.changed for one in write.tensors)
    ([[(0, 1)], [(1, 0)], []], True)
    """
    import torch

    steps = [one for one in predict_chain(Layout.contiguous(shape), operations) if one.after is not None]
    layouts = [Layout.contiguous(shape), *(one.after for one in steps if one.after is not None)]
    largest = max(layout.numel for layout in layouts)
    if largest > MAX_WRITTEN:
        message = _("writing is shown for tensors of at most {most:,} elements; this chain has one of {largest:,}")
        raise ValueError(message.format(most=MAX_WRITTEN, largest=largest))
    if not isinstance(step, int) or not 0 <= step < len(layouts):
        message = _("tensor {step} does not exist: the chain has {count}, from 0 (x itself) to {last}")
        raise ValueError(message.format(step=step, count=len(layouts), last=len(layouts) - 1))
    address = address_of(layouts[step], index)
    tensors = [base_tensor(shape)]
    for one in steps:
        made = run_operation(tensors[-1], one.operation).tensor
        assert made is not None, one
        tensors.append(made)
    written = tensors[step][tuple(index)]
    value = value + 1 if written.item() == value else value
    before = [tensor.clone() for tensor in tensors]
    written.fill_(value)
    storages = _storages([one.kind for one in steps])
    seen = []
    for number, (tensor, layout) in enumerate(zip(tensors, layouts, strict=True)):
        changed = torch.ne(tensor, before[number]) & ~(torch.isnan(tensor) & torch.isnan(before[number]))
        shares = storages[number] == storages[step]
        seen.append(
            TensorWrite(
                text="x" if number == 0 else steps[number - 1].operation.text,
                layout=layout,
                storage=storages[number],
                shares_storage=shares,
                predicted=frozenset(elements_at(layout, address.place)) if shares else frozenset(),
                changed=frozenset(tuple(map(int, one)) for one in changed.nonzero().tolist()),
                values=tuple(tensor.flatten().tolist()),
            )
        )
    return Write(step, tuple(index), address, value, tuple(seen))


def elements_at(layout: Layout, place: int) -> list[Index]:
    """Every index whose element lies at that place of the storage: none, one, or, where strides overlap, several.

    >>> elements_at(Layout((2, 3), (0, 1), 0, 3), 2)
    [(0, 2), (1, 2)]
    """
    return [index for index, at in zip(layout.indices(), layout.addresses(), strict=True) if at == place]


def places_used(layout: Layout) -> int:
    """How many different places of the storage a tensor reaches, without visiting its elements.

    The set of places grows dimension by dimension, doubling: in time about storage size × dimensions.

    >>> places_used(Layout((1000, 1000), (0, 1), 0, 1000)), places_used(Layout((4, 3), (1, 1), 0, 6))
    (1000, 6)
    """
    import numpy as np

    if not layout.numel:
        return 0
    check_bytes((layout.storage_size,))
    span = 1 + sum((size - 1) * stride for size, stride in zip(layout.shape, layout.strides, strict=True))
    used = np.zeros(span, dtype=bool)
    used[0] = True
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        reached = 1  # of this dimension's indices
        while reached < size and stride:
            more = min(reached, size - reached) * stride
            grown = used.copy()
            grown[more:] |= used[: span - more]
            used, reached = grown, reached + more // stride
    return int(used.sum())


def _storages(kinds: Sequence[str]) -> list[int]:
    """The number of the storage that each tensor of a chain lies in: a copy begins a new one."""
    numbers = [0]
    for kind in kinds:
        numbers.append(numbers[-1] + (kind == "copy"))
    return numbers
