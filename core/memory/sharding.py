"""ZeRO: the states of a step dealt out to n devices, what is gathered for a moment, and what every device sends.

Rajbhandari et al. 2020 shard the optimizer state (stage 1), the gradients too (2), the parameters too (3). What torch
does is predicted to the byte, rank by rank, since shards are uneven: stage 1 is ``ZeroRedundancyOptimizer`` in
``DistributedDataParallel``, stages 2 and 3 are ``fully_shard`` (FSDP2), one unit a block and one for the rest. No torch
here; ``core.memory.sharding_measure`` runs the real thing.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.checks import one_of, whole_number
from core.flops.transformer_shapes import TransformerShape
from core.optimizers import IMPLEMENTATIONS, OPTIMIZERS, state_bytes
from core.words import _

Shape = tuple[int, ...]
NOT_SHARDED = "none"  # data parallel: every device holds everything
STAGES = (NOT_SHARDED, "zero1", "zero2", "zero3")
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
MAX_DEVICES = 2**16
MAX_UNITS = 2048
MAX_TENSORS = 2**17
_MAX_AXIS = 2**40


@dataclass(frozen=True)
class Unit:
    """Parameters that are gathered together: a block, or what belongs to none (the root)."""

    name: str
    shapes: tuple[Shape, ...]

    @property
    def numel(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class DeviceBytes:
    """Bytes that one device holds between two steps, its gradients not yet set to None.

    ``padding_bytes`` are in the parameters and the gradients: rows that no rank needs, so that all chunks are equal.
    """

    rank: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_state_bytes: int
    padding_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_state_bytes


@dataclass(frozen=True)
class Sharding:
    """One step's states on ``num_devices``; made by ``shard``, which checks. The first unit is the root.

    A single device shards, gathers and sends nothing, whatever the stage.
    """

    units: tuple[Unit, ...]
    stage: str
    num_devices: int
    optimizer: str
    dtype: str
    implementation: str

    @property
    def num_params(self) -> int:
        return sum(unit.numel for unit in self.units)

    @property
    def param_bytes(self) -> int:
        """All parameters once, as one device alone would hold them."""
        return self.num_params * self._item_bytes

    @property
    def shards_parameters(self) -> bool:
        """Whether parameters and gradients are dealt out (stages 2 and 3, on two devices or more)."""
        return self.stage in ("zero2", "zero3") and self.num_devices > 1

    def device(self, rank: int) -> DeviceBytes:
        """What the device of this rank holds.

        >>> odd = (Unit("root", ((51, 20),)),)
        >>> [shard(odd, "zero3", 2).device(rank).optimizer_state_bytes for rank in (0, 1)]
        [4164, 4004]
        """
        rank = whole_number("rank", rank, 0, self.num_devices - 1)
        if not self.shards_parameters:
            return DeviceBytes(rank, self.param_bytes, self.param_bytes, self._state_of_whole_tensors(rank), 0)
        count = Counter(shape for unit in self.units for shape in unit.shapes)
        held = sum(times * padded_chunk_numel(shape, self.num_devices) for shape, times in count.items())
        mine = {shape: local_shape(shape, self.num_devices, rank) for shape in count}
        needed = sum(times * math.prod(mine[shape]) for shape, times in count.items())
        state = sum(times * self.tensor_state_bytes(mine[shape]) for shape, times in count.items())
        size = self._item_bytes
        return DeviceBytes(rank, held * size, held * size, state, 2 * (held - needed) * size)

    @property
    def fullest(self) -> DeviceBytes:
        """The device that holds most: the one that has to fit."""
        if self.shards_parameters:
            return self.device(0)  # chunks are filled from the first rank on
        if self.stage != "zero1" or self.num_devices == 1:
            return self.device(0)
        state = _dealt_state_bytes(self)
        return self.device(state.index(max(state)))

    @property
    def gathered_bytes(self) -> int:
        """The most bytes of whole parameters at one time, beside the shards: gathered, used, freed.

        A unit is gathered into one flat buffer and copied from there into whole parameters. Stage 3 frees a block's
        parameters after its forward and gathers them again for backward (the root's stay); stage 2 keeps all of them
        until their backward. Forward sees the most: there the buffer of the unit before lives until the copy is made
        (torch 2.13), while backward has this unit's parameters and its own buffer, or that of the next to come.
        """
        if not self.shards_parameters:
            return 0
        whole = flat = most = 0
        for index, size in enumerate(self._padded_unit_bytes):
            most = max(most, whole + flat + 2 * size)
            flat, whole = size, whole + size
            if index and self.stage == "zero3":
                whole -= size
        return most

    @property
    def reduce_bytes(self) -> int:
        """The most bytes of whole gradients at one time in a reduce-scatter: a unit's gradients, and their flat copy.

        0 where gradients are not dealt out: there they are reduced in place, in the buckets that they live in (with
        ``gradient_as_bucket_view=True``; else the buckets are another copy of all gradients).
        """
        if not self.shards_parameters:
            return 0
        pairs = zip(self.units, self._padded_unit_bytes, strict=True)
        return max(unit.numel * self._item_bytes + padded for unit, padded in pairs)

    @property
    def padded_bytes(self) -> int:
        """All units as they travel: with their padding, where there is any."""
        return sum(self._padded_unit_bytes)

    @property
    def gathered_again_bytes(self) -> int:
        """What is gathered a second time, for backward: in stage 3 every block, not the root."""
        return sum(self._padded_unit_bytes[1:]) if self.stage == "zero3" and self.shards_parameters else 0

    @functools.cached_property
    def _padded_unit_bytes(self) -> tuple[int, ...]:
        if not self.shards_parameters:
            return tuple(unit.numel * self._item_bytes for unit in self.units)
        n = self.num_devices
        chunk = {shape: padded_chunk_numel(shape, n) for unit in self.units for shape in unit.shapes}
        return tuple(n * sum(chunk[shape] for shape in unit.shapes) * self._item_bytes for unit in self.units)

    @property
    def _item_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    def _state_of_whole_tensors(self, rank: int) -> int:
        if self.stage == "zero1" and self.num_devices > 1:
            return _dealt_state_bytes(self)[rank]
        count = Counter(shape for unit in self.units for shape in unit.shapes)
        return sum(times * self.tensor_state_bytes(shape) for shape, times in count.items())

    def tensor_state_bytes(self, shape: Shape) -> int:
        """Optimizer state of one tensor, or of a rank's part of it."""
        # Muon is for matrices; who trains with it gives the rest to AdamW.
        optimizer = "adamw" if self.optimizer == "muon" and len(shape) != 2 else self.optimizer
        return state_bytes(optimizer, [shape], self.dtype, self.implementation)


def shard(
    units: Iterable[Unit],
    stage: str | None,
    num_devices: int,
    optimizer: str = "adamw",
    dtype: str = "fp32",
    implementation: str = "napkin",
) -> Sharding:
    """The states of a step dealt out to the devices; the first unit is the root, the others its blocks.

    Parameters, gradients and state are of one ``dtype``; ``implementation`` says whose optimizer keeps the state (see
    ``core.optimizers.state_bytes``). Raises ValueError for what cannot be sharded.

    >>> from core.models import PRESETS
    >>> gpt2 = transformer_units(PRESETS["gpt2"])
    >>> [shard(gpt2, stage, 8).fullest.total_bytes for stage in STAGES]
    [1991037712, 1304297476, 248891152, 248891152]
    """
    units = tuple(units)
    whole_number(_("the number of units"), len(units), 1, MAX_UNITS)
    whole_number(_("the number of tensors"), sum(len(unit.shapes) for unit in units), 1, MAX_TENSORS)
    for shape in {shape for unit in units for shape in unit.shapes}:
        whole_number(_("the number of axes"), len(shape), 1, 8)  # fully_shard refuses scalars
        for size in shape:
            whole_number(_("an axis of a shape"), size, 1, _MAX_AXIS)
    return Sharding(
        units,
        one_of("sharding", NOT_SHARDED if stage is None else stage, STAGES),
        whole_number("num_devices", num_devices, 1, MAX_DEVICES),
        one_of("optimizer", optimizer, tuple(OPTIMIZERS)),
        one_of("dtype", dtype, tuple(DTYPE_BYTES)),
        one_of("implementation", implementation, IMPLEMENTATIONS),
    )


def transformer_units(config: TransformerShape) -> tuple[Unit, ...]:
    """The parameters of ``core.models.TransformerLM`` as units, shapes in torch's order: root first, then every block.

    >>> from core.models import PRESETS
    >>> root, *blocks = transformer_units(PRESETS["llama3-8b"])
    >>> root.shapes, len(blocks), blocks[0].numel
    (((128256, 4096), (4096,), (128256, 4096)), 32, 218112000)
    """
    d, positions = config.d_model, config.learned_positions
    norm: tuple[Shape, ...] = ((d,),) * (1 + config.norm_bias)
    root: list[Shape] = [(config.vocab_size, d), *([(positions, d)] if positions else []), *norm]
    if not config.tied_head:
        root.append((config.vocab_size, d))
    block = Unit(_("block"), (*norm, *_attention_shapes(config), *norm, *_mlp_shapes(config)))
    return (Unit(_("root"), tuple(root)), *(block,) * config.num_layers)


def _attention_shapes(config: TransformerShape) -> list[Shape]:
    bias = config.bias if config.qkv_bias is None else config.qkv_bias
    widths = (config.q_dim, config.kv_dim, config.kv_dim)
    shapes = [one for width in widths for one in _linear(config.d_model, width, bias)]
    shapes += _linear(config.q_dim, config.d_model, config.bias)
    assert config.head_dim is not None
    return shapes + [(config.head_dim,)] * 2 * bool(getattr(config, "qk_norm", False))


def _mlp_shapes(config: TransformerShape) -> list[Shape]:
    ups = config.num_mlp_matrices - 1
    return _linear(config.d_model, config.d_ff, config.bias) * ups + _linear(config.d_ff, config.d_model, config.bias)


def _linear(inputs: int, outputs: int, bias: bool) -> list[Shape]:
    return [(outputs, inputs), (outputs,)] if bias else [(outputs, inputs)]


def local_shape(shape: Sequence[int], num_devices: int, rank: int) -> Shape:
    """The part of a parameter that FSDP2 gives to a rank: ⌈rows / n⌉ rows to each, from rank 0 on, while there are any.

    >>> [local_shape((5, 3), 4, rank) for rank in range(4)]
    [(2, 3), (2, 3), (1, 3), (0, 3)]
    """
    rows, *rest = shape
    chunk = -(-rows // num_devices)
    return (max(0, min(chunk, rows - rank * chunk)), *rest)


def padded_chunk_numel(shape: Sequence[int], num_devices: int) -> int:
    """Entries that every rank holds of a parameter: ⌈rows / n⌉ rows, padding where it has fewer of its own.

    >>> padded_chunk_numel((5, 3), 4)
    6
    """
    return -(-shape[0] // num_devices) * math.prod(shape[1:])


def partition_by_size(numels: Sequence[int], num_devices: int) -> tuple[tuple[int, ...], ...]:
    """Which tensors each rank updates, as ``ZeroRedundancyOptimizer`` deals them out: whole, the largest first, each to
    the rank that has least so far. Indices into ``numels``, rank by rank.

    >>> partition_by_size([4, 10, 3, 5], 2)
    ((1,), (3, 0, 2))
    """
    loads = [(0, rank) for rank in range(num_devices)]
    mine: list[list[int]] = [[] for _rank in range(num_devices)]
    for index in sorted(range(len(numels)), key=lambda one: numels[one], reverse=True):
        load, rank = loads[0]
        mine[rank].append(index)
        heapq.heapreplace(loads, (load + numels[index], rank))
    return tuple(tuple(one) for one in mine)


@functools.lru_cache(maxsize=32)
def _dealt_state_bytes(sharding: Sharding) -> tuple[int, ...]:
    """Stage 1: the optimizer state of every rank."""
    shapes = [shape for unit in sharding.units for shape in unit.shapes]
    each = {shape: sharding.tensor_state_bytes(shape) for shape in set(shapes)}
    dealt = partition_by_size([math.prod(shape) for shape in shapes], sharding.num_devices)
    return tuple(sum(each[shapes[index]] for index in mine) for mine in dealt)
