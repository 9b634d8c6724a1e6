"""Loss scaling: which share of the gradients a narrow format loses, and how a factor saves them.

Gradients spread over many powers of two; here |g| = 2^(μ + σ·z) with z from N(0, 1), a log-normal distribution.
Source: Micikevicius et al., Mixed Precision Training (2018), §3.2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.exact import power_of_two
from core.dtypes.formats import FORMATS, Format, two_to
from core.dtypes.ranges import thresholds
from core.words import _

SCALED = ("fp16", "bf16", "e5m2", "e4m3fn")
MAX_SCALE_LOG2 = 40
SAMPLES = 20_000
MAX_DEVIATIONS = 4  # one sample in 16,000 is further off
SQRT_2 = math.sqrt(2)
KINDS = ("zero", "subnormal", "normal", "overflow")


class Shares(NamedTuple):  # a curve has 41: a dataclass takes four times as long to make
    """The shares of the gradients that become zero, subnormal, normal, and that overflow or saturate; they sum to 1."""

    scale_log2: int
    zero: float
    subnormal: float
    normal: float
    overflow: float


def gradient_sizes(mean_log2: int = -20, spread_log2: int = 5, seed: int = 0) -> NDArray[np.float32]:
    """The sizes of 20,000 gradients in fp32, from the smallest up.

    >>> gradient_sizes().shape, float(np.median(np.log2(gradient_sizes())).round())
    ((20000,), -20.0)
    """
    _check(mean_log2, spread_log2, 0)
    return _sizes_around_1(spread_log2, seed) * np.float32(2.0**mean_log2)  # exact


@lru_cache(maxsize=16)
def _sizes_around_1(spread_log2: int, seed: int) -> NDArray[np.float32]:
    return np.exp2(spread_log2 * np.sort(np.random.default_rng(seed).standard_normal(SAMPLES))).astype(np.float32)


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
    return _shares(_edges_log2(FORMATS[one_of(_("a format"), name, SCALED)]), mean_log2, spread_log2, scale_log2)


def _shares(edges_log2: tuple[float, ...], mean_log2: int, spread_log2: int, scale_log2: int) -> Shares:
    zero, normal, over = [_share_below(edge, mean_log2 + scale_log2, spread_log2) for edge in edges_log2]
    return Shares(scale_log2, zero, normal - zero, over - normal, 1 - over)


@lru_cache(maxsize=16)
def _edges(fmt: Format) -> tuple[float, float, float]:
    """Where zero ends, where numbers become normal (half a spacing below), and where the format overflows."""
    one = thresholds(fmt)
    assert one.rounds_to_zero is not None
    normal = one.smallest_normal - two_to(fmt.min_exponent - fmt.mantissa_bits) / 2
    return float(one.rounds_to_zero), float(normal), float(one.overflows_from)


@lru_cache(maxsize=16)
def _edges_log2(fmt: Format) -> tuple[float, ...]:
    return tuple(map(math.log2, _edges(fmt)))


@lru_cache(maxsize=4096)  # a scale moves the middle: a curve has most of its points in common with the next
def _share_below(edge_log2: float, middle_log2: int, spread_log2: int) -> float:
    """The share of a normal distribution that is below an edge."""
    return 0.5 * math.erfc((middle_log2 - edge_log2) / spread_log2 / SQRT_2)


@lru_cache(maxsize=64)
def scale_curve(name: str, mean_log2: int = -20, spread_log2: int = 5) -> tuple[Shares, ...]:
    """The predicted shares at each scale from 2^0 to 2^40.

    >>> [f"{one.zero:.2f}" for one in scale_curve("fp16")[:4]]
    ['0.16', '0.12', '0.08', '0.05']
    """
    _check(mean_log2, spread_log2, 0)
    edges = _edges_log2(FORMATS[one_of(_("a format"), name, SCALED)])
    return tuple(_shares(edges, mean_log2, spread_log2, scale) for scale in range(MAX_SCALE_LOG2 + 1))


def measure_shares(name: str, mean_log2: int = -20, spread_log2: int = 5, scale_log2: int = 0, seed: int = 0) -> Shares:
    """The same, of 20,000 gradients scaled and cast by torch.

    >>> one = measure_shares("fp16", -20, 5, 0)
    >>> round(one.zero + one.subnormal + one.normal + one.overflow, 9), 0.15 < one.zero < 0.17
    (1.0, True)
    """
    _check(mean_log2, spread_log2, scale_log2)
    fmt = FORMATS[one_of(_("a format"), name, SCALED)]
    return _measured(fmt, mean_log2, spread_log2, scale_log2, seed)


@lru_cache(maxsize=256)
def _measured(fmt: Format, mean_log2: int, spread_log2: int, scale_log2: int, seed: int) -> Shares:
    import torch

    one = thresholds(fmt)
    scaled = torch.from_numpy(gradient_sizes(mean_log2, spread_log2, seed)) * 2.0**scale_log2
    cast = scaled.to(getattr(torch, fmt.torch_name)).float().numpy()  # every format here fits in fp32
    zero = len(cast) - int(np.count_nonzero(cast))
    small = int(np.count_nonzero(cast < np.float32(one.smallest_normal))) - zero
    # e4m3fn saturates: what its largest number stands for beyond the last tie overflowed, too.
    beyond = scaled.numpy().searchsorted(np.float32(one.overflows_from), "right")
    saturated = np.count_nonzero(cast[beyond:] == np.float32(one.largest))
    over = int(np.count_nonzero(np.isinf(cast)) + saturated)
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
    edges = np.array(_edges(FORMATS[one_of(_("a format"), name, SCALED)])) / 2.0**scale_log2
    zero, normal, over = edges.astype(np.float32)
    sizes = gradient_sizes(mean_log2, spread_log2, seed)
    first, last = (math.frexp(size)[1] - 1 for size in (sizes[0], sizes[-1]))
    # The sizes are sorted: so each kind and each power of two is a stretch of them.
    kinds_end = np.array([sizes.searchsorted(zero, "right"), sizes.searchsorted(normal), sizes.searchsorted(over)])
    powers_start = sizes.searchsorted(np.ldexp(np.float32(1), np.arange(first, last + 1)))
    cuts = np.unique([*kinds_end, *powers_start, SAMPLES])
    powers = first + scale_log2 + powers_start.searchsorted(cuts[:-1], "right") - 1
    kinds = kinds_end.searchsorted(cuts[:-1], "right")
    return tuple(
        (power, KINDS[kind], count / SAMPLES)
        for power, kind, count in zip(powers.tolist(), kinds.tolist(), np.diff(cuts).tolist(), strict=True)
    )
