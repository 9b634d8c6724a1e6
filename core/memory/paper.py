"""Autograd on paper: tensors that are a shape and a size in bytes, and the graph that keeps and frees them.

A step is written down with these sheets as the model is written with tensors. A sheet's storage counts while anything
holds it (a variable, or a node of the graph that needs it in backward), by Python's own reference counts, as in torch.
Nothing is computed and torch is not needed.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

from core.memory.paper_ledger import Ledger
from core.memory.result import ACTIVATION, BACKWARD, GRADIENT, RECOMPUTATION, TEMPORARY

Shape = tuple[int, ...]
Backward = Callable[..., "tuple[Sheet | None, ...]"]
LAST = 1 << 62  # autograd adds to .grad as soon as it can, before any other node


class Storage:
    """Bytes that count from now until nothing holds them."""

    __slots__ = ("category", "events", "label", "size")

    def __init__(self, ledger: Ledger, size: int, category: str, label: tuple[str, int | None]) -> None:
        self.events, self.size, self.category, self.label = ledger.events, size, category, label
        self.events.append((category, size))

    def __del__(self) -> None:
        self.events.append((self.category, -self.size))

    def move(self, category: str) -> None:
        """Count under another category from now on."""
        self.events.append((self.category, -self.size))
        self.events.append((category, self.size))
        self.category = category


class Sheet:
    """A tensor on paper: its storage, shape, strides and bytes an entry; the node that made it, if one did."""

    __slots__ = ("item", "node", "shape", "slot", "storage", "strides")

    def __init__(self, storage: Storage, shape: Shape, strides: Shape, item: int) -> None:
        self.storage, self.shape, self.strides, self.item = storage, shape, strides, item
        self.node: Node | None = None
        self.slot = 0

    def detached(self) -> Sheet:
        """The same storage, without the node."""
        return Sheet(self.storage, self.shape, self.strides, self.item)


class Node:
    """An operation that backward goes through: what it saved, how it goes back, and the nodes it goes back to."""

    __slots__ = ("backward", "edges", "grads", "missing", "moment", "saved", "sequence")

    def __init__(self, sequence: int, saved: list[Any], backward: Backward | None, num_outputs: int = 1) -> None:
        self.sequence, self.saved, self.backward = sequence, saved, backward
        self.edges: tuple[tuple[Node, int, Shape, int] | None, ...] = ()
        self.grads: list[Sheet | None] = [None] * num_outputs
        self.missing = 0  # gradients that are still to come, over all of its outputs
        self.moment: tuple[str, int | None] | None = None


class StopRecomputation(Exception):  # noqa: N818  (not an error)
    """All that was wanted is computed again."""


class Checkpoint:
    """A part of the forward that keeps its inputs alone and computes again what backward asks for."""

    def __init__(self, again: Callable[[], object], inputs: tuple[Sheet, ...]) -> None:
        self.again, self.inputs = again, inputs
        self.num_saved = self.num_recomputed = 0
        self.recomputed: dict[int, Sheet] | None = None


class Placeholder:
    """What a node inside a checkpoint saves instead of a sheet."""

    __slots__ = ("checkpoint", "index")

    def __init__(self, checkpoint: Checkpoint, index: int) -> None:
        self.checkpoint, self.index = checkpoint, index


class Tape:
    """Records operations, and runs them backward."""

    def __init__(self, autocast: bool) -> None:
        self.ledger, self.autocast = Ledger(), autocast
        self.casts: dict[int, Sheet] = {}  # autocast's copies of the parameters, until the forward ends
        self.category = ACTIVATION
        self.checkpoint: Checkpoint | None = None
        self.recomputing = False
        self.label = ""
        self.block: int | None = None  # what is being computed: a part of the model, a block's number
        self._sequence = 0

    def new(self, shape: Shape, item: int, strides: Shape | None = None, category: str = "") -> Sheet:
        """A sheet with a storage of its own, contiguous unless strides say otherwise."""
        size, label = math.prod(shape) * item, (self.label, self.block)
        storage = Storage(self.ledger, size, category or self.category, label)
        return Sheet(storage, shape, contiguous(shape) if strides is None else strides, item)

    def parameter(self, shape: Shape, item: int, category: str) -> Sheet:
        """A leaf whose gradients add up."""
        sheet = self.new(shape, item, category=category)
        sheet.node = Node(LAST, [], None)
        return sheet

    def save(self, *sheets: Sheet) -> list[Any]:
        """What a node holds for backward of its inputs: themselves, or placeholders inside a checkpoint."""
        checkpoint = self.checkpoint
        if checkpoint is not None and not self.recomputing:
            first = checkpoint.num_saved
            checkpoint.num_saved += len(sheets)
            return [Placeholder(checkpoint, first + index) for index in range(len(sheets))]
        if checkpoint is not None:
            assert checkpoint.recomputed is not None
            for one in sheets:
                checkpoint.recomputed[checkpoint.num_recomputed] = one.detached()
                checkpoint.num_recomputed += 1
                if checkpoint.num_recomputed == checkpoint.num_saved:
                    raise StopRecomputation
        return list(sheets)

    def save_results(self, *sheets: Sheet) -> list[Any]:
        """What a node holds of its own results: not their nodes, which would be itself."""
        return self.save(*[one.detached() for one in sheets])

    def record(self, inputs: Sequence[Sheet], saved: list[Any], backward: Backward, *outputs: Sheet) -> None:
        """The node of an operation: from its outputs back to those of its inputs that need a gradient."""
        self._sequence += 1
        node = Node(self._sequence, saved, backward, len(outputs))
        edges: list[tuple[Node, int, Shape, int] | None] = []
        for one in inputs:
            if one.node is None:
                edges.append(None)
                continue
            if not self.recomputing:  # the graph of a recomputation is never gone through
                one.node.missing += 1
            edges.append((one.node, one.slot, one.shape, one.item))
        node.edges = tuple(edges)
        for slot, output in enumerate(outputs):
            output.node, output.slot = node, slot

    def backward(self, loss: Sheet) -> None:
        """From the loss to every parameter, in autograd's order: of the nodes that are ready, the latest recorded."""
        assert loss.node is not None
        gradient = self.new(loss.shape, loss.item)  # torch holds it to the end
        self.category = TEMPORARY
        loss.node.grads[loss.slot] = gradient
        ready = [(-loss.node.sequence, 0, loss.node)]
        pushed = 1
        while ready:
            node = heapq.heappop(ready)[2]
            for next_node in self._run(node):
                heapq.heappush(ready, (-next_node.sequence, pushed, next_node))
                pushed += 1
        self.category = ACTIVATION

    def _run(self, node: Node) -> list[Node]:
        """Run one node; the nodes that became ready."""
        if node.moment is not None:
            self.ledger.start(*node.moment)
        grads, node.grads = node.grads, [None] * len(node.grads)
        if node.backward is None:  # a parameter keeps the first gradient; the next ones are added in place
            assert grads[0] is not None
            if not node.saved:
                grads[0].storage.move(GRADIENT)
                node.saved = [grads[0].storage]
            return []
        outputs = self._fit(node, self._apply(node, grads))
        del grads
        node.saved = []
        ready = []
        for index, edge in enumerate(node.edges):
            output, outputs[index] = outputs[index], None
            if edge is None:
                continue
            assert output is not None
            next_node, slot = edge[0], edge[1]
            if next_node.grads[slot] is not None:
                output = self.new(output.shape, output.item)  # a third tensor, while both are there
            next_node.grads[slot] = output
            del output
            next_node.missing -= 1
            if not next_node.missing:
                ready.append(next_node)
        return ready

    def _apply(self, node: Node, grads: list[Sheet | None]) -> list[Sheet | None]:
        saved = [self._unpack(one) if isinstance(one, Placeholder) else one for one in node.saved]
        assert node.backward is not None
        return list(node.backward(*grads, *saved))

    def _fit(self, node: Node, outputs: list[Sheet | None]) -> list[Sheet | None]:
        """Each gradient in the shape and the precision of what it belongs to."""
        for index, (edge, output) in enumerate(zip(node.edges, outputs, strict=True)):
            if edge is None or output is None:
                continue
            if output.shape != edge[2]:
                output = self.new(edge[2], output.item)
            if output.item != edge[3]:
                output = self.new(output.shape, edge[3], dense((output,)))
            outputs[index] = output
        return outputs

    def _unpack(self, placeholder: Placeholder) -> Sheet:
        checkpoint = placeholder.checkpoint
        if checkpoint.recomputed is None:
            checkpoint.recomputed = {}
            category, self.category = self.category, ACTIVATION
            self.checkpoint, self.recomputing = checkpoint, True
            block = self.ledger.block
            self.ledger.start(RECOMPUTATION, block)
            with contextlib.suppress(StopRecomputation):
                checkpoint.again()
            self.checkpoint, self.recomputing, self.category = None, False, category
            self.casts.clear()
            self.ledger.start(BACKWARD, block)
        return checkpoint.recomputed.pop(placeholder.index)


@functools.lru_cache(maxsize=4096)
def contiguous(shape: Shape) -> Shape:
    """The strides of a contiguous tensor, in entries.

    >>> contiguous((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@functools.lru_cache(maxsize=4096)
def view_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of a view of another shape; None where it takes a copy (torch's rule, ``computeStride``).

    >>> view_strides((4, 6), (6, 1), (4, 2, 3)), view_strides((4, 6), (1, 4), (24,))
    ((6, 3, 1), None)
    """
    out = [0] * len(new)
    at, numel, left, base = len(new) - 1, 1, 1, strides[-1] if strides else 1
    for d in range(len(shape) - 1, -1, -1):
        numel *= shape[d]
        if d == 0 or (shape[d - 1] != 1 and strides[d - 1] != numel * base):
            while at >= 0 and (left < numel or new[at] == 1):
                out[at] = left * base
                left *= new[at]
                at -= 1
            if left != numel:
                return None
            if d:
                base, numel, left = strides[d - 1], 1, 1
    return tuple(out) if at < 0 else None


def dense(operands: Sequence[Sheet]) -> Shape:
    """The strides of an elementwise result: dense, its axes in the order of the operands' (TensorIterator's rule)."""
    first = operands[0]
    if all(one.shape == first.shape and one.strides == first.strides for one in operands):
        plain = contiguous(first.shape)
        if first.strides == plain:
            return plain
    return _dense(tuple((one.shape, one.strides) for one in operands))


@functools.lru_cache(maxsize=4096)
def _dense(operands: tuple[tuple[Shape, Shape], ...]) -> Shape:
    rank = max(len(shape) for shape, _strides in operands)
    padded = [(1,) * (rank - len(shape)) + shape for shape, _strides in operands]
    out = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    steps = []
    for sizes, (_shape, strides) in zip(padded, operands, strict=True):
        own = (0,) * (rank - len(strides)) + strides
        steps.append([0 if size != full else step for size, full, step in zip(sizes, out, own, strict=True)])

    def order(a: int, b: int) -> int:
        for step in steps:
            if step[a] and step[b]:
                if step[a] != step[b]:
                    return -1 if step[a] < step[b] else 1
                if out[a] > out[b]:
                    return 1
        return 0

    axes = list(range(rank - 1, -1, -1))  # innermost first
    for i in range(1, rank):
        moving = i
        for other in range(i - 1, -1, -1):
            compared = order(axes[other], axes[moving])
            if compared > 0:
                axes[other], axes[moving] = axes[moving], axes[other]
                moving = other
            elif compared < 0:
                break
    strides_out, step = [0] * rank, 1
    for axis in axes:
        strides_out[axis] = step
        step *= out[axis]
    return tuple(strides_out)
