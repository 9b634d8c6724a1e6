"""Torch's operations on paper: what each allocates, what it saves for backward, what its backward allocates.

The order is torch's own: a node saves its inputs before the operation runs and its results after; gradients are
computed in the order of derivatives.yaml, arguments by name. ``t`` is the tape.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.memory.paper import Shape, Sheet, Tape, contiguous, dense, view_strides

FP32, BF16, INT64, BOOL = 4, 2, 8, 1
CAST_INPUTS, CAST_WEIGHTS = "inputs in bf16", "weights in bf16"


def needs_grad(*sheets: Sheet) -> bool:
    return any(one.node is not None for one in sheets)


def like(x: Sheet, shape: Shape, strides: Shape) -> Sheet:
    return Sheet(x.storage, shape, strides, x.item)


def view(t: Tape, x: Sheet, shape: Shape) -> Sheet:
    """torch's reshape: a view where the strides allow it, else a contiguous copy."""
    if shape == x.shape:
        return x
    strides = view_strides(x.shape, x.strides, shape)
    if strides is None:
        return view(t, clone(t, x), shape)
    y, before = like(x, shape, strides), x.shape
    if x.node is not None:
        t.record((x,), [], lambda grad: (_reshaped(t, grad, before),), y)
    return y


def _reshaped(t: Tape, grad: Sheet, shape: Shape) -> Sheet:
    strides = view_strides(grad.shape, grad.strides, shape)
    return t.new(shape, grad.item) if strides is None else like(grad, shape, strides)


def clone(t: Tape, x: Sheet) -> Sheet:
    """A contiguous copy."""
    y = t.new(x.shape, x.item)
    if x.node is not None:
        t.record((x,), [], lambda grad: (grad,), y)
    return y


def permute(t: Tape, x: Sheet, axes: Sequence[int]) -> Sheet:
    y = _permuted(x, axes)
    if x.node is not None:
        back = sorted(range(len(axes)), key=axes.__getitem__)
        t.record((x,), [], lambda grad: (_permuted(grad, back),), y)
    return y


def _permuted(x: Sheet, axes: Sequence[int]) -> Sheet:
    return like(x, tuple(x.shape[axis] for axis in axes), tuple(x.strides[axis] for axis in axes))


def expand(t: Tape, x: Sheet, shape: Shape) -> Sheet:
    y = like(x, shape, tuple(0 if a != b else step for a, b, step in zip(x.shape, shape, x.strides, strict=True)))
    if x.node is not None:
        before = x.shape
        t.record((x,), [], lambda grad: (grad if grad.shape == before else t.new(before, grad.item),), y)
    return y


def cast(t: Tape, x: Sheet, item: int) -> Sheet:
    """x in another precision; x itself where it is in it."""
    if x.item == item:
        return x
    y, before = t.new(x.shape, item, dense((x,))), x.item
    if x.node is not None:
        t.record((x,), [], lambda grad: (t.new(grad.shape, before, dense((grad,))),), y)
    return y


def autocast(t: Tape, x: Sheet) -> Sheet:
    """x as a matrix product takes it: under autocast in bf16, a parameter's copy kept until the forward ends."""
    if not t.autocast or x.item == BF16:
        return x
    if x.node is None or x.node.backward is not None:
        return labelled(t, CAST_INPUTS, x)
    if id(x) not in t.casts:
        t.casts[id(x)] = labelled(t, CAST_WEIGHTS, x)
    return t.casts[id(x)]


def labelled(t: Tape, label: str, x: Sheet) -> Sheet:
    """x in bf16, under a label of its own."""
    before, t.label = t.label, label
    y = cast(t, x, BF16)
    t.label = before
    return y


def _shape_of(a: Sheet, b: Sheet) -> Shape:
    if a.shape == b.shape:
        return a.shape
    rank = max(len(a.shape), len(b.shape))
    padded = [(1,) * (rank - len(one.shape)) + one.shape for one in (a, b)]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def pointwise(t: Tape, *operands: Sheet) -> Sheet:
    """The new result of an elementwise operation."""
    shape = operands[0].shape if len(operands) == 1 else _shape_of(*operands)
    return t.new(shape, max(one.item for one in operands), dense(operands))


def contiguous_copy(t: Tape, x: Sheet) -> Sheet:
    """x itself where it is contiguous."""
    plain = contiguous(x.shape)
    same = all(a == b or size == 1 for a, b, size in zip(x.strides, plain, x.shape, strict=True))
    return x if same else clone(t, x)


def split(t: Tape, x: Sheet, count: int) -> list[Sheet]:
    """Equal parts along the last axis, as views; their gradients are put together."""
    parts = [like(x, (*x.shape[:-1], x.shape[-1] // count), x.strides) for _part in range(count)]
    before = x.shape
    t.record((x,), [], lambda *grads: (t.new(before, grads[0].item),), *parts)
    return parts


def narrow(t: Tape, x: Sheet, half: int) -> Sheet:
    """A half of the last axis, as a view; its gradient is written into zeros as large as x."""
    width = x.shape[-1] // 2
    y, before = like(x, (*x.shape[:-1], width if half == 0 else x.shape[-1] - width), x.strides), x.shape
    t.record((x,), [], lambda grad: (t.new(before, grad.item),), y)
    return y


def negate(t: Tape, x: Sheet) -> Sheet:
    y = pointwise(t, x)
    t.record((x,), [], lambda grad: (pointwise(t, grad),), y)
    return y


def tanh(t: Tape, x: Sheet) -> Sheet:
    y = pointwise(t, x)
    t.record((x,), t.save_results(y), lambda grad, y: (pointwise(t, grad, y),), y)
    return y


def add(t: Tape, a: Sheet, b: Sheet) -> Sheet:
    y = pointwise(t, a, b)
    if needs_grad(a, b):
        t.record((a, b), [], lambda grad: (grad, grad), y)
    return y


def subtract(t: Tape, a: Sheet, b: Sheet) -> Sheet:
    y = pointwise(t, a, b)
    t.record((b, a), [], lambda grad: (pointwise(t, grad), grad), y)
    return y


def scale(t: Tape, x: Sheet) -> Sheet:
    """x times a Python number."""
    y = pointwise(t, x)
    if x.node is not None:
        t.record((x,), [], lambda grad: (pointwise(t, grad),), y)
    return y


def shift(t: Tape, x: Sheet) -> Sheet:
    """x plus a Python number."""
    y = pointwise(t, x)
    if x.node is not None:
        t.record((x,), [], lambda grad: (grad,), y)
    return y


def multiply(t: Tape, a: Sheet, b: Sheet) -> Sheet:
    """a·b. Each is saved for the other's gradient."""
    saved = t.save(*([a] if b.node is not None else []), *([b] if a.node is not None else []))
    both = a.node is not None and b.node is not None
    a_needs = a.node is not None
    y = pointwise(t, a, b)

    def backward(grad: Sheet, *kept: Sheet) -> tuple[Sheet | None, ...]:
        for_b = pointwise(t, grad, kept[0]) if both or not a_needs else None
        for_a = pointwise(t, grad, kept[-1]) if a_needs else None
        return for_b, for_a

    if needs_grad(a, b):
        t.record((b, a), saved, backward, y)
    return y


def square(t: Tape, x: Sheet) -> Sheet:
    """x²; backward makes x, 2x and their product with the gradient."""
    saved = t.save(x)
    y = pointwise(t, x)
    t.record((x,), saved, lambda grad, x: (_three(t, x, grad),), y)
    return y


cube = square  # the same nodes: x saved; the lower power, its multiple and the product in backward


def rsqrt(t: Tape, x: Sheet) -> Sheet:
    """1/√x; backward makes its cube, half the gradient and their product."""
    y = pointwise(t, x)
    t.record((x,), t.save_results(y), lambda grad, y: (_three(t, y, grad),), y)
    return y


def _three(t: Tape, x: Sheet, grad: Sheet) -> Sheet:
    power, scaled = pointwise(t, x), pointwise(t, x)
    product = pointwise(t, grad, scaled)
    del power
    return product


def mean_last(t: Tape, x: Sheet) -> Sheet:
    """The mean along the last axis, which stays as 1."""
    kept = like(x, x.shape[:-1], x.strides[:-1])
    y, before = t.new(kept.shape, x.item, dense((kept,))), x.shape
    t.record((x,), [], lambda grad: (_spread(t, grad, before),), y)
    return view(t, y, (*y.shape, 1))


def mean_all(t: Tape, x: Sheet) -> Sheet:
    """The mean of all entries."""
    y, before = t.new((), x.item), x.shape
    t.record((x,), [], lambda grad: (t.new(before, grad.item),), y)
    return y


def _spread(t: Tape, grad: Sheet, shape: Shape) -> Sheet:
    expanded = like(grad, shape, (*grad.strides, 0))
    return t.new(shape, grad.item, dense((expanded,)))


def activation(t: Tape, x: Sheet, name: str) -> Sheet:
    """GELU and SiLU save their input, ReLU its result."""
    saved = t.save(x) if name != "relu" else []
    y = pointwise(t, x)
    if name == "relu":
        saved = t.save_results(y)
    t.record((x,), saved, lambda grad, kept: (pointwise(t, grad, kept),), y)
    return y
