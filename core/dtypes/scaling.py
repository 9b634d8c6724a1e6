"""Loss scaling: which share of the gradients a narrow format loses, and how a factor saves them.

Gradients spread over many powers of two; here |g| = 2^(μ + σ·z) with z from N(0, 1), a log-normal distribution.
Source: Micikevicius et al., Mixed Precision Training (2018), §3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.arrays import Floats
from core.dtypes.exact import power_of_two
from core.dtypes.formats import FORMATS, Format, two_to
from core.dtypes.ranges import thresholds
from core.words import _

SCALED = ("fp16", "bf16", "e5m2", "e4m3fn")
MAX_SCALE_LOG2 = 40
SAMPLES = 20_000
MAX_DEVIATIONS = 4  # one sample in 16,000 is further off
KINDS = ("zero", "subnormal", "normal", "overflow")


@dataclass(frozen=True)
class Shares:
    """The shares of the gradients that become zero, subnormal, normal, and that overflow or saturate; they sum to 1."""

    scale_log2: int
    zero: float
    subnormal: float
    normal: float
    overflow: float


@lru_cache(maxsize=16)
def gradient_sizes(mean_log2: int = -20, spread_log2: int = 5, seed: int = 0) -> Floats:
    """The sizes of 20,000 gradients, fp32 numbers in fp64.

    >>> gradient_sizes().shape, float(np.median(np.log2(gradient_sizes())).round())
    ((20000,), -20.0)
    """
    _check(mean_log2, spread_log2, 0)
    return np.exp2(mean_log2 + spread_log2 * _normal_numbers(seed)).astype(np.float32).astype(np.float64)


@lru_cache(maxsize=4)
def _normal_numbers(seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(SAMPLES)


def _check(mean_log2: int, spread_log2: int, scale_log2: int) -> None:
    whole_number(_("the middle of the gradients, a power of 2,"), mean_log2, -60, 0)
    whole_number(_("their spread, in powers of 2,"), spread_log2, 1, 10)
    whole_number(_("the scale, a power of 2,"), scale_log2, 0, MAX_SCALE_LOG2)


def predict_shares(name: str, mean_log2: int = -20, spread_log2: int = 5, scale_log2: int = 0) -> Shares:
    """The shares by the normal distribution of log2|g|, cut at the format's thresholds.

    >>> one = predict_shares("fp16", -20, 5, 0)
    >>> f"{one.zero:.3f}", f"{predict_shares('fp16', -20, 5, 10).zero:.5f}"
    ('0.159', '0.00135')
    """
    _check(mean_log2, spread_log2, scale_log2)
    return _shares(_edges(FORMATS[one_of(_("a format"), name, SCALED)]), mean_log2, spread_log2, scale_log2)


def _shares(edges: tuple[float, float, float], mean_log2: int, spread_log2: int, scale_log2: int) -> Shares:
    below = [_normal_below((edge - scale_log2 - mean_log2) / spread_log2) for edge in edges]
    return Shares(scale_log2, below[0], below[1] - below[0], below[2] - below[1], 1 - below[2])


@lru_cache(maxsize=16)
def _edges(fmt: Format) -> tuple[float, float, float]:
    """log2 of where zero ends, where numbers become normal (half a spacing below), and where the format overflows."""
    one = thresholds(fmt)
    assert one.rounds_to_zero is not None
    normal = one.smallest_normal - two_to(fmt.min_exponent - fmt.mantissa_bits) / 2
    return math.log2(one.rounds_to_zero), math.log2(normal), math.log2(one.overflows_from)


def _normal_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


@lru_cache(maxsize=64)
def scale_curve(name: str, mean_log2: int = -20, spread_log2: int = 5) -> tuple[Shares, ...]:
    """The predicted shares at each scale from 2^0 to 2^40.

    >>> [f"{one.zero:.2f}" for one in scale_curve("fp16")[:4]]
    ['0.16', '0.12', '0.08', '0.05']
    """
    _check(mean_log2, spread_log2, 0)
    edges = _edges(FORMATS[one_of(_("a format"), name, SCALED)])
    return tuple(_shares(edges, mean_log2, spread_log2, scale) for scale in range(MAX_SCALE_LOG2 + 1))


@lru_cache(maxsize=256)
def measure_shares(name: str, mean_log2: int = -20, spread_log2: int = 5, scale_log2: int = 0, seed: int = 0) -> Shares:
    """The same, of 20,000 gradients scaled and cast by torch.

    >>> one = measure_shares("fp16", -20, 5, 0)
    >>> round(one.zero + one.subnormal + one.normal + one.overflow, 9), 0.15 < one.zero < 0.17
    (1.0, True)
    """
    import torch

    _check(mean_log2, spread_log2, scale_log2)
    fmt = FORMATS[one_of(_("a format"), name, SCALED)]
    one = thresholds(fmt)
    scaled = torch.from_numpy(gradient_sizes(mean_log2, spread_log2, seed)).float() * 2.0**scale_log2
    cast = scaled.to(getattr(torch, fmt.torch_name)).float().numpy()  # every format here fits in fp32
    zero = len(cast) - int(np.count_nonzero(cast))
    small = int(np.count_nonzero(cast < np.float32(one.smallest_normal))) - zero
    # e4m3fn saturates: what its largest number stands for beyond the last tie overflowed, too.
    beyond = (cast == np.float32(one.largest)) & (scaled.numpy() > np.float32(one.overflows_from))
    over = int(np.count_nonzero(np.isinf(cast) | beyond))
    count = len(cast)
    return Shares(scale_log2, zero / count, small / count, (count - zero - small - over) / count, over / count)


def compare_zero_share(
    name: str, mean_log2: int = -20, spread_log2: int = 5, scale_log2: int = 0, seed: int = 0
) -> Comparison:
    """The share of gradients that become 0: by the distribution, and of 20,000 cast by torch.

    The sample is off by chance, with a standard deviation of √(p(1 − p)/20,000): up to four of them count as that.

    >>> c = compare_zero_share("fp16")
    >>> 0.9 < c.ratio < 1.1
    True
    """
    import torch

    fmt = FORMATS[one_of(_("a format"), name, SCALED)]
    predicted = predict_shares(name, mean_log2, spread_log2, scale_log2).zero
    measured = measure_shares(name, mean_log2, spread_log2, scale_log2, seed).zero
    edge = math.log2(thresholds(fmt).rounds_to_zero or 1)
    quantity = _("share that becomes 0")
    formula = _("share of |g| ≤ {edge} / {scale} in {name}").format(
        edge=power_of_two(round(edge)), scale=power_of_two(scale_log2), name=fmt.label
    )
    parts = by_chance(measured - predicted, math.sqrt(predicted * (1 - predicted) / SAMPLES))
    note = _("{n:,} gradients, cast by torch").format(n=SAMPLES)
    conditions = Conditions("cpu", note, fmt.label, 1, 0, 1, torch_version=str(torch.__version__))
    return Comparison(
        Prediction(quantity, predicted, "", formula, source="Micikevicius et al. 2018, §3.2"),
        Measurement(quantity, (measured,), "", conditions),
        parts,
    )


def by_chance(difference: float, deviation: float) -> tuple[Term, ...]:
    """The part of a difference that is a sample's chance: all of it, up to four standard deviations.

    >>> by_chance(0.003, 0.002)[0].note
    '1.5 standard deviations of the sample'
    """
    if not difference or not deviation or abs(difference) > MAX_DEVIATIONS * deviation:
        return ()
    note = _("{count:.1f} standard deviations of the sample").format(count=abs(difference) / deviation)
    return (Term(_("chance"), difference, note),)


@lru_cache(maxsize=64)
def histogram(
    name: str, mean_log2: int, spread_log2: int, scale_log2: int, seed: int = 0
) -> tuple[tuple[int, str, float], ...]:
    """Of the scaled gradients: for each power of two, what its gradients become, and their share.

    >>> sum(share for _power, _kind, share in histogram("fp16", -20, 5, 0)) > 0.999
    True
    """
    first, normal, last = _edges(FORMATS[one_of(_("a format"), name, SCALED)])
    powers = np.log2(gradient_sizes(mean_log2, spread_log2, seed)) + scale_log2
    kinds = (powers > first).astype(int) + (powers >= normal) + (powers >= last)
    floors = np.floor(powers).astype(int)
    lowest = int(floors.min())
    counts = np.bincount(len(KINDS) * (floors - lowest) + kinds)
    return tuple(
        (lowest + place // len(KINDS), KINDS[place % len(KINDS)], int(counts[place]) / SAMPLES)
        for place in np.flatnonzero(counts).tolist()
    )
