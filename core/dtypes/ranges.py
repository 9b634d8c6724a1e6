"""How far a format reaches: thresholds that follow from its bits alone, beside torch's finfo."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from core.dtypes.codec import decode
from core.dtypes.formats import FLOATS, FORMATS, Format, find, two_to
from core.words import _


@dataclass(frozen=True)
class Thresholds:
    """Where a floating-point format begins and ends, exactly.

    ``smallest_subnormal`` is None where it has none. ``rounds_to_zero`` is the largest number that rounds to 0, None
    where there is no 0; numbers above it do not. ``overflows_from`` is where rounding leaves the format: from that
    number on where ``overflow_includes_it``, above it otherwise; ``overflow`` says to what. ``count`` is how many
    different finite numbers it has.
    """

    fmt: Format
    largest: Fraction
    smallest_normal: Fraction
    smallest_subnormal: Fraction | None
    epsilon: Fraction | None
    rounds_to_zero: Fraction | None
    overflows_from: Fraction
    overflow_includes_it: bool
    overflow: str
    count: int


@lru_cache(maxsize=256)
def thresholds(fmt: Format | str) -> Thresholds:
    """The thresholds of a format. Raises ValueError for an unknown name, and for an integer, which has none.

    >>> one = thresholds("fp16")
    >>> one.largest, one.smallest_subnormal == Fraction(1, 2**24), one.rounds_to_zero == Fraction(1, 2**25)
    (Fraction(65504, 1), True, True)
    >>> one.overflows_from, one.overflow_includes_it, one.overflow, one.epsilon
    (Fraction(65520, 1), True, 'infinity', Fraction(1, 1024))
    >>> one = thresholds("e4m3fn")
    >>> one.overflows_from, one.overflow_includes_it, one.overflow, one.count
    (Fraction(464, 1), False, 'saturate', 253)
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    if fmt.integer:
        message = _("{name} is an integer: it has no smallest normal number, and overflows by one")
        raise ValueError(message.format(name=fmt.name))
    has_zero = fmt.subnormals
    first = decode(1 if has_zero else 0, fmt).value
    assert first is not None
    positive = fmt.max_code + (0 if has_zero else 1)
    return Thresholds(
        fmt=fmt,
        largest=fmt.max_value,
        smallest_normal=two_to(fmt.min_exponent),
        smallest_subnormal=first if has_zero and fmt.mantissa_bits else None,
        epsilon=fmt.epsilon if fmt.max_value > 1 else None,
        rounds_to_zero=first / 2 if has_zero else None,
        overflows_from=fmt.overflows_from,
        overflow_includes_it=fmt.overflow_includes_it,
        overflow=fmt.overflow,
        count=positive * (2 if fmt.signed else 1) + int(has_zero),
    )


@dataclass(frozen=True)
class FinfoRow:
    """One figure of torch.finfo beside ours, which follows from the format's bits."""

    fmt: Format
    field: str
    ours: float
    torchs: float

    @property
    def agrees(self) -> bool:
        return self.ours == self.torchs


@lru_cache(maxsize=1)
def beside_finfo() -> tuple[FinfoRow, ...]:
    """eps, the largest and the smallest normal number of every floating-point dtype of torch, by torch and by us.

    >>> [(row.fmt.name, row.field, row.ours, row.torchs) for row in beside_finfo() if not row.agrees]
    [('e5m2fnuz', 'eps', 0.25, 0.125)]
    """
    import torch

    rows = []
    for name in FLOATS:
        fmt = FORMATS[name]
        if not fmt.torch_name:
            continue
        theirs, ours = torch.finfo(getattr(torch, fmt.torch_name)), thresholds(fmt)
        assert ours.epsilon is not None
        rows += [
            FinfoRow(fmt, "eps", float(ours.epsilon), theirs.eps),
            FinfoRow(fmt, "max", float(ours.largest), theirs.max),
            FinfoRow(fmt, "smallest_normal", float(ours.smallest_normal), theirs.smallest_normal),
        ]
    return tuple(rows)


@dataclass(frozen=True)
class NumberLine:
    """Where the positive numbers of a format lie, as powers of two (log2).

    ``marks`` are all of them where the format has 8 bits or fewer, else the powers of two alone. ``first_normal`` and
    ``last`` bound the normal numbers; ``first`` is the smallest number.
    """

    fmt: Format
    first: float
    first_normal: float
    last: float
    marks: tuple[float, ...]


def number_lines(formats: Iterable[Format | str]) -> tuple[NumberLine, ...]:
    """The number line of each format.

    >>> [round(mark, 2) for mark in number_lines(["e2m1"])[0].marks]
    [-1.0, 0.0, 0.58, 1.0, 1.58, 2.0, 2.58]
    """
    return tuple(_number_line(find(one) if isinstance(one, str) else one) for one in formats)


@lru_cache(maxsize=256)
def _number_line(fmt: Format) -> NumberLine:
    one = thresholds(fmt)
    start = 1 if fmt.subnormals else 0
    first, last = _log2(decode(start, fmt).value), _log2(one.largest)
    if fmt.bits <= 8:
        marks = tuple(_log2(decode(code, fmt).value) for code in range(start, fmt.max_code + 1))
    else:
        marks = tuple(float(power) for power in range(math.ceil(first), math.floor(last) + 1))
    return NumberLine(fmt, first, _log2(one.smallest_normal), last, marks)


def _log2(value: Fraction | None) -> float:
    """log2 of a number that may be too large or too small for a float."""
    assert value
    order = value.numerator.bit_length() - value.denominator.bit_length()
    return order + math.log2(value / two_to(order))
