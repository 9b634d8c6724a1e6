"""Torch's layers on paper, made of the operations in ``paper_ops``: products, norms, softmax, attention, the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.memory.paper import Sheet, Tape, contiguous, dense
from core.memory.paper_ops import (
    FP32,
    autocast,
    cast,
    like,
    needs_grad,
    permute,
    pointwise,
    view,
)


def embedding(t: Tape, weight: Sheet, indices: Sheet) -> Sheet:
    """Rows of a table; the gradient is as large as the table."""
    saved = t.save(indices)
    y = t.new((*indices.shape, weight.shape[1]), weight.item)
    t.record((weight,), saved, lambda _grad, _indices: (t.new(weight.shape, weight.item),), y)
    return y


def matmul(t: Tape, a: Sheet, b: Sheet, bias: Sheet | None = None) -> Sheet:
    """A matrix product, of one pair or a batch of pairs; each saved for the other's gradient."""
    saved = t.save(*([a] if b.node is not None else []), *([b] if a.node is not None else []))
    y = t.new((*a.shape[:-1], b.shape[-1]), a.item)
    inputs = (b, a) if bias is None else (a, b, bias)
    shapes, with_bias = [(one.shape, one.node is not None) for one in inputs], bias is not None

    def backward(grad: Sheet, *_kept: Sheet) -> tuple[Sheet | None, ...]:
        products = [t.new(shape, grad.item) if needed else None for shape, needed in shapes[:2]]
        return (*products, grad) if with_bias else tuple(products)

    if needs_grad(*inputs):
        t.record(inputs, saved, backward, y)
    return y


def batched_matmul(t: Tape, a: Sheet, b: Sheet) -> Sheet:
    """torch.matmul of (batch, head, i, k) and (batch, head, k, j): one product over batch · head pairs."""
    batch, heads, i, k = a.shape
    b, a = autocast(t, b), autocast(t, a)
    flat = view(t, a, (batch * heads, i, k))
    y = matmul(t, flat, view(t, b, (batch * heads, k, b.shape[3])))
    return view(t, y, (batch, heads, i, b.shape[3]))


def linear(t: Tape, x: Sheet, weight: Sheet, bias: Sheet | None = None) -> Sheet:
    """x Wᵀ + b: the rows of x flattened, W transposed as a view."""
    bias = None if bias is None else autocast(t, bias)
    weight = autocast(t, weight)
    x = autocast(t, x)
    rows, width = math.prod(x.shape[:-1]), x.shape[-1]
    if bias is not None:
        flat = view(t, x, (rows, width))
        columns = permute(t, weight, (1, 0))
    else:
        columns = permute(t, weight, (1, 0))
        flat = view(t, x, (rows, width))
    y = matmul(t, flat, columns, bias)
    return view(t, y, (*x.shape[:-1], weight.shape[0]))


def layer_norm(t: Tape, x: Sheet, weight: Sheet, bias: Sheet) -> Sheet:
    """LayerNorm: saves its input and two numbers a row."""
    before = t.save(x, weight, bias)
    y = t.new(x.shape, x.item, dense((x,)))
    rows = (*x.shape[:-1], 1)
    mean, inverse = t.new(rows, weight.item), t.new(rows, weight.item)
    saved = before + t.save_results(mean, inverse)

    def backward(grad: Sheet, *_kept: Sheet) -> tuple[Sheet | None, ...]:
        return t.new(grad.shape, grad.item), t.new(weight.shape, weight.item), t.new(bias.shape, bias.item)

    t.record((x, weight, bias), saved, backward, y)
    return y


def softmax(t: Tape, x: Sheet, item: int = 0) -> Sheet:
    """Softmax along the last axis, saved; ``item`` computes and returns it in another precision."""
    y, before = t.new(x.shape, item or x.item), x.item
    t.record((x,), t.save_results(y), lambda grad, _y: (t.new(grad.shape, before),), y)
    return y


def masked_fill(t: Tape, x: Sheet, mask: Sheet) -> Sheet:
    saved = t.save(mask)
    y = pointwise(t, x)
    t.record((x,), saved, lambda grad, _mask: (pointwise(t, grad),), y)
    return y


def fused_attention(t: Tape, q: Sheet, k: Sheet, v: Sheet) -> Sheet:
    """scaled_dot_product_attention: saves q, k, v, its result and the logarithm of each row's sum, in fp32."""
    v, k, q = autocast(t, v), autocast(t, k), autocast(t, q)
    before = t.save(q, k, v)
    y = t.new(q.shape, q.item, dense((q,)))
    log_sum = t.new(q.shape[:-1], FP32)
    saved = before + t.save_results(y, log_sum)
    t.record((q, k, v), saved, lambda _grad, *kept: tuple(_by_position(t, one) for one in kept[:3]), y)
    return y


def _by_position(t: Tape, x: Sheet) -> Sheet:
    """A gradient that the fused kernel writes: (batch, seq, head, head_dim) in memory."""
    batch, heads, seq, width = x.shape
    rows = contiguous((batch, seq, heads, width))
    return t.new(x.shape, x.item, (rows[0], rows[2], rows[1], rows[3]))


def concatenate(t: Tape, parts: Sequence[Sheet]) -> Sheet:
    """Along the last axis; each part's gradient is a view of the whole's."""
    widths = [part.shape[-1] for part in parts]
    y = t.new((*parts[0].shape[:-1], sum(widths)), max(part.item for part in parts))
    t.record(tuple(parts), [], lambda grad: tuple(like(grad, (*grad.shape[:-1], w), grad.strides) for w in widths), y)
    return y


def unbind(t: Tape, x: Sheet) -> list[Sheet]:
    """The slices along the first axis; their gradients are stacked."""
    parts = [like(x, x.shape[1:], x.strides[1:]) for _slice in range(x.shape[0])]
    before = x.shape
    t.record((x,), [], lambda *grads: (t.new(before, grads[0].item),), *parts)
    return parts


def cross_entropy(t: Tape, logits: Sheet, labels: Sheet) -> Sheet:
    """log-softmax, saved, then the mean over the labels; each in backward makes a gradient as large as the logits."""
    logits = cast(t, logits, FP32) if t.autocast else logits
    y = t.new(logits.shape, logits.item)
    before, item = logits.shape, logits.item
    t.record((logits,), t.save_results(y), lambda _grad, _y: (t.new(before, item),), y)
    saved = t.save(y, labels)
    loss, total_weight = t.new((), item), t.new((), item)
    saved += t.save_results(total_weight)
    t.record((y,), saved, lambda _grad, *_kept: (t.new(before, item),), loss)
    return loss
