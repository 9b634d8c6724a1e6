"""Roofline: an operation takes as long as its arithmetic or its memory traffic, whichever is longer (CS336, 2026).

n: the length of a vector, or the side of a square matrix. Each operand is taken to be moved once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core import units
from core.checks import one_of, whole_number
from core.claims import Comparison, Measurement, Prediction, Term
from core.flops.matmul import ITEM_BYTES, MatmulLimits, OnProgress, check_matmul, measure_matmul, torch_dtype
from core.words import _

if TYPE_CHECKING:
    from core.hardware import Calibration

MAX_N = 2**28
VECTOR_N = 2**24
SLOW_FLOP_PER_SEC = 10e9  # a dtype without instructions for it
MATRIX_N = {"cpu": 1024, "cuda": 4096}
GELU_FLOPS_PER_ELEMENT = 20  # CS336 lecture 2 (2026): tanh approximation, every operation counted as one


@dataclass(frozen=True)
class Operation:
    """An operation of the lecture: its FLOPs and the elements it moves, as functions of n."""

    name: str
    formula: str
    flops: Callable[[int], int]
    moved_elements: Callable[[int], int]
    is_matrix: bool = False

    def flop_per_byte(self, n: int, dtype: str = "bf16") -> float:
        """Arithmetic intensity.

        >>> [round(one.flop_per_byte(3 * 2**10), 2) for one in OPERATIONS.values()]
        [0.25, 5.0, 0.5, 1.0, 1023.83]
        """
        return self.flops(n) / self.moved_bytes(n, dtype)

    def moved_bytes(self, n: int, dtype: str = "bf16") -> int:
        """Bytes read and written."""
        return self.moved_elements(n) * ITEM_BYTES[dtype]


OPERATIONS = {
    one.name: one
    for one in (
        Operation("relu", "max(x, 0): n / 2n elements", lambda n: n, lambda n: 2 * n),
        Operation("gelu", "20 n / 2n elements", lambda n: GELU_FLOPS_PER_ELEMENT * n, lambda n: 2 * n),
        Operation("dot", "2n − 1 / (2n + 1) elements", lambda n: 2 * n - 1, lambda n: 2 * n + 1),
        Operation(
            "matrix-vector", "n (2n − 1) / (n² + 2n) elements", lambda n: n * (2 * n - 1), lambda n: n * n + 2 * n, True
        ),
        Operation("matmul", "n² (2n − 1) / 3n² elements", lambda n: n * n * (2 * n - 1), lambda n: 3 * n * n, True),
    )
}


@dataclass(frozen=True)
class Roof:
    """The two ceilings of a device for one dtype: peak FLOP/s and bytes per second, promised or calibrated."""

    name: str
    peak_flop_per_sec: float
    bytes_per_sec: float
    kind: str

    @property
    def ridge_flop_per_byte(self) -> float:
        """Where the two ceilings meet: below it memory decides, above it arithmetic.

        >>> round(Roof("H100", 989.5e12, 3.35e12, "promised").ridge_flop_per_byte)
        295
        """
        return self.peak_flop_per_sec / self.bytes_per_sec

    def attainable_flop_per_sec(self, flop_per_byte: float) -> float:
        """The most FLOP/s at that intensity."""
        return min(self.peak_flop_per_sec, flop_per_byte * self.bytes_per_sec)

    def seconds(self, flops: float, moved_bytes: float) -> float:
        """The longer of the two times."""
        return max(flops / self.peak_flop_per_sec, moved_bytes / self.bytes_per_sec)

    def bound(self, flop_per_byte: float) -> str:
        """Which ceiling decides, in words."""
        return _("memory-bound") if flop_per_byte < self.ridge_flop_per_byte else _("compute-bound")


@dataclass(frozen=True)
class RooflineRun:
    """An operation that was timed; ``size`` in words."""

    operation: str
    size: str
    dtype: str
    flops: int
    moved_bytes: int
    time: Measurement

    @property
    def flop_per_byte(self) -> float:
        return self.flops / self.moved_bytes

    @property
    def flop_per_sec(self) -> float:
        return self.flops / self.time.value


def predict_operation(name: str, n: int, dtype: str, roof: Roof) -> Prediction:
    """Seconds of one of the lecture's operations under a roof.

    >>> predict_operation("relu", 2**24, "bf16", Roof("H100", 989.5e12, 3.35e12, "promised")).text
    '20.0 µs'
    """
    operation = OPERATIONS[one_of(_("operation"), name, tuple(OPERATIONS))]
    n = whole_number("n", n, 1, MAX_N)
    return predict_under_roof(operation.flops(n), operation.moved_bytes(n, dtype), roof)


def predict_under_roof(flops: int, moved: int, roof: Roof) -> Prediction:
    """Seconds of so many FLOPs over so many bytes: the longer of arithmetic and memory traffic.

    >>> predict_under_roof(2 * 4096**3, 3 * 2 * 4096**2, Roof("H100", 989.5e12, 3.35e12, "promised")).text
    '139 µs'
    """
    arithmetic, traffic = flops / roof.peak_flop_per_sec, moved / roof.bytes_per_sec
    terms = (Term(_("arithmetic"), arithmetic), Term(_("memory traffic"), traffic))
    peak, rate = units.si(roof.peak_flop_per_sec, "FLOP/s"), units.si(roof.bytes_per_sec, "B/s")
    formula = f"max({units.si(flops, 'FLOP')} / {peak}, {units.si_bytes(moved)} / {rate})"
    return Prediction(_("time"), max(arithmetic, traffic), "s", formula, terms, roof.name)


def compare_operation(run: RooflineRun, roof: Roof, calibration: Calibration | None = None) -> Comparison:
    """The roof's time beside the measured one: the cost of a call and interruptions are named."""
    prediction = predict_under_roof(run.flops, run.moved_bytes, roof)
    parts = []
    overhead = calibration.call_overhead_seconds(run.dtype) if calibration is not None else None
    if overhead is not None:
        parts.append(Term(_("call overhead"), overhead, _("what a 1 × 1 multiplication costs")))
    note = _("the median trial over the fastest one: other work, interrupts, clock changes")
    parts.append(Term(_("interruptions"), run.time.value - run.time.minimum, note))
    return Comparison(prediction, run.time, tuple(part for part in parts if part.value > 0))


def roofline_n(operation: Operation, expected_flop_per_sec: float | None, device: str = "cpu") -> int:
    """The size at which a page measures an operation: smaller for a dtype that the hardware does not compute itself.

    >>> roofline_n(OPERATIONS["matmul"], 100e9), roofline_n(OPERATIONS["relu"], 1e9)
    (1024, 1048576)
    """
    slow = expected_flop_per_sec is not None and expected_flop_per_sec < SLOW_FLOP_PER_SEC
    if operation.is_matrix:
        return 256 if slow else MATRIX_N.get(device.split(":")[0], 1024)
    return VECTOR_N // 16 if slow else VECTOR_N


def measure_operations(
    dtype: str = "fp32",
    device: str = "cpu",
    *,
    vector_n: int = VECTOR_N,
    matrix_n: int | None = None,
    names: tuple[str, ...] = tuple(OPERATIONS),
    threads: int | None = None,
    min_seconds: float = 0.3,
    on_progress: OnProgress | None = None,
) -> tuple[RooflineRun, ...]:
    """Time the lecture's operations, warm, into outputs that are there already.

    Raises ValueError for a size above the limits (bytes of all operands), before anything is allocated.

    >>> [run.operation for run in measure_operations(vector_n=1024, matrix_n=32, min_seconds=0.005)]
    ['relu', 'gelu', 'dot', 'matrix-vector', 'matmul']
    """
    from core import timing

    matrix_n = MATRIX_N.get(device.split(":")[0], 1024) if matrix_n is None else matrix_n
    sizes = {}
    limit = MatmulLimits.from_environment().for_device(device).max_bytes
    for name in names:
        operation = OPERATIONS[one_of(_("operation"), name, tuple(OPERATIONS))]
        sizes[name] = n = whole_number("n", matrix_n if operation.is_matrix else vector_n, 1, MAX_N)
        asked = operation.moved_bytes(n, dtype)
        if asked > limit:
            message = _("{name} of n = {n:,} moves {asked} in {dtype}; the limit here is {limit}. Make n smaller.")
            texts = {"asked": units.binary_bytes(asked), "limit": units.binary_bytes(limit)}
            raise ValueError(message.format(name=name, n=n, dtype=dtype, **texts))
    runs = []
    for index, (name, n) in enumerate(sizes.items()):
        if on_progress is not None:
            on_progress(index / len(sizes), name)
        call = _call(name, n, dtype, device)
        measured = timing.time_calls(
            call, device=device, dtype=dtype, threads=threads, quantity=_("time"), min_seconds=min_seconds
        )
        operation = OPERATIONS[name]
        size = f"n = {n:,}"
        runs.append(RooflineRun(name, size, dtype, operation.flops(n), operation.moved_bytes(n, dtype), measured))
    return tuple(runs)


def measure_roofline(
    b: int,
    d: int,
    k: int,
    dtype: str = "fp32",
    device: str = "cpu",
    *,
    threads: int | None = None,
    expected_flop_per_sec: float | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[RooflineRun, ...]:
    """The lecture's five operations and your own multiplication (B, D) @ (D, K), as a job for a page.

    A slow dtype gets smaller operands. Raises ValueError for a size above the limits.

    >>> [run.operation for run in measure_roofline(8, 8, 8, expected_flop_per_sec=1e8)][-1]
    'your matmul'
    """
    check_matmul(b, d, k, dtype, device, expected_flop_per_sec)
    vector_n, matrix_n = (roofline_n(OPERATIONS[name], expected_flop_per_sec, device) for name in ("relu", "matmul"))

    def report(fraction: float, message: str) -> None:
        if on_progress is not None:
            on_progress(0.8 * fraction, message)

    runs = measure_operations(dtype, device, vector_n=vector_n, matrix_n=matrix_n, threads=threads, on_progress=report)
    report(1.0, _("your matmul"))
    own = measure_matmul(
        b, d, k, dtype, device, min_seconds=0.3, threads=threads, expected_flop_per_sec=expected_flop_per_sec
    )
    size = f"{b:,} × {d:,} × {k:,}"
    return (*runs, RooflineRun(_("your matmul"), size, dtype, own.flops, own.matrix_bytes, own.time))


def _call(name: str, n: int, dtype: str, device: str) -> Callable[[], Any]:
    """The operation on fresh operands, with its output allocated before."""
    import torch

    kind = torch_dtype(dtype)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=kind, device=device)

    if name in ("relu", "gelu"):
        x_N, y_N = random(n), torch.empty(n, dtype=kind, device=device)
        if name == "relu":
            return lambda: torch.clamp_min(x_N, 0.0, out=y_N)
        gelu: Any = torch._C._nn.gelu  # torch.nn.functional's takes no output
        return lambda: gelu(x_N, approximate="tanh", out=y_N)
    if name == "dot":
        a_N, b_N = random(n), random(n)
        return lambda: torch.dot(a_N, b_N)
    a_NN = random(n, n)
    if name == "matrix-vector":
        x_N, y_N = random(n), torch.empty(n, dtype=kind, device=device)
        return lambda: torch.mv(a_NN, x_N, out=y_N)
    b_NN, c_NN = random(n, n), torch.empty(n, n, dtype=kind, device=device)
    return lambda: torch.mm(a_NN, b_NN, out=c_NN)
