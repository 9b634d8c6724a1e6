"""How large weights start, and what becomes of it: one layer's output, and gains from layer to layer (CS336 §6.1).

Every scheme is torch's own initializer with its usual arguments. Predictions work without torch. Letters: d fan-in,
k fan-out, B rows; a gain is the root mean square after a layer over that before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import units
from core.checks import one_of, positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.words import _

if TYPE_CHECKING:
    from torch import Tensor

MAX_DIM = 2**17
MAX_SEED = 2**31 - 1
MAX_BYTES = 2**29


@dataclass(frozen=True)
class Scheme:
    """A way to draw weights: its std before truncation is √(numerator / fans), and ``cut`` is where it is truncated.

    ``fans`` is "none" (1), "in" (d), or "both" (d + k). ``cut`` is in σ, or absolute where ``cut_absolute``.
    """

    key: str
    name: str
    formula: str
    numerator: float
    fans: str
    cut: float = math.inf
    cut_absolute: bool = False
    source: str = ""

    def nominal_std(self, fan_in: int, fan_out: int) -> float:
        """The std that the initializer is given, before any truncation."""
        return math.sqrt(self.numerator / {"none": 1, "in": fan_in, "both": fan_in + fan_out}[self.fans])

    def bound(self, fan_in: int, fan_out: int) -> float:
        """Where it is truncated, as an absolute value; infinite where it is not."""
        return self.cut if self.cut_absolute else self.cut * self.nominal_std(fan_in, fan_out)

    def std(self, fan_in: int, fan_out: int) -> float:
        """The std of the weights as they are drawn, after truncation.

        >>> SCHEMES["standard_normal"].std(16384, 32), SCHEMES["one_over_sqrt"].std(16384, 32) * 128
        (1.0, 1.0)
        """
        return truncated_normal_std(self.nominal_std(fan_in, fan_out), self.bound(fan_in, fan_out))


_LECTURE, _GLOROT, _HE = "CS336 lecture 2, 2025, §6.1", "Glorot and Bengio 2010", "He et al. 2015"
_SCHEMES = (
    Scheme("standard_normal", _("standard normal"), "N(0, 1)", 1, "none", source="torch.randn"),
    Scheme("one_over_sqrt", "1/√d", "N(0, 1/d)", 1, "in", source="CS336 §6.1; LeCun et al. 1998"),
    Scheme("xavier_normal", _("Xavier, normal"), "N(0, 2/(d + k))", 2, "both", source=_GLOROT),
    Scheme("xavier_uniform", _("Xavier, uniform"), "U(±√(6/(d + k)))", 2, "both", source=_GLOROT),
    Scheme("kaiming", _("Kaiming"), "N(0, 2/d)", 2, "in", source=_HE),
    Scheme("truncated", _("1/√d, truncated at ±3σ"), "N(0, 1/d), |w| ≤ 3/√d", 1, "in", 3.0, source=_LECTURE),
    Scheme("lecture_truncated", _("the lecture's trunc_normal_"), "N(0, 1/d), |w| ≤ 3", 1, "in", 3.0, True, _LECTURE),
)  # fmt: skip
SCHEMES = {scheme.key: scheme for scheme in _SCHEMES}


def truncated_normal_std(std: float, bound: float) -> float:
    """Std of N(0, std²) without what is beyond ±bound: σ·√(1 − 2cφ(c) / (2Φ(c) − 1)), c = bound / σ.

    Source: Johnson, Kotz and Balakrishnan 1994, §10.1.

    >>> round(truncated_normal_std(1.0, 3.0), 6), truncated_normal_std(1.0, 384.0)
    (0.986578, 1.0)
    """
    std = positive_number("std", std)
    c = math.inf if bound == math.inf else positive_number("bound", bound) / std
    if c > 40:  # φ(40) is far below the smallest float
        return std
    density = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    return std * math.sqrt(1 - 2 * c * density / math.erf(c / math.sqrt(2)))


def share_truncated(std: float, bound: float) -> float:
    """The part of N(0, std²) that lies beyond ±bound.

    >>> round(share_truncated(1.0, 3.0), 6), share_truncated(1.0, 384.0)
    (0.0027, 0.0)
    """
    return math.erfc(bound / positive_number("std", std) / math.sqrt(2))


def initialize(weight: Tensor, scheme: str, seed: int | None = None) -> Tensor:
    """Fill a weight of shape (fan_out, fan_in), in place, by torch's own initializer; with a seed, always alike.

    >>> import torch
    >>> w = initialize(torch.empty(256, 1024), "one_over_sqrt", seed=0)
    >>> round(w.std().item() * 32, 2)
    1.0
    """
    import torch
    from torch.nn import init

    chosen = scheme_named(scheme)
    generator = None if seed is None else torch.Generator(weight.device).manual_seed(seed)
    fan_out, fan_in = weight.shape
    with torch.no_grad():
        if scheme == "xavier_normal":
            return init.xavier_normal_(weight, generator=generator)
        if scheme == "xavier_uniform":
            return init.xavier_uniform_(weight, generator=generator)
        if scheme == "kaiming":
            return init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
        std, bound = chosen.nominal_std(fan_in, fan_out), chosen.bound(fan_in, fan_out)
        if bound < math.inf:
            return init.trunc_normal_(weight, std=std, a=-bound, b=bound, generator=generator)
        return init.normal_(weight, std=std, generator=generator)


@dataclass(frozen=True)
class TruncationRun:
    """Weights drawn by a scheme: their std predicted and measured, and what its truncation has to do.

    ``bound_in_sigmas`` and ``largest_in_sigmas`` are in the std before truncation; ``share_beyond`` is the part of an
    untruncated normal that the truncation takes away.
    """

    scheme: str
    fan_in: int
    comparison: Comparison
    bound_in_sigmas: float
    largest_in_sigmas: float
    share_beyond: float


def compare_truncation(scheme: str, fan_in: int, num_weights: int = 2**20, seed: int = 0) -> TruncationRun:
    """Draw weights by a truncated scheme and compare their std with the closed form.

    The lecture's truncation at ±3 is at ±384σ for d = 16384, so nothing is ever truncated; ±3σ is what is wanted, and
    makes the std 1.3% smaller. Takes up to 0.2 s at its largest. Raises ValueError for a scheme without truncation.

    >>> run = compare_truncation("lecture_truncated", 16384)
    >>> run.bound_in_sigmas, run.share_beyond, run.largest_in_sigmas < 7
    (384.0, 0.0, True)
    """
    return compare_truncation_of(draw_weights(scheme, fan_in, num_weights, seed), scheme)


def draw_weights(scheme: str, fan_in: int, num_weights: int, seed: int) -> Tensor:
    """As many rows of ``fan_in`` weights as make up that number, at least one, by a scheme that truncates."""
    import torch

    one_of("scheme", scheme, tuple(key for key, one in SCHEMES.items() if one.cut < math.inf))
    fan_in, count = whole_number("d", fan_in, 1, MAX_DIM), whole_number("num_weights", num_weights, 2, 2**24)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    return initialize(torch.empty(max(1, count // fan_in), fan_in), scheme, seed)


def compare_truncation_of(w_KD: Tensor, scheme: str) -> TruncationRun:
    """The std of weights that the scheme drew, beside the closed form."""
    chosen, fan_in = SCHEMES[scheme], w_KD.shape[1]
    sigma, bound, std = chosen.nominal_std(fan_in, 1), chosen.bound(fan_in, 1), chosen.std(fan_in, 1)
    formula = f"{units.significant(sigma)} · √(1 − 2cφ(c) / (2Φ(c) − 1)), c = {bound / sigma:g}"
    terms = (_sampling_error(std / math.sqrt(2 * w_KD.numel())),)
    prediction = Prediction(_("std of the weights"), std, "", formula, terms, chosen.source)
    measured = Measurement(
        _("std of the weights"), (_rms(w_KD),), "", _conditions(_("{n:,} weights").format(n=w_KD.numel()))
    )
    least, most = w_KD.aminmax()
    largest = max(-least.item(), most.item()) / sigma
    share = share_truncated(sigma, bound)
    return TruncationRun(scheme, fan_in, Comparison(prediction, measured), bound / sigma, largest, share)


def predict_output_std(scheme: str, input_dim: int, output_dim: int = 32) -> Prediction:
    """Std of y = x Wᵀ for x of independent N(0, 1) entries: √d · σ.

    >>> predict_output_std("standard_normal", 16384).value, predict_output_std("one_over_sqrt", 16384).value
    (128.0, 1.0)
    """
    d, k = whole_number("input_dim", input_dim, 1, MAX_DIM), whole_number("output_dim", output_dim, 1, MAX_DIM)
    chosen = scheme_named(scheme)
    std = chosen.std(d, k)
    formula = f"√{d:,} · {units.significant(std)}"
    terms = (Term(_("std of the weights"), std, chosen.formula),)
    return Prediction(_("std of the output"), math.sqrt(d) * std, "", formula, terms, _("CS336 lecture 2, §6.1"))


def compare_output_std(
    scheme: str, input_dim: int, output_dim: int = 32, batch_size: int = 256, seed: int = 0
) -> Comparison:
    """One layer for real: the std of its output beside √d · σ.

    The parts are how far the drawn weights and inputs are from their std; what they leave is the chance that the two
    agree in direction. Raises ValueError for sizes out of range or above half a GiB.

    >>> comparison = compare_output_std("standard_normal", 16384)
    >>> comparison.prediction.value, 124 < comparison.measurement.value < 132
    (128.0, True)
    """
    import torch

    prediction = predict_output_std(scheme, input_dim, output_dim)
    d, k = int(input_dim), int(output_dim)
    b, seed = whole_number("batch_size", batch_size, 1, MAX_DIM), whole_number("seed", seed, 0, MAX_SEED)
    check_bytes(4 * (b * d + d * k + b * k))
    x_BD = torch.randn(b, d, generator=torch.Generator().manual_seed(seed))
    w_KD = initialize(torch.empty(k, d), scheme, seed + 1)
    y_BK = x_BD @ w_KD.T
    root, expected_std, std = math.sqrt(d), prediction.terms[0].value, _rms(w_KD)
    parts = (
        Term(_("the weights drawn"), root * (std - expected_std), _("their std is not quite σ")),
        Term(_("the inputs drawn"), root * std * (_rms(x_BD) - 1), _("their std is not quite 1")),
    )
    conditions = _conditions(_("{b:,} inputs, {k:,} outputs, seed {seed}").format(b=b, k=k, seed=seed))
    return Comparison(prediction, Measurement(_("std of the output"), (_rms(y_BK),), "", conditions), parts)


def compare_output_stds(
    scheme: str, input_dims: tuple[int, ...], output_dim: int = 32, batch_size: int = 256, seed: int = 0
) -> tuple[Comparison, ...]:
    """One comparison for each input_dim: for the standard normal, the output grows as √d."""
    return tuple(compare_output_std(scheme, d, output_dim, batch_size, seed) for d in input_dims)


def check_bytes(asked: int) -> None:
    """Refuse tensors above half a GiB before they are made."""
    if asked > MAX_BYTES:
        message = _("this takes {asked}; the limit here is {limit}. Make the width, the depth or the batch smaller.")
        raise ValueError(message.format(asked=units.binary_bytes(asked), limit=units.binary_bytes(MAX_BYTES)))


def scheme_named(key: str) -> Scheme:
    return SCHEMES[one_of("scheme", key, tuple(SCHEMES))]


def _rms(x: Tensor) -> float:
    """Root mean square, in fp64: the std of what has a mean of zero."""
    import torch

    norm: float = torch.linalg.vector_norm(x, dtype=torch.float64).item()
    return norm / math.sqrt(x.numel())


def _sampling_error(value: float) -> Term:
    return Term(_("sampling error"), value, _("one standard error of a std from this many draws"))


def _conditions(note: str) -> Conditions:
    import torch

    return Conditions(
        "cpu", _("seeded draws"), "fp32", torch.get_num_threads(), warmup=0, trials=1,
        torch_version=str(torch.__version__), notes=(note,),
    )  # fmt: skip
