"""Depth × width: how activations and gradients grow or fade through a deep network, layer by layer (CS336 §6.1).

The network is ``DeepNetwork``, with or without its ReLU. D width, L layers, B rows; h_l is what layer l gives, z_l the
same before its ReLU, and a gain the root mean square of one layer's over that of the layer before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from core import units
from core.checks import whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.models.initialization import MAX_SEED, SCHEMES, check_bytes, initialize, scheme_named
from core.words import _

if TYPE_CHECKING:
    from torch import Tensor

    from core.models.lecture import DeepNetwork, ReluLayer

OnProgress = Callable[[float, str], None]
MAX_WIDTH = 4096
MAX_DEPTH = 256
MAX_BATCH = 1024
MAX_FLOPS = 2 * 10**12
RELU_GAIN = math.sqrt(0.5)  # of a symmetric z, ReLU keeps half of the square


@dataclass(frozen=True)
class GainRun:
    """One deep network: the root mean square of its activations and gradients at every layer.

    ``activation_rms[l]`` is of h_l, from the input's (l = 0) on; ``gradient_rms[l]`` is of the loss by h_l, its last
    entry being the gradient that the network is given, N(0, 1). Both end at ``overflow_at``, the first layer whose
    output is beyond fp32, where there is one. A gradient that overflows is infinite, what fades away is 0.
    ``weight_stds``, ``linear_gains`` and ``relu_gains`` have an entry for each layer.
    """

    scheme: str
    dim: int
    num_layers: int
    batch_size: int
    relu: bool
    seed: int
    activation_rms: tuple[float, ...]
    gradient_rms: tuple[float, ...]
    weight_stds: tuple[float, ...]
    linear_gains: tuple[float, ...]
    relu_gains: tuple[float, ...]
    overflow_at: int | None = None


def predict_gain(scheme: str, dim: int, relu: bool = True) -> Prediction:
    """Gain of a layer, of its activations and of its gradients alike: √D · σ, and √½ of it where there is a ReLU.

    >>> predict_gain("kaiming", 512).value, predict_gain("one_over_sqrt", 512, relu=False).value
    (1.0, 1.0)
    >>> predict_gain("xavier_normal", 512).text, predict_gain("standard_normal", 1024).text
    ('0.707', '22.6')
    """
    chosen, d = scheme_named(scheme), whole_number("dim", dim, 1, MAX_WIDTH)
    std = chosen.std(d, d)
    value = math.sqrt(d) * std * (RELU_GAIN if relu else 1.0)
    formula = f"√{d:,} · {units.significant(std)}" + (" · √½" if relu else "")
    terms = (Term(_("std of the weights"), std, chosen.formula), Term(_("ReLU"), RELU_GAIN if relu else 1.0, "√½"))
    # √2 / √2 is not quite 1 in floating point, and a gain of 1 should say 1
    return Prediction(_("gain per layer"), round(value, 12), "", formula, terms, chosen.source)


def check_gains(dim: int, num_layers: int, batch_size: int) -> tuple[int, int, int]:
    """The sizes as ints. Raises ValueError where one is out of range, and for too many bytes or FLOPs together.

    >>> check_gains(4096, 256, 64)
    Traceback (most recent call last):
    ValueError: this takes 17.0 GiB; the limit here is 512 MiB. Make the width, the depth or the batch smaller.
    """
    d, depth = whole_number("dim", dim, 1, MAX_WIDTH), whole_number("num_layers", num_layers, 1, MAX_DEPTH)
    b = whole_number("batch_size", batch_size, 1, MAX_BATCH)
    check_bytes(4 * (depth * d * d + 4 * (depth + 1) * b * d))
    flops = 4 * b * depth * d * d
    if flops > MAX_FLOPS:
        message = _("this takes {asked}; the limit here is {limit}. Make the width, the depth or the batch smaller.")
        raise ValueError(message.format(asked=units.si(flops, "FLOP"), limit=units.si(MAX_FLOPS, "FLOP")))
    return d, depth, b


def measure_gains(
    scheme: str,
    dim: int = 256,
    num_layers: int = 32,
    batch_size: int = 64,
    relu: bool = True,
    seed: int = 0,
    *,
    on_progress: OnProgress | None = None,
) -> GainRun:
    """Forward and backward through a ``DeepNetwork`` whose weights a scheme drew, x and the last gradient N(0, 1).

    fp32 on the CPU, seeded. Raises ValueError for an unknown scheme and as ``check_gains`` does.

    >>> run = measure_gains("kaiming", dim=64, num_layers=4)
    >>> len(run.activation_rms), len(run.gradient_rms), run.overflow_at
    (5, 5, None)
    """
    import torch

    from core.models.lecture import DeepNetwork

    scheme_named(scheme)
    d, depth, b = check_gains(dim, num_layers, batch_size)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    report = on_progress or (lambda fraction, message: None)
    network = DeepNetwork(d, depth, relu=bool(relu)).requires_grad_(False)
    for index, layer in enumerate(_layers(network)):
        initialize(layer.linear.weight, scheme, seed + 2 + index)
        report(index / depth / 2, _("drawing weights"))
    x_BD = torch.randn(b, d, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    report(0.5, _("forward"))
    hs, zs = _forward(network, x_BD)
    report(0.75, _("backward"))
    gradient_BD = torch.randn(b, d, generator=torch.Generator().manual_seed(seed + 1))
    gradients = torch.autograd.grad(hs[-1], hs, gradient_BD)
    activations = [_rms(h) for h in hs]
    passed = len(hs) - 1
    return GainRun(
        scheme,
        d,
        depth,
        b,
        bool(relu),
        seed,
        activation_rms=tuple(activations),
        gradient_rms=tuple(_rms(one) for one in gradients),
        weight_stds=tuple(_rms(layer.linear.weight) for layer in _layers(network))[:passed],
        linear_gains=tuple(_ratio(_rms(z), before) for z, before in zip(zs, activations, strict=False)),
        relu_gains=tuple(_ratio(after, _rms(z)) for z, after in zip(zs, activations[1:], strict=True)),
        overflow_at=passed + 1 if passed < depth else None,
    )


def measure_many_gains(
    schemes: Sequence[str] = tuple(SCHEMES),
    dim: int = 256,
    num_layers: int = 32,
    batch_size: int = 64,
    relu: bool = True,
    seed: int = 0,
    *,
    on_progress: OnProgress | None = None,
) -> tuple[GainRun, ...]:
    """One run for each scheme, from the same input: what a job runs, with ``on_progress=core.jobs.report``."""
    check_gains(dim, num_layers, batch_size)
    runs = []
    for index, scheme in enumerate(schemes):
        if on_progress is not None:
            on_progress(index / len(schemes), scheme_named(scheme).name)
        runs.append(measure_gains(scheme, dim, num_layers, batch_size, relu, seed))
    return tuple(runs)


def compare_activation_gain(run: GainRun) -> Comparison:
    """The gain per layer, geometric mean over the layers, beside √D · σ (· √½); the parts add up to the difference.

    Layers whose output overflowed or faded to 0 are left out; a network without any other is refused (ValueError).
    """
    layers = [index for index, gain in enumerate(run.linear_gains) if gain > 0 and run.relu_gains[index] > 0]
    if not layers:
        raise ValueError(_("no layer's output was within what fp32 can hold: there is no gain to measure"))
    prediction = predict_gain(run.scheme, run.dim, run.relu)
    expected = RELU_GAIN if run.relu else 1.0
    linear = _geometric_mean([run.linear_gains[index] for index in layers])
    of_weights = math.sqrt(run.dim) * _geometric_mean([run.weight_stds[index] for index in layers])
    measured = linear * _geometric_mean([run.relu_gains[index] for index in layers])
    assert prediction.value is not None
    parts = [
        Term(_("the weights drawn"), of_weights * expected - prediction.value, _("their std is not quite σ")),
        Term(
            _("finite width"),
            (linear - of_weights) * expected,
            _("a few directions gain more than others, and the mean of the logarithms is below that of the squares"),
        ),
    ]
    if run.relu:
        note = _("of these z, ReLU keeps a little more or less than half of the square")
        parts.append(Term(_("what ReLU keeps"), measured - linear * expected, note))
    return Comparison(prediction, _gain_measurement(run, measured), tuple(parts))


def compare_gradient_gain(run: GainRun) -> Comparison:
    """The gradient's gain per layer, going back: (first / last)^(1 / layers), beside the same √D · σ (· √½).

    Raises ValueError where the gradient overflowed or faded to 0.
    """
    first, last, layers = run.gradient_rms[0], run.gradient_rms[-1], len(run.gradient_rms) - 1
    if not layers or not (0 < first < math.inf):
        raise ValueError(_("the gradient left what fp32 can hold: there is no gain to measure"))
    gain = math.exp((math.log(first) - math.log(last)) / layers)
    prediction = predict_gain(run.scheme, run.dim, run.relu)
    assert prediction.value is not None
    of_weights = math.sqrt(run.dim) * _geometric_mean(run.weight_stds) * (RELU_GAIN if run.relu else 1.0)
    parts = (Term(_("the weights drawn"), of_weights - prediction.value, _("their std is not quite σ")),)
    return Comparison(prediction, _gain_measurement(run, gain), parts)


def _layers(network: DeepNetwork) -> list[ReluLayer]:
    return cast("list[ReluLayer]", list(network.layers))


def _forward(network: DeepNetwork, x_BD: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Every h (the input first) and every z, up to the last layer whose output is finite."""
    hs, zs = [x_BD], []
    for layer in _layers(network):
        z_BD = layer.linear(hs[-1])
        h_BD = z_BD.relu() if layer.relu else z_BD
        if not math.isfinite(_rms(z_BD)):
            break
        zs.append(z_BD)
        hs.append(h_BD)
    return hs, zs


def _gain_measurement(run: GainRun, gain: float) -> Measurement:
    import torch

    note = _("{b:,} inputs, {layers} layers, seed {seed}").format(
        b=run.batch_size, layers=run.num_layers, seed=run.seed
    )
    conditions = Conditions(
        "cpu", _("seeded draws"), "fp32", torch.get_num_threads(), warmup=0, trials=1,
        torch_version=str(torch.__version__), notes=(note,),
    )  # fmt: skip
    return Measurement(_("gain per layer"), (gain,), "", conditions)


def _rms(x: Tensor) -> float:
    """Root mean square, in fp64, so that no square overflows; infinite where an entry is no finite number."""
    value = x.detach().double().square().mean().sqrt().item()
    return value if math.isfinite(value) else math.inf


def _ratio(after: float, before: float) -> float:
    return after / before if before > 0 else 0.0


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
