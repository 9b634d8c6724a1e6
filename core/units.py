"""Quantities as text: three significant digits, always with a unit.

GB is 1e9 bytes and GiB is 2**30 bytes; both are always labelled.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

_SI = ((1e24, "Y"), (1e21, "Z"), (1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2**60, "EiB"), (2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@lru_cache(maxsize=4096)  # a table says the same errors in several places
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
    rounded = f"{abs(value):.{digits - 1}e}"
    mantissa_text, exponent_text = rounded.split("e")
    exponent = int(exponent_text)
    if exponent >= 6 or exponent < -4:
        return f"{sign}{mantissa_text} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    decimals = max(0, digits - 1 - exponent)
    return f"{sign}{float(rounded):,.{decimals}f}"


def si(value: float, unit: str) -> str:
    """A value with an SI prefix.

    >>> si(9.895e14, "FLOP/s"), si(33554432, "FLOP"), si(64, "FLOP")
    ('990 TFLOP/s', '33.6 MFLOP', '64 FLOP')
    """
    if math.isfinite(value):
        rounded = float(f"{abs(value):.2e}")  # so that 999.9e9 becomes 1.00 T and not 1,000 G
        for scale, prefix in _SI:
            if rounded >= scale:
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


_COUNT_LETTERS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_PREFIXES = {
    "Y": 1e24, "Z": 1e21, "E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "K": 1e3,
    "": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9,
}  # fmt: skip
_TIME_UNITS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0,
    "d": 86400.0, "day": 86400.0, "week": 604800.0, "year": 365.25 * 86400,
}  # fmt: skip
_BINARY_UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_EXAMPLES = {"s": "400 µs", "B": "2.4 GB", "FLOP": "33 MFLOP", "FLOP/s": "60 GFLOP/s", "parameters": "40 B"}
_EXPONENT = r"(?:[eE]([-+−]?[0-9]{1,3})|\s*[x×*]\s*10\s*\^?\s*([-+−]?[0-9]{1,3}))?"
_NUMBER = re.compile(r"([-+−]?[0-9][0-9,_ ]*(?:\.[0-9]*)?|[-+−]?\.[0-9]+)" + _EXPONENT)


def parse_quantity(text: str, unit: str) -> float:
    """A number that a person typed, in the unit wanted: with or without a unit and a prefix of its own.

    Raises ValueError, with what was received and what would be right, for anything else.

    >>> parse_quantity("400 µs", "s"), parse_quantity("3e-4", "s"), parse_quantity("2 weeks", "s")
    (0.0004, 0.0003, 1209600.0)
    >>> parse_quantity("6.3 x 10^24", "FLOP"), parse_quantity("33.5 MFLOPs", "FLOP"), parse_quantity("2.25 GiB", "B")
    (6.3e+24, 33500000.0, 2415919104.0)
    """
    example = _EXAMPLES.get(unit, "3.5")
    wrong = ValueError(f"{text[:40]!r} is not a quantity in {unit or 'plain numbers'}; write for example {example}")
    match = _NUMBER.match(text.strip())
    if len(text) > 60 or match is None:
        raise wrong
    mantissa = re.sub("[,_ ]", "", match[1]).replace("−", "-")
    exponent = (match[2] or match[3] or "0").replace("−", "-")
    suffix = text.strip()[match.end() :].strip().rstrip(".")
    scale = _unit_scale(suffix, unit) if suffix else 1.0
    if scale is None:
        raise wrong
    value = float(Decimal(f"{mantissa}e{exponent}") * Decimal(repr(scale)))  # in decimal: 400 µs is 0.0004 exactly
    if not math.isfinite(value):
        raise wrong
    return value


def _unit_scale(suffix: str, unit: str) -> float | None:
    """What one of the typed unit is in the wanted unit; None where it is another kind of quantity."""
    singular = (
        suffix.replace("s/s", "/s") if suffix.endswith("/s") else suffix if suffix == "s" else suffix.removesuffix("s")
    )
    if unit == "s" and (singular or "s") in _TIME_UNITS:
        return _TIME_UNITS[singular or "s"]
    if unit in ("parameters", "tokens", "GPU-hours"):
        return _COUNT_LETTERS.get(suffix.removesuffix(unit).strip(), 1.0 if suffix == unit else None)
    if unit == "B" and singular in _BINARY_UNITS:
        return _BINARY_UNITS[singular]
    for spelled in {unit, unit.lower(), unit.replace("B", "byte") if unit == "B" else unit}:
        for candidate in (suffix, singular):
            if candidate.endswith(spelled) and candidate.removesuffix(spelled) in _PREFIXES:
                return _PREFIXES[candidate.removesuffix(spelled)]
    return _PREFIXES.get(suffix) if suffix in ("Y", "Z", "E", "P", "T", "G", "M", "k", "K") and unit != "s" else None


def factor(ratio: float) -> str:
    """A ratio as a factor.

    >>> factor(3.1), factor(0.25)
    ('3.10×', '0.250×')
    """
    return f"{significant(ratio)}×"


def count(value: float) -> str:
    """A number of things, with the letters that the field uses: K, M, B (1e9), T (1e12).

    >>> count(70e9), count(15e12), count(124e6), count(12)
    ('70.0 B', '15.0 T', '124 M', '12')
    """
    for scale, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if float(f"{abs(value):.2e}") >= scale:
            return f"{significant(value / scale)} {letter}"
    return f"{value:g}" if float(value).is_integer() else significant(value)


def quantity(value: float, unit: str) -> str:
    """A value in the form that its unit asks for.

    >>> quantity(0.000351, "s"), quantity(2**30, "B"), quantity(3.3e7, "FLOP"), quantity(0.457, "")
    ('351 µs', '1.07 GB', '33.0 MFLOP', '0.457')
    """
    if unit == "s":
        return seconds(value)
    if unit == "B":
        return si_bytes(value)
    if unit in ("parameters", "tokens", "GPU-hours"):
        return f"{count(value)} {unit}"
    if unit == "$":
        if abs(value) >= 100:
            return f"{float(f'{value:.2e}'):,.0f} $"
        return f"{value:.2f} $" if abs(value) >= 1 else f"{significant(value)} $"
    if unit in ("FLOP", "FLOP/s", "B/s", "Wh"):
        return si(value, unit)
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e6 else significant(value)
    return f"{text} {unit}".rstrip()
