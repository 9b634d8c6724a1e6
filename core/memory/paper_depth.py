"""The step at any depth from the one at the least depth: all blocks are alike, so bytes are linear in their number.

Two blocks are written down, with checkpoints two segments of two. Every moment of the real depth has a twin among
theirs, and holds what the twin holds plus so many blocks' activations, gradients and states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from core.memory import result
from core.memory.config import StepConfig
from core.memory.paper_models import RESIDUAL
from core.memory.paper_ops import BF16
from core.memory.paper_optimizers import optimizer_state_bytes, optimizer_temporary_bytes
from core.memory.paper_steps import Kept, PaperStep, item_bytes, paper_model, write_step
from core.memory.result import Bytes, Moment


@dataclass(frozen=True)
class Depth:
    """Blocks in segments: n − 1 of k blocks, and a last one of r. Without checkpoints every block is a segment."""

    segments: int
    length: int
    last: int
    checkpointed: bool

    @classmethod
    def of(cls, config: StepConfig) -> Depth:
        length = config.checkpointing or 1
        segments = math.ceil(config.num_layers / length)
        return cls(segments, length, config.num_layers - (segments - 1) * length, config.checkpointing is not None)

    def least(self) -> Depth:
        """The smallest depth with the same kinds of places: one segment, where all of them are long or all short."""
        alike = self.checkpointed and min(self.last, 2) == min(self.length, 2)
        segments = 1 if alike else min(self.segments, 2)
        return Depth(segments, min(self.length, 2), min(self.last, 2), self.checkpointed)

    @property
    def num_layers(self) -> int:
        return (self.segments - 1) * self.length + self.last

    def place(self, block: int) -> tuple[int, int]:
        """A block's segment, and its number in it."""
        segment = min(block // self.length, self.segments - 1)
        return segment, block - segment * self.length

    def block(self, segment: int, number: int) -> int:
        return segment * self.length + number

    def size(self, segment: int) -> int:
        """Blocks in a segment."""
        return self.last if segment == self.segments - 1 else self.length

    def ends(self, block: int) -> bool:
        """Whether the block is the last of its segment."""
        segment, number = self.place(block)
        return number == self.size(segment) - 1

    def _like(self, number: int, least: Depth, size: int) -> int:
        """A block of the least depth, late rather than early, by its number in a segment of at least that size."""
        segment = next(one for one in (least.segments - 1, 0) if least.size(one) >= size)
        return least.block(segment, min(number, 1))

    def forward_twins(self, block: int, least: Depth) -> tuple[int, int | None]:
        """Those of the least depth whose forward peaks, and whose forward ends, as this block's does.

        None where a segment ends and another follows: nothing is left then but what the segments keep.
        """
        number = self.place(block)[1]
        peak = 0 if block == 0 else self._like(number, least, min(number, 1) + 1)
        if block == self.num_layers - 1:
            return peak, least.num_layers - 1
        if not self.ends(block):
            return peak, self._like(0, least, 2)
        return peak, None if self.checkpointed else 0

    def backward_twin(self, block: int, least: Depth) -> int:
        """The block of the least depth that goes back as this one: the very first lets go of what all share."""
        segment, number = self.place(block)
        size = min(self.size(segment), 2)
        return 0 if block == 0 else self._like(number, least, size) if size == 2 else self._like(0, least, 1)


def step_on_paper(config: StepConfig) -> PaperStep:
    """The step at the config's depth."""
    depth = Depth.of(config)
    least = depth.least()
    if least == depth or depth.num_layers == least.num_layers:
        return write_step(config)
    every = None if config.checkpointing is None else least.length if least.segments > 1 else least.last
    small = config.change(model=config.model, num_layers=least.num_layers, checkpointing=every)
    written = write_step(small)
    extension = _Extension(config, depth, least, written)
    return PaperStep(tuple(extension.moments()), extension.kept())


class _Extension:
    """What a block, and a segment, more or less means for each moment."""

    def __init__(self, config: StepConfig, depth: Depth, least: Depth, written: PaperStep) -> None:
        self.config, self.depth, self.least = config, depth, least
        self.written, self.twins = written, written.moments
        model = paper_model(config)
        self.item = item_bytes(config)
        self.more_layers = depth.num_layers - least.num_layers
        self.gradient = sum(math.prod(shape) for _name, shape in model.block) * self.item
        once = (*model.embeddings, *model.head)
        self.state = optimizer_state_bytes(config, once, model.block)
        self.temporary = optimizer_temporary_bytes(config, model.embeddings, model.block, model.head, self.item)
        autocast = config.precision == "autocast"
        matrices, biases = model.casts()
        self.bias_casts = BF16 * biases * autocast
        block = sum(size for (_label, number), size in written.kept.items() if number == 0)
        if config.checkpointing is None:  # kept after the forward, kept during it, casts counted in them
            self.segment, self.segment_forward, self.casts = block, block + self.bias_casts, 0
        else:
            self.segment = config.num_tokens * config.model.d_model * self.item
            self.segment_forward, self.casts = self.segment, BF16 * matrices * autocast + self.bias_casts
        self.recomputed = self._recomputed()
        heads = (one for one in self.twins if one.kind == result.HEAD_BACKWARD)
        self._between = {one.micro_batch: one.end.get(result.ACTIVATION, 0) for one in heads}

    def _recomputed(self) -> int:
        """What one more block in a segment keeps once it is computed again."""
        for index, moment in enumerate(self.twins):
            if moment.kind == result.RECOMPUTATION and moment.block is not None:
                segment, _number = self.least.place(moment.block)
                if self.least.size(segment) == 2:
                    after = self.twins[index + 1]
                    return moment.end.get(result.ACTIVATION, 0) - after.end.get(result.ACTIVATION, 0)
        return 0

    def kept(self) -> Kept:
        """What is kept by label, the blocks' together under number 0."""
        kept: Kept = {}
        for (label, block), size in self.written.kept.items():
            key = label, None if block is None else 0
            kept[key] = kept.get(key, 0) + size
        if self.config.checkpointing is None:
            layers = self.depth.num_layers, self.least.num_layers
            return {key: size if key[1] is None else size * layers[0] // layers[1] for key, size in kept.items()}
        more = (self.depth.segments - self.least.segments) * self.segment
        return kept | {(RESIDUAL, 0): kept.get((RESIDUAL, 0), 0) + more}

    def moments(self) -> Iterator[Moment]:
        by_place: dict[tuple[int, str, int | None], list[Moment]] = {}
        for moment in self.twins:
            by_place.setdefault((moment.micro_batch, moment.kind, moment.block), []).append(moment)
        for micro_batch in range(min(2, self.config.accumulation_steps)):
            yield self._once(by_place[micro_batch, result.EMBEDDING, None][0])
            for block in range(self.depth.num_layers):
                peak, end = self.depth.forward_twins(block, self.least)
                ending = (result.EMBEDDING, None) if end is None else (result.FORWARD, end)
                yield self._forward(
                    by_place[micro_batch, result.FORWARD, peak][0], by_place[micro_batch, *ending][0], block
                )
            for kind in (result.HEAD, result.LOSS_BACKWARD, result.HEAD_BACKWARD):
                yield self._once(by_place[micro_batch, kind, None][0])
            for block in reversed(range(self.depth.num_layers)):
                twin = self.depth.backward_twin(block, self.least)
                around = by_place[micro_batch, result.BACKWARD, twin]
                if self.config.checkpointing is not None and self.depth.ends(block):
                    yield self._backward(around[0], block, recomputed=False)
                    yield self._backward(by_place[micro_batch, result.RECOMPUTATION, twin][0], block)
                yield self._backward(around[-1], block)
            yield self._once(by_place[micro_batch, result.END_OF_BACKWARD, None][0])
        yield self._once(self.twins[-1])

    def _once(self, twin: Moment) -> Moment:
        segments = self.depth.segments - self.least.segments
        forward = segments * self.segment_forward + self.more_layers * self.casts
        backward = segments * self.segment
        highest = {result.HEAD: forward, result.LOSS_BACKWARD: backward, result.HEAD_BACKWARD: backward}
        end = highest | {result.HEAD: backward}
        gradients = self._gradients(twin, self.more_layers)
        moved = self._moment(twin, None, highest.get(twin.kind, 0), end.get(twin.kind, 0), gradients)
        if twin.kind == result.OPTIMIZER:
            moved.highest[result.TEMPORARY] = self.temporary
            moved.end.pop(result.GRADIENT, None)
        return Moment(moved.kind, None, moved.micro_batch, _positive(moved.highest), _positive(moved.end))

    def _forward(self, peak: Moment, end: Moment, block: int) -> Moment:
        gradient = self._gradients(peak, self.more_layers)
        highest = self._moved(peak.highest, self._before(peak.block, block), gradient)
        after = self._before(0, block + 1) if end.block is None else self._before(end.block, block)
        return Moment(peak.kind, block, peak.micro_batch, highest, self._moved(end.end, after, gradient))

    def _before(self, twin: int | None, block: int) -> int:
        """What the forward has kept before a block beyond what it has before its twin."""
        assert twin is not None
        (segment, number), (twins, twin_number) = self.depth.place(block), self.least.place(twin)
        before = segment * (self.segment_forward + self.depth.length * self.casts)
        return (
            before
            - twins * (self.segment_forward + self.least.length * self.casts)
            + (number - twin_number) * self.casts
        )

    def _backward(self, twin: Moment, block: int, recomputed: bool = True) -> Moment:
        assert twin.block is not None
        (segment, number), (twins, twin_number) = self.depth.place(block), self.least.place(twin.block)
        more = (segment - twins) * self.segment
        extra = number - twin_number
        end = more + extra * self.recomputed * recomputed
        highest = end + extra * self.bias_casts * (twin.kind == result.RECOMPUTATION)
        done = (self.depth.num_layers - block) - (self.least.num_layers - twin.block)
        gradients = self.more_layers if twin.micro_batch else done
        moment = self._moment(twin, block, highest, end, gradients * self.gradient)
        if self.depth.checkpointed and recomputed and twin.kind == result.BACKWARD and segment and not number:
            # the very first block also lets go of what all are given, and so may its twin
            kept = self._between[twin.micro_batch] + (segment - self.least.segments) * self.segment
            moment.end[result.ACTIVATION] = kept
        return moment

    def _gradients(self, twin: Moment, blocks: int) -> int:
        late = twin.micro_batch or twin.kind in (result.END_OF_BACKWARD, result.OPTIMIZER)
        return blocks * self.gradient if late else 0

    def _moment(self, twin: Moment, block: int | None, highest: int, end: int, gradient: int) -> Moment:
        return Moment(
            twin.kind,
            block,
            twin.micro_batch,
            self._moved(twin.highest, highest, gradient),
            self._moved(twin.end, end, gradient),
        )

    def _moved(self, sizes: Bytes, activation: int, gradient: int) -> Bytes:
        moved = dict(sizes)
        moved[result.PARAMETER] += self.more_layers * self.gradient
        if self.state:
            moved[result.OPTIMIZER_STATE] = self.state
        if activation:
            moved[result.ACTIVATION] = moved.get(result.ACTIVATION, 0) + activation
        if gradient:
            moved[result.GRADIENT] = moved.get(result.GRADIENT, 0) + gradient
        return moved


def _positive(sizes: Bytes) -> Bytes:
    return {name: size for name, size in sizes.items() if size}
