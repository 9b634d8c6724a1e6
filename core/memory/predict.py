"""The memory of a step from its config alone: no tensor is made and torch is not needed."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from core.claims import Term
from core.memory import result
from core.memory.config import StepConfig
from core.memory.paper_depth import step_on_paper
from core.memory.paper_steps import Kept, item_bytes, paper_model
from core.memory.result import Bytes, Moment
from core.memory.sharding import Sharding, Unit, shard, transformer_units
from core.memory.step_memory import StepMemory
from core.optimizers.registry import OPTIMIZERS, STEP_BYTES
from core.words import _


@functools.lru_cache(maxsize=512)
def predict_step(config: StepConfig) -> StepMemory:
    """Bytes by category, the peak and its moment, the timeline: exact, in a few milliseconds.

    Two blocks are written down operation by operation (``core.memory.paper``) and all others follow, since every
    moment is linear in the number of blocks. With ``sharding`` the result is that of the device that holds most.

    >>> step = predict_step(StepConfig("gpt2", batch_size=4, seq_len=1024))
    >>> step.parameter_bytes, step.optimizer_state_bytes, step.activation_bytes
    (497759232, 995519248, 3267682312)
    >>> step.peak_bytes, step.peak_moment
    (6407847704, 'loss backward')
    """
    if config.sharding is not None:
        alone = predict_step(config.change(sharding=None, num_devices=1))
        return _on_one_device(config, alone)
    written = step_on_paper(config)
    return StepMemory(
        config.num_layers,
        written.moments,
        _activation_terms(config, written.kept),
        _parameter_terms(config),
        _state_terms(config),
        config=config,
    )


@functools.lru_cache(maxsize=512)
def predict_moments(config: StepConfig) -> StepMemory:
    """What ``predict_step`` says without the terms, for those who search: its moments, and so its peak.

    >>> predict_moments(StepConfig("gpt2", batch_size=4, seq_len=1024)).peak_bytes
    6407847704
    """
    if config.sharding is not None:
        return predict_step(config)
    return StepMemory(config.num_layers, step_on_paper(config).moments, config=config)


def sharded(config: StepConfig) -> Sharding:
    """How the step's states are dealt out to its devices."""
    return _sharded(config.change(batch_size=1, seq_len=1, accumulation_steps=1, checkpointing=None))


@functools.lru_cache(maxsize=256)
def _sharded(config: StepConfig) -> Sharding:
    """Of the config's states, which do not depend on its activations."""
    dtype = "bf16" if config.precision == "bf16" else "fp32"
    house = "napkin" if config.optimizer_implementation == "napkin" else "torch"
    units = transformer_units(config.model) if config.implementation == "napkin" else _units(config)
    return shard(units, config.sharding, config.num_devices, config.optimizer, dtype, house)


def _units(config: StepConfig) -> tuple[Unit, ...]:
    """The root's parameters and those of every block, in the order of another house's model."""
    model = paper_model(config)
    root, block = (
        tuple(shape for _name, shape in shapes) for shapes in ((*model.embeddings, *model.head), model.block)
    )
    return (Unit(_("root"), root), *(Unit(_("block"), block),) * config.num_layers)


def _on_one_device(config: StepConfig, step: StepMemory) -> StepMemory:
    """The step on the device that holds most: its states; whole parameters that are gathered; the rest as alone."""
    dealt = sharded(config)
    device = dealt.fullest
    share = device.gradient_bytes / step.gradient_bytes

    def moved(sizes: Bytes, kind: str) -> Bytes:
        gathered = 0 if kind == result.OPTIMIZER else dealt.gathered_bytes
        changed = {
            result.PARAMETER: device.parameter_bytes,
            result.OPTIMIZER_STATE: device.optimizer_state_bytes,
            result.GRADIENT: math.ceil(sizes.get(result.GRADIENT, 0) * share),
            result.TEMPORARY: sizes.get(result.TEMPORARY, 0) + gathered,
        }
        return {name: size for name, size in (sizes | changed).items() if size}

    moments = tuple(
        Moment(one.kind, one.block, one.micro_batch, moved(one.highest, one.kind), moved(one.end, one.kind))
        for one in step.moments
    )
    return replace(step, moments=moments, parameter_terms=(), state_terms=(), config=config)


def _activation_terms(config: StepConfig, kept: Kept) -> tuple[Term, ...]:
    """What is kept, by the part of the model that keeps it; each block's share in the note."""
    n = config.num_tokens
    blocks: dict[str, int] = {}
    for (label, block), size in kept.items():
        if block is not None:
            blocks[label] = blocks.get(label, 0) + size
    terms = []
    segments = math.ceil(config.num_layers / (config.checkpointing or 1))
    what = _("{count:,} blocks") if config.checkpointing is None else _("{count:,} checkpoints")
    for label, size in blocks.items():
        each, rest = divmod(size, segments)
        per = f"{n:,} · {each // n:,} B" if not each % n else f"{each:,} B"
        note = f"{what.format(count=segments)} · {per}" if not rest else f"{size:,} B"
        terms.append(Term(_("blocks: {part}").format(part=_(label)), size, note))
    once = [(label, size) for (label, block), size in kept.items() if block is None]
    terms += [Term(_("once: {part}").format(part=_(label)), size, f"{size:,} B") for label, size in once]
    return tuple(terms)


def _parameter_terms(config: StepConfig) -> tuple[Term, ...]:
    model, item, layers = paper_model(config), item_bytes(config), config.num_layers
    parts = (
        (_("embeddings"), model.embeddings, 1),
        (_("blocks"), model.block, layers),
        (_("final norm and head"), model.head, 1),
    )
    terms = []
    for name, shapes, times in parts:
        numel = sum(math.prod(shape) for _name, shape in shapes)
        terms.append(Term(name, numel * times * item, f"{times:,} · {numel:,} · {item} B"))
    return tuple(terms)


def _state_terms(config: StepConfig) -> tuple[Term, ...]:
    kind, model = OPTIMIZERS[config.optimizer], paper_model(config)
    if config.optimizer in ("adafactor", "muon") or not kind.states:
        return ()
    once, block = (*model.embeddings, *model.head), model.block
    numel = sum(math.prod(s) for _n, s in once) + config.num_layers * sum(math.prod(s) for _n, s in block)
    item = item_bytes(config)
    terms = [Term(state, numel * item, f"{numel:,} · {item} B") for state in kind.states]
    if kind.keeps_step:
        tensors = len(once) + config.num_layers * len(block)
        terms.append(Term(_("steps"), tensors * STEP_BYTES, f"{tensors:,} · {STEP_BYTES} B"))
    return tuple(terms)
