"""The size of every axis, solved from the shapes and from the sizes that were given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core import checks
from core.named_dims.parse import ELLIPSIS, Axis, Dim, Pattern, PatternError, Side, wrong_name
from core.words import _

MAX_DIMS = 16
MAX_ELEMENTS = 2**20
ELEMENT_BYTES = 4  # fp32

Shape = tuple[int, ...]
Keys = tuple[tuple[str, ...], ...]  # for each dimension of a tensor, the keys of the axes that it is made of


@dataclass(frozen=True)
class Solved:
    """Every axis with its size, and of which axes each dimension of each tensor is made, ``...`` written out."""

    sizes: dict[str, int]
    inputs: tuple[Keys, ...]
    output: Keys

    def shape(self, dims: Keys) -> Shape:
        """The shape of a tensor with those dimensions."""
        return tuple(math.prod(self.sizes[key] for key in keys) for keys in dims)


def check_shape(shape: Sequence[object], name: str = "shape") -> Shape:
    """A shape whose sizes are whole numbers and whose tensor is small enough to be shown.

    Raises ValueError otherwise, before anything is allocated.

    >>> check_shape([2, 3, 4])
    (2, 3, 4)
    """
    if len(shape) > MAX_DIMS:
        message = _("{name} has {n:,} dimensions; at most {most} are shown")
        raise ValueError(message.format(name=name, n=len(shape), most=MAX_DIMS))
    label = _("a size in {name}").format(name=name)
    sizes = tuple(checks.whole_number(label, size, 0, 2**40) for size in shape)
    check_elements(sizes, name)
    return sizes


def check_elements(shape: Shape, name: str) -> None:
    """Refuse a tensor of more elements than are computed here, in elements and in bytes."""
    elements = math.prod(shape)
    if elements > MAX_ELEMENTS:
        from core import units

        message = _("{name} {shape} would hold {n:,} elements, {size} in fp32; the limit here is {most:,} elements")
        size = units.si_bytes(elements * ELEMENT_BYTES)
        shown = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(message.format(name=name, shape=shown, n=elements, size=size, most=MAX_ELEMENTS))


def solve(pattern: Pattern, shape: Shape, given: Mapping[str, object]) -> Solved:
    """The sizes of rearrange, repeat and reduce. Raises PatternError where they do not work out."""
    left, right = pattern.inputs[0], pattern.output
    sizes = _given(pattern, given)
    hidden = _ellipsis_axes(pattern, left, len(shape))
    inputs, output = _write_out(left, hidden), _write_out(right, hidden)
    sizes.update({axis.key: axis.size for axis in (*left.axes, *right.axes) if axis.size is not None})
    places = _places(left, len(hidden))
    for index, (keys, size) in enumerate(zip(inputs, shape, strict=True)):
        _solve_dim(pattern, keys, size, index, sizes, places[index])
    for axis in right.axes:
        if axis.key not in sizes and axis.text != ELLIPSIS:
            message = _("“{name}” is new: say how often to repeat, for example {name}=2")
            raise PatternError(message.format(name=axis.text), pattern.text, axis.start, axis.end)
    return Solved(sizes, (inputs,), output)


def solve_einsum(pattern: Pattern, shapes: Sequence[Shape], given: Mapping[str, object]) -> Solved:
    """The sizes of an einsum: every axis of one name has one size, or 1, which torch repeats."""
    if given:
        name = next(iter(given))
        raise PatternError(_("einsum takes its sizes from the shapes: {name} cannot be given").format(name=name), "")
    hidden_count = [_hidden_dims(pattern, side, len(shape)) for side, shape in zip(pattern.inputs, shapes, strict=True)]
    most = max(hidden_count)
    names = tuple(f"{ELLIPSIS}{index}" for index in range(most))
    sizes: dict[str, int] = {}
    inputs = []
    for number, (side, shape, count) in enumerate(zip(pattern.inputs, shapes, hidden_count, strict=True), 1):
        keys = _write_out(side, names[most - count :])  # ... is aligned at its right end
        inputs.append(keys)
        own: dict[str, int] = {}
        for (key,), size, dim in zip(keys, shape, _places(side, count), strict=True):
            if own.setdefault(key, size) != size:
                message = _(
                    "“{name}” stands twice in operand {number} and is {one} and {other} there: a diagonal is square"
                )
                _refuse(pattern, dim, message.format(name=key, number=number, one=own[key], other=size))
            if sizes.get(key, 1) == 1:
                sizes[key] = size
            elif size not in (1, sizes[key]):
                message = _("“{name}” is {one} before and {other} in operand {number}: one axis has one size")
                _refuse(pattern, dim, message.format(name=key, number=number, one=sizes[key], other=size))
    output = _write_out(pattern.output, names)
    return Solved(sizes, tuple(inputs), output)


def _given(pattern: Pattern, given: Mapping[str, object]) -> dict[str, int]:
    """The sizes that were given, checked."""
    known = {key for side in (*pattern.inputs, pattern.output) for key in side.keys}
    sizes = {}
    for name, size in given.items():
        reason = wrong_name(name)
        if reason:
            raise PatternError(reason, pattern.text)
        if name not in known:
            message = _("{name} is given a size and is not in the pattern")
            raise PatternError(message.format(name=name), pattern.text)
        sizes[name] = checks.whole_number(name, size, 0, MAX_ELEMENTS)
    return sizes


def _solve_dim(
    pattern: Pattern, keys: tuple[str, ...], size: int, index: int, sizes: dict[str, int], place: Dim
) -> None:
    """Find the one unknown size of a dimension, or check that the known ones multiply to it."""
    unknown = [key for key in keys if key not in sizes]
    if len(unknown) > 1:
        message = _("The sizes of {names} cannot be told from one dimension of {size}: give all but one of them")
        _refuse(pattern, place, message.format(names=_and(unknown), size=size))
    known = [key for key in keys if key in sizes]
    product = math.prod(sizes[key] for key in known)
    factors = " × ".join(_factor(key, sizes[key]) for key in known)
    if not unknown:
        if product != size:
            if not keys:
                message = _("This dimension has size {size}: 1 and () stand for a dimension of size 1")
            elif len(keys) == 1:
                message = _("Dimension {index} of the input has size {size}, and {factors}")
            else:
                message = _("Dimension {index} of the input has size {size}, and {factors} is {product}")
            _refuse(pattern, place, message.format(index=index, size=size, factors=factors, product=product))
        return
    if product == 0 or size % product:
        message = _("A dimension of size {size} does not divide by {factors}: “{name}” would be no whole number")
        _refuse(pattern, place, message.format(size=size, factors=factors, name=unknown[0]))
    sizes[unknown[0]] = size // product


def _factor(key: str, size: int) -> str:
    return str(size) if "@" in key else f"{key}={size}"


def _and(keys: Sequence[str]) -> str:
    return _("{first} and {last}").format(first=", ".join(f"“{key}”" for key in keys[:-1]), last=f"“{keys[-1]}”")


def _ellipsis_axes(pattern: Pattern, side: Side, ndim: int) -> tuple[str, ...]:
    return tuple(f"{ELLIPSIS}{index}" for index in range(_hidden_dims(pattern, side, ndim)))


def _hidden_dims(pattern: Pattern, side: Side, ndim: int) -> int:
    """How many dimensions ``...`` stands for on that side; checks the number of dimensions."""
    written = len(side.dims) - (side.ellipsis is not None)
    if ndim == written or (ndim > written and side.ellipsis is not None):
        return ndim - written
    words = _("The pattern names {written} dimensions, the tensor has {ndim}")
    if side.ellipsis is not None:
        words = _("The pattern names {written} dimensions beside ..., the tensor has only {ndim}")
    start, end = _trimmed(pattern.text, side.start, side.end)
    raise PatternError(words.format(written=written, ndim=ndim), pattern.text, start, end)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The place without the spaces around it; all of it where it is nothing but spaces."""
    inside = text[start:end].strip(" ")
    if not inside:
        return start, end
    first = text.index(inside, start)
    return first, first + len(inside)


def _write_out(side: Side, hidden: Sequence[str]) -> Keys:
    """The axes of each dimension, with those that ``...`` stands for in its place."""
    dims: list[tuple[str, ...]] = []
    for dim in side.dims:
        if not dim.in_parentheses and dim.axes and dim.axes[0].text == ELLIPSIS:
            dims += [(key,) for key in hidden]
            continue
        keys: list[str] = []
        for axis in dim.axes:
            keys += hidden if axis.text == ELLIPSIS else [axis.key]
        dims.append(tuple(keys))
    return tuple(dims)


def _places(side: Side, hidden: int) -> list[Dim]:
    """For each dimension of the tensor, the one of the pattern that it is."""
    places = []
    for dim in side.dims:
        is_ellipsis = bool(dim.axes) and dim.axes[0].text == ELLIPSIS
        places += [dim] * (hidden if is_ellipsis else 1)
    return places


def _refuse(pattern: Pattern, place: Dim | Axis, message: str) -> None:
    raise PatternError(message, pattern.text, place.start, place.end)
