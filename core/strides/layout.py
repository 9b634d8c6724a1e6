"""Where the elements of a tensor lie: shape, strides and offset into a flat storage, all counted in elements.

The predicates are those that torch decides by (c10/core/TensorImpl.h and Contiguity.h): a dimension of size 1 may have
any stride, and a tensor without elements counts as contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from core.checks import whole_number
from core.words import _

MAX_DIMS = 8
MAX_EXTENT = 2**40  # of any size, stride, offset or element count: far below where 64-bit sums overflow
ITEM_BYTES = 4  # fp32


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides: each dimension steps over everything to its right; a size of 0 counts as 1.

    >>> contiguous_strides((4, 4)), contiguous_strides((2, 0, 3)), contiguous_strides(())
    ((4, 1), (3, 3, 1), ())
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Layout:
    """Shape, strides and offset of a tensor over a storage of ``storage_size`` elements of ``item_bytes`` each.

    >>> x = Layout.contiguous((4, 4))
    >>> x.strides, x.address((1, 2)), x.is_contiguous
    ((4, 1), 6, True)
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage_size: int
    item_bytes: int = ITEM_BYTES

    @classmethod
    def contiguous(cls, shape: Sequence[int], item_bytes: int = ITEM_BYTES) -> Layout:
        """A new tensor of that shape. Raises ValueError for sizes below 0 and for too many dimensions or elements."""
        sizes = check_shape(shape)
        return cls(sizes, contiguous_strides(sizes), 0, math.prod(sizes), item_bytes)

    @property
    def dim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Elements as the shape counts them; an expanded dimension counts its one element many times."""
        return math.prod(self.shape)

    @property
    def logical_bytes(self) -> int:
        """numel × item_bytes, what ``tensor.nbytes`` says."""
        return self.numel * self.item_bytes

    @property
    def storage_bytes(self) -> int:
        """What the whole storage holds, whoever uses it."""
        return self.storage_size * self.item_bytes

    @property
    def is_contiguous(self) -> bool:
        """Whether walking the elements in order walks the storage without a gap."""
        return self.numel == 0 or self._is_packed_in_order(range(self.dim - 1, -1, -1))

    @property
    def is_channels_last(self) -> bool:
        """Four dimensions (N, C, H, W) that lie in storage as N, H, W, C."""
        return self.dim == 4 and self._is_packed_in_order((1, 3, 2, 0))

    @property
    def is_dense(self) -> bool:
        """Every place of a block of storage is used once, in some order of the dimensions.

        torch calls this non-overlapping and dense; it decides whether a copy keeps the strides.

        >>> Layout((3, 2), (1, 3), 0, 6).is_dense, Layout((3,), (2,), 0, 6).is_dense, Layout((3,), (0,), 0, 1).is_dense
        (True, False, False)
        """
        if self.numel == 0:
            return True
        step = 1
        for stride, size in sorted((self.strides[d], self.shape[d]) for d in range(self.dim) if self.shape[d] > 1):
            if stride != step:
                return False
            step *= size
        return True

    @property
    def elements_used(self) -> int:
        """How many different places of the storage the tensor reaches. Counts them: for small tensors."""
        return len(set(self.addresses()))

    def address(self, index: Sequence[int]) -> int:
        """The place in storage of the element at that index: offset + Σ index · stride.

        Errors: ValueError for an index of another length or out of bounds.
        """
        if len(index) != self.dim:
            message = _("the index {index} must have {dim} numbers, one for each dimension")
            raise ValueError(message.format(index=tuple(index), dim=self.dim))
        if 0 in self.shape:
            raise ValueError(_("a tensor of shape {shape} has no elements to point at").format(shape=self.shape))
        place = self.offset
        for d, one in enumerate(index):
            if type(one) is not int or not 0 <= one < self.shape[d]:
                one = whole_number(f"index[{d}]", one, 0, self.shape[d] - 1)
            place += one * self.strides[d]
        return place

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every index, in row-major order."""
        return product(*map(range, self.shape))

    def addresses(self) -> Iterator[int]:
        """The place in storage of every element, in row-major order."""
        for index in self.indices():
            yield self.offset + sum(one * stride for one, stride in zip(index, self.strides, strict=True))

    def _is_packed_in_order(self, dims: Sequence[int]) -> bool:
        """Whether the dimensions, from the fastest to the slowest, are packed without a gap."""
        step = 1
        for d in dims:
            if self.shape[d] != 1:
                if self.strides[d] != step:
                    return False
                step *= self.shape[d]
        return True


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes, if they are whole numbers of 0 or more, at most 8, and their product is not beyond all memory.

    >>> check_shape((-1, 2))
    Traceback (most recent call last):
    ValueError: size 0 must be a whole number from 0 to 1,099,511,627,776; received -1
    """
    if len(shape) > MAX_DIMS:
        raise ValueError(
            _("at most {most} dimensions, please; received {count}").format(most=MAX_DIMS, count=len(shape))
        )
    sizes = tuple(whole_number(_("size {d}").format(d=d), one, 0, MAX_EXTENT) for d, one in enumerate(shape))
    check_extents(sizes, (), 0)
    return sizes


def check_extents(shape: Sequence[int], strides: Sequence[int], offset: int) -> None:
    """Raises ValueError where a shape, its strides or its offset are larger than any machine's memory."""
    if len(shape) > MAX_DIMS:
        raise ValueError(
            _("at most {most} dimensions, please; received {count}").format(most=MAX_DIMS, count=len(shape))
        )
    largest = max((math.prod(max(size, 1) for size in shape), *map(abs, strides), abs(offset)))
    if largest > MAX_EXTENT:
        raise ValueError(_("that is larger than this page follows: sizes and strides up to 2⁴⁰ elements"))
