"""The operations that never copy: new shape, strides and offset, computed as torch computes them.

Each takes a layout and the operation's arguments, and returns the new layout and a sentence; ``Refused`` where torch
raises. Source: ATen/native/TensorShape.cpp, torch 2.13, and the tests, which compare every rule with torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.strides.layout import Layout
from core.words import _

Viewed = tuple[Layout, str]


class Refused(Exception):  # noqa: N818 (it is no error of the program: torch refuses the operation)
    """torch raises here; the message says why."""


def wrap(dim: int, ndim: int) -> int:
    """The dimension as a number from 0; a tensor of no dimensions has one for this purpose, as in torch."""
    count = max(ndim, 1)
    if not -count <= dim < count:
        message = _("dimension {dim} does not exist: the tensor has {ndim}, numbered from {low} to {high}")
        raise Refused(message.format(dim=dim, ndim=ndim, low=-count, high=count - 1))
    return dim % count


def select(x: Layout, args: Sequence[int]) -> Viewed:
    dim, index = args
    if not x.dim:
        raise Refused(_("a tensor without dimensions has nothing to select from: it is one number already"))
    dim = wrap(dim, x.dim)
    size, stride = x.shape[dim], x.strides[dim]
    if not -size <= index < size:
        message = _("index {index} is out of bounds for dimension {dim} with size {size}")
        raise Refused(message.format(index=index, dim=dim, size=size))
    start = (index + size if index < 0 else index) * stride
    why = _("dimension {dim} goes; the offset moves by {index} · {stride}")
    return _without(x, dim, x.offset + start), why.format(dim=dim, index=index % size, stride=stride)


def cut(x: Layout, dim: int, item: tuple[int | None, int | None, int | None]) -> Layout:
    """x[start:stop:step] of one dimension: the offset moves to the start, the stride is multiplied by the step."""
    start, stop, step = item
    step = 1 if step is None else step
    size, stride = x.shape[dim], x.strides[dim]
    if step <= 0:
        raise Refused(_("a step must be above 0, received {step}: strides are never negative").format(step=step))
    low = _clamp(0 if start is None else start, size)
    high = max(low, size if stop is None else _clamp(stop, size))
    sizes, strides = list(x.shape), list(x.strides)
    sizes[dim], strides[dim] = (high - low + step - 1) // step, stride * step
    return replace(x, shape=tuple(sizes), strides=tuple(strides), offset=x.offset + low * stride)


def transpose(x: Layout, args: Sequence[int]) -> Viewed:
    a, b = (wrap(dim, x.dim) for dim in args)
    order = list(range(x.dim))
    if x.dim:
        order[a], order[b] = order[b], order[a]
    return _permuted(x, order), _("dimensions {a} and {b} swap places, sizes and strides alike").format(a=a, b=b)


def permute(x: Layout, args: Sequence[int]) -> Viewed:
    if len(args) != x.dim:
        message = _("permute needs each of the {ndim} dimensions once; received {count}")
        raise Refused(message.format(ndim=x.dim, count=len(args)))
    order = [wrap(dim, x.dim) for dim in args]
    if len(set(order)) != len(order):
        raise Refused(_("permute needs each dimension once; {args} names one twice").format(args=tuple(args)))
    return _permuted(x, order), _("sizes and strides in the new order {order}").format(order=tuple(order))


def expand(x: Layout, args: Sequence[int]) -> Viewed:
    if len(args) < x.dim:
        message = _("expand to {args} needs at least the {ndim} dimensions that are there")
        raise Refused(message.format(args=tuple(args), ndim=x.dim))
    shape, strides = list(args), [0] * len(args)
    for at in range(len(args) - 1, -1, -1):
        old = at - len(args) + x.dim
        size = x.shape[old] if old >= 0 else 1
        # A new leading dimension of size 1 gets the stride that unsqueeze would give it.
        new_step = shape[at + 1] * strides[at + 1] if at + 1 < len(args) and x.dim else 0
        stride = x.strides[old] if old >= 0 else new_step
        if shape[at] == -1 and old >= 0:
            shape[at] = size
        if shape[at] < 0:
            message = _("size {size} of dimension {at} is not one that a new dimension can have")
            raise Refused(message.format(size=shape[at], at=at))
        if size != shape[at]:
            if size != 1:
                message = _("only a dimension of size 1 can expand: dimension {old} has size {size}, not {wanted}")
                raise Refused(message.format(old=old, size=size, wanted=shape[at]))
            stride = 0
        strides[at] = stride
    why = _("a stride of 0 shows the same element again and again: nothing is copied")
    if tuple(strides) == x.strides:
        why = _("no size is another one: nothing changes")
    elif 0 not in strides:
        why = _("only dimensions of size 1 come in front: nothing is copied")
    return replace(x, shape=tuple(shape), strides=tuple(strides)), why


def unsqueeze(x: Layout, args: Sequence[int]) -> Viewed:
    dim = wrap(args[0], x.dim + 1)
    stride = x.shape[dim] * x.strides[dim] if dim < x.dim else 1
    why = _("a new dimension {dim} of size 1; its stride is never used").format(dim=dim)
    return _inserted(x, dim, 1, stride), why


def squeeze(x: Layout, args: Sequence[int]) -> Viewed:
    dims = [wrap(args[0], x.dim)] if args else list(range(x.dim))
    gone = [dim for dim in dims if dim < x.dim and x.shape[dim] == 1]
    for dim in reversed(gone):
        x = _without(x, dim, x.offset)
    if not gone:
        return x, _("no dimension of size 1 there: nothing changes")
    return x, _("dimensions of size 1 go: {dims}").format(dims=", ".join(map(str, gone)))


def unfold(x: Layout, args: Sequence[int]) -> Viewed:
    dim, size, step = args
    dim = wrap(dim, x.dim)
    most, stride = (x.shape[dim], x.strides[dim]) if x.dim else (1, 1)
    if size < 0:
        raise Refused(_("a window's size must be 0 or more, received {size}").format(size=size))
    if size > most:
        message = _("a window of {size} does not fit: dimension {dim} has size {most}")
        raise Refused(message.format(size=size, dim=dim, most=most))
    if step <= 0:
        raise Refused(_("a step must be above 0, received {step}").format(step=step))
    sizes, strides = list(x.shape), list(x.strides)
    if x.dim:
        sizes[dim], strides[dim] = (most - size) // step + 1, stride * step
    why = _("windows of {size} along dimension {dim}: two strides walk one dimension, so nothing is copied")
    if step < size:
        why = _(
            "windows of {size} along dimension {dim}: two strides walk one dimension, so windows overlap without a copy"
        )
    why = why.format(size=size, dim=dim)
    return replace(x, shape=(*sizes, size), strides=(*strides, stride)), why


def diagonal(x: Layout, args: Sequence[int]) -> Viewed:
    shift, a, b = (*args, *(0, 0, 1)[len(args) :])
    a, b = wrap(a, x.dim), wrap(b, x.dim)
    if a == b:
        raise Refused(_("a diagonal needs two different dimensions; received {a} twice").format(a=a))
    size = max(0, min(x.shape[a] + min(shift, 0), x.shape[b] - max(shift, 0)))
    offset = x.offset
    if size:
        offset += shift * x.strides[b] if shift >= 0 else -shift * x.strides[a]
    rest = [dim for dim in range(x.dim) if dim not in (a, b)]
    step = x.strides[a] + x.strides[b]
    shape = (*(x.shape[dim] for dim in rest), size)
    strides = (*(x.strides[dim] for dim in rest), step)
    why = _("one step along both dimensions: {left} + {right} = {step}")
    why = why.format(left=x.strides[a], right=x.strides[b], step=step)
    return replace(x, shape=shape, strides=strides, offset=offset), why


def as_strided(x: Layout, args: Sequence[Any]) -> Viewed:
    shape, strides = args[0], args[1]
    offset = args[2] if len(args) > 2 else x.offset
    if len(shape) != len(strides):
        message = _("as many sizes as strides, please: {sizes} and {strides}")
        raise Refused(message.format(sizes=len(shape), strides=len(strides)))
    for what, values in ((_("size"), shape), (_("stride"), strides), (_("offset"), (offset,))):
        if min(values, default=0) < 0:
            raise Refused(_("a {what} must be 0 or more, received {value}").format(what=what, value=min(values)))
    new = replace(x, shape=tuple(shape), strides=tuple(strides), offset=offset)
    end = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    if new.numel and end > x.storage_size:
        message = _("the last element would lie at {last}; the storage has {size} elements")
        raise Refused(message.format(last=end - 1, size=x.storage_size))
    return new, _("any sizes and strides within the storage: nothing is checked but its end")


def index_item(x: Layout, dim: int, item: Any) -> tuple[Layout, int]:
    """One item of an index at a dimension: the layout after it, and the dimension that the next item is for."""
    if item is None:
        return unsqueeze(x, (dim,))[0], dim + 1
    if isinstance(item, int):
        return select(x, (dim, item))[0], dim
    return cut(x, dim, item), dim + 1


def _permuted(x: Layout, order: Sequence[int]) -> Layout:
    return replace(x, shape=tuple(x.shape[d] for d in order), strides=tuple(x.strides[d] for d in order))


def _without(x: Layout, dim: int, offset: int) -> Layout:
    keep = [d for d in range(x.dim) if d != dim]
    return replace(_permuted(x, keep), offset=offset)


def _inserted(x: Layout, dim: int, size: int, stride: int) -> Layout:
    shape, strides = list(x.shape), list(x.strides)
    shape.insert(dim, size)
    strides.insert(dim, stride)
    return replace(x, shape=tuple(shape), strides=tuple(strides))


def _clamp(place: int, size: int) -> int:
    return min(max(place + size if place < 0 else place, 0), size)


VIEWS = {
    "select": select,
    "transpose": transpose,
    "permute": permute,
    "expand": expand,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "unfold": unfold,
    "diagonal": diagonal,
    "as_strided": as_strided,
}
