"""What there is to draw of a model that has only just been made: its weights' histogram, predicted sizes, its tensors.

Letters: d fan-in, σ the std of the weights before truncation, L layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.checks import whole_number
from core.claims import Comparison
from core.models.config import TransformerConfig
from core.models.gains import MAX_DEPTH, predict_gain
from core.models.initialization import TruncationRun, compare_truncation_of, draw_weights, scheme_named
from core.models.parameters import Parameter, compare_cruncher_parameters, compare_parameters, list_parameters
from core.words import _

REACH = 6  # σ: two of a thousand million weights lie beyond
BINS_PER_SIGMA = 2
MAX_WEIGHTS = 2**20
FP32_MAX = (2 - 2**-23) * 2.0**127


@dataclass(frozen=True)
class WeightBin:
    """The share of the weights between two values, given in σ: predicted, and counted of those drawn."""

    low: float
    high: float
    predicted: float
    measured: float


def weight_histogram(scheme: str, fan_in: int, num_weights: int = 2**18, seed: int = 0) -> tuple[WeightBin, ...]:
    """Half a σ a bin from −6σ to 6σ, of the very weights that ``compare_truncation`` draws of that many.

    Predicted is Φ(high) − Φ(low) of a normal cut at the scheme's bound. Raises ValueError as ``compare_truncation``.

    >>> bins = weight_histogram("truncated", 1024, 2**16)
    >>> max(one.high for one in bins if one.measured), round(sum(one.measured for one in bins), 6)
    (3.0, 1.0)
    """
    return picture_truncation(scheme, fan_in, num_weights, seed)[1]


def picture_truncation(
    scheme: str, fan_in: int, num_weights: int = 2**18, seed: int = 0
) -> tuple[TruncationRun, tuple[WeightBin, ...]]:
    """What ``compare_truncation`` and ``weight_histogram`` give, of weights that are drawn once.

    >>> from core.models import compare_truncation
    >>> run, bins = picture_truncation("truncated", 1024, 2**16)
    >>> run == compare_truncation("truncated", 1024, 2**16), bins == weight_histogram("truncated", 1024, 2**16)
    (True, True)
    """
    import torch

    w_KD = draw_weights(scheme, fan_in, whole_number("num_weights", num_weights, 2, MAX_WEIGHTS), seed)
    run, sigma = compare_truncation_of(w_KD, scheme), scheme_named(scheme).nominal_std(w_KD.shape[1], 1)
    edges = [step / BINS_PER_SIGMA for step in range(-REACH * BINS_PER_SIGMA, REACH * BINS_PER_SIGMA + 1)]
    counts = torch.histogram(w_KD.flatten() / sigma, torch.tensor(edges)).hist.tolist()
    bins = (
        WeightBin(low, high, _share_between(low, high, run.bound_in_sigmas), counts[index] / w_KD.numel())
        for index, (low, high) in enumerate(itertools.pairwise(edges))
    )
    return run, tuple(bins)


def share_beyond(bins: Sequence[WeightBin], sigmas: float) -> tuple[float, float]:
    """The share of the weights beyond ±that many σ, predicted and measured; on a bin's edge.

    >>> bins = weight_histogram("lecture_truncated", 16384)
    >>> predicted, measured = share_beyond(bins, 3)
    >>> round(predicted, 5), 0.0025 < measured < 0.0029
    (0.0027, True)
    """
    outside = [one for one in bins if one.high <= -sigmas or one.low >= sigmas]
    return math.fsum(one.predicted for one in outside), math.fsum(one.measured for one in outside)


def standard_error(std: float, num_draws: int) -> float:
    """Of a std measured from that many draws of a normal: σ / √(2n).

    >>> standard_error(128.0, 2048)
    2.0
    """
    return std / math.sqrt(2 * whole_number("n", num_draws, 1, 2**62))


def predict_rms(scheme: str, dim: int, num_layers: int, relu: bool = True) -> tuple[float, ...]:
    """The root mean square after each layer, gain^l from l = 0 on, as far as fp32 can hold it.

    >>> predict_rms("one_over_sqrt", 256, 2, relu=False), len(predict_rms("standard_normal", 256, 50, relu=False))
    ((1.0, 1.0, 1.0), 32)
    """
    gain = predict_gain(scheme, dim, relu).value
    assert gain is not None
    depth, rms = whole_number("num_layers", num_layers, 1, MAX_DEPTH), [1.0]
    while len(rms) <= depth and rms[-1] * gain < FP32_MAX:
        rms.append(rms[-1] * gain)
    return tuple(rms)


@dataclass(frozen=True)
class ModelListing:
    """A model that was built on the meta device: its parameters counted beside the closed form, and each tensor."""

    config: TransformerConfig | tuple[int, int]
    comparison: Comparison
    parameters: tuple[Parameter, ...]


def list_model(config: TransformerConfig) -> ModelListing:
    """A Transformer counted and listed, without its memory. About 10 ms a layer.

    >>> from core.models.config import PRESETS
    >>> len(list_model(PRESETS["gpt2"]).parameters)
    196
    """
    from core.models.transformer import TransformerLM

    listed = list_parameters(TransformerLM(config, device="meta"))
    return ModelListing(config, compare_parameters(config, listed), listed)


def list_cruncher(dim: int, num_layers: int) -> ModelListing:
    """The lecture's Cruncher counted and listed.

    >>> [one.numel for one in list_cruncher(64, 2).parameters]
    [4096, 4096, 64]
    """
    from core.models.lecture import Cruncher, check_dims

    dim, num_layers = check_dims(dim, num_layers)
    listed = list_parameters(Cruncher(dim, num_layers, device="meta"))
    return ModelListing((dim, num_layers), compare_cruncher_parameters(dim, num_layers, listed), listed)


@dataclass(frozen=True)
class Kind:
    """Parameters of one kind together: their number, and in how many tensors."""

    name: str
    numel: int
    tensors: int


def kinds_of(parameters: Sequence[Parameter]) -> tuple[Kind, ...]:
    """Where the parameters are: embeddings, attention, feed-forward, norms, other layers, head.

    >>> [(one.name, one.numel) for one in kinds_of(list_cruncher(64, 2).parameters)]
    [('hidden layers', 8192), ('head', 64)]
    """
    found: dict[str, list[int]] = {}
    for one in parameters:
        found.setdefault(_kind(one.name), []).append(one.numel)
    order = (_("embeddings"), _("attention"), _("feed-forward"), _("norms"), _("hidden layers"), _("head"))
    return tuple(Kind(name, sum(found[name]), len(found[name])) for name in order if name in found)


def _kind(name: str) -> str:
    if "norm" in name:
        return _("norms")
    embeddings, hidden = _("embeddings"), _("hidden layers")
    parts = {"embedding": embeddings, "positions": embeddings, "head": _("head"), "layers": hidden}
    inside = {"attention": _("attention"), "mlp": _("feed-forward")}
    first, *rest = name.split(".")
    return parts[first] if first in parts else inside[rest[1]]


def _share_between(low: float, high: float, cut: float) -> float:
    low, high = max(low, -cut), min(high, cut)
    if low >= high:
        return 0.0
    if low >= 0:  # both tails alike: a difference of two numbers near 1 would lose the far ones
        low, high = -high, -low
    root = math.sqrt(2)
    return (math.erfc(-high / root) - math.erfc(-low / root)) / 2 / math.erf(cut / root)
