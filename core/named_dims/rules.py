"""Which axes may stand on which side of a pattern: what rearrange, repeat, reduce and einsum each allow."""

from __future__ import annotations

from core.named_dims.parse import ELLIPSIS, REDUCTIONS, Axis, Pattern, PatternError, Side
from core.words import _


def check(pattern: Pattern, operation: str) -> None:
    """Raise PatternError where the two sides do not fit the operation."""
    if operation == "einsum":
        _check_einsum(pattern)
        return
    (left,), right = pattern.inputs, pattern.output
    if right.ellipsis and not left.ellipsis:
        _refuse(pattern, right.ellipsis, _("... is on the right only: there are no dimensions that it could stand for"))
    for dim in left.dims:
        if dim.in_parentheses and any(axis.text == ELLIPSIS for axis in dim.axes):
            message = _("... inside parentheses on the left: nobody could tell how the dimension is divided")
            raise PatternError(message, pattern.text, dim.start, dim.end)
    if operation == "rearrange":
        _check_rearrange(pattern, left, right)
    elif operation == "repeat":
        for axis in _only_in(left, right):
            message = _("“{name}” is on the left only: repeat drops no axis (reduce sums over one)")
            _refuse(pattern, axis, message.format(name=axis.text))
    elif operation in REDUCTIONS:
        for axis in _only_in(right, left):
            message = _("“{name}” is on the right only: reduce adds no axis (repeat does)")
            _refuse(pattern, axis, message.format(name=axis.text))


def _check_rearrange(pattern: Pattern, left: Side, right: Side) -> None:
    for axis in (*left.numbers, *right.numbers):
        message = _("rearrange wants names: give this axis of size {size} a name, so that it can be found again")
        _refuse(pattern, axis, message.format(size=axis.size))
    for axis in _only_in(left, right):
        message = _("“{name}” is on the left only: rearrange keeps every axis (reduce sums over one)")
        _refuse(pattern, axis, message.format(name=axis.text))
    for axis in _only_in(right, left):
        message = _("“{name}” is on the right only: rearrange adds no axis (repeat does)")
        _refuse(pattern, axis, message.format(name=axis.text))


def _check_einsum(pattern: Pattern) -> None:
    for side in (*pattern.inputs, pattern.output):
        for dim in side.dims:
            if any(axis.text == ELLIPSIS for axis in dim.axes):
                if dim.in_parentheses:
                    message = _("einsum takes ... without parentheses: (...) would be one axis of that name")
                    raise PatternError(message, pattern.text, dim.start, dim.end)
            elif not dim.axes:
                message = _("einsum takes no axis of size 1 without a name: rearrange it away first")
                raise PatternError(message, pattern.text, dim.start, dim.end)
            elif len(dim.axes) > 1:
                message = _("einsum does not split or merge axes: rearrange before it, or after it")
                raise PatternError(message, pattern.text, dim.start, dim.end)
            elif dim.axes[0].size is not None:
                _refuse(pattern, dim.axes[0], _("einsum wants names, not numbers: an axis is summed by its name"))
    known = {axis.key for side in pattern.inputs for axis in side.axes}
    seen: set[str] = set()
    for axis in pattern.output.axes:
        if axis.text != ELLIPSIS and axis.key not in known:
            message = _("“{name}” is on the right only: no operand has such an axis")
            _refuse(pattern, axis, message.format(name=axis.text))
        if axis.key in seen:
            message = _("“{name}” is here twice on one side: each axis stands once in a tensor")
            _refuse(pattern, axis, message.format(name=axis.text))
        seen.add(axis.key)


def _only_in(one: Side, other: Side) -> list[Axis]:
    keys = set(other.keys)
    return [axis for axis in one.axes if axis.key not in keys]


def _refuse(pattern: Pattern, axis: Axis, message: str) -> None:
    raise PatternError(message, pattern.text, axis.start, axis.end)
