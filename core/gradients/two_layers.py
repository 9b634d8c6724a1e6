"""What backward costs in FLOPs: each multiplication of it, those that autograd runs and those that it skips.

Shapes: B rows, D features in every hidden layer, K outputs. Layers of (D, D), then one of (D, K), no biases:
h1 = x @ w1, h2 = h1 @ w2, …, loss = mean of the last h squared. One layer and the head is the lecture's network.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from core import units
from core.checks import whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.flops import MatmulLimits, count_flops, matmul_flops
from core.words import _

if TYPE_CHECKING:
    import torch

MAX_DIM = 2**20
MAX_LAYERS = 8
LECTURE = "CS336 lecture 2, §5.6"


@dataclass(frozen=True)
class BackwardMatmul:
    """One matrix multiplication of backward: ``name`` is the gradient that it makes.

    ``shapes`` are those of the left operand, the right operand and the result. ``runs`` tells whether autograd
    computes it, ``why`` what for, or why not.
    """

    name: str
    formula: str
    shapes: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    flops: int
    runs: bool
    why: str


@dataclass(frozen=True)
class DepthRatio:
    """Backward FLOPs over forward FLOPs with that many hidden layers: exact, and as a float for a chart."""

    num_layers: int
    exact: Fraction
    ratio: float


def forward_flops(b: int, d: int, k: int, num_layers: int = 1) -> int:
    """FLOPs of the forward pass: 2BDD for each hidden layer and 2BDK for the head.

    The square and the mean at the end, 2BK, are not counted: no multiplication of matrices. Raises ValueError for
    sizes that are not whole numbers above zero, and for more than 8 hidden layers. Source: CS336 lecture 2, §5.6.

    >>> forward_flops(1024, 256, 64)
    167772160
    """
    b, d, k, num_layers = check_dims(b, d, k, num_layers)
    return num_layers * matmul_flops(b, d, d) + matmul_flops(b, d, k)


def backward_matmuls(
    b: int, d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1
) -> tuple[BackwardMatmul, ...]:
    """Every multiplication of backward, from the head to the input: two for each layer.

    >>> for one in backward_matmuls(1024, 256, 64):
    ...     print(one.formula, one.flops, one.runs)
    w2.grad = h1ᵀ @ h2.grad 33554432 True
    h1.grad = h2.grad @ w2ᵀ 33554432 True
    w1.grad = xᵀ @ h1.grad 134217728 True
    x.grad = h1.grad @ w1ᵀ 134217728 False
    """
    b, d, k, num_layers = check_dims(b, d, k, num_layers)
    matmuls = []
    for layer in range(num_layers + 1, 0, -1):
        columns = k if layer == num_layers + 1 else d
        source = "x" if layer == 1 else f"h{layer - 1}"
        flops = 2 * b * d * columns
        needed = layer > 1 or x_requires_grad
        if layer > 1:
            why = _("w{below}.grad needs it").format(below=layer - 1)
        elif x_requires_grad:
            why = _("x requires a gradient")
        else:
            why = _("nobody needs it: x requires no gradient, and nothing lies before it")
        weight = BackwardMatmul(
            f"w{layer}.grad",
            f"w{layer}.grad = {source}ᵀ @ h{layer}.grad",
            ((d, b), (b, columns), (d, columns)),
            flops,
            True,
            _("w{layer} is a parameter").format(layer=layer),
        )
        activation = BackwardMatmul(
            f"{source}.grad",
            f"{source}.grad = h{layer}.grad @ w{layer}ᵀ",
            ((b, columns), (columns, d), (b, d)),
            flops,
            needed,
            why,
        )
        matmuls += [weight, activation]
    return tuple(matmuls)


def count_backward(b: int, d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1) -> Prediction:
    """FLOPs of the multiplications that autograd runs in backward, one term for each.

    >>> count_backward(1024, 256, 64).value, count_backward(1024, 256, 64, x_requires_grad=True).value
    (201326592, 335544320)
    """
    ran = [one for one in backward_matmuls(b, d, k, x_requires_grad, num_layers) if one.runs]
    terms = tuple(Term(one.name, one.flops, one.formula) for one in ran)
    formula = " + ".join(f"{one.flops:,}" for one in ran)
    return Prediction(_("backward FLOPs"), sum(one.flops for one in ran), "FLOP", formula, terms, LECTURE)


def predict_backward_flops(b: int, d: int, k: int, num_layers: int = 1) -> Prediction:
    """The lecture's count: backward is twice forward, two multiplications for each one of forward.

    >>> predict_backward_flops(1024, 256, 64).value
    335544320
    """
    forward = forward_flops(b, d, k, num_layers)
    half = _("as many as forward")
    terms = (Term(_("gradients of the weights"), forward, half), Term(_("gradients of what went in"), forward, half))
    return Prediction(_("backward FLOPs"), 2 * forward, "FLOP", f"2 · {forward:,}", terms, LECTURE)


def compare_backward_flops(b: int, d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1) -> Comparison:
    """The lecture's twice-forward beside torch's own count of a real backward, without data.

    The one part is x.grad = h1.grad @ w1ᵀ, 2BDD that autograd does not run unless x requires a gradient.

    >>> c = compare_backward_flops(1024, 256, 64)
    >>> c.prediction.value, c.measurement.value, [part.value for part in c.parts], c.unexplained
    (335544320, 201326592, [-134217728], 0.0)
    """
    prediction = predict_backward_flops(b, d, k, num_layers)
    note = _("counted by torch's FlopCounterMode on tensors without data; elementwise work is not counted")
    version = _torch_version()
    conditions = Conditions("meta", note, "fp32", threads=1, warmup=0, trials=1, torch_version=version)
    counted = torch_backward_flops(b, d, k, x_requires_grad, num_layers)
    skipped = [one for one in backward_matmuls(b, d, k, x_requires_grad, num_layers) if not one.runs]
    name = _("{formula} is not computed")
    parts = tuple(Term(name.format(formula=one.formula), -one.flops, one.why) for one in skipped)
    return Comparison(prediction, Measurement(_("backward FLOPs"), (counted,), "FLOP", conditions), parts)


def torch_backward_flops(b: int, d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1) -> int:
    """FLOPs of the backward pass by torch's FlopCounterMode, on meta tensors: nothing is allocated or computed.

    >>> torch_backward_flops(1024, 256, 64)
    201326592
    """
    return _torch_backward_flops(*check_dims(b, d, k, num_layers), bool(x_requires_grad))


@functools.lru_cache(maxsize=1024)
def _torch_backward_flops(b: int, d: int, k: int, num_layers: int, x_requires_grad: bool) -> int:
    import torch

    weights = _meta_weights(d, k, num_layers)
    x_BD = h = torch.empty(b, d, device="meta", requires_grad=x_requires_grad)
    for weight in weights:
        h = h @ weight
    # From the output on: before it is the loss's own gradient, elementwise, of which the counter counts nothing, and
    # which takes torch three times as long on the meta device as all the rest. And without writing the gradients into
    # .grad, which is no multiplication either.
    h_grad_BK = torch.empty(b, k, device="meta")
    wanted = [*weights, *([x_BD] if x_requires_grad else [])]
    return count_flops(torch.autograd.grad, h, wanted, h_grad_BK)


@functools.lru_cache(maxsize=64)
def _meta_weights(d: int, k: int, num_layers: int) -> tuple[torch.Tensor, ...]:
    import torch

    shapes = [(d, d)] * num_layers + [(d, k)]
    return tuple(torch.empty(shape, device="meta", requires_grad=True) for shape in shapes)


def backward_ratio(d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1) -> Fraction:
    """Backward FLOPs over forward FLOPs, exactly: 2 − D / (L·D + K); 2 where x requires a gradient. B cancels.

    >>> backward_ratio(256, 64), backward_ratio(256, 64, num_layers=8), backward_ratio(256, 64, x_requires_grad=True)
    (Fraction(6, 5), Fraction(62, 33), Fraction(2, 1))
    """
    _b, d, k, num_layers = check_dims(1, d, k, num_layers)
    return _backward_ratio(d, k, bool(x_requires_grad), num_layers)


def _backward_ratio(d: int, k: int, x_requires_grad: bool, num_layers: int) -> Fraction:
    return Fraction(2) if x_requires_grad else Fraction(2 * (num_layers * d + k) - d, num_layers * d + k)


def ratios_by_depth(d: int, k: int, x_requires_grad: bool = False) -> tuple[DepthRatio, ...]:
    """The ratio for 1 to 8 hidden layers: it tends to 2, as the one skipped multiplication weighs less and less.

    >>> [f"{one.ratio:.3f}" for one in ratios_by_depth(256, 64)[:4]]
    ['1.200', '1.556', '1.692', '1.765']
    """
    _b, d, k, _layers = check_dims(1, d, k, 1)
    ratios = [(depth, _backward_ratio(d, k, bool(x_requires_grad), depth)) for depth in range(1, MAX_LAYERS + 1)]
    return tuple(DepthRatio(depth, exact, float(exact)) for depth, exact in ratios)


def network_bytes(
    b: int, d: int, k: int, x_requires_grad: bool = False, num_layers: int = 1, item_bytes: int = 4
) -> int:
    """Bytes of forward and backward, at most: input, weights, activations, and a gradient for every one that gets one.

    The head's output counts three times: itself, its square, and a factor that the square's gradient makes.

    >>> network_bytes(1024, 256, 64)
    4849664
    """
    b, d, k, num_layers = check_dims(b, d, k, num_layers)
    weights = num_layers * d * d + d * k
    activations = num_layers * b * d + b * k
    inputs = b * d * (2 if x_requires_grad else 1)
    return (inputs + 2 * weights + 2 * activations + 2 * b * k) * item_bytes


def check_network(
    b: int,
    d: int,
    k: int,
    x_requires_grad: bool = False,
    num_layers: int = 1,
    limits: MatmulLimits | None = None,
) -> None:
    """Refuse a network that is too large to run here, before anything is allocated.

    Raises ValueError with the bytes asked for and the limit (NAPKIN_MAX_MATMUL_BYTES, 1 GiB unless set).

    >>> check_network(65536, 4096, 4096)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: this network takes 7.25 GiB in fp32 for forward and backward; the limit here is 1.00 GiB. Make B, D...
    """
    limits = limits or MatmulLimits.from_environment()
    asked = network_bytes(b, d, k, x_requires_grad, num_layers)
    if asked > limits.max_bytes:
        message = _(
            "this network takes {asked} in fp32 for forward and backward; the limit here is {limit}. "
            "Make B, D, K or the depth smaller."
        )
        asked_text, limit_text = units.binary_bytes(asked), units.binary_bytes(limits.max_bytes)
        raise ValueError(message.format(asked=asked_text, limit=limit_text))


def check_dims(b: object, d: object, k: object, num_layers: object) -> tuple[int, int, int, int]:
    """The sizes as ints; ValueError for what is no whole number in range.

    >>> check_dims(1024, 256, 64, 9)
    Traceback (most recent call last):
    ValueError: num_layers must be a whole number from 1 to 8; received 9
    """
    b, d, k = (whole_number(name, value, 1, MAX_DIM) for name, value in (("B", b), ("D", d), ("K", k)))
    return b, d, k, whole_number("num_layers", num_layers, 1, MAX_LAYERS)


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
