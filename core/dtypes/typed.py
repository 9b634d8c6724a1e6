"""A line that a person types, as a number and its code in a format: decimal, fraction, hexadecimal, or the bits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from core.dtypes.codec import Decoded, decode, encode, spacing
from core.dtypes.exact import MAX_CHARS, Exact, decimal_text, power_of_two, read, scientific_text
from core.dtypes.formats import Format, find
from core.words import _

_BITS = re.compile(r"0[bB]([_ ]*[01][01_ ]*)")
EXACT_CHARS = 24
_HEX = re.compile(r"0[xX]([_ ]*[0-9a-fA-F][0-9a-fA-F_ ]*)")


@dataclass(frozen=True)
class Typed:
    """What was typed: the number exactly, and what it is in the format (None: the format has no code for it).

    ``is_code`` says that the bits themselves were typed; then the number is what they mean.
    """

    text: str
    exact: Exact
    decoded: Decoded | None
    is_code: bool


def typed(text: str, fmt: Format | str) -> Typed:
    """Read a line: "0b1010" and "0x2e66" are the bits of a code, everything else is a number (see ``read``).

    Missing bits are leading zeros. Raises ValueError for what is neither, and for more bits than the format has.

    >>> typed("0.1", "fp16").decoded.bits, float(typed("0x2e66", "fp16").exact), typed("0x1.8p3", "fp16").exact.value
    ('0010111001100110', 0.0999755859375, Fraction(12, 1))
    >>> typed("0b11111", "e2m1")
    Traceback (most recent call last):
    ValueError: fp4 e2m1 has 4 bits; received 5
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    bits, digits = _BITS.fullmatch(text.strip()[:MAX_CHARS]), _HEX.fullmatch(text.strip()[:MAX_CHARS])
    if bits is None and digits is None:
        exact = read(text)
        known = exact.kind != "nan" or fmt.nan_code is not None
        return Typed(text, exact, decode(encode(exact, fmt), fmt) if known else None, False)
    match, base = (bits, 2) if bits is not None else (digits, 16)
    assert match is not None
    body = re.sub("[_ ]", "", match[1])
    code = int(body, base) if body else 0
    width = max(code.bit_length(), len(body) if base == 2 else 0)
    if width > fmt.bits:
        raise ValueError(
            _("{name} has {bits} bits; received {width}").format(name=fmt.label, bits=fmt.bits, width=width)
        )
    decoded = decode(code, fmt)
    return Typed(text, exact_of(decoded), decoded, True)


def exact_of(one: Decoded) -> Exact:
    """What a code means, as a number of its own.

    >>> exact_of(decode(0x8000, "fp16"))
    Exact(kind='finite', negative=True, magnitude=Fraction(0, 1))
    """
    if one.value is None:
        return Exact(one.kind, bool(one.sign))
    return Exact("finite", bool(one.sign), abs(one.value))


def exact_text(one: Decoded) -> str:
    """The number itself where a decimal of a field's width says it, else ``shortest_text``.

    >>> [exact_text(decode(code, "fp16")) for code in (0x2E67, 1, 0x8000, 0x7C00)]
    ['0.10003662109375', '5.9604644775390625e-8', '-0', 'inf']
    >>> exact_text(decode(0x3FB999999999999A, "fp64"))
    '0.1'
    """
    if one.value:
        texts = [decimal_text(one.value), scientific_text(one.value)]
        if not Fraction(1, 10000) <= abs(one.value) < 10**7:
            texts.reverse()
        for text in texts:
            if len(text) <= EXACT_CHARS and "/" not in text:
                return text
    return shortest_text(one)


def shortest_text(one: Decoded) -> str:
    """The shortest text that ``typed`` reads as that very code: a decimal where one will do, else the bits.

    >>> [shortest_text(decode(code, "fp16")) for code in (0x2E66, 1, 0x8000, 0x7C00, 0x7E01)]
    ['0.1', '6e-08', '-0', 'inf', '0b0111111000000001']
    """
    if one.kind == "nan":
        return f"0b{one.bits}"
    sign = "-" if one.sign else ""
    if one.kind == "inf":
        return f"{sign}inf"
    assert one.value is not None
    if not one.value:
        return f"{sign}0"
    gap, wide = spacing(one.value, one.fmt) or Fraction(0), one.fmt.bits > 53
    float_gap, here = float(gap), float(one)
    for digits in range(1, 18):
        text = _rounded(one.value, digits)
        # Further off than half the gap it is another number, or one beyond the largest that saturates.
        near = abs((read(text).value or 0) - one.value) < gap if wide else abs(float(text) - here) < 0.75 * float_gap
        if near and encode(text, one.fmt) == one.code:
            return text
    return scientific_text(one.value)


def _rounded(value: Fraction, digits: int) -> str:
    text = scientific_text(value, digits)
    mantissa, _e, power = text.partition("e")
    exponent = int(power or "0")
    if not -4 <= exponent < 16:
        return f"{mantissa}e{exponent:+03d}"
    return f"{float(text):.17g}" if float(text).is_integer() else repr(float(text))


def power_text(value: Fraction) -> str:
    """A power of two as one, other numbers with six significant digits.

    >>> power_text(Fraction(1, 1024)), power_text(Fraction(3, 2)), power_text(Fraction(1, 8)), power_text(Fraction(-4))
    ('2⁻¹⁰', '1.5', '0.125', '-4')
    """
    above, below = value.numerator, value.denominator
    if above > 0 and above & (above - 1) == 0 and below & (below - 1) == 0:
        power = above.bit_length() - below.bit_length()
        return power_of_two(power) if abs(power) > 3 else f"{float(value):g}"
    return f"{float(value):.6g}"
