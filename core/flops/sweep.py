"""FLOP/s against size, and against shape at equal work: many multiplications timed in one job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import units
from core.checks import whole_number
from core.claims import Comparison, Measurement, Prediction, Term
from core.flops.matmul import MatmulRun, OnProgress, check_matmul, measure_matmul
from core.words import _

if TYPE_CHECKING:
    from core.hardware.calibration import Ceiling

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


def predict_half_peak(ceiling: Ceiling) -> Prediction:
    """The side of the square whose arithmetic takes as long as a call costs: there half of the peak is left.

    2n³ / peak = overhead, so n = (overhead · peak / 2)^⅓.

    >>> from core.hardware.calibration import Ceiling
    >>> predict_half_peak(Ceiling("fp32", 128e9, 1024, (1024,), (128e9,), 1e-6, True, "")).text
    '40.0 rows'
    """
    value = (ceiling.call_overhead_seconds * ceiling.flop_per_sec / 2) ** (1 / 3)
    overhead, peak = units.seconds(ceiling.call_overhead_seconds), units.si(ceiling.flop_per_sec, "FLOP/s")
    terms = (
        Term(_("call overhead"), ceiling.call_overhead_seconds, unit="s"),
        Term(_("calibrated peak"), ceiling.flop_per_sec, unit="FLOP/s"),
    )
    return Prediction(_("size at half the peak"), value, _("rows"), f"({overhead} · {peak} / 2)^⅓", terms)


def compare_half_peak(sweep: Sweep, ceiling: Ceiling) -> Comparison | None:
    """That size as the sweep found it, between two of its squares; None where no square reaches half of the peak.

    What the napkin leaves out (filling the vector units, sharing the work among threads) is unexplained.
    """
    squares = [run for run in sweep.runs if run.dtype == ceiling.dtype and run.b == run.d == run.k]
    half = ceiling.flop_per_sec / 2
    above = next((index for index, run in enumerate(squares) if run.flop_per_sec >= half), None)
    if above is None:
        return None
    found = squares[above]
    size = float(found.b)
    if above:
        below = squares[above - 1]
        share = math.log(half / below.flop_per_sec) / math.log(found.flop_per_sec / below.flop_per_sec)
        size = below.b * (found.b / below.b) ** share
    prediction = predict_half_peak(ceiling)
    return Comparison(prediction, Measurement(prediction.quantity, (size,), prediction.unit, found.time.conditions))
