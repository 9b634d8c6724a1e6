"""Forward and backward timed for real: the counts say 1.2 or 2 times, the clock says something else.

Backward is timed alone, on one graph that is kept (retain_graph=True): each call computes every gradient anew, into
new tensors, and adds to no .grad. A real step builds its graph, goes back once and frees it; that is timed beside it
(``step``), so that what the kept graph hides is seen. CPU, fp32. Shapes: B rows, D features, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from core import units
from core.checks import positive_number
from core.claims import Comparison, Measurement, Prediction, Term
from core.flops import MatmulLimits, matmul_flops
from core.gradients.network import Network
from core.gradients.two_layers import backward_ratio, check_dims, count_backward, forward_flops
from core.words import _

OnProgress = Callable[[float, str], None]
PROBE_DIM = 128
BUSY_WARNING = 0.10  # a tenth of the processor went to other work
MAX_SECONDS = 10.0  # of a headline measurement, however slow a call is
PIECE_ROUNDS = 3
PIECE_SHARE = 0.1  # of the window of a headline measurement, for each piece of the explanation


@dataclass(frozen=True)
class Pieces:
    """Seconds of what forward or backward is made of, each timed alone: the fastest call, which other work slows least.

    ``matmuls`` write into buffers that are there already, ``new_matmuls`` into new tensors; both run without autograd.
    ``loss`` is the mean of the squares; in backward, its gradient. ``whole`` is the pass itself, with autograd.
    """

    matmuls: float
    new_matmuls: float
    loss: float
    whole: float

    @property
    def overhead(self) -> float:
        """What the pass takes beyond its multiplications and its loss."""
        return self.whole - self.new_matmuls - self.loss


@dataclass(frozen=True)
class ForwardBackwardRun:
    """One network's forward, backward and whole step, in seconds a call, with the pieces that explain them.

    ``tiny_forward`` and ``tiny_backward`` are the same pieces with B = D = K = 1, where nearly all is overhead.
    """

    b: int
    d: int
    k: int
    num_layers: int
    x_requires_grad: bool
    forward_flops: int
    backward_flops: int
    forward: Measurement
    backward: Measurement
    step: Measurement
    forward_pieces: Pieces
    backward_pieces: Pieces
    tiny_forward: Pieces
    tiny_backward: Pieces

    @property
    def settings(self) -> tuple[int, int, int, int, bool, int]:
        """(B, D, K, layers, x requires a gradient, threads): what the controls must share with this run."""
        return self.b, self.d, self.k, self.num_layers, self.x_requires_grad, self.forward.conditions.threads

    @property
    def flop_ratio(self) -> float:
        """Backward FLOPs over forward FLOPs, as autograd runs them."""
        return self.backward_flops / self.forward_flops

    @property
    def time_ratio(self) -> float:
        """Backward time over forward time, medians."""
        return self.backward.value / self.forward.value

    @property
    def step_surplus_seconds(self) -> float:
        """A whole step over forward plus the backward of a kept graph: building, freeing and cold caches."""
        return self.step.value - self.forward.value - self.backward.value


def measurement_bytes(b: int, d: int, k: int, num_layers: int = 1, x_requires_grad: bool = False) -> int:
    """Bytes that measuring takes at most, in fp32.

    Weights three times (themselves, a buffer for their gradients, new gradients), activations five times (the kept
    graph's, the pieces' own, their gradients, a new step's and its gradients), the input once, or three times where it
    gets a gradient, and four temporary tensors of the head's size.

    >>> measurement_bytes(1024, 256, 64)
    9633792
    """
    b, d, k, num_layers = check_dims(b, d, k, num_layers)
    weights, activations = num_layers * d * d + d * k, num_layers * b * d + b * k
    inputs = b * d * (3 if x_requires_grad else 1)
    return 4 * (3 * weights + 5 * activations + inputs + 4 * b * k)


def check_forward_backward(
    b: int,
    d: int,
    k: int,
    num_layers: int = 1,
    x_requires_grad: bool = False,
    expected_flop_per_sec: float | None = None,
    limits: MatmulLimits | None = None,
) -> None:
    """Refuse a network that takes too many bytes, or too long where a rate to expect is given.

    Raises ValueError with what was asked for and the limit (NAPKIN_MAX_MATMUL_BYTES, NAPKIN_MAX_CALL_SECONDS).

    >>> check_forward_backward(16384, 4096, 4096, expected_flop_per_sec=1e11, limits=MatmulLimits(2**33, 5.0))
    Traceback (most recent call last):
    ValueError: one step would take about 27.5 s; the limit here is 5.00 s. Make B, D, K or the depth smaller.
    """
    limits = limits or MatmulLimits.from_environment()
    asked = measurement_bytes(b, d, k, num_layers, x_requires_grad)
    if asked > limits.max_bytes:
        message = _(
            "measuring this network takes {asked} in fp32; the limit here is {limit}. "
            "Make B, D, K or the depth smaller."
        )
        asked_text, limit_text = units.binary_bytes(asked), units.binary_bytes(limits.max_bytes)
        raise ValueError(message.format(asked=asked_text, limit=limit_text))
    if expected_flop_per_sec is None:
        return
    flops = forward_flops(b, d, k, num_layers) * (1 + backward_ratio(d, k, x_requires_grad, num_layers))
    seconds = float(flops) / positive_number(_("FLOP/s to expect"), expected_flop_per_sec)
    if seconds > limits.max_call_seconds:
        message = _("one step would take about {asked}; the limit here is {limit}. Make B, D, K or the depth smaller.")
        limit_text = units.seconds(limits.max_call_seconds)
        raise ValueError(message.format(asked=units.seconds(seconds), limit=limit_text))


def measure_forward_backward(
    b: int,
    d: int,
    k: int,
    num_layers: int = 1,
    x_requires_grad: bool = False,
    *,
    threads: int | None = None,
    min_seconds: float = 0.5,
    on_progress: OnProgress | None = None,
) -> ForwardBackwardRun:
    """Time forward, backward and a whole step of the network in fp32 on the CPU, and the pieces of each.

    Forward records its graph; backward is timed on a graph that is kept (see the module). Takes about six times
    ``min_seconds``, and 0.1 s of warm-up for each of 35 measurements. Raises ValueError for sizes that make no sense
    and for a network above the limits in bytes or seconds, before it is made.

    >>> run = measure_forward_backward(64, 32, 8, threads=1, min_seconds=0.01)
    >>> run.flop_ratio, run.backward.unit, run.time_ratio > 0
    (1.2, 's', True)
    """
    b, d, k, num_layers = check_dims(b, d, k, num_layers)
    check_forward_backward(b, d, k, num_layers, x_requires_grad)
    check_forward_backward(b, d, k, num_layers, x_requires_grad, _probe_flop_per_sec(threads))
    timer = _Timer(threads, min_seconds, on_progress or (lambda fraction, message: None))
    network = Network(b, d, k, num_layers, x_requires_grad)
    forward = timer.measure(network.forward, _("forward time"), _("forward"))
    backward = timer.measure(network.backward, _("backward time"), _("backward, graph kept"))
    step = timer.measure(network.step, _("step time"), _("forward and backward"))
    pieces = timer.pieces(network, PIECE_ROUNDS, _("the pieces, one by one"))
    tiny = timer.pieces(Network(1, 1, 1, num_layers, x_requires_grad), 1, _("a network with B = D = K = 1"))
    return ForwardBackwardRun(
        b=b,
        d=d,
        k=k,
        num_layers=num_layers,
        x_requires_grad=bool(x_requires_grad),
        forward_flops=forward_flops(b, d, k, num_layers),
        backward_flops=int(count_backward(b, d, k, x_requires_grad, num_layers).value or 0),
        forward=forward,
        backward=backward,
        step=step,
        forward_pieces=replace(pieces[0], whole=min(pieces[0].whole, forward.minimum)),
        backward_pieces=replace(pieces[1], whole=min(pieces[1].whole, backward.minimum)),
        tiny_forward=tiny[0],
        tiny_backward=tiny[1],
    )


def predict_backward_time(run: ForwardBackwardRun) -> Prediction:
    """Backward's seconds if every FLOP took as long as in forward: forward time × FLOPs backward / FLOPs forward."""
    formula = f"{units.seconds(run.forward.value)} · {run.backward_flops:,} / {run.forward_flops:,}"
    terms = (
        Term(_("forward time"), run.forward.value, run.forward.conditions.text, "s"),
        Term(_("backward FLOPs"), run.backward_flops, _("as autograd runs them"), "FLOP"),
        Term(_("forward FLOPs"), run.forward_flops, "", "FLOP"),
    )
    source = _("measured forward time, counted FLOPs (CS336 lecture 2, §5.6)")
    return Prediction(_("backward time"), run.forward.value * run.flop_ratio, "s", formula, terms, source)


def compare_backward_time(run: ForwardBackwardRun) -> Comparison:
    """The predicted backward time beside the measured one, each part of the difference timed alone.

    A part is what a piece takes in backward minus what the prediction lets it take: its time in forward × the ratio
    of FLOPs; pieces are their fastest calls, so what the medians have beyond their fastest is a part too. The rest is
    unexplained: what the caches hold, and how the pieces differ when they run one by one.
    """
    ratio, forward, backward = run.flop_ratio, run.forward_pieces, run.backward_pieces
    interrupted = run.forward.value - forward.whole, run.backward.value - backward.whole
    tiny_forward, tiny_backward = run.tiny_forward, run.tiny_backward
    parts = (
        Term(
            _("multiplications"),
            backward.matmuls - ratio * forward.matmuls,
            _("the same FLOPs at another rate: transposed operands and other shapes"),
        ),
        Term(
            _("new tensors"),
            (backward.new_matmuls - backward.matmuls) - ratio * (forward.new_matmuls - forward.matmuls),
            _("memory for the gradients, against memory for the activations"),
        ),
        Term(
            _("gradient of the loss"),
            backward.loss - ratio * forward.loss,
            _("the mean of squares: elementwise work that no count of matrix multiplications sees"),
        ),
        Term(
            _("autograd"),
            tiny_backward.overhead - ratio * tiny_forward.overhead,
            _("what a network with B = D = K = 1 takes beyond its arithmetic"),
        ),
        Term(
            _("interruptions"),
            interrupted[1] - ratio * interrupted[0],
            _("the median calls over the fastest ones: other work, interrupts, clock changes"),
        ),
    )
    return Comparison(predict_backward_time(run), run.backward, parts, _warnings(run))


class _Timer:
    """Times one function after another under the same conditions, and says how far it is."""

    def __init__(self, threads: int | None, min_seconds: float, report: OnProgress) -> None:
        self.threads, self.min_seconds, self.report = threads, min_seconds, report
        self.done, self.all = 0.0, 3 + 8 * (PIECE_ROUNDS + 1) * PIECE_SHARE

    def measure(self, function: Callable[[], object], quantity: str, message: str, share: float = 1.0) -> Measurement:
        from core import timing

        measurement = timing.time_calls(
            function,
            quantity=quantity,
            min_seconds=self.min_seconds * share,
            max_seconds=max(MAX_SECONDS * share, self.min_seconds),
            threads=self.threads,
            on_progress=lambda fraction: self.report(min(1.0, (self.done + share * fraction) / self.all), message),
        )
        self.done += share
        return measurement

    def piece(self, function: Callable[[], object], message: str) -> float:
        """Seconds of the fastest call."""
        return self.measure(function, _("time"), message, PIECE_SHARE).minimum

    def pieces(self, network: Network, rounds: int, message: str) -> tuple[Pieces, Pieces]:
        """The pieces of forward and of backward, in rounds, so that a busy moment does not meet one of them alone."""
        of_forward = (network.forward_matmuls, network.new_forward_matmuls, network.loss, network.forward)
        of_backward = (network.backward_matmuls, network.new_backward_matmuls, network.loss_backward, network.backward)
        functions: tuple[Callable[[], object], ...] = (*of_forward, *of_backward)
        seconds = [[self.piece(one, message) for one in functions] for _round in range(rounds)]
        fastest = [min(column) for column in zip(*seconds, strict=True)]
        return Pieces(*fastest[:4]), Pieces(*fastest[4:])


def _probe_flop_per_sec(threads: int | None) -> float:
    """FLOP/s of a small multiplication, so that a step of minutes is refused and not started."""
    import torch

    from core import timing

    square = torch.ones(PROBE_DIM, PROBE_DIM)
    taken = timing.time_calls(lambda: square @ square, min_seconds=0.01, warmup_calls=1, threads=threads)
    return matmul_flops(PROBE_DIM, PROBE_DIM, PROBE_DIM) / taken.minimum


def _warnings(run: ForwardBackwardRun) -> tuple[str, ...]:
    busy = [one.conditions.busy_fraction or 0.0 for one in (run.forward, run.backward)]
    if max(busy) < BUSY_WARNING:
        return ()
    message = _(
        "The machine was busy: {share:.0%} of the processor went to other work. Measure again when it is quiet."
    )
    return (message.format(share=max(busy)),)
