"""pack, unpack and parse_shape: several tensors in one, and back; sizes by name."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core import checks
from core.named_dims.parse import ELLIPSIS, PatternError, check_length, side, wrong_name
from core.named_dims.sizes import ELEMENT_BYTES, MAX_ELEMENTS, Shape, check_elements, check_shape
from core.words import _

MAX_TENSORS = 8


@dataclass(frozen=True)
class Packed:
    """Several tensors in one: ``packed_shapes`` is what ``*`` stood for in each, ``flat_shapes`` what each became
    before they were joined along dimension ``axis``. ``names`` are the other axes with their sizes. ``start`` is
    where each tensor begins along that dimension. Packing always copies; ``new_bytes`` in fp32.
    """

    pattern: str
    shapes: tuple[Shape, ...]
    names: tuple[tuple[str, int], ...]
    axis: int
    packed_shapes: tuple[Shape, ...]
    flat_shapes: tuple[Shape, ...]
    starts: tuple[int, ...]
    shape: Shape
    new_bytes: int

    @property
    def code(self) -> str:
        """The same in plain torch."""
        parts = [f"x{index}.reshape({', '.join(map(str, flat))})" for index, flat in enumerate(self.flat_shapes)]
        return f"packed = torch.cat([{', '.join(parts)}], dim={self.axis})"


@dataclass(frozen=True)
class Unpacked:
    """One tensor cut along dimension ``axis``: from ``cuts[i]`` to ``cuts[i + 1]`` for each of ``shapes``.

    Every piece is a view: a slice of one dimension, and that dimension split.
    """

    pattern: str
    shape: Shape
    axis: int
    cuts: tuple[int, ...]
    shapes: tuple[Shape, ...]

    @property
    def axes_after(self) -> int:
        """How many dimensions follow the one that is cut."""
        return len(self.shape) - 1 - self.axis

    @property
    def code(self) -> str:
        """The same in plain torch, a piece a line."""
        before = ":, " * self.axis
        return "\n".join(
            f"x{index} = packed[{before}{start}:{end}].reshape({', '.join(map(str, shape)) or '()'})"
            for index, (shape, start, end) in enumerate(zip(self.shapes, self.cuts, self.cuts[1:], strict=False))
        )


def explain_pack(pattern: str, *shapes: Shape) -> Packed:
    """What ``einops.pack`` makes of tensors of these shapes.

    Raises PatternError for a pattern that cannot be, ValueError for shapes that do not fit it.

    >>> packed = explain_pack("i j * k", (2, 3, 5), (2, 3, 7, 5), (2, 3, 7, 9, 5))
    >>> packed.shape, packed.packed_shapes
    ((2, 3, 71, 5), ((), (7,), (7, 9)))
    """
    before, after = _read(pattern)
    if not 1 <= len(shapes) <= MAX_TENSORS:
        message = _("pack takes 1 to {most} tensors here; received {n}")
        raise ValueError(message.format(most=MAX_TENSORS, n=len(shapes)))
    checked = tuple(check_shape(shape, _("tensor {n}").format(n=number)) for number, shape in enumerate(shapes))
    names: dict[str, int] = {}
    inner, flat = [], []
    for number, shape in enumerate(checked):
        if len(shape) < len(before) + len(after):
            message = _("tensor {n} has {ndim} dimensions; the pattern names {least} beside *")
            raise ValueError(message.format(n=number, ndim=len(shape), least=len(before) + len(after)))
        end = len(shape) - len(after)
        outer = (*shape[: len(before)], *shape[end:])
        for name, size in zip((*before, *after), outer, strict=True):
            if names.setdefault(name, size) != size:
                message = _("“{name}” is {one} in tensor 0 and {other} in tensor {n}: only * may differ")
                raise ValueError(message.format(name=name, one=names[name], other=size, n=number))
        if 0 in outer:
            name = (*before, *after)[outer.index(0)]
            message = _("“{name}” has size 0: how many elements belong to * cannot be told")
            raise ValueError(message.format(name=name))
        inner.append(shape[len(before) : end])
        flat.append((*shape[: len(before)], math.prod(inner[-1]), *shape[end:]))
    axis = len(before)
    ends = [sum(one[axis] for one in flat[: number + 1]) for number in range(len(flat))]
    shape = (*flat[0][:axis], ends[-1], *flat[0][axis + 1 :])
    check_elements(shape, _("the packed tensor"))
    new_bytes = ELEMENT_BYTES * math.prod(shape)
    return Packed(pattern, checked, tuple(names.items()), axis, tuple(inner), tuple(flat), (0, *ends[:-1]), shape,
                  new_bytes)  # fmt: skip


def explain_unpack(pattern: str, shape: Shape, packed_shapes: Sequence[Shape]) -> Unpacked:
    """What ``einops.unpack`` cuts out of a tensor of that shape; -1 once stands for what the others leave over.

    >>> explain_unpack("i *", (2, 12), [(3,), (-1, 2), ()]).shapes
    ((2, 3), (2, 4, 2), (2,))
    """
    before, after = _read(pattern)
    shape = check_shape(shape, _("the packed tensor"))
    if len(shape) != len(before) + 1 + len(after):
        message = _("the tensor has {ndim} dimensions; the pattern names {named}, * among them")
        raise ValueError(message.format(ndim=len(shape), named=len(before) + 1 + len(after)))
    wanted = _check_wanted(packed_shapes)
    lengths = [-1 if -1 in one else math.prod(one) for one in wanted]
    if lengths.count(-1) > 1 or any(one.count(-1) > 1 for one in wanted):
        raise ValueError(_("-1 stands for what is left over: it can stand once"))
    axis, total = len(before), shape[len(before)]
    rest = total - sum(length for length in lengths if length != -1)
    if rest < 0 or (rest > 0 and -1 not in lengths):
        message = _("the shapes hold {sum} along *, the tensor has {total}")
        raise ValueError(message.format(sum=total - rest, total=total))
    outer = math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
    cuts, pieces = [0], []
    for one, length in zip(wanted, lengths, strict=True):
        known = math.prod(size for size in one if size != -1)
        if length == -1 and known * outer == 0:
            raise ValueError(_("−1 cannot be solved beside a size of 0: any number would do"))
        if length == -1 and rest % known:
            raise ValueError(_("what is left over, {rest}, does not divide by {known}").format(rest=rest, known=known))
        inner = tuple(rest // known if size == -1 else size for size in one)
        cuts.append(cuts[-1] + math.prod(inner))
        pieces.append((*shape[:axis], *inner, *shape[axis + 1 :]))
    return Unpacked(pattern, shape, axis, tuple(cuts), tuple(pieces))


def _check_wanted(shapes: Sequence[Shape]) -> list[Shape]:
    if not 1 <= len(shapes) <= MAX_TENSORS:
        raise ValueError(
            _("unpack takes 1 to {most} shapes here; received {n}").format(most=MAX_TENSORS, n=len(shapes))
        )
    return [tuple(checks.whole_number(_("a size"), size, -1, MAX_ELEMENTS) for size in shape) for shape in shapes]


def _read(pattern: str) -> tuple[list[str], list[str]]:
    """The names before and after the star of a pack pattern."""
    check_length(pattern)
    names: list[str] = []
    for found in re.finditer(r"\S+", pattern):
        word, start, end = found[0], found.start(), found.end()
        reason = "" if word == "*" else wrong_name(word)
        if word != "*" and "*" in word:
            reason = _("Put a space between * and the name beside it")
        if word in names:
            reason = _("“{word}” stands twice: every axis, * too, stands once").format(word=word)
        if reason:
            raise PatternError(reason, pattern, start, end)
        names.append(word)
    if "*" not in names:
        message = _("There is no * in the pattern: it stands for the dimensions that are packed together")
        raise PatternError(message, pattern, 0, len(pattern))
    star = names.index("*")
    return names[:star], names[star + 1 :]


def parse_shape(pattern: str, shape: Shape) -> dict[str, int]:
    """The sizes of the named axes of a shape, as ``einops.parse_shape`` reads them; ``_`` skips a dimension.

    >>> parse_shape("batch _ h w", (2, 3, 5, 7))
    {'batch': 2, 'h': 5, 'w': 7}
    """
    check_length(pattern)
    found = side(pattern, 0, len(pattern), underscore=True)
    shape = check_shape(shape)
    ellipsis = next(
        (index for index, dim in enumerate(found.dims) if any(axis.text == ELLIPSIS for axis in dim.axes)), None
    )
    for dim in found.dims:
        if len(dim.axes) > 1 or (dim.in_parentheses and any(axis.text == ELLIPSIS for axis in dim.axes)):
            message = _("parse_shape reads whole dimensions: no parentheses around axes")
            raise PatternError(message, pattern, dim.start, dim.end)
    written = len(found.dims) - (ellipsis is not None)
    if len(shape) != written and (ellipsis is None or len(shape) < written):
        message = _("The pattern names {written} dimensions, the tensor has {ndim}")
        raise PatternError(message.format(written=written, ndim=len(shape)), pattern, 0, len(pattern))
    dims = list(found.dims)
    sizes = list(shape)
    if ellipsis is not None:
        del dims[ellipsis], sizes[ellipsis : ellipsis + len(shape) - written]
    named = {}
    for dim, size in zip(dims, sizes, strict=True):
        wanted = dim.axes[0].size if dim.axes else 1
        if wanted is not None and wanted != size:
            message = _("This dimension has size {size}, not {wanted}")
            raise PatternError(message.format(size=size, wanted=wanted), pattern, dim.start, dim.end)
        if dim.axes and wanted is None and dim.axes[0].text != "_":
            named[dim.axes[0].text] = size
    return named
