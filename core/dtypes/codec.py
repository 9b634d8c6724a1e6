"""Codes to numbers and numbers to codes, exactly: rational arithmetic, round to nearest, ties to even."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from core.checks import one_of, whole_number
from core.dtypes.exact import read
from core.dtypes.formats import OVERFLOWS, Format, find, two_to
from core.words import _


@dataclass(frozen=True)
class Decoded:
    """A code of a format, taken apart.

    ``kind`` is "zero", "subnormal", "normal", "inf" or "nan". ``sign`` is the sign bit; ``exponent_field`` and
    ``mantissa`` are the bits as whole numbers. A finite number is (-1)^sign · 2^``exponent`` · ``significand``; for
    infinities and NaNs ``exponent`` and ``significand`` are 0. For an integer the exponent is 0.
    """

    code: int
    fmt: Format
    kind: str
    sign: int
    exponent_field: int
    mantissa: int
    exponent: int
    significand: Fraction

    @cached_property
    def value(self) -> Fraction | None:
        """The number exactly; None for infinities and NaNs (-0 is 0: its sign is in ``sign``)."""
        if self.kind in ("inf", "nan"):
            return None
        size = self.significand * two_to(self.exponent)
        return -size if self.sign else size

    def __float__(self) -> float:
        if self.value is None:
            return math.nan if self.kind == "nan" else math.copysign(math.inf, -self.sign)
        if not self.value:
            return -0.0 if self.sign else 0.0
        return float(self.value)  # exact: no format here has a number that fp64 has not, but for long integers

    @property
    def bits(self) -> str:
        """The code in binary, with leading zeros."""
        return f"{self.code:0{self.fmt.bits}b}"

    @property
    def fields(self) -> tuple[str, str, str]:
        """The bits of the sign, the exponent and the mantissa.

        >>> decode(0x3C00, "fp16").fields
        ('0', '01111', '0000000000')
        """
        signs, split = int(self.fmt.signed), int(self.fmt.signed) + self.fmt.exponent_bits
        return self.bits[:signs], self.bits[signs:split], self.bits[split:]


def decode(code: int, fmt: Format | str) -> Decoded:
    """What a code means.

    Raises ValueError for a code that is no whole number of the format's width. Source: IEEE 754-2019 §3.4, OCP FP8 and
    MX specifications (see ``formats``).

    >>> one = decode(0b0_01111_1000000000, "fp16")
    >>> one.kind, one.exponent, one.significand, one.value
    ('normal', 0, Fraction(3, 2), Fraction(3, 2))
    >>> decode(1, "fp16").value == Fraction(1, 2**24), decode(0x7E, "e4m3fn").value, decode(0x7F, "e4m3fn").kind
    (True, Fraction(448, 1), 'nan')
    >>> [float(decode(code, "e2m1")) for code in range(8)]
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    if type(code) is not int or not 0 <= code < 1 << fmt.bits:
        code = whole_number(_("a code of {name}").format(name=fmt.name), code, 0, (1 << fmt.bits) - 1)
    return _decoded(code, fmt)


@lru_cache(maxsize=2048)
def _decoded(code: int, fmt: Format) -> Decoded:
    sign = int(bool(code & fmt.sign_mask))
    if fmt.integer:
        size = abs(code - (sign << fmt.bits)) if fmt.signed else code
        return Decoded(code, fmt, "normal" if code else "zero", sign, 0, code & ~fmt.sign_mask, 0, Fraction(size))
    magnitude = code & ~fmt.sign_mask
    field, mantissa = magnitude >> fmt.mantissa_bits, magnitude & ((1 << fmt.mantissa_bits) - 1)
    if magnitude > fmt.max_code:
        kind = "inf" if magnitude == fmt.infinity_code else "nan"
        return Decoded(code, fmt, kind, sign, field, mantissa, 0, Fraction(0))
    if fmt.specials == "fnuz" and code == fmt.nan_code:
        return Decoded(code, fmt, "nan", sign, field, mantissa, 0, Fraction(0))
    if field == 0 and fmt.subnormals:
        kind, hidden = ("subnormal" if mantissa else "zero"), 0
    else:
        kind, hidden = "normal", 1 << fmt.mantissa_bits
    exponent = max(field - fmt.bias, fmt.min_exponent)
    return Decoded(
        code, fmt, kind, sign, field, mantissa, exponent, Fraction(hidden + mantissa, 1 << fmt.mantissa_bits)
    )


def encode(value: object, fmt: Format | str, overflow: str | None = None) -> int:
    """The code of the number of a format that is nearest to a value; of two equally near, the one with an even code.

    ``value`` is an int, a float, a Fraction or text (see ``read``). Beyond the largest number the format's overflow
    rule holds, or ``overflow``: "infinity", "nan" or "saturate". Floats round to nearest even, integers toward zero, as
    a cast in C, numpy and torch does. A format without infinities takes them as an overflow; in one without a sign
    negative numbers are NaN, and in one without a zero 0 is its smallest number.
    Raises ValueError for NaN in a format that has none.

    >>> encode(1, "fp16"), encode("1e-8", "fp16"), encode(1.5, "e2m1"), encode("-0", "bf16")
    (15360, 0, 3, 32768)
    >>> decode(encode("1e-8", "bf16"), "bf16").value == Fraction(43, 2**32)
    True
    >>> hex(encode(1000, "e4m3fn")), hex(encode(1000, "e4m3fn", "nan")), hex(encode(1000, "e5m2"))
    ('0x7e', '0x7f', '0x64')
    >>> encode("1e999999999", "fp32") == encode("inf", "fp32")
    True
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    if overflow is not None and overflow != fmt.overflow:
        fmt = fmt.overflowing(one_of("overflow", overflow, OVERFLOWS))
    if type(value) is float and math.isfinite(value):  # the fast way: no Fraction is made
        above, below = value.as_integer_ratio()
        negative = above < 0 or (above == 0 and math.copysign(1.0, value) < 0)
        return encode_ratio(abs(above), below, fmt, negative)
    exact = read(value)
    if exact.kind == "finite":
        return encode_ratio(exact.magnitude.numerator, exact.magnitude.denominator, fmt, exact.negative)
    if exact.kind == "tiny":
        return encode_ratio(1, 1 << 8000, fmt, exact.negative)
    if exact.kind == "nan":
        return _nan(fmt)
    if exact.kind == "inf" and fmt.infinity_code is not None:
        return fmt.infinity_code | (fmt.sign_mask if exact.negative else 0)
    return _overflowed(exact.negative, fmt)


def encode_ratio(above: int, below: int, fmt: Format, negative: bool = False) -> int:
    """The code of above/below (two whole numbers, 0 or more, and above 0), or of minus that: ``encode``'s fast way.

    >>> encode_ratio(1, 10, find("fp16")) == encode("0.1", "fp16")
    True
    """
    if fmt.integer:
        return _to_integer(above // below, negative, fmt)
    if negative and above and not fmt.signed:
        return _nan(fmt)
    magnitude = _nearest(above, below, fmt) if above else 0
    if magnitude > fmt.max_code:
        return _overflowed(negative, fmt)
    if negative and (magnitude or fmt.specials != "fnuz"):  # no -0 there: its code is NaN
        return magnitude | fmt.sign_mask
    return magnitude


def _nearest(above: int, below: int, fmt: Format) -> int:
    """The code, without a sign, of the nearest number if the exponent had no end.

    The spacing is 2^(exponent - mantissa bits), and consecutive numbers have consecutive codes: so a significand that
    rounds up to 2 needs no care, it is the next code.
    """
    exponent = above.bit_length() - below.bit_length()
    if (above << -exponent if exponent < 0 else above) < (below << exponent if exponent > 0 else below):
        exponent -= 1
    exponent = max(exponent, fmt.min_exponent)
    spacing = exponent - fmt.mantissa_bits
    if spacing < 0:
        above <<= -spacing
    else:
        below <<= spacing
    count, rest = divmod(above, below)
    twice = 2 * rest
    if fmt.subnormals:
        code = ((exponent - fmt.min_exponent) << fmt.mantissa_bits) + count
        return code + (twice > below or (twice == below and code & 1))
    # Field 0 is a normal number: the hidden bit counts as no field of its own, and nothing lies below the smallest.
    code = ((exponent - fmt.min_exponent) << fmt.mantissa_bits) + count - (1 << fmt.mantissa_bits)
    tie_up = count & 1
    return max(0, code + (twice > below or (twice == below and tie_up)))


def _to_integer(size: int, negative: bool, fmt: Format) -> int:
    low, high = (-(1 << (fmt.bits - 1)) if fmt.signed else 0), fmt.max_code
    clipped = min(max(-size if negative else size, low), high)
    return clipped & ((1 << fmt.bits) - 1)


def _overflowed(negative: bool, fmt: Format) -> int:
    if negative and not fmt.signed:
        return 0 if fmt.integer else _nan(fmt)
    if fmt.integer:
        return _to_integer(1 << fmt.bits, negative, fmt)
    if fmt.overflow == "nan":
        return _nan(fmt) | (fmt.sign_mask if negative else 0)
    code = fmt.infinity_code if fmt.overflow == "infinity" else fmt.max_code
    assert code is not None
    return code | (fmt.sign_mask if negative else 0)


def _nan(fmt: Format) -> int:
    if fmt.nan_code is None:
        raise ValueError(_("{name} has no NaN: every code is a number").format(name=fmt.name))
    return fmt.nan_code


def round_to(value: object, fmt: Format | str, overflow: str | None = None) -> Decoded:
    """The number of the format that is nearest to a value: ``decode(encode(value, fmt), fmt)``.

    >>> float(round_to(0.1, "bf16")), float(round_to("65520", "fp16")), float(round_to(1e-8, "fp16"))
    (0.10009765625, inf, 0.0)
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    return decode(encode(value, fmt, overflow), fmt)


def spacing(value: object, fmt: Format | str) -> Fraction | None:
    """The gap between the format's numbers at a value: one unit in the last place (ULP).

    At a power of two it is the gap above it. Beyond the largest number it is the last gap. None for infinities and
    NaNs.

    >>> spacing(1, "fp16"), spacing(2048, "fp16"), spacing(0, "fp16") == Fraction(1, 2**24), spacing(300, "int16")
    (Fraction(1, 1024), Fraction(2, 1), True, Fraction(1, 1))
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    exact = read(value)
    if exact.kind in ("inf", "nan"):
        return None
    if fmt.integer:
        return Fraction(1)
    largest = fmt.max_exponent
    if exact.kind == "huge":
        exponent = largest
    elif exact.kind == "tiny" or not exact.magnitude:
        exponent = fmt.min_exponent
    else:
        exponent = min(max(exact.order, fmt.min_exponent), largest)
    return two_to(exponent - fmt.mantissa_bits)


def neighbour(code: int, fmt: Format | str, step: int) -> int | None:
    """The code of the next number up (``step`` +1) or down (-1), infinities included; None past the ends and at NaN.

    From the smallest positive number it goes down to 0, and from there to the smallest negative one: -0 is passed over.

    >>> decode(neighbour(encode(1, "fp16"), "fp16", +1), "fp16").value
    Fraction(1025, 1024)
    >>> neighbour(0, "fp16", -1) == encode("-2^-24", "fp16"), neighbour(encode("inf", "fp16"), "fp16", +1)
    (True, None)
    >>> neighbour(0x7E, "e4m3fn", +1) is None
    True
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    step = whole_number("step", step, -1, 1)
    here = decode(code, fmt)
    if here.kind == "nan" or not step:
        return None
    if fmt.integer:
        moved = code - (here.sign << fmt.bits if fmt.signed else 0) + step
        low, high = (-(1 << (fmt.bits - 1)) if fmt.signed else 0), fmt.max_code
        return moved & ((1 << fmt.bits) - 1) if low <= moved <= high else None
    top = fmt.max_code if fmt.infinity_code is None else fmt.infinity_code
    size = code & ~fmt.sign_mask
    moved = (-size if here.sign else size) + step
    if not -(top if fmt.signed else 0) <= moved <= top:
        return None
    return moved if moved >= 0 else fmt.sign_mask | -moved


def flip(code: int, fmt: Format | str, position: int) -> int:
    """The code with one bit turned over; position 0 is the leftmost.

    >>> bin(flip(0, "e2m1", 0)), bin(flip(0b1000, "e2m1", 0))
    ('0b1000', '0b0')
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    position = whole_number(_("the position of a bit"), position, 0, fmt.bits - 1)
    return decode(code, fmt).code ^ (1 << (fmt.bits - 1 - position))
