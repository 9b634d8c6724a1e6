"""What strides cost: the same matrix summed, stepped through, viewed and copied, timed in a job (CS336 §5.2.2).

x is an n × n matrix in fp32. Predicted is bytes moved over the calibrated bandwidth; a view moves none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core import units
from core.checks import one_of, whole_number
from core.claims import Comparison, Measurement, Prediction, Term
from core.flops import MatmulLimits
from core.strides.layout import ITEM_BYTES
from core.words import _

if TYPE_CHECKING:
    from core.hardware import Calibration

CACHE_LINE_BYTES = 64  # of x86 and most ARM processors; a core never fetches less from memory
STEP = CACHE_LINE_BYTES // ITEM_BYTES
MIN_N, MAX_N = STEP, 2**14
WINDOW_SECONDS = 0.5
BUSY_WARNING = 0.10  # a tenth of the processor went to other work

OnProgress = Callable[[float, str], None]


@dataclass(frozen=True)
class Case:
    """Something done with the matrix, and the elements it must move, as a multiple of n²."""

    name: str
    code: str
    moved: float
    run: Callable[[Any], object]


CASES = {
    one.name: one
    for one in (
        Case("rows", "x.sum(dim=1)", 1, lambda x: x.sum(dim=1)),
        Case("columns", "x.sum(dim=0)", 1, lambda x: x.sum(dim=0)),
        Case("stepped", f"x[:, ::{STEP}].sum()", 1 / STEP, lambda x: x[:, ::STEP].sum()),
        Case("copy", "x.clone()", 2, lambda x: x.clone()),
        Case("transposed", "x.t().contiguous()", 2, lambda x: x.t().contiguous()),
        Case("view", "x.t()", 0, lambda x: x.t()),
    )
}
NAMES = tuple(CASES)


@dataclass(frozen=True)
class CostRun:
    """Seconds of every case, and of the pieces that explain them.

    ``kept_copy`` and ``kept_transposed`` copy into a matrix that is there already; ``tiny`` has each case with n = 16.
    """

    n: int
    times: dict[str, Measurement]
    kept_copy: Measurement
    kept_transposed: Measurement
    tiny: dict[str, float]

    @property
    def settings(self) -> tuple[int, int]:
        """(n, threads): what the controls must share with this run."""
        return self.n, self.times["rows"].conditions.threads

    @property
    def matrix_bytes(self) -> int:
        return self.n**2 * ITEM_BYTES


def moved_bytes(name: str, n: int) -> int:
    """Bytes that a case has to read and write.

    >>> moved_bytes("rows", 4096), moved_bytes("stepped", 4096), moved_bytes("transposed", 4096), moved_bytes("view", 9)
    (67108864, 4194304, 134217728, 0)
    """
    return int(CASES[one_of(_("case"), name, NAMES)].moved * n**2 * ITEM_BYTES)


def check_cost(n: int) -> int:
    """n, if it is a multiple of 16 whose matrices fit. Raises ValueError otherwise, before anything is made.

    >>> check_cost(1000)
    Traceback (most recent call last):
    ValueError: n must be a multiple of 16, so that rows begin at a cache line; received 1000
    """
    n = whole_number("n", n, MIN_N, MAX_N)
    if n % STEP:
        message = _("n must be a multiple of {step}, so that rows begin at a cache line; received {n}")
        raise ValueError(message.format(step=STEP, n=n))
    wanted, limit = 3 * n**2 * ITEM_BYTES, MatmulLimits.from_environment().max_bytes
    if wanted > limit:
        message = _("three matrices of {n} × {n} take {wanted}; the limit here is {limit}")
        texts = {"wanted": units.binary_bytes(wanted), "limit": units.binary_bytes(limit)}
        raise ValueError(message.format(n=n, **texts))
    return n


def measure_cost(
    n: int = 4096,
    *,
    threads: int | None = None,
    window_seconds: float = WINDOW_SECONDS,
    on_progress: OnProgress | None = None,
) -> CostRun:
    """Time every case on an n × n matrix, in about six seconds: run it as a job.

    Errors: ValueError for an n that does not fit, before anything is allocated.

    >>> run = measure_cost(64, threads=1, window_seconds=0.001)
    >>> set(run.times) == set(NAMES), run.kept_copy.unit
    (True, 's')
    """
    import torch

    from core import timing

    n = check_cost(n)
    x, kept, small = torch.rand(n, n), torch.zeros(n, n), torch.rand(MIN_N, MIN_N)
    tasks: dict[str, Callable[[], object]] = {name: _call(case, x) for name, case in CASES.items()}
    tasks["kept_copy"] = lambda: kept.copy_(x)
    tasks["kept_transposed"] = lambda: kept.copy_(x.t())
    tasks |= {f"tiny {name}": _call(case, small) for name, case in CASES.items()}
    times: dict[str, Measurement] = {}
    for number, (name, task) in enumerate(tasks.items()):
        if on_progress is not None:
            on_progress(number / len(tasks), CASES[name].code if name in CASES else _("the pieces, one by one"))
        seconds = window_seconds / (10 if name.startswith("tiny") else 1)
        times[name] = timing.time_calls(task, min_seconds=seconds, max_seconds=max(4.0, seconds), threads=threads)
    tiny = {name: times[f"tiny {name}"].minimum for name in CASES}
    cases = {name: times[name] for name in CASES}
    return CostRun(n, cases, times["kept_copy"], times["kept_transposed"], tiny)


def predict_cost(name: str, n: int, bytes_per_sec: float) -> Prediction:
    """Seconds of a case: the bytes that it has to move over the bandwidth.

    >>> predict_cost("transposed", 4096, 20e9).text
    '6.71 ms'
    """
    moved = moved_bytes(name, n)
    formula = f"{units.si_bytes(moved)} / {units.si(bytes_per_sec, 'B/s')}"
    terms = (
        Term(_("bytes moved"), moved, _("read and written, each once"), "B"),
        Term(_("bandwidth"), bytes_per_sec, _("of an elementwise operation on large arrays, calibrated"), "B/s"),
    )
    return Prediction(_("time"), moved / bytes_per_sec, "s", formula, terms, _("calibrated on this machine"))


def compare_cost(run: CostRun, name: str, calibration: Calibration) -> Comparison:
    """A case's predicted time beside the measured one, with the measured pieces of the difference."""
    bandwidth = calibration.bytes_per_sec
    prediction, time = predict_cost(name, run.n, bandwidth), run.times[name]
    parts = [Term(_("call overhead"), run.tiny[name], _("the same with {n} × {n}").format(n=MIN_N))]
    if name == "stepped":
        lines = (run.matrix_bytes - moved_bytes(name, run.n)) / bandwidth
        note = _("each number brings the {line} bytes of its cache line along: the whole matrix is read")
        parts.append(Term(_("cache lines"), lines, note.format(line=CACHE_LINE_BYTES)))
    if name in ("copy", "transposed"):
        kept = run.kept_copy if name == "copy" else run.kept_transposed
        note = _("a new matrix's memory, against copying into one that is there")
        parts.append(Term(_("new memory"), time.minimum - kept.minimum, note))
    if name == "transposed":
        note = _("reads go down the columns: a cache line for each number")
        parts.append(Term(_("strided reads"), run.kept_transposed.minimum - run.kept_copy.minimum, note))
    note = _("the median call over the fastest one: other work, interrupts, clock changes")
    parts.append(Term(_("interruptions"), time.value - time.minimum, note))
    return Comparison(prediction, time, tuple(part for part in parts if part.value), _warnings(run, time, calibration))


def _call(case: Case, x: Any) -> Callable[[], object]:
    return lambda: case.run(x)


def _warnings(run: CostRun, time: Measurement, calibration: Calibration) -> tuple[str, ...]:
    warnings = []
    busy = time.conditions.busy_fraction or 0.0
    if busy >= BUSY_WARNING:
        message = _("The machine was busy: {share:.0%} of the processor went to other work. Measure again.")
        warnings.append(message.format(share=busy))
    cache = calibration.last_cache_bytes
    if cache is not None and run.matrix_bytes <= cache:
        message = _("The matrix ({size}) fits into the last cache ({cache}): it can be faster than memory.")
        texts = {"size": units.binary_bytes(run.matrix_bytes), "cache": units.binary_bytes(cache)}
        warnings.append(message.format(**texts))
    return tuple(warnings)
