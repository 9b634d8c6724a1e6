"""The optimizer's part of a step on paper: the state that it keeps, and the most that its step takes beside it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from core.memory.config import StepConfig
from core.memory.paper import Shape, Sheet, Tape
from core.memory.paper_ops import BF16
from core.optimizers.registry import state_bytes

Named = tuple[tuple[str, Shape], ...]
MUON_STEPS = 5


def optimizer_state_bytes(config: StepConfig, once: Named, block: Named) -> int:
    """State of the parameters outside the blocks, and of every block's. Steps are 4 bytes for each tensor."""
    dtype = "bf16" if config.precision == "bf16" else "fp32"

    def of(named: Named) -> int:
        if config.optimizer != "muon":
            return _state_bytes(config.optimizer, tuple(shape for _name, shape in named), dtype)
        matrices = tuple(shape for name, shape in named if is_muons(named is block, shape))
        others = tuple(shape for name, shape in named if not is_muons(named is block, shape))
        return _state_bytes("muon", matrices, dtype) + _state_bytes("adamw", others, dtype)

    return of(once) + config.num_layers * of(block)


_state_bytes = functools.lru_cache(maxsize=256)(state_bytes)


def is_muons(in_block: bool, shape: Shape) -> bool:
    """Muon trains the blocks' matrices; embeddings, head and vectors are left to AdamW."""
    return in_block and len(shape) == 2


def optimizer_temporary_bytes(config: StepConfig, first: Named, block: Named, last: Named, item: int) -> int:
    """The most bytes that the optimizer's step holds at a time beyond parameters, gradients and state.

    ``first`` are the parameters before the blocks, ``last`` those after them: torch's loops go in that order.
    """
    shapes = [shape for _name, shape in (*first, *block, *last)]
    largest = max(math.prod(shape) for shape in shapes) * item
    if config.optimizer_implementation == "fused" or config.optimizer in ("sgd", "momentum"):
        return 0
    if config.optimizer_implementation == "foreach":
        once = sum(math.prod(shape) for _name, shape in (*first, *last))
        return (once + config.num_layers * sum(math.prod(shape) for _name, shape in block)) * item
    if config.optimizer_implementation == "for-loop":
        return _torch_loop((*first, *block * min(config.num_layers, 2), *last)) * item
    if config.optimizer == "adafactor":
        return max(_highest(_adafactor, shape, item) for shape in set(shapes))
    if config.optimizer == "muon":
        matrices = {shape for _name, shape in block if is_muons(True, shape)}
        others = [shape for _name, shape in (*first, *last)] + [s for _name, s in block if not is_muons(True, s)]
        largest = max(math.prod(shape) for shape in others) * item
        return max(largest, *(_highest(_muon, shape, item) for shape in matrices))
    return largest


def _torch_loop(named: Named) -> int:
    """Entries: a root, its quotient, and the quotient of the parameter before, which the loop still holds."""
    sizes = [math.prod(shape) for _name, shape in named]
    return max(before + 2 * now for before, now in zip([0, *sizes], sizes, strict=False))


@functools.lru_cache(maxsize=256)
def _highest(update: Callable[[Tape, Shape, int], None], shape: Shape, item: int) -> int:
    t = Tape(autocast=False)
    t.ledger.start("optimizer")
    update(t, shape, item)
    return t.ledger.close().moments()[0].highest_bytes


def _adafactor(t: Tape, shape: Shape, item: int) -> None:
    """``core.optimizers.Adafactor.update``."""
    p_rms = _root_mean_square(t, item)
    p_rms = t.new((), item)
    if len(shape) > 1:
        for mean in ((*shape[:-1], 1), (*shape[:-2], 1, shape[-1])):
            _averaged(t, shape, mean, item)
        s = t.new(shape, item)
        t.new((*shape[:-2], 1, 1), item)
    else:
        _averaged(t, shape, (), item)
        s = t.new(shape, item)
    u_rms = _root_mean_square(t, item)
    ratio = t.new((), item)
    clamped = t.new((), item)
    product = t.new((), item)
    del p_rms, s, u_rms, ratio, clamped, product


def _averaged(t: Tape, shape: Shape, mean: Shape, item: int) -> None:
    squares = t.new(shape, item)
    means = t.new(mean, item) if mean else None
    del squares, means


def _root_mean_square(t: Tape, item: int) -> Sheet:
    norm = t.new((), item)
    mean = t.new((), item)
    del norm
    return mean


def _muon(t: Tape, shape: Shape, item: int) -> None:
    """``core.optimizers.Muon.update`` and ``orthogonalize``."""
    update = t.new(shape, item)
    small, large = sorted(shape)
    x = update if item == BF16 else t.new(shape, BF16)
    norm = t.new((), BF16)
    clamped = t.new((), BF16)
    del norm
    x = t.new((small, large), BF16)
    del clamped
    gram = None
    for _step in range(MUON_STEPS):
        gram = t.new((small, small), BF16)
        inner = t.new((small, small), BF16)
        x = t.new((small, large), BF16)
        del inner
    del update, x, gram
