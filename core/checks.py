"""Checks of what a user can type wrong: a ValueError with the value received and what would be right."""

from __future__ import annotations

import math
import numbers
import sys

from core.words import _


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """The value as an int, if it is a whole number within the bounds.

    Raises ValueError otherwise, also for bools, NaN, infinities, fractions and text.

    >>> whole_number("B", 1024.0, 1, 65536)
    1024
    >>> whole_number("B", 0, 1, 65536)
    Traceback (most recent call last):
    ValueError: B must be a whole number from 1 to 65,536; received 0
    """
    if type(value) is int and low <= value <= high:  # nearly always
        return value
    number = _finite_number(value)
    if number is None or number != int(number) or not low <= number <= high:
        message = _("{name} must be a whole number from {low:,} to {high:,}; received {value}")
        raise ValueError(message.format(name=name, low=low, high=high, value=_short(value)))
    return int(number)


def positive_number(name: str, value: object, high: float = math.inf) -> float:
    """The value as a float, if it is a finite number above zero and not above the bound.

    >>> positive_number("MFU", 0.5)
    0.5
    >>> positive_number("MFU", -1)
    Traceback (most recent call last):
    ValueError: MFU must be a number above 0; received -1
    """
    if type(value) is float and 0 < value <= high and value != math.inf:  # nearly always
        return value
    number = _finite_number(value)
    if number is None or not 0 < number <= min(high, sys.float_info.max):
        limit = "" if math.isinf(high) else _(" and at most {high:,g}").format(high=high)
        message = _("{name} must be a number above 0{limit}; received {value}")
        raise ValueError(message.format(name=name, limit=limit, value=_short(value)))
    return float(number)


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """The value, if it is one of those allowed.

    >>> one_of("dtype", "fp32", ("fp32", "bf16"))
    'fp32'
    """
    if not isinstance(value, str) or value not in allowed:
        message = _("{name} must be one of {allowed}; received {value}")
        raise ValueError(message.format(name=name, allowed=", ".join(allowed), value=_short(value)))
    return value


def _finite_number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)  # of any size: it may be too large for a float
    number = float(value)
    return number if math.isfinite(number) else None


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**40:  # Python refuses to write out thousands of digits
        return _("a whole number of about {digits:,} digits").format(digits=int(value.bit_length() * math.log10(2)) + 1)
    text = str(value) if isinstance(value, (int, float)) else repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
