"""FLOP/s against size, and against shape at equal work: many multiplications timed in one job."""

from __future__ import annotations

from dataclasses import dataclass

from core.checks import whole_number
from core.flops.matmul import MatmulRun, OnProgress, check_matmul, measure_matmul
from core.words import _

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
MAX_SIZES = 24


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, and what was left out with the sentence that says why."""

    runs: tuple[MatmulRun, ...]
    refused: tuple[str, ...]


def square_shapes(sizes: tuple[int, ...] = SIZES) -> tuple[tuple[int, int, int], ...]:
    """(n, n, n) for each size."""
    return tuple((n, n, n) for n in sizes)


def skewed_shapes(n: int = 512, steps: int = 4) -> tuple[tuple[int, int, int], ...]:
    """Shapes of equal work 2n³: the inner dimension D from short to long, B and K in balance.

    >>> skewed_shapes(512, 1)
    ((1024, 128, 1024), (512, 512, 512), (256, 2048, 256))
    """
    n = whole_number("n", n, 16, 2**14)
    shapes = []
    for step in range(steps, -steps - 1, -1):
        outer = n * 2**step if step >= 0 else n // 2**-step
        inner = n**3 // (outer * outer)
        if outer >= 1 and inner >= 1:
            shapes.append((outer, inner, outer))
    return tuple(shapes)


def sweep_matmul(
    shapes: tuple[tuple[int, int, int], ...],
    dtypes: tuple[str, ...] = ("fp32",),
    device: str = "cpu",
    *,
    threads: int | None = None,
    min_seconds: float = 0.2,
    on_progress: OnProgress | None = None,
) -> Sweep:
    """Time each shape in each dtype. A shape that is too large or too slow is left out, and said so.

    Within a dtype the rate of the last shape tells whether the next would take too long.

    >>> sweep = sweep_matmul(square_shapes((8, 16)), min_seconds=0.005)
    >>> [(run.b, run.dtype) for run in sweep.runs], sweep.refused
    ([(8, 'fp32'), (16, 'fp32')], ())
    """
    whole_number(_("number of shapes"), len(shapes), 1, MAX_SIZES)
    runs: list[MatmulRun] = []
    refused: list[str] = []
    total = len(shapes) * len(dtypes)
    for position, dtype in enumerate(dtypes):
        rate: float | None = None
        for index, (b, d, k) in enumerate(shapes):
            if on_progress is not None:
                on_progress((position * len(shapes) + index) / total, f"{dtype}, {b} × {d} × {k}")
            try:
                check_matmul(b, d, k, dtype, device, rate)
                run = measure_matmul(
                    b, d, k, dtype, device, min_seconds=min_seconds, threads=threads, expected_flop_per_sec=rate
                )
            except ValueError as error:
                refused.append(f"{dtype}, {b} × {d} × {k}: {error}")
                continue
            runs.append(run)
            rate = run.flop_per_sec
    return Sweep(tuple(runs), tuple(refused))
