"""What every page says: a Prediction, a Measurement, and the Comparison that names their difference."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from core import units


@dataclass(frozen=True)
class Term:
    """One named number inside a prediction, or one named part of a difference.

    ``value`` is in the unit of the claim that holds it, unless ``unit`` says otherwise. ``note`` says where it
    comes from, in one sentence.
    """

    name: str
    value: float
    note: str = ""
    unit: str | None = None


@dataclass(frozen=True)
class Prediction:
    """A number computed on a napkin.

    ``formula`` is the formula with the numbers put in. ``value`` is None where something it needs is unknown, and
    ``unknown`` then says what.

    >>> Prediction("time", 33554432 / 60e9, "s", "33,554,432 FLOP / 60.0 GFLOP/s").text
    '559 µs'
    """

    quantity: str
    value: float | None
    unit: str
    formula: str
    terms: tuple[Term, ...] = ()
    source: str = ""
    unknown: str = ""

    def __post_init__(self) -> None:
        assert (self.value is None) == bool(self.unknown), "say what is unknown exactly when the value is None"

    @property
    def text(self) -> str:
        """The value with three significant digits and its unit; "unknown" where it is None."""
        return "unknown" if self.value is None else units.quantity(self.value, self.unit)


@dataclass(frozen=True)
class Conditions:
    """What a measurement was made under; without them it means nothing.

    ``device`` is torch's name ("cpu", "cuda:0"), ``device_name`` the hardware's. ``busy_fraction`` is the share of
    the processor time that the measurement asked for and did not get (0 when it had its cores to itself), None
    where that cannot be told.
    """

    device: str
    device_name: str
    dtype: str
    threads: int
    warmup: int
    trials: int
    calls_per_trial: int = 1
    window_seconds: float = 0.0
    torch_version: str = ""
    busy_fraction: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The conditions on one line."""
        calls = f" of {self.calls_per_trial} calls" if self.calls_per_trial > 1 else ""
        threads = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        parts = [self.device_name, self.dtype]
        if self.device.startswith("cpu"):
            parts.append(threads)
        if self.window_seconds or self.trials > 1:  # a count is not timed
            parts.append(f"{self.warmup} warm-up call{'s' if self.warmup != 1 else ''}")
            parts.append(f"{self.trials:,} trial{'s' if self.trials != 1 else ''}{calls}")
        if self.window_seconds:
            parts.append(f"over {units.seconds(self.window_seconds)}")
        if self.torch_version:
            parts.append(f"torch {self.torch_version}")
        return " · ".join(one for one in (*parts, *self.notes) if one)


@dataclass(frozen=True)
class Measurement:
    """A number that was measured: every sample, its spread, and its conditions.

    ``value`` is the median unless ``statistic`` says "mean" (the lecture's own method) or "minimum".

    >>> conditions = Conditions("cpu", "a processor", "fp32", threads=2, warmup=3, trials=5)
    >>> m = Measurement("time", (3.0, 1.0, 2.0, 5.0, 4.0), "s", conditions)
    >>> m.value, m.minimum, m.quartiles
    (3.0, 1.0, (2.0, 4.0))
    """

    quantity: str
    samples: tuple[float, ...]
    unit: str
    conditions: Conditions
    statistic: str = "median"

    def __post_init__(self) -> None:
        assert self.samples, "a measurement has at least one sample"
        assert self.statistic in ("median", "mean", "minimum"), self.statistic

    @functools.cached_property
    def value(self) -> float:
        """The headline: the statistic of the samples."""
        if self.statistic == "mean":
            return statistics.fmean(self.samples)
        return self.minimum if self.statistic == "minimum" else self.median

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def maximum(self) -> float:
        return max(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile."""
        if len(self.samples) == 1:
            return self.samples[0], self.samples[0]
        first, _, third = statistics.quantiles(self.samples, n=4, method="inclusive")
        return first, third

    @property
    def interquartile_range(self) -> float:
        first, third = self.quartiles
        return third - first

    @property
    def text(self) -> str:
        return units.quantity(self.value, self.unit)


@dataclass(frozen=True)
class Comparison:
    """A prediction beside a measurement of the same quantity.

    ``parts`` are the named parts of the difference, in the claims' unit; what they leave over is ``unexplained``
    and is never hidden. Where the prediction is unknown there is no ratio and no difference.

    >>> p = Prediction("time", 2.0, "s", "2")
    >>> m = Measurement("time", (5.0,), "s", Conditions("cpu", "a processor", "fp32", 1, 0, 1))
    >>> c = Comparison(p, m, (Term("call overhead", 1.0), Term("memory traffic", 1.5)))
    >>> c.ratio, c.difference, c.unexplained
    (2.5, 3.0, 0.5)
    """

    prediction: Prediction
    measurement: Measurement
    parts: tuple[Term, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        assert self.prediction.unit == self.measurement.unit, (self.prediction.unit, self.measurement.unit)
        assert self.prediction.quantity == self.measurement.quantity

    @functools.cached_property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return None if not self.prediction.value else self.measurement.value / self.prediction.value

    @functools.cached_property
    def difference(self) -> float | None:
        """Measured minus predicted, in the claims' unit."""
        return None if self.prediction.value is None else self.measurement.value - self.prediction.value

    @functools.cached_property
    def unexplained(self) -> float | None:
        """What the named parts leave over; negative where they say too much."""
        return None if self.difference is None else self.difference - math.fsum(part.value for part in self.parts)


def how_far_off(guess: float, truth: float) -> str:
    """How far a guess is from the truth, in factors.

    >>> how_far_off(3.1, 1.0), how_far_off(1.0, 4.0), how_far_off(2.0, 2.01), how_far_off(1.04, 1.0)
    ('3.1 times too high', '4 times too low', 'right', '1.04 times too high')
    >>> how_far_off(2e6, 1.0), how_far_off(0, 4.0), how_far_off(8, 0)
    ('2,000,000 times too high', 'too low: it is not 0', 'too high: it is 0')
    """
    if not (math.isfinite(guess) and guess >= 0):
        raise ValueError(f"a guess must be a positive number or 0, for example 3.5; received {guess!r}")
    assert truth >= 0, truth
    if guess == truth:
        return "right"
    if not guess or not truth:
        return "too low: it is not 0" if not guess else "too high: it is 0"
    off = max(guess / truth, truth / guess)
    if off < 1.01:
        return "right"
    digits = 2 if off >= 1.1 else 3
    rounded = float(f"{off:.{digits - 1}e}")
    text = f"{rounded:,.0f}" if rounded >= 10 or rounded.is_integer() else f"{rounded:g}"
    return f"{text} times too {'high' if guess > truth else 'low'}"


def spread_sample(samples: Sequence[float], at_most: int) -> tuple[float, ...]:
    """At most that many samples, evenly spaced in the order they were taken, the minimum always among them.

    >>> spread_sample([5, 4, 1, 3, 2, 6], 3)
    (5, 1, 2)
    """
    if len(samples) <= at_most:
        return tuple(samples)
    kept = [samples[index * len(samples) // at_most] for index in range(at_most)]
    least = min(samples)
    if least not in kept:
        kept[samples.index(least) * at_most // len(samples)] = least
    return tuple(kept)
