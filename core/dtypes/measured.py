"""A format's thresholds beside what torch says or does: its finfo, and casts by halving until the edge is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from core.checks import one_of
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.codec import decode
from core.dtypes.exact import floor_log2, power_of_two
from core.dtypes.formats import Format, find, two_to
from core.dtypes.ranges import Thresholds, thresholds
from core.dtypes.storage import torch_version
from core.words import _

if TYPE_CHECKING:
    import torch

THRESHOLDS = ("rounds to 0", "smallest subnormal", "smallest normal", "ε", "largest", "overflows")
_FINFO = {"largest": "max", "smallest normal": "smallest_normal", "ε": "eps"}


@lru_cache(maxsize=256)
def compare_threshold(fmt: Format | str, which: str) -> tuple[Prediction, Comparison | None, str]:
    """A threshold by the format's bits beside torch's; without a comparison where there is none, and then why.

    ``which`` is one of ``THRESHOLDS``. The largest, the smallest normal number and ε are torch.finfo's; the smallest
    subnormal is found among torch's numbers, the two edges by casting ever closer wider numbers.

    >>> prediction, comparison, _why = compare_threshold("fp16", "rounds to 0")
    >>> prediction.value == comparison.measurement.value == 2**-25, prediction.formula
    (True, 'half of the smallest number, 2⁻²⁴')
    >>> _prediction, comparison, _why = compare_threshold("e5m2fnuz", "ε")
    >>> comparison.prediction.value, comparison.measurement.value, comparison.parts[0].name
    (0.25, 0.125, 'torch.finfo is wrong')
    """
    one_of(_("a threshold"), which, THRESHOLDS)
    return _compare_threshold(find(fmt) if isinstance(fmt, str) else fmt, which)


@lru_cache(maxsize=256)
def _compare_threshold(fmt: Format, which: str) -> tuple[Prediction, Comparison | None, str]:
    one = thresholds(fmt)
    value, formula = _predicted(one, which)
    quantity = _(which)
    if value is not None and (value > two_to(1023) * (2 - two_to(-52)) or value < two_to(-1074)):
        value, formula = None, _("{formula}: beyond fp64, which this page computes in").format(formula=formula)
    if value is None:
        return Prediction(quantity, None, "", formula, unknown=formula), None, ""
    prediction = Prediction(quantity, float(value), "", formula, source=_("the format's bits alone"))
    if not fmt.torch_name:
        return prediction, None, _("torch has no {name}: there is nothing to measure").format(name=fmt.label)
    if which == "overflows" and fmt.overflow == "saturate":
        return (
            prediction,
            None,
            _("torch saturates: larger numbers stay {largest:g}").format(largest=float(one.largest)),
        )
    measured, note = _measured(one, which)
    conditions = Conditions("cpu", note, fmt.label, 1, 0, 1, torch_version=torch_version())
    parts: tuple[Term, ...] = ()
    if which in _FINFO and measured != float(value):
        why = _("torch's own numbers are spaced as predicted: cast 1.125 and see")
        parts = (Term(_("torch.finfo is wrong"), measured - float(value), why),)
    return prediction, Comparison(prediction, Measurement(quantity, (measured,), "", conditions), parts), ""


def _predicted(one: Thresholds, which: str) -> tuple[Fraction | None, str]:
    """The threshold, and the formula with the format's numbers in it."""
    fmt = one.fmt
    m, first, least = fmt.mantissa_bits, 1 if fmt.subnormals else 0, fmt.min_exponent
    if which == "largest":
        top = decode(fmt.max_code, fmt)
        significand = f"{float(top.significand):.10g}"
        if Fraction(significand) != top.significand:  # 2 less a power of two, or less two of them
            significand = f"(2 − {power_of_two(floor_log2(2 - top.significand))})"
        return one.largest, f"{power_of_two(top.exponent)} · {significand}"
    if which == "smallest normal":
        formula = _("{power}, exponent field {first} − bias {bias}")
        return one.smallest_normal, formula.format(power=power_of_two(least), first=first, bias=fmt.bias)
    if which == "ε":
        if one.epsilon is None:
            return None, _("{name} has no number above 1").format(name=fmt.label)
        formula = _("the spacing above 1, {m} mantissa bits: {power}")
        if least > 0:
            formula = _("1 is below the normal range, where the spacing is {power}")
        return one.epsilon, formula.format(m=m, power=power_of_two(max(0, least) - m))
    if which == "overflows":
        verb = _("from here on") if one.overflow_includes_it else _("above this")
        return one.overflows_from, _("{largest:g} and half a spacing; {verb}").format(
            largest=float(one.largest), verb=verb
        )
    if which == "smallest subnormal":
        no_subnormals = _("{name} has no subnormals").format(name=fmt.label)
        formula = _("{power}, {m} mantissa bits below the smallest normal").format(power=power_of_two(least - m), m=m)
        return one.smallest_subnormal, formula if one.smallest_subnormal else no_subnormals
    if one.rounds_to_zero is None:
        return None, _("{name} has no zero").format(name=fmt.label)
    return one.rounds_to_zero, _("half of the smallest number, {power}").format(power=power_of_two(least - m))


def _measured(one: Thresholds, which: str) -> tuple[float, str]:
    """torch's figure, and how it was found."""
    import torch

    kind = getattr(torch, one.fmt.torch_name)
    if which in _FINFO:
        return float(getattr(torch.finfo(kind), _FINFO[which])), f"torch.finfo(…).{_FINFO[which]}"
    if which == "smallest subnormal":
        return _smallest(kind), _("the smallest of torch's numbers above 0")
    wide = torch.float64 if kind == torch.float32 else torch.float32
    name = str(wide).removeprefix("torch.")
    if which == "rounds to 0":
        edge = _edge(kind, wide, lambda cast: bool(cast == 0))
        return edge[0], _("the largest {wide} number that torch casts to 0").format(wide=name)
    edge = _edge(kind, wide, lambda cast: math.isfinite(cast))
    return edge[1], _("the first {wide} number that torch casts to {what}").format(wide=name, what=one.overflow)


def _smallest(kind: torch.dtype) -> float:
    import torch

    if kind.itemsize > 2:
        return float(torch.nextafter(torch.zeros((), dtype=kind), torch.ones((), dtype=kind)).double())
    codes = torch.arange(2 ** (8 * kind.itemsize - 1), dtype=torch.int32)
    numbers = codes.to(torch.uint8 if kind.itemsize == 1 else torch.int16).view(kind).double()
    return float(numbers[numbers > 0].min())


def _edge(kind: torch.dtype, wide: torch.dtype, holds: Callable[[float], bool]) -> tuple[float, float]:
    """The last positive number of the wide dtype for which it holds and the next: codes grow with their numbers."""
    import torch

    as_int = {torch.float32: torch.int32, torch.float64: torch.int64}[wide]

    def number(code: int) -> torch.Tensor:
        return torch.tensor([code], dtype=as_int).view(wide)

    low, high = 0, int(torch.tensor([math.inf], dtype=wide).view(as_int))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(float(number(middle).to(kind).double())) else (low, middle)
    return float(number(low)), float(number(high))
