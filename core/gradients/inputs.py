"""What a user may type for ½(x·w − y)²: checked once, refused in words."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

from core.words import _

MAX_LENGTH = 6  # entries that still fit a drawn node
MAX_MAGNITUDE = 1e6  # so that no value or gradient of the loss overflows fp32

Vector = tuple[float, ...]


def check_quadratic(x: Iterable[float], w: Iterable[float], target: float) -> tuple[Vector, Vector, float]:
    """x and w as tuples of floats of one length from 1 to 6, and the target y as a float.

    Raises ValueError for anything else: no entries, too many, two lengths, an entry that is not a finite number of
    magnitude at most a million.

    >>> check_quadratic([1, 2, 3], [1, 1, 1], 5)
    ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0)
    >>> check_quadratic([1, 2, 3], [1, 1], 5)
    Traceback (most recent call last):
    ValueError: x and w must have as many entries as each other; x has 3 and w has 2
    """
    x_N, w_N = check_vector("x", x), check_vector("w", w)
    if len(x_N) != len(w_N):
        message = _("x and w must have as many entries as each other; x has {x} and w has {w}")
        raise ValueError(message.format(x=len(x_N), w=len(w_N)))
    return x_N, w_N, check_number("y", target)


def check_vector(name: str, values: Iterable[float]) -> Vector:
    """The entries as floats.

    >>> check_vector("x", [])
    Traceback (most recent call last):
    ValueError: x must have from 1 to 6 numbers, for example 1, 2, 3; received none
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        message = _("{name} must be a list of numbers, for example 1, 2, 3; received {value}")
        raise ValueError(message.format(name=name, value=_short(values)))
    entries = tuple(values)
    if not 1 <= len(entries) <= MAX_LENGTH:
        message = _("{name} must have from 1 to {most} numbers, for example 1, 2, 3; received {count}")
        raise ValueError(message.format(name=name, most=MAX_LENGTH, count=len(entries) or _("none")))
    return tuple(check_number(f"{name}[{index}]", entry) for index, entry in enumerate(entries))


def check_number(name: str, value: object) -> float:
    """The value as a float, of either sign.

    >>> check_number("y", float("nan"))
    Traceback (most recent call last):
    ValueError: y must be a number from −1,000,000 to 1,000,000; received nan
    """
    number = _as_float(value)
    if number is not None and abs(number) <= MAX_MAGNITUDE:
        return number
    message = _("{name} must be a number from −{most:,.0f} to {most:,.0f}; received {value}")
    raise ValueError(message.format(name=name, most=MAX_MAGNITUDE, value=_short(value)))


def _as_float(value: Any) -> float | None:
    """The number; None for what is none, is not finite, or is too large for a float."""
    if type(value) is float and math.isfinite(value):  # nearly always
        return value + 0.0  # no negative zero
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value) + 0.0
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
