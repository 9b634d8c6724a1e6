"""What ZeRO costs, in claims: bytes a device holds, bytes it sends a step; the paper's formulas, torch's, measured."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.memory.sharding import MAX_DEVICES, NOT_SHARDED, STAGES, Sharding
from core.words import _

if TYPE_CHECKING:
    from core.memory.sharding_measure import ShardingRun

PAPER = "Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"
GLOO_HEADER_BYTES = 48  # of each of gloo's messages; counted on the wire
_GLOO_SEGMENT_BYTES = 2**20
_MAX_PARAMS = 10**15


def predict_paper_bytes(
    num_params: int,
    stage: str | None,
    num_devices: int,
    param_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> Prediction:
    """The paper's formula for the states of one device: what is sharded is divided by n, evenly.

    2 + 2 + 12 bytes a parameter are the paper's Adam in mixed precision: fp16, and fp32 master weights among the state.

    >>> [predict_paper_bytes(7_500_000_000, stage, 64).text for stage in STAGES]
    ['120 GB', '31.4 GB', '16.6 GB', '1.88 GB']
    """
    params = whole_number(_("parameters"), num_params, 1, _MAX_PARAMS)
    sharded = STAGES.index(one_of("sharding", stage or NOT_SHARDED, STAGES))
    n = whole_number("num_devices", num_devices, 1, MAX_DEVICES)
    parts = (
        (_("parameters"), whole_number("param_bytes", param_bytes, 0, 64), sharded >= 3),
        (_("gradients"), whole_number("gradient_bytes", gradient_bytes, 0, 64), sharded >= 2),
        (_("optimizer state"), whole_number("state_bytes", state_bytes, 0, 64), sharded >= 1),
    )
    terms = tuple(
        Term(name, float(Fraction(size * params, n if over_n else 1)), f"{size} · {params:,}{f' / {n:,}' * over_n}")
        for name, size, over_n in parts
    )
    formula = " + ".join(term.note for term in terms)
    return Prediction(_("states on one device"), sum(term.value for term in terms), "B", formula, terms, PAPER)


def predict_device_bytes(sharding: Sharding, rank: int | None = None) -> Prediction:
    """Parameters, gradients and optimizer state on one device, exactly as torch lays them; the fullest by default.

    >>> from core.memory.sharding import Unit, shard
    >>> prediction = predict_device_bytes(shard((Unit("root", ((51, 20),)),), "zero3", 2))
    >>> prediction.formula, [(term.name, term.value) for term in prediction.terms]
    ('2,080 + 2,080 + 4,164', [('parameters', 2080), ('gradients', 2080), ('optimizer state', 4164)])
    """
    device = sharding.fullest if rank is None else sharding.device(rank)
    parts = [device.parameter_bytes, device.gradient_bytes, device.optimizer_state_bytes]
    padding = _("{padding:,} B of it padding").format(padding=device.padding_bytes // 2) if device.padding_bytes else ""
    whole = sharding.stage == "zero1" and sharding.num_devices > 1
    state_note = _("whole tensors, dealt out by size") if whole else ""
    notes = (padding, padding, state_note)
    names = (_("parameters"), _("gradients"), _("optimizer state"))
    terms = tuple(Term(name, value, note) for name, value, note in zip(names, parts, notes, strict=True))
    formula = " + ".join(f"{value:,}" for value in parts)
    return Prediction(_("states on one device"), sum(parts), "B", formula, terms, PAPER)


def predict_paper_sent_bytes(
    num_params: int, stage: str | None, num_devices: int, gradient_bytes: int = 2
) -> Prediction:
    """The paper's count of what a device sends in a step: 2Ψ up to stage 2, 3Ψ in stage 3, exactly (n−1)/n of it.

    >>> [predict_paper_sent_bytes(10**9, stage, 8).text for stage in STAGES]
    ['3.50 GB', '3.50 GB', '3.50 GB', '5.25 GB']
    """
    params = whole_number(_("parameters"), num_params, 1, _MAX_PARAMS)
    n = whole_number("num_devices", num_devices, 1, MAX_DEVICES)
    size = whole_number("gradient_bytes", gradient_bytes, 1, 64) * params
    gather, scatter = _("all-gather of the parameters"), _("reduce-scatter of the gradients")
    names = {NOT_SHARDED: (scatter, _("all-gather of the gradients")), "zero3": (gather, gather, scatter)}
    chosen = names.get(one_of("sharding", stage or NOT_SHARDED, STAGES), (scatter, gather))
    return _sent(tuple((name, 1, size) for name in chosen), n)


def predict_sent_bytes(sharding: Sharding) -> Prediction:
    """What torch's collectives send a step from each device, on average over the devices; each receives as much.

    A ring's share: an all-reduce of P bytes sends 2(n−1)/n·P, an all-gather or a reduce-scatter (n−1)/n·P; a broadcast
    sends (n−1)·P from one device to all, (n−1)/n·P on average. ``ZeroRedundancyOptimizer`` leaves the all-reduce to DDP
    and then broadcasts what each rank has updated: 3(n−1)/n·P, where the paper's stage 1 takes 2(n−1)/n·P.

    >>> from core.memory.sharding import shard, transformer_units
    >>> from core.models import PRESETS
    >>> units = transformer_units(PRESETS["llama3-8b"])
    >>> [predict_sent_bytes(shard(units, stage, 8, dtype="bf16")).text for stage in STAGES]
    ['28.1 GB', '42.2 GB', '28.1 GB', '40.3 GB']
    """
    everything, padded = sharding.param_bytes, sharding.padded_bytes
    reduced = (_("all-reduce of the gradients"), 2, everything)
    if sharding.stage == NOT_SHARDED:
        return _sent((reduced,), sharding.num_devices)
    if sharding.stage == "zero1":
        return _sent((reduced, (_("broadcasts of the updated parameters"), 1, everything)), sharding.num_devices)
    gathers = [(_("all-gather for forward"), 1, padded)]
    if sharding.stage == "zero3":
        gathers.append((_("all-gather of the blocks for backward"), 1, sharding.gathered_again_bytes))
    return _sent((*gathers, (_("reduce-scatter of the gradients"), 1, padded)), sharding.num_devices)


def predict_gathered_bytes(sharding: Sharding) -> Prediction:
    """Whole parameters beside the shards, at the moment when they are most: flat buffers and copies."""
    value = sharding.gathered_bytes
    largest = max(unit.numel for unit in sharding.units) * sharding.param_bytes // sharding.num_params
    terms = (Term(_("largest unit"), largest, _("its parameters, once")),)
    formula = _("the units held whole, and their flat buffers: {value:,}").format(value=value)
    return Prediction(_("gathered parameters"), value, "B", formula, terms, _("FSDP2's order of gathering, torch 2.13"))


def _sent(collectives: tuple[tuple[str, int, int], ...], n: int) -> Prediction:
    """Each collective's name, how many times (n−1)/n of its bytes it sends, and its bytes."""
    terms = tuple(
        Term(name, _number(Fraction(times * (n - 1) * size, n)), f"{_times(times)}({n:,}−1)/{n:,} · {size:,}")
        for name, times, size in collectives
    )
    value = _number(Fraction(sum(times * size for _name, times, size in collectives) * (n - 1), n))
    formula = " + ".join(term.note for term in terms)
    return Prediction(_("bytes sent by one device"), value, "B", formula, terms, PAPER)


def _times(times: int) -> str:
    return "" if times == 1 else f"{times} · "


def _number(value: Fraction) -> float:
    return value.numerator if value.denominator == 1 else float(value)


def compare_sharding(run: ShardingRun, rank: int = 0) -> tuple[Comparison, ...]:
    """Each predicted number beside the measured one of a rank: parameters, gradients, optimizer state, gathered
    parameters, whole gradients in a reduce-scatter; last, where the wire could be read, what a device sends on average.

    Parts of the difference on the wire: gloo has no reduce-scatter, torch runs an all-reduce in its place; and every
    message has a header.
    """
    device, ranks = run.sharding.device(rank), run.ranks
    measured = ranks[rank]
    rows: list[tuple[str, int, int]] = [
        (_("parameters on one device"), device.parameter_bytes, measured.parameter_bytes),
        (_("gradients on one device"), device.gradient_bytes, measured.gradient_bytes),
        (_("optimizer state on one device"), device.optimizer_state_bytes, measured.optimizer_state_bytes),
        (_("gathered parameters"), run.sharding.gathered_bytes, measured.gathered_bytes),
        (_("whole gradients while they are reduced"), run.sharding.reduce_bytes, measured.reduce_bytes),
    ]
    held = tuple(
        Comparison(
            Prediction(quantity, predicted, "B", f"{predicted:,}", source=PAPER),
            Measurement(quantity, (found,), "B", _conditions(run, rank)),
        )
        for quantity, predicted, found in rows
    )
    sent = compare_sent_bytes(run)
    return held if sent is None else (*held, sent)


def compare_sent_bytes(run: ShardingRun) -> Comparison | None:
    """What a device sends, on average, predicted and read from the sockets; None where the sockets tell nothing."""
    n, on_wire = run.sharding.num_devices, [one.sent_bytes for one in run.ranks]
    counted = [one for one in on_wire if one is not None]
    if len(counted) < n:
        return None
    prediction = predict_sent_bytes(run.sharding)
    mean = _number(Fraction(sum(counted), n))
    measurement = Measurement(prediction.quantity, (mean,), "B", _conditions(run, None))
    scattered = sum(size for name, size in run.ranks[0].collectives if name == "reduce-scatter")
    parts = (
        Term(
            _("no reduce-scatter in gloo"),
            _number(Fraction((n - 1) * scattered, n)),
            _("torch runs an all-reduce in its place, which sends twice as much"),
        ),
        Term(
            _("message headers"),
            _number(sum((_header_bytes(name, size, n) for name, size in run.ranks[0].collectives), Fraction(0))),
            _("{size} bytes a message").format(size=GLOO_HEADER_BYTES),
        ),
    )
    return Comparison(prediction, measurement, parts)


def _header_bytes(collective: str, size: int, n: int) -> Fraction:
    """Header bytes that a device sends on average: of every message, and of the notes that a buffer is ready.

    Too much for an all-reduce of fewer entries than gloo has segments (2n): it leaves empty ones out.
    """
    if collective == "broadcast":
        return Fraction(3 * (n - 1), n) * GLOO_HEADER_BYTES
    if collective == "all-gather":
        return Fraction(6 * (n - 1) * GLOO_HEADER_BYTES)
    rounds = max(1, -(-size // (2 * n * _GLOO_SEGMENT_BYTES)))  # an all-reduce goes in segments of 1 MiB at most
    return Fraction(12 * (n - 1) * GLOO_HEADER_BYTES * rounds)


def _conditions(run: ShardingRun, rank: int | None) -> Conditions:
    n, names = run.sharding.num_devices, Counter(name for name, _size in run.ranks[0].collectives)
    which = _("{n} processes of gloo on this machine").format(n=n)
    which += "" if rank is None else _(", rank {rank}").format(rank=rank)
    notes = tuple(f"{times} × {name}" for name, times in sorted(names.items())) if rank is None else ()
    return Conditions(
        "cpu", which, run.sharding.dtype, 1, run.warmup_steps, 1, torch_version=run.torch_version, notes=notes
    )
