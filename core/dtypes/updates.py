"""Updates that vanish: the smallest one that changes a weight of 1, and a thousand small ones added in each format."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from core.checks import one_of, positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.arrays import Floats
from core.dtypes.codec import Decoded, decode, encode, encode_ratio, round_to
from core.dtypes.exact import power_of_two
from core.dtypes.formats import FORMATS, Format, find
from core.dtypes.scaling import by_chance
from core.dtypes.stochastic import stochastic_runs
from core.words import _

if TYPE_CHECKING:
    import torch

# Formats that weights are kept in and torch can add in, or cast to after adding in fp32.
UPDATED = ("fp32", "bf16", "fp16", "e4m3fn", "e5m2")
MAX_STEPS = 2_000
MAX_RUNS = 256
MAX_UPDATE = 1.0
KEPT_POINTS = 101
LOOK_EVERY = 32  # updates by torch between two looks whether the weight still moves: each takes as long as two


@dataclass(frozen=True)
class SmallestUpdate:
    """The smallest number of a format that changes 1 when it is added, and when it is subtracted.

    ``tie`` is half the spacing above 1: an update of at most that much is rounded away.
    """

    fmt: Format
    tie: Fraction
    added: Decoded
    subtracted: Decoded


@lru_cache(maxsize=64)
def smallest_update(fmt: Format | str) -> SmallestUpdate:
    """By our rounding: the first code u, from 0 upwards, with 1 + u rounded to something else than 1; likewise 1 - u.

    >>> one = smallest_update("bf16")
    >>> float(one.tie), float(one.added), float(one.subtracted)
    (0.00390625, 0.003936767578125, 0.0019683837890625)
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    one = encode(1, fmt)

    def changes(code: int, sign: int) -> bool:
        update = decode(code, fmt).value
        assert update is not None
        return encode(1 + sign * update, fmt) != one

    added, subtracted = _first(lambda code: changes(code, 1), one), _first(lambda code: changes(code, -1), one)
    return SmallestUpdate(fmt, fmt.epsilon / 2, decode(added, fmt), decode(subtracted, fmt))


def _first(changes: Callable[[int], bool], high: int) -> int:
    """The smallest code that changes 1: codes grow with their numbers, so it is found by halving."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle) else (middle, high)
    return high


@lru_cache(maxsize=16)
def compare_smallest_update(name: str) -> Comparison:
    """Half the spacing above 1 and then the next number, beside what torch's own addition needs.

    torch adds in the format itself; for fp8, which it cannot add, in fp32 with a cast back.

    >>> c = compare_smallest_update("fp16")
    >>> c.prediction.value, c.measurement.value, c.prediction.formula
    (0.0004887580871582031, 0.0004887580871582031, 'ε/2 = 2⁻¹¹ is a tie, and stays 1; the next number is enough')
    """
    import torch

    fmt = FORMATS[name]
    ours = smallest_update(fmt)
    kind = getattr(torch, fmt.torch_name)
    one = torch.ones(1).to(kind)

    def changes(code: int) -> bool:
        update = torch.tensor([float(decode(code, fmt))])  # exact: every format here fits in fp32
        return bool((_add(one, update.to(kind), kind).float() != 1.0).item())

    measured = float(decode(_first(changes, encode(1, fmt)), fmt))
    power = power_of_two(-fmt.epsilon.denominator.bit_length())
    formula = _("ε/2 = {power} is a tie, and stays 1; the next number is enough").format(power=power)
    quantity = _("smallest update")
    note = _("torch's addition") if fmt.bits > 8 else _("torch's addition in fp32 and its cast back")
    conditions = Conditions("cpu", note, fmt.label, 1, 0, 1, torch_version=str(torch.__version__))
    return Comparison(
        Prediction(quantity, float(ours.added), "", formula, source="IEEE 754-2019 §4.3.1"),
        Measurement(quantity, (measured,), "", conditions),
    )


def _add(weight: torch.Tensor, update: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return weight + update if kind.itemsize > 1 else (weight.float() + update.float()).to(kind)


@dataclass(frozen=True)
class Accumulation:
    """A weight that starts at 1 and receives the same update many times, after each of ``steps``.

    ``exact`` is the sum without rounding. ``nearest`` rounds each sum to the nearest number; ``stochastic_mean``,
    ``stochastic_low`` and ``stochastic_high`` are the mean and the middle nine tenths of ``runs`` runs that round
    stochastically, ``one_run`` is the first of them, and ``stochastic_deviation`` their spread in the end. ``stuck_at``
    is the step from which on nearest rounding changes nothing any more, None where it moves to the end.
    """

    fmt: Format
    update: float
    steps: tuple[int, ...]
    exact: tuple[float, ...]
    nearest: tuple[float, ...]
    stochastic_mean: tuple[float, ...]
    stochastic_low: tuple[float, ...]
    stochastic_high: tuple[float, ...]
    one_run: tuple[float, ...]
    stochastic_deviation: float
    runs: int
    stuck_at: int | None


@lru_cache(maxsize=64)
def accumulate(name: str, update: float = 1e-4, steps: int = 1000, runs: int = 32, seed: int = 0) -> Accumulation:
    """Add an update, an fp32 number above 0 and at most 1, to a weight of 1 again and again.

    Raises ValueError for a format that no weight is kept in here, for updates out of range, more than 2,000 steps or
    256 runs.

    >>> one = accumulate("bf16", 1e-4)
    >>> one.nearest[-1], one.stuck_at, f"{one.exact[-1]:.3f}", 1.05 < one.stochastic_mean[-1] < 1.15
    (1.0, 0, '1.100', True)
    """
    fmt, update, steps, runs = _checked(name, update, steps, runs)
    marks = _marks(steps)
    nearest, stuck_at = _nearest(fmt, update, steps)
    sampled_SR = stochastic_runs(fmt, update, marks, _uniform(seed, runs)[: steps + 1])
    low, high = _quantiles(sampled_SR, (0.05, 0.95))
    return Accumulation(
        fmt=fmt,
        update=update,
        steps=marks,
        exact=tuple(1 + step * update for step in marks),
        nearest=tuple(nearest[min(step, len(nearest) - 1)] for step in marks),
        stochastic_mean=tuple(sampled_SR.mean(axis=1).tolist()),
        stochastic_low=tuple(low.tolist()),
        stochastic_high=tuple(high.tolist()),
        one_run=tuple(sampled_SR[:, 0].tolist()),
        stochastic_deviation=float(sampled_SR[-1].std(ddof=1)) if runs > 1 else 0.0,
        runs=runs,
        stuck_at=stuck_at,
    )


@lru_cache(maxsize=64)
def _marks(steps: int) -> tuple[int, ...]:
    """The steps that are kept: at most 101, as evenly as whole numbers are."""
    return tuple(sorted({round(step) for step in np.linspace(0, steps, min(KEPT_POINTS, steps + 1)).tolist()}))


def _quantiles(values_SR: Floats, shares: tuple[float, ...]) -> list[Floats]:
    """For each share the quantile of every row, as ``numpy.quantile`` has it, in a quarter of its time."""
    sorted_SR = np.sort(values_SR, axis=1)
    last = sorted_SR.shape[1] - 1
    found = []
    for share in shares:
        below, part = int(share * last), share * last % 1
        low_S, high_S = sorted_SR[:, below], sorted_SR[:, min(below + 1, last)]
        # From the nearer side, as numpy does.
        found.append(low_S + (high_S - low_S) * part if part < 0.5 else high_S - (high_S - low_S) * (1 - part))
    return found


@lru_cache(maxsize=2)
def _uniform(seed: int, runs: int) -> Floats:
    """A row for each step; fewer steps take the first ones. A run's numbers lie next to each other."""
    return np.asfortranarray(np.random.default_rng(seed).random((MAX_STEPS + 1, runs)))


def _checked(name: str, update: float, steps: int, runs: int = 1) -> tuple[Format, float, int, int]:
    fmt = FORMATS[one_of(_("a format"), name, UPDATED)]
    update = float(np.float32(positive_number(_("an update"), update, MAX_UPDATE)))
    if not update:
        raise ValueError(_("an update must be at least fp32's smallest number, 1.4e-45"))
    steps = whole_number(_("updates"), steps, 1, MAX_STEPS)
    return fmt, update, steps, whole_number(_("runs"), runs, 1, MAX_RUNS)


@lru_cache(maxsize=64)
def _nearest(fmt: Format, update: float, steps: int) -> tuple[tuple[float, ...], int | None]:
    """The weights under nearest rounding until they stop moving, and the step at which they do.

    Exact, in whole numbers: everything is counted in 2^-``places``, of which every number involved is a multiple.
    """
    places = 149 + fmt.mantissa_bits  # fp32's smallest number is 2^-149
    unit, step_size = 1 << places, int(Fraction(update) * (1 << places))
    code, weight, weights = encode(1, fmt), unit, [1.0]
    for step in range(steps):
        after = encode_ratio(weight + step_size, unit, fmt)
        if after == code:
            return tuple(weights), step
        if after > fmt.max_code:  # infinite or NaN, and so it stays
            return (*weights, float(decode(after, fmt))), step + 1
        field, mantissa = after >> fmt.mantissa_bits, after & ((1 << fmt.mantissa_bits) - 1)
        significand = mantissa + (1 << fmt.mantissa_bits)  # from 1 upwards every number is normal
        code, weight = after, significand << (field - fmt.bias - fmt.mantissa_bits + places)
        weights.append(weight / unit)
    return tuple(weights), None


def compare_accumulated(name: str, update: float = 1e-4, steps: int = 1000) -> Comparison:
    """The sum without rounding beside what torch's nearest rounding leaves; the part that rounding takes is named.

    The part is our own exact rounding, step by step, against the sum; what torch does beyond it is unexplained.

    >>> c = compare_accumulated("bf16", 1e-4)
    >>> round(c.prediction.value, 3), c.measurement.value, [(part.name, round(part.value, 3)) for part in c.parts]
    (1.1, 1.0, [('rounding to nearest', -0.1)])
    """
    fmt, update, steps, _runs = _checked(name, update, steps)
    exact = 1 + steps * update
    ends = _nearest(fmt, update, steps)[0][-1]
    quantity = _("weight in the end")
    formula = _("1 + {steps:,} · {update:.6g}, without rounding").format(steps=steps, update=update)
    part = Term(
        _("rounding to nearest"),
        ends - exact,
        _("each of {steps:,} sums becomes the nearest number of {name}").format(steps=steps, name=fmt.label),
    )
    return Comparison(
        Prediction(quantity, exact, "", formula), torch_accumulated(fmt, update, steps, quantity), (part,)
    )


@lru_cache(maxsize=64)
def torch_accumulated(fmt: Format, update: float, steps: int, quantity: str) -> Measurement:
    """The weight after the updates by torch, in that dtype; fp8 by way of fp32, as torch adds no fp8."""
    import torch

    kind = getattr(torch, fmt.torch_name)
    weight = torch.ones(1).to(kind)
    if kind.itemsize > 1:
        for step in range(steps):
            before = weight.clone() if step % LOOK_EVERY == 0 else None
            weight += update
            if before is not None and torch.equal(before, weight):
                break  # the same sum again, for ever
    else:
        for _step in range(steps):
            after = (weight.float() + update).to(kind)
            if torch.equal(after.view(torch.uint8), weight.view(torch.uint8)):
                break  # the same sum again, for ever
            weight = after
    note = _("torch, rounding to nearest")
    conditions = Conditions("cpu", note, fmt.label, 1, 0, 1, torch_version=str(torch.__version__))
    return Measurement(quantity, (float(weight.double().item()),), "", conditions)


def compare_stochastic(one: Accumulation) -> Comparison:
    """The sum without rounding beside the mean of runs that round stochastically, and how far it may be off by chance.

    >>> c = compare_stochastic(accumulate("bf16", 1e-4))
    >>> abs(c.ratio - 1) < 0.02
    True
    """
    quantity = _("mean weight in the end")
    largest, exact = float(one.fmt.max_value), one.exact[-1]
    formula = _("1 + {steps:,} · {update:.6g}: rounding stochastically is right on average")
    if exact > largest:
        formula = _("1 + {steps:,} · {update:.6g}, without rounding")
    conditions = Conditions("cpu", _("{runs} runs").format(runs=one.runs), one.fmt.label, 1, 0, 1)
    mean, deviation = one.stochastic_mean[-1], one.stochastic_deviation / math.sqrt(one.runs)
    parts = by_chance(mean - exact, deviation)
    if exact > largest:
        note = _("no number of {name} is above {largest:g}: there the weight stays")
        parts = (Term(_("the largest number"), mean - exact, note.format(name=one.fmt.label, largest=largest)),)
    return Comparison(
        Prediction(quantity, exact, "", formula.format(steps=one.steps[-1], update=one.update)),
        Measurement(quantity, (mean,), "", conditions),
        parts,
    )


def rounded_update(one: Accumulation) -> float:
    """The update as the format itself would hold it.

    >>> rounded_update(accumulate("e4m3fn", 1e-4))
    0.0
    """
    return float(round_to(one.update, one.fmt))
