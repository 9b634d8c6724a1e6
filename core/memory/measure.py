"""The memory of a step, measured: a real one, or a fake one that computes nothing and holds no data.

Blocks are alike, so what each moment holds is linear in their number: a deep model is measured at two smaller depths,
three and four segments, and every moment extended exactly.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from core import units
from core.claims import Conditions, Term
from core.jobs.limits import physical_memory_bytes
from core.jobs.reporting import report
from core.memory import result
from core.memory.config import StepConfig
from core.memory.predict import predict_step
from core.memory.result import Bytes, Moment
from core.memory.step_memory import StepMemory
from core.words import _

OnProgress = Callable[[float, str], None]
_SMALL, _LARGE = 3, 4  # segments of the two depths


def measure_step(
    config: StepConfig, device: str = "cpu", real: bool = False, on_progress: OnProgress | None = None
) -> StepMemory:
    """Two steps under the meter, the second told.

    On the CPU tensors are fake unless ``real``: a 7B step takes seconds and no memory, and is the real one's equal to
    the byte. On "cuda" the step runs, and torch's own allocator is asked (``core.memory.cuda``). Raises ValueError for
    a sharded config, for a real step that does not fit this machine, and for Hugging Face's models where transformers
    is not installed.

    >>> from core.models import TransformerConfig
    >>> tiny = TransformerConfig("tiny", num_layers=2, d_model=16, num_heads=2, d_ff=32, vocab_size=50)
    >>> step = measure_step(StepConfig(tiny, batch_size=2, seq_len=8))
    >>> step.peak_bytes == predict_step(StepConfig(tiny, batch_size=2, seq_len=8)).peak_bytes
    True
    """
    if config.sharding is not None:
        raise ValueError(_("one process measures one device: use core.memory.sharding_measure for sharded steps"))
    if device != "cpu":
        from core.memory.cuda import measure_on_cuda

        return measure_on_cuda(config, device)
    progress = on_progress or report
    if real:
        check_fits_here(config)
    depths = [config.num_layers] if real else measured_depths(config)
    runs = []
    for number, layers in enumerate(depths):
        text = _("{layers} of {all} blocks").format(layers=layers, all=config.num_layers)
        shallow = config if layers == config.num_layers else config.change(num_layers=layers)

        def told(fraction: float, number: int = number, text: str = text) -> None:
            progress((number + fraction) / len(depths), text)

        runs.append(_measured(shallow, real, told))
    moments = runs[0] if len(runs) == 1 else tuple(_extended(config, *runs))
    return StepMemory(
        config.num_layers,
        moments,
        activation_terms(moments),
        config=config,
        conditions=conditions(config.precision, real, depths),
    )


def check_fits_here(config: StepConfig) -> None:
    """Refuse a real step beyond half of this machine's memory, before anything is allocated."""
    asked, limit = predict_step(config).peak_bytes, physical_memory_bytes() // 2
    if asked > limit:
        message = _("this step takes {asked}; the limit here is {limit}. Measure it with fake tensors (real=False).")
        raise ValueError(message.format(asked=units.si_bytes(asked), limit=units.si_bytes(limit)))


def measured_depths(config: StepConfig) -> list[int]:
    """The depth of the config, or the two from which it follows where those are quicker.

    >>> measured_depths(StepConfig("gpt2-xl")), measured_depths(StepConfig("gpt2", num_layers=6))
    ([3, 4], [6])
    """
    length = config.checkpointing or 1
    segments = math.ceil(config.num_layers / length)
    last = config.num_layers - (segments - 1) * length
    depths = [(count - 1) * length + last for count in (_SMALL, _LARGE)]
    return depths if segments > _LARGE and sum(depths) < config.num_layers else [config.num_layers]


def _measured(config: StepConfig, real: bool, on_progress: Callable[[float], None]) -> tuple[Moment, ...]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from core.memory import steps, subjects

    mode: Any = contextlib.nullcontext() if real else FakeTensorMode()
    with mode, subjects.quiet():
        subject = subjects.of(config)
        tokens, labels = (torch.zeros(config.batch_size, config.seq_len, dtype=torch.long) for _input in range(2))
        trainers = subjects.optimizers(config, subject.model)
        micro_batches, autocast = min(2, config.accumulation_steps), config.precision == "autocast"
        return steps.metered_steps(subject, trainers, tokens, labels, micro_batches, autocast, on_progress)


def _extended(config: StepConfig, small: tuple[Moment, ...], large: tuple[Moment, ...]) -> list[Moment]:
    """Every moment of the full depth, from those of three and of four segments."""
    length = config.checkpointing or 1
    segments = math.ceil(config.num_layers / length)
    more = segments - _SMALL
    three, four = _by_place(small), _by_place(large)
    moments: list[Moment] = []

    def once(micro_batch: int, kind: str) -> None:
        key = micro_batch, kind, None
        moments.extend(_line(a, b, more) for a, b in zip(three[key], four[key], strict=True))

    def block(micro_batch: int, phase: str, number: int) -> None:
        segment = min(number // length, segments - 1)
        place = number - segment * length
        at = 0 if segment == 0 else _SMALL - 1 if segment == segments - 1 else 1
        later = at if at < _SMALL - 1 else _LARGE - 1
        a, b = three[micro_batch, phase, at * length + place], four[micro_batch, phase, later * length + place]
        ahead = four[micro_batch, phase, 2 * length + place] if at == 1 else b
        for one, other, next_one in zip(a, b, ahead, strict=True):
            moved = _line(one, other, more)
            moments.append(_line(moved, _shifted(moved, other, next_one), segment - 1 if at == 1 else 0, number))

    for micro_batch in range(min(2, config.accumulation_steps)):
        once(micro_batch, result.EMBEDDING)
        for number in range(config.num_layers):
            block(micro_batch, result.FORWARD, number)
        for kind in (result.HEAD, result.LOSS_BACKWARD, result.HEAD_BACKWARD):
            once(micro_batch, kind)
        for number in reversed(range(config.num_layers)):
            block(micro_batch, result.BACKWARD, number)
        once(micro_batch, result.END_OF_BACKWARD)
    once(small[-1].micro_batch, result.OPTIMIZER)
    return moments


def _by_place(moments: tuple[Moment, ...]) -> dict[tuple[int, str, int | None], list[Moment]]:
    """Moments by micro-batch, kind and block; a recomputation is with the backward that it is a part of."""
    places: dict[tuple[int, str, int | None], list[Moment]] = {}
    for one in moments:
        kind = result.BACKWARD if one.kind == result.RECOMPUTATION else one.kind
        places.setdefault((one.micro_batch, kind, one.block), []).append(one)
    return places


def _line(a: Moment, b: Moment, steps: int, block: int | None = None) -> Moment:
    """a + steps · (b − a)."""

    def at(first: Bytes, second: Bytes) -> Bytes:
        sizes = {
            name: first.get(name, 0) + steps * (second.get(name, 0) - first.get(name, 0)) for name in result.CATEGORIES
        }
        return {name: size for name, size in sizes.items() if size}

    return Moment(
        a.kind, a.block if block is None else block, a.micro_batch, at(a.highest, b.highest), at(a.end, b.end)
    )


def _shifted(moment: Moment, one: Moment, next_one: Moment) -> Moment:
    """The moment with what the next has more than the one."""
    names = result.CATEGORIES
    highest = {n: moment.highest.get(n, 0) + next_one.highest.get(n, 0) - one.highest.get(n, 0) for n in names}
    end = {n: moment.end.get(n, 0) + next_one.end.get(n, 0) - one.end.get(n, 0) for n in names}
    return Moment(moment.kind, moment.block, moment.micro_batch, highest, end)


def activation_terms(moments: tuple[Moment, ...]) -> tuple[Term, ...]:
    """Activations by where the forward leaves them."""
    ends = {one.kind: one.end.get(result.ACTIVATION, 0) for one in moments if one.micro_batch == 0}
    embedding, blocks, head = (ends.get(kind, 0) for kind in (result.EMBEDDING, result.FORWARD, result.HEAD))
    return (
        Term(_("embedding"), embedding, _("kept when the first block starts")),
        Term(_("blocks"), blocks - embedding, _("kept by the blocks' forward")),
        Term(_("head and loss"), head - blocks, _("kept by them, less what autocast lets go of")),
    )


def conditions(precision: str, real: bool, depths: list[int]) -> Conditions:
    """What a count of live storages was made under."""
    import torch

    kind = _("real tensors") if real else _("fake tensors: the same operations without data")
    notes = [kind, _("the second of two steps")]
    if len(depths) > 1:
        notes.append(_("measured at {small} and {large} blocks, extended").format(small=depths[0], large=depths[1]))
    version, name = str(torch.__version__), _("live storages, by a dispatch mode")
    return Conditions("cpu", name, precision, 1, warmup=1, trials=1, torch_version=version, notes=tuple(notes))
