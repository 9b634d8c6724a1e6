"""Exact numbers: what a person types, as a fraction; what a format holds, as decimal text with every digit."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

from core.words import _

MAX_CHARS = 1200  # the longest exact decimals of fp64 have 767 digits, and zeros before them
# Beyond these no format here holds anything but zero, infinity or its largest value, so the number is not built.
MAX_DECIMAL_EXPONENT = 2000
MAX_BINARY_EXPONENT = 6000
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_PLACES = 1200  # the smallest number of any format here, 2^-1074, has 1,074 decimals

_DECIMAL = re.compile(r"([0-9][0-9_]*)?(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9]+))?")
_HEX = re.compile(r"0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?[pP]([+-]?[0-9]+)")
_POWER = re.compile(r"(?:(.+?)[*×x·])?(2|10)(?:\^|\*\*)(?:\(([+-]?[0-9]+)\)|([+-]?[0-9]+))")


def floor_log2(magnitude: Fraction) -> int:
    """The exponent of the largest power of two that is not above a positive number."""
    above, below = magnitude.numerator, magnitude.denominator
    exponent = above.bit_length() - below.bit_length()
    reached = above >= below << exponent if exponent >= 0 else above << -exponent >= below
    return exponent if reached else exponent - 1


@dataclass(frozen=True)
class Exact:
    """A number: "finite" with its sign and magnitude, "inf", "nan"; or "huge" and "tiny", which no format here tells
    from infinity and zero.

    The sign is kept apart because of -0.
    """

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    def __hash__(self) -> int:  # that of a fraction takes 3 µs, and a number is looked up dozens of times
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.negative, self.magnitude))

    @property
    def value(self) -> Fraction | None:
        """The number as a fraction; None where it is infinite, no number, or too extreme to be built."""
        if self.kind != "finite":
            return None
        return -self.magnitude if self.negative else self.magnitude

    @cached_property
    def order(self) -> int:
        """The exponent of the largest power of two that is not above the magnitude, which must not be 0.

        >>> read("0.1").order, read("8").order, read("7.99").order
        (-4, 3, 2)
        """
        return floor_log2(self.magnitude)

    def __float__(self) -> float:
        """The nearest float (fp64); infinite where it is beyond it.

        >>> float(read("-0")), float(read("1e999999999")), float(read("1/3"))
        (-0.0, inf, 0.3333333333333333)
        """
        if self.kind == "nan":
            return math.nan
        if self.kind in ("inf", "huge"):
            size = math.inf
        elif self.kind == "tiny":
            size = 0.0
        else:
            try:
                size = float(self.magnitude)
            except OverflowError:
                size = math.inf
        return -size if self.negative else size


def read(value: object) -> Exact:
    """A number of any kind, exactly: int, float, Fraction, or text.

    Text may be a decimal ("1e-8"), a fraction ("1/3"), a hexadecimal float ("0x1.8p3"), a power ("2^-25",
    "1.5*2^-3"), "inf", "nan" or "-0". Exponents of any size are answered at once: what lies beyond every format is
    "huge" or "tiny". Raises ValueError for anything else and for more than 1,200 characters.

    >>> read("0.1").value, read("-1/3").value, read("0x1.8p3").value, read("2^-25").value
    (Fraction(1, 10), Fraction(-1, 3), Fraction(12, 1), Fraction(1, 33554432))
    >>> read("1e999999999").kind, read("1e-999999999").kind, read(0.1).value == Fraction(1, 10)
    ('huge', 'tiny', False)
    >>> read("٣")
    Traceback (most recent call last):
    ValueError: '٣' is not a number; write for example 0.1, 1e-8, 1/3, 0x1.8p3, 2^-25, inf or nan
    """
    if isinstance(value, Exact):
        return value
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _wrong(repr(value))
    if isinstance(value, numbers.Rational):
        return _within(value < 0, abs(Fraction(value)))
    number = float(value)
    if math.isnan(number):
        return Exact("nan", math.copysign(1.0, number) < 0)
    if math.isinf(number):
        return Exact("inf", number < 0)
    return Exact("finite", math.copysign(1.0, number) < 0, Fraction(abs(number)))


def _read_text(text: str) -> Exact:
    if len(text) > MAX_CHARS:
        message = _("a number may have {most:,} characters at most; received {count:,}")
        raise ValueError(message.format(most=MAX_CHARS, count=len(text)))
    bare = "".join(text.split()).replace("−", "-").replace("⁄", "/")
    negative = bare.startswith("-")
    body = bare[1:] if bare[:1] in ("-", "+") else bare
    if body.lower() in ("inf", "infinity", "∞"):
        return Exact("inf", negative)
    if body.lower() == "nan":
        return Exact("nan", negative)
    read = _magnitude(body)
    if read is None:
        raise _wrong(repr(text))
    return read if isinstance(read, Exact) and not negative else Exact(read.kind, negative, read.magnitude)


def _magnitude(body: str) -> Exact | None:
    if not body or (not body.isascii() and "×" not in body and "·" not in body):
        return None
    hexadecimal = _HEX.fullmatch(body)
    if hexadecimal is not None and (hexadecimal[1] or hexadecimal[2]):
        whole, part = hexadecimal[1] or "", hexadecimal[2] or ""
        return _scaled(int(whole + part, 16), 2, _exponent(hexadecimal[3]) - 4 * len(part), MAX_BINARY_EXPONENT)
    if body.count("/") == 1:
        above, below = (_decimal(one) for one in body.split("/"))
        if above is None or below is None:
            return None
        if above.kind != "finite" or below.kind != "finite":
            raise _too_extreme(body)
        if not below.magnitude:
            raise ValueError(_("{text} divides by 0; write inf or nan for those").format(text=_shown(repr(body))))
        return _within(False, above.magnitude / below.magnitude)
    power = _POWER.fullmatch(body)
    if power is not None:
        factor = Exact("finite", False, Fraction(1)) if power[1] is None else _decimal(power[1])
        if factor is None:
            return None
        if factor.kind != "finite":
            raise _too_extreme(body)
        base, limit = int(power[2]), MAX_BINARY_EXPONENT if power[2] == "2" else MAX_DECIMAL_EXPONENT
        scaled = _scaled(factor.magnitude.numerator, base, _exponent(power[3] or power[4]), limit)
        return scaled if scaled.kind != "finite" else _within(False, scaled.magnitude / factor.magnitude.denominator)
    return _decimal(body)


def _decimal(body: str) -> Exact | None:
    match = _DECIMAL.fullmatch(body)
    whole, part = (match[1] or "", match[2] or "") if match is not None else ("", "")
    digits = (whole + part).replace("_", "")
    if match is None or not digits:
        return None
    return _scaled(int(digits), 10, _exponent(match[3] or "0") - len(part.replace("_", "")), MAX_DECIMAL_EXPONENT)


def _exponent(text: str) -> int:
    """An exponent; one with very many digits stands for "beyond everything"."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    size = int(digits) if len(digits) <= 12 else 10**12
    return -size if text.startswith("-") else size


def _scaled(mantissa: int, base: int, exponent: int, limit: int) -> Exact:
    if mantissa == 0:
        return Exact("finite")
    if abs(exponent) > limit + 2 * MAX_CHARS:
        return Exact("huge" if exponent > 0 else "tiny")
    power = base ** abs(exponent)
    return _within(False, Fraction(mantissa * power) if exponent >= 0 else Fraction(mantissa, power))


def _within(negative: bool, magnitude: Fraction) -> Exact:
    """A magnitude that formats can tell apart, or its "huge" or "tiny"."""
    if magnitude:
        order = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if abs(order) > MAX_BINARY_EXPONENT:
            return Exact("huge" if order > 0 else "tiny", negative)
    return Exact("finite", negative, magnitude)


def _shown(received: str) -> str:
    return received if len(received) <= 42 else received[:38] + "…" + received[0]


def _too_extreme(body: str) -> ValueError:
    message = _("a part of {text} lies beyond every format; write the number as one decimal, for example 1e400")
    return ValueError(message.format(text=_shown(repr(body))))


def _wrong(received: str) -> ValueError:
    received = _shown(received)
    message = _("{received} is not a number; write for example 0.1, 1e-8, 1/3, 0x1.8p3, 2^-25, inf or nan")
    return ValueError(message.format(received=received))


def decimal_text(value: Fraction) -> str:
    """Every digit of a number that a decimal ends; of others, and of ones with thousands of digits, the fraction.

    >>> decimal_text(Fraction(1, 8)), decimal_text(Fraction(-448)), decimal_text(Fraction(1, 3))
    ('0.125', '-448', '1/3')
    >>> decimal_text(Fraction(43, 2**32))
    '0.00000001001171767711639404296875'
    """
    exact = _decimal_of(value)
    return fraction_text(value) if exact is None else format(exact, "f")


def scientific_text(value: Fraction, digits: int = 0) -> str:
    """One digit before the point and an exponent: every digit, or that many rounded ones.

    >>> scientific_text(Fraction(43, 2**32)), scientific_text(Fraction(43, 2**32), 4)
    ('1.001171767711639404296875e-8', '1.001e-8')
    >>> scientific_text(Fraction(448)), scientific_text(Fraction(0)), scientific_text(Fraction(1, 3), 4)
    ('4.48e2', '0', '3.333e-1')
    """
    if not value:
        return "0"
    number = _as_float(value)
    if number is not None:  # what formats hold: Python writes it with every digit, or rounded, as exactly and sooner
        head, _e, tail = (f"{number:.{digits - 1}e}" if digits else f"{Decimal(number):e}").partition("e")
        return f"{head.rstrip('0').rstrip('.') if '.' in head else head}e{int(tail)}"
    exact = _digits_of(value) if not digits else None
    if exact is None:
        rounded = Context(digits or 17, Emax=10**6, Emin=-(10**6)).divide(
            Decimal(abs(value.numerator)), Decimal(value.denominator)
        )
        written, power = "".join(map(str, rounded.as_tuple().digits)), rounded.adjusted()
    else:
        written, power = exact[0], len(exact[0]) - 1 - exact[1]
    mantissa = written.rstrip("0")
    point = "." if len(mantissa) > 1 else ""
    return f"{'-' if value < 0 else ''}{mantissa[0]}{point}{mantissa[1:]}e{power}"


def _as_float(value: Fraction) -> float | None:
    """The number as fp64 where it is one."""
    try:
        number = value.numerator / value.denominator
    except OverflowError:
        return None
    return number if number.as_integer_ratio() == (value.numerator, value.denominator) else None


@lru_cache(maxsize=512)  # a chart has 50, the notes of fp64's bits as many
def power_of_two(exponent: int) -> str:
    """A power of two as it is written.

    >>> power_of_two(-24), power_of_two(15)
    ('2⁻²⁴', '2¹⁵')
    """
    return "2" + str(exponent).translate(_SUPERSCRIPT)


def power_of_ten(exponent: int) -> str:
    """A power of ten as it is written.

    >>> power_of_ten(-400)
    '10⁻⁴⁰⁰'
    """
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def fraction_text(value: Fraction) -> str:
    """Numerator and denominator, shortened where they are very long.

    >>> fraction_text(Fraction(-1, 3))
    '-1/3'
    """
    return str(value) if max(abs(value.numerator), value.denominator) < 10**60 else scientific_text(value, 17)


def _decimal_of(value: Fraction) -> Decimal | None:
    """The number as a decimal; None where ``_digits_of`` is."""
    exact = _digits_of(value)
    return None if exact is None else Decimal((int(value < 0), tuple(map(int, exact[0])), -exact[1]))


def _digits_of(value: Fraction) -> tuple[str, int] | None:
    """All digits of its size, and how many of them stand behind the point: n / 2^p = n·5^p / 10^p.

    None where the denominator has another factor, or the digits are too many.
    """
    denominator, fives = value.denominator, 0
    while denominator % 5 == 0 and fives < MAX_PLACES:
        denominator, fives = denominator // 5, fives + 1
    twos = denominator.bit_length() - 1
    places = max(twos, fives)
    if denominator != 1 << twos or places > MAX_PLACES or abs(value.numerator) >= 10**MAX_PLACES:
        return None
    return str(abs(value.numerator) * 10**places // value.denominator), places
