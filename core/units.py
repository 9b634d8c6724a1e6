"""Quantities as text: three significant digits, always with a unit.

GB is 1e9 bytes and GiB is 2**30 bytes; both are always labelled.
"""

from __future__ import annotations

import math

_SI = ((1e24, "Y"), (1e21, "Z"), (1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2**60, "EiB"), (2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value: float, digits: int = 3) -> str:
    """A number with that many significant digits, without an exponent between 1e-4 and 1e6.

    >>> significant(143.927), significant(0.04567), significant(33554432), significant(0)
    ('144', '0.0457', '3.36 × 10⁷', '0')
    """
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    sign = "−" if value < 0 else ""
    mantissa_text, exponent_text = f"{abs(value):.{digits - 1}e}".split("e")
    exponent = int(exponent_text)
    if exponent >= 6 or exponent < -4:
        return f"{sign}{mantissa_text} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    decimals = max(0, digits - 1 - exponent)
    return f"{sign}{float(f'{abs(value):.{digits - 1}e}'):,.{decimals}f}"


def si(value: float, unit: str) -> str:
    """A value with an SI prefix.

    >>> si(9.895e14, "FLOP/s"), si(33554432, "FLOP"), si(64, "FLOP")
    ('990 TFLOP/s', '33.6 MFLOP', '64 FLOP')
    """
    if math.isfinite(value):
        for scale, prefix in _SI:
            # Compare after rounding, so that 999.9e9 becomes 1.00 T and not 1,000 G.
            if float(f"{abs(value):.2e}") >= scale:
                return f"{significant(value / scale)} {prefix}{unit}"
    text = f"{value:g}" if float(value).is_integer() and abs(value) < 1000 else significant(value)
    return f"{text} {unit}"


def si_bytes(value: float) -> str:
    """Bytes in decimal units (kB, MB, GB).

    >>> si_bytes(2415919104), si_bytes(128)
    ('2.42 GB', '128 B')
    """
    return si(value, "B")


def binary_bytes(value: float) -> str:
    """Bytes in binary units (KiB, MiB, GiB).

    >>> binary_bytes(2415919104), binary_bytes(128)
    ('2.25 GiB', '128 B')
    """
    for scale, unit in _BINARY:
        if abs(value) >= scale:
            return f"{significant(value / scale)} {unit}"
    return f"{value:g} B"


def seconds(value: float) -> str:
    """A duration, from nanoseconds to years.

    >>> seconds(0.000351), seconds(12.5), seconds(600), seconds(143.927 * 86400), seconds(4e8)
    ('351 µs', '12.5 s', '10.0 min', '144 days', '12.7 years')
    """
    size = abs(value)
    if size >= 365.25 * 86400:
        return f"{significant(value / (365.25 * 86400))} years"
    for limit, scale, unit in ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "h"), (120, 60, "min")):
        if size >= limit:
            return f"{significant(value / scale)} {unit}"
    for unit_seconds, unit in _SECONDS:
        if size >= unit_seconds or unit == "ns":
            return f"{significant(value / unit_seconds)} {unit}"
    raise AssertionError("unreachable")


def factor(ratio: float) -> str:
    """A ratio as a factor.

    >>> factor(3.1), factor(0.25)
    ('3.10×', '0.250×')
    """
    return f"{significant(ratio)}×"


def quantity(value: float, unit: str) -> str:
    """A value in the form that its unit asks for.

    >>> quantity(0.000351, "s"), quantity(2**30, "B"), quantity(3.3e7, "FLOP"), quantity(0.457, "")
    ('351 µs', '1.07 GB', '33.0 MFLOP', '0.457')
    """
    if unit == "s":
        return seconds(value)
    if unit == "B":
        return si_bytes(value)
    if unit in ("FLOP", "FLOP/s", "B/s"):
        return si(value, unit)
    return f"{significant(value)} {unit}".rstrip()
