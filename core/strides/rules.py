"""What torch will do, from strides alone: a view, a copy, or an error, and the layout of the result.

The rules are torch 2.13's for dense tensors in one storage, and hold to the last stride on every random chain of the
tests. Not predicted: dtypes that change, sparse and quantized tensors, the rounding of an allocator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.strides import copying, viewing
from core.strides.layout import Layout, check_extents
from core.strides.merging import Broken, view_strides
from core.strides.operation import Operation
from core.strides.viewing import Refused
from core.words import _

KINDS = ("view", "copy", "error")


@dataclass(frozen=True)
class Step:
    """What one operation does to a layout.

    ``kind`` is "view" (the result shares the storage), "copy" (a storage of its own) or "error" (torch raises; then
    ``after`` is None). ``reason`` says why in a sentence. ``broken`` names the pair of dimensions that cannot merge:
    what made a view fail, or a reshape copy.
    """

    operation: Operation
    before: Layout
    kind: str
    after: Layout | None
    reason: str
    broken: Broken | None = None

    @property
    def allocated_bytes(self) -> int:
        """Bytes of new storage: none for a view or an error."""
        return self.after.storage_bytes if self.kind == "copy" and self.after is not None else 0


def predict(layout: Layout, operation: Operation) -> Step:
    """What torch does with a tensor of that layout, decided from shape, strides and offset alone.

    Errors: ValueError where the result would be beyond what this module follows (8 dimensions, 2⁴⁰ elements); what
    torch refuses is no exception here but a step of kind "error".

    >>> x = Layout.contiguous((2, 3))
    >>> transposed = predict(x, Operation("transpose", (0, 1)))
    >>> transposed.kind, transposed.after.strides
    ('view', (1, 3))
    >>> failed = predict(transposed.after, Operation("view", (2, 3)))
    >>> failed.kind, (failed.broken.outer, failed.broken.inner)
    ('error', (0, 1))
    >>> predict(transposed.after, Operation("reshape", (2, 3))).kind
    'copy'
    """
    _check_arguments(operation)
    try:
        step = _predict(layout, operation)
    except Refused as refused:
        return Step(operation, layout, "error", None, str(refused))
    if step.after is not None:
        check_extents(step.after.shape, step.after.strides, step.after.offset)
    return step


def predict_chain(layout: Layout, operations: Sequence[Operation]) -> tuple[Step, ...]:
    """Each step of a chain; the chain ends with the first error.

    >>> x = Layout.contiguous((2, 3))
    >>> [one.kind for one in predict_chain(x, [Operation("transpose", (0, 1)), Operation("contiguous")])]
    ['view', 'copy']
    """
    steps: list[Step] = []
    for operation in operations:
        steps.append(predict(layout, operation))
        after = steps[-1].after
        if after is None:
            break
        layout = after
    return tuple(steps)


def _predict(x: Layout, operation: Operation) -> Step:
    name, args = operation.name, operation.args
    if name in viewing.VIEWS:
        after, reason = viewing.VIEWS[name](x, args)
        return Step(operation, x, "view", after, reason)
    if name in _OTHERS:
        return _OTHERS[name](x, operation)
    copy, reason = _COPIES[name]
    if name == "triu" and x.dim < 2:
        raise Refused(_("triu needs at least 2 dimensions; the tensor has {ndim}").format(ndim=x.dim))
    if name == "flip":
        dims = [viewing.wrap(dim, x.dim) for dim in args]
        if len(set(dims)) != len(dims):
            raise Refused(_("flip takes each dimension once; {args} names one twice").format(args=args))
    return Step(operation, x, "copy", copy(x), reason)


def _index(x: Layout, operation: Operation) -> Step:
    items = _expanded(x, operation.args)
    view, dim, picked = x, 0, None
    for item in items:
        if isinstance(item, tuple) and item[0] == "pick":
            picked, dim = (dim, item[1:]), dim + 1
        else:
            view, dim = viewing.index_item(view, dim, item)
    if picked is None:
        reason = _("numbers move the offset and drop a dimension, slices move the offset and multiply the stride")
        return Step(operation, x, "view", view, reason)
    where, wanted = picked
    size = view.shape[where]
    outside = [one for one in wanted if not -size <= one < size]
    others = math.prod(view.shape[:where]) * math.prod(view.shape[where + 1 :])
    if outside and (others or not size):  # without elements to gather torch looks at no index
        message = _("index {index} is out of bounds for dimension {dim} with size {size}")
        raise Refused(message.format(index=outside[0], dim=where, size=size))
    reason = _("a list may name any places, and torch looks for no step between them: they are gathered into a copy")
    return Step(operation, x, "copy", copying.picked_copy(view, where, len(wanted)), reason)


def _expanded(x: Layout, items: Sequence[Any]) -> list[Any]:
    """The items with slices of everything in place of "..."."""
    taken = sum(item is not None and item != "..." for item in items)
    if taken > x.dim:
        message = _("{count} indices are too many for a tensor of {ndim} dimensions")
        raise Refused(message.format(count=taken, ndim=x.dim))
    everything = [(None, None, None)] * (x.dim - taken)
    if "..." not in items:
        return list(items)
    at = list(items).index("...")
    return [*items[:at], *everything, *items[at + 1 :]]


def _view(x: Layout, operation: Operation) -> Step:
    shape = inferred_shape(x, operation.args)
    strides = view_strides(x.shape, x.strides, shape)
    if isinstance(strides, Broken):
        advice = _("Write {reshape}, which copies, or contiguous() before view().")
        advice = advice.format(reshape=Operation("reshape", operation.args).text)
        return Step(operation, x, "error", None, f"{strides.text} {advice}", strides)
    reason = _("every new dimension lies inside dimensions that merge: the same elements in the same order")
    if 0 in shape:
        reason = _("without elements any shape goes that has none either")
    return Step(operation, x, "view", _over(x, shape, strides), reason)


def _reshape(x: Layout, operation: Operation) -> Step:
    return _reshaped(x, operation, inferred_shape(x, operation.args))


def _reshaped(x: Layout, operation: Operation, shape: tuple[int, ...]) -> Step:
    strides = view_strides(x.shape, x.strides, shape)
    if isinstance(strides, Broken):
        copied = copying.contiguous_copy(x)
        dense = view_strides(copied.shape, copied.strides, shape)
        assert not isinstance(dense, Broken)
        reason = _("no view is possible, so it copies: {why}").format(why=strides.text)
        return Step(operation, x, "copy", _over(copied, shape, dense), reason, strides)
    reason = _("a view is possible, so reshape gives the view")
    return Step(operation, x, "view", _over(x, shape, strides), reason)


def _flatten(x: Layout, operation: Operation) -> Step:
    start, end = (viewing.wrap(dim, x.dim) for dim in (*operation.args, *(0, -1)[len(operation.args) :]))
    if not x.dim:
        return _reshaped(x, operation, (1,))
    if start > end:
        message = _("flatten goes from a dimension to a later one; received {start} and {end}")
        raise Refused(message.format(start=start, end=end))
    if start == end:
        return Step(operation, x, "view", x, _("one dimension is flat already: the tensor itself"))
    merged = math.prod(x.shape[start : end + 1])
    return _reshaped(x, operation, (*x.shape[:start], merged, *x.shape[end + 1 :]))


def _contiguous(x: Layout, operation: Operation) -> Step:
    if x.is_contiguous:
        return Step(operation, x, "view", x, _("it is contiguous already: the tensor itself, nothing is copied"))
    return Step(operation, x, "copy", copying.contiguous_copy(x), _("the elements move into row-major order"))


def _over(x: Layout, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    return Layout(shape, strides, x.offset, x.storage_size, x.item_bytes)


def inferred_shape(x: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with its −1, if there is one, put in numbers.

    Errors: ``Refused`` where the shape does not hold the tensor's elements.

    >>> inferred_shape(Layout.contiguous((2, 6)), (-1, 3))
    (4, 3)
    """
    sizes, known = list(shape), math.prod(size for size in shape if size != -1)
    if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
        message = _("sizes are 0 or more, and one of them may be −1; received {shape}")
        raise Refused(message.format(shape=tuple(shape)))
    if -1 in sizes and known and x.numel % known == 0:
        sizes[sizes.index(-1)] = x.numel // known
    elif -1 in sizes and not known and not x.numel:
        raise Refused(_("with no elements, the size −1 could be anything; received {shape}").format(shape=tuple(shape)))
    elif -1 in sizes or known != x.numel:
        message = _("{shape} does not hold {numel} elements")
        raise Refused(message.format(shape=tuple(shape), numel=x.numel))
    return tuple(sizes)


def _check_arguments(operation: Operation) -> None:
    """Raises ValueError for numbers that no tensor here can mean."""
    for one in _numbers(operation.args):
        check_extents((), (), one)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, tuple):
        return [number for one in value for number in _numbers(one)]
    return [value] if isinstance(value, int) else []


_OTHERS: dict[str, Callable[[Layout, Operation], Step]] = {
    "index": _index,
    "view": _view,
    "reshape": _reshape,
    "flatten": _flatten,
    "contiguous": _contiguous,
}
_NEW_VALUES = _("new values need a new place: the result has a storage of its own")
_COPIES: dict[str, tuple[Callable[[Layout], Layout], str]] = {
    "clone": (copying.preserving_copy, _("clone always copies; it keeps the order in which the dimensions lie")),
    "flip": (
        copying.preserving_copy,
        _("backwards would take a negative stride, which torch does not have: it copies"),
    ),
    "triu": (copying.contiguous_copy, _NEW_VALUES),
    "sqrt": (copying.unary_copy, _NEW_VALUES),
    "rsqrt": (copying.unary_copy, _NEW_VALUES),
    "pow": (copying.unary_copy, _NEW_VALUES),
    "add": (copying.binary_copy, _NEW_VALUES),
    "mul": (copying.binary_copy, _NEW_VALUES),
    "div": (copying.binary_copy, _NEW_VALUES),
}
