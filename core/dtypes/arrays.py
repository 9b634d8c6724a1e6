"""Rounding whole arrays at once, to nearest and stochastically; the scalar functions are its oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.dtypes.formats import Format, find

Floats = NDArray[np.float64]


def round_array(values: Any, fmt: Format | str, uniform: Any = None) -> Floats:
    """Each value as the nearest number of a format of at most 24 significant bits, in fp64; NaN stays NaN.

    ``uniform`` (numbers from 0 to 1, one for each value) makes it stochastic: a value between two neighbours becomes
    the upper one with the probability of its distance from the lower one, so that the mean error is 0. Overflow
    follows the format's rule. Raises ValueError for integers, fp64 and formats without a zero.

    >>> round_array([0.1, 1e-8, 70000.0], "fp16").tolist()
    [0.0999755859375, 0.0, inf]
    >>> round_array([1.3, 1.3], "e2m1", [0.1, 0.9]).tolist()
    [1.5, 1.0]
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    if fmt.integer or not fmt.subnormals or fmt.mantissa_bits > 23:
        raise ValueError(
            f"arrays are rounded to floating-point formats of up to 24 significant bits; received {fmt.name}"
        )
    x = np.asarray(values, dtype=np.float64)
    exponent = np.maximum(np.frexp(np.where(np.isfinite(x), x, 1.0))[1] - 1, fmt.min_exponent)
    steps = np.ldexp(x, fmt.mantissa_bits - exponent)  # in units of the spacing: exact, a power of two
    if uniform is None:
        whole = np.rint(steps)  # to nearest, ties to even
    else:
        whole = np.floor(steps)
        whole = whole + (np.asarray(uniform) < steps - whole)
    rounded: Floats = np.ldexp(whole, exponent - fmt.mantissa_bits)
    largest = float(fmt.max_value)
    beyond = np.abs(rounded) > largest
    if np.any(beyond):
        top = {"infinity": np.inf, "nan": np.nan, "saturate": largest}[fmt.overflow]
        rounded = np.where(beyond, np.copysign(top, rounded), rounded)
    return rounded
