"""What fits: the largest batch, the deepest and the largest model in given bytes; the peak as a line in the batch.

Every answer is found by search on ``predict_step``, so it is as exact as that: the next larger one does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from core.checks import whole_number
from core.flops import transformer_flops
from core.memory.config import MAX_BATCH_SIZE, StepConfig
from core.memory.predict import predict_moments, predict_step
from core.models.config import MAX_LAYERS, PRESETS
from core.optimizers.registry import OPTIMIZERS
from core.words import _

MAX_MEMORY_BYTES = 10**18


def fits(config: StepConfig, memory_bytes: int) -> bool:
    """Whether the step's peak is within the memory.

    >>> fits(StepConfig("gpt2", batch_size=4), 8 * 10**9), fits(StepConfig("gpt2", batch_size=8), 8 * 10**9)
    (True, False)
    """
    return predict_moments(config).peak_bytes <= _memory(memory_bytes)


def largest_batch(config: StepConfig, memory_bytes: int) -> int:
    """The most sequences in one forward that fit; 0 where not even one does.

    >>> largest_batch(StepConfig("gpt2", seq_len=1024), 80 * 10**9)
    63
    """
    memory = _memory(memory_bytes)
    low, high, size, probes = 0, MAX_BATCH_SIZE + 1, 2, 0
    while high - low > 1:
        peak, beyond = _peak_at(config, size), _peak_at(config, size + 1)
        fits_here = peak is not None and peak <= memory
        low, high = (size, high) if fits_here else (low, size)
        # Every moment is a line in the batch: follow the one that is the peak here. Now and then halve, to be sure.
        probes += 1
        along = (low + high) // 2
        if peak is not None and beyond is not None and probes % 4:
            along = size + (memory - peak) // max(1, beyond - peak)
        size = min(max(along, low + 1), high - 1)
    return low


def _peak_at(config: StepConfig, batch_size: int) -> int | None:
    """The peak with another batch; None where the step would hold more than can be counted."""
    try:
        return _peak(config, batch_size=batch_size)
    except ValueError:
        return None


def largest_depth(config: StepConfig, memory_bytes: int) -> int:
    """The most blocks of this width that fit; 0 where not even one does."""
    memory = _memory(memory_bytes)
    least = config.checkpointing or 1
    extra = _largest(lambda more: _peak(config, num_layers=least - 1 + more) <= memory, MAX_LAYERS - least + 1)
    return extra and least - 1 + extra


def largest_model(memory_bytes: int, models: Iterable[str] = tuple(PRESETS), **step: Any) -> str | None:
    """The preset with most parameters whose step fits; None where none does. ``step`` are StepConfig's other fields.

    >>> largest_model(80 * 10**9, batch_size=1, seq_len=1024, precision="bf16")
    'qwen3-8b'
    """
    memory = _memory(memory_bytes)
    for name in sorted(models, key=lambda one: -PRESETS[one].num_params):
        config = _possible(name, step)
        if config is not None and _least_bytes(config) <= memory and predict_moments(config).peak_bytes <= memory:
            return name
    return None


def _least_bytes(config: StepConfig) -> int:
    """What no step can do without: one device's part of the parameters, their gradients and the optimizer's state."""
    item = 2 if config.precision == "bf16" else 4
    copies = 2 + OPTIMIZERS[config.optimizer].state_per_parameter
    return config.model.num_params * item * copies // config.num_devices


def _possible(name: str, step: dict[str, Any]) -> StepConfig | None:
    """The step of a preset; None where its positions end before the step does."""
    positions, asked = PRESETS[name].learned_positions, step.get("seq_len", 1)
    return None if positions and isinstance(asked, int) and asked > positions else StepConfig(name, **step)


@dataclass(frozen=True)
class PeakLine:
    """The peak is bytes_per_sequence · batch + constant_bytes, at this batch and, by its moment, beyond."""

    bytes_per_sequence: int
    constant_bytes: int
    moment: str


def peak_line(config: StepConfig) -> PeakLine:
    """The peak as a·batch + b at the config's batch: the first exercise of CS336's assignment 1, §4.3.

    At a batch so small that another moment is the peak the line is another.

    >>> line = peak_line(StepConfig("gpt2", batch_size=8, seq_len=1024))
    >>> line.bytes_per_sequence * 8 + line.constant_bytes == predict_step(StepConfig("gpt2", batch_size=8)).peak_bytes
    True
    """
    step, more = predict_step(config), config.change(batch_size=config.batch_size + 1)
    slope = predict_step(more).peak_bytes - step.peak_bytes
    return PeakLine(slope, step.peak_bytes - slope * config.batch_size, step.peak_moment)


@dataclass(frozen=True)
class Checkpointing:
    """A step with checkpoints every so many blocks (None: without), and the FLOPs that they cost a forward."""

    every: int | None
    activation_bytes: int
    peak_bytes: int
    recompute_flops: int


def checkpointing_choices(config: StepConfig) -> tuple[Checkpointing, ...]:
    """No checkpoints, and every number of segments at its shortest length: O(L), O(√L) and between.

    All blocks run forward a second time. torch stops a segment's second forward early, before its last matrix
    product; the FLOPs here are those of the whole.
    """
    layers = config.num_layers
    lengths = sorted({math.ceil(layers / count) for count in range(1, layers + 1)})
    if config.implementation == "huggingface":  # which checkpoints every block, or none
        lengths = [1]
    flops = transformer_flops(config.model, config.batch_size, config.seq_len, backward=False)
    blocks = sum(one.forward_flops for one in flops.components if one.key != "head") * config.accumulation_steps
    choices = []
    for every in (None, *lengths):
        step = predict_moments(config.change(checkpointing=every))
        choices.append(Checkpointing(every, step.activation_bytes, step.peak_bytes, 0 if every is None else blocks))
    return tuple(choices)


def best_checkpointing(config: StepConfig) -> Checkpointing:
    """The checkpoints with the lowest peak; with equal ones the fewest. Near √L where blocks weigh most.

    Chen et al. 2016: n segments of L/n blocks hold n checkpoints and one segment's activations.

    >>> best = best_checkpointing(StepConfig("gpt2", batch_size=32, seq_len=1024, num_layers=64))
    >>> best.every, best.recompute_flops == 64 * 32 * 1024 * (24 * 768**2 + 4 * 1024 * 768)
    (11, True)
    """
    return min(
        (one for one in checkpointing_choices(config) if one.every is not None),
        key=lambda one: (one.peak_bytes, -(one.every or 0)),
    )


def _peak(config: StepConfig, **fields: int) -> int:
    return predict_moments(config.change(**fields)).peak_bytes


def _largest(holds: Callable[[int], bool], limit: int) -> int:
    """The largest number up to the limit for which it holds, as it does for all below; 0 where for none."""
    low, high = 0, 1
    while high <= limit and holds(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _memory(memory_bytes: object) -> int:
    return whole_number(_("memory, in bytes,"), memory_bytes, 1, MAX_MEMORY_BYTES)
