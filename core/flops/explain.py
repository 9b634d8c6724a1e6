"""The time of a matrix multiply: predicted from a peak, compared with what was measured, the difference named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import units
from core.claims import Comparison, Measurement, Prediction, Term
from core.flops.counting import matmul_flops
from core.words import _

if TYPE_CHECKING:
    from core.flops.matmul import MatmulRun
    from core.hardware import Calibration, Device

BUSY_WARNING = 0.10  # a tenth of the processor went to other work
BEYOND = 1.15  # times a calibrated peak: no chance of a faster trial, the peak is too low


@dataclass(frozen=True)
class Peak:
    """The FLOP/s that a prediction divides by: promised in a data sheet, or calibrated on this machine.

    ``dtype`` is the dtype whose peak it is. Where a processor has no instructions for the dtype asked for, that is
    fp32: the napkin of somebody who expects fewer bits to be no slower.
    """

    flop_per_sec: float | None
    kind: str  # "promised" | "calibrated" | "unknown"
    dtype: str
    source: str


def choose_peak(device: Device, dtype: str, calibration: Calibration | None) -> Peak:
    """The peak to predict with: the device's data sheet, else what was calibrated here, else unknown.

    Never a peak of another device, and never one of another dtype, but for a dtype that this processor has no
    instructions for (see ``Peak``).
    """
    if device.accelerator is not None:
        promised = device.accelerator.peak_flop_per_sec(dtype)
        if promised is not None:
            return Peak(promised, "promised", dtype, device.accelerator.source)
    borrowed = dtype if device.id != "cpu" or device.is_native(dtype) in (True, None) else "fp32"
    measured = calibration.peak_flop_per_sec(borrowed) if calibration is not None else None
    if measured is not None and calibration is not None:
        ceiling = calibration.ceiling(borrowed)
        assert ceiling is not None
        source = _("calibrated on this machine: the best of {sizes} squared in {dtype}, {threads} threads, {date}")
        sizes = ", ".join(str(size) for size in ceiling.sizes)
        text = source.format(sizes=sizes, dtype=borrowed, threads=calibration.threads, date=calibration.date[:10])
        return Peak(measured, "calibrated", borrowed, text)
    if device.accelerator is not None:
        unknown = _("no sourced dense {dtype} peak for {name}")
    else:
        unknown = _("no data sheet names {name}: calibrate it first")
    return Peak(None, "unknown", dtype, unknown.format(dtype=dtype, name=device.name))


def predict_matmul_time(b: int, d: int, k: int, peak: Peak) -> Prediction:
    """Seconds of (B, D) @ (D, K) if every FLOP ran at the peak: 2BDK over the peak; unknown where the peak is.

    >>> predict_matmul_time(16384, 32768, 8192, Peak(989.5e12, "promised", "bf16", "")).text
    '8.89 ms'
    """
    flops = matmul_flops(b, d, k)
    if peak.flop_per_sec is None:
        return Prediction(_("time"), None, "s", _("2·B·D·K / peak"), unknown=peak.source)
    terms = (
        Term("2·B·D·K", flops, unit="FLOP"),
        Term(_("{kind} peak, {dtype}").format(kind=_(peak.kind), dtype=peak.dtype), peak.flop_per_sec, unit="FLOP/s"),
    )
    formula = f"{flops:,} FLOP / {units.si(peak.flop_per_sec, 'FLOP/s')}"
    return Prediction(_("time"), flops / peak.flop_per_sec, "s", formula, terms, peak.source)


def compare_matmul_time(run: MatmulRun, peak: Peak, calibration: Calibration | None) -> Comparison:
    """The predicted time beside the measured one, and what the difference is made of, each part measured.

    Parts: what the device reaches of its promise, or lacks instructions for; what a square of the same FLOPs loses to
    its size; the cost of any call; memory traffic beyond the arithmetic, where the matrices do not fit the last
    cache; and interruptions (median over minimum). The rest is unexplained, mostly the shape's own.
    """
    prediction = predict_matmul_time(run.b, run.d, run.k, peak)
    if prediction.value is None:
        return Comparison(prediction, run.time, warnings=_warnings(run, peak))
    parts = [] if calibration is None else _machine_parts(run, prediction.value, peak, calibration)
    interrupted = run.time.value - run.time.minimum
    note = _("the median trial over the fastest one: other work, interrupts, clock changes")
    parts.append(Term(_("interruptions"), interrupted, note))
    return Comparison(prediction, run.time, tuple(part for part in parts if part.value > 0), _warnings(run, peak))


def compare_matmul_rate(run: MatmulRun, peak: Peak, calibration: Calibration | None) -> Comparison:
    """The peak beside the achieved FLOP/s; their ratio is the MFU of this multiplication.

    The parts are those of the time, turned into FLOP/s lost: each part's share of the extra time.
    """
    of_time = compare_matmul_time(run, peak, calibration)
    source = peak.source
    if peak.flop_per_sec is None:
        prediction = Prediction("FLOP/s", None, "FLOP/s", _("peak"), unknown=source)
    else:
        formula = _("{kind} peak, {dtype}").format(kind=_(peak.kind), dtype=peak.dtype)
        prediction = Prediction("FLOP/s", peak.flop_per_sec, "FLOP/s", formula, source=source)
    rates = tuple(run.flops / seconds for seconds in run.time.samples)
    measurement = Measurement("FLOP/s", rates, "FLOP/s", run.time.conditions)
    parts: tuple[Term, ...] = ()
    if of_time.prediction.value:
        lost = -run.flops / (of_time.prediction.value * run.time.value)
        parts = tuple(Term(part.name, lost * part.value, part.note) for part in of_time.parts)
    return Comparison(prediction, measurement, parts, of_time.warnings)


def compare_lecture_method(run: MatmulRun) -> Comparison:
    """The lecture's way of timing (mean of five, no warm-up) beside the warm median, which plays the prediction.

    Named: the cold first call, and the output that each call of the lecture allocates anew.
    """
    warm, lecture = run.time, run.lecture_time
    formula = _("median of {trials:,} warm trials").format(trials=warm.conditions.trials)
    prediction = Prediction(_("time"), warm.value, "s", formula, source=warm.conditions.text)
    others = sorted(lecture.samples[1:]) or [lecture.samples[0]]
    usual = others[len(others) // 2]
    cold = (lecture.samples[0] - usual) / len(lecture.samples)
    parts = (
        Term(
            _("cold first call"),
            cold,
            _("it took {first}; a fifth of the surplus enters the mean").format(
                first=units.seconds(lecture.samples[0])
            ),
        ),
        Term(
            _("not warm yet, new output"), usual - warm.value, _("the median of the other calls over the warm median")
        ),
    )
    return Comparison(prediction, lecture, parts)


def _machine_parts(run: MatmulRun, predicted: float, peak: Peak, calibration: Calibration) -> list[Term]:
    """The parts that come from the calibration, in seconds."""
    ceiling = calibration.ceiling(run.dtype)
    if ceiling is None or peak.flop_per_sec is None:
        return []
    parts = []
    at_ceiling = run.flops / ceiling.flop_per_sec
    if at_ceiling > predicted:
        rate = units.si(ceiling.flop_per_sec, "FLOP/s")
        if peak.kind == "promised":
            name, why = _("promise not reached"), _("large squares reach {rate} here")
        else:
            name, why = (
                _("no {dtype} instructions").format(dtype=run.dtype),
                _("large squares reach {rate} here in {dtype}; {why}"),
            )
        note = why.format(rate=rate, dtype=run.dtype, why=ceiling.why)
        parts.append(Term(name, at_ceiling - predicted, note))
    overhead = ceiling.call_overhead_seconds
    square = round((run.b * run.d * run.k) ** (1 / 3))
    at_size = run.flops / ceiling.flop_per_sec_at(square)
    note = _("a {n} × {n} square, as many FLOPs, reaches {rate}")
    rate = units.si(ceiling.flop_per_sec_at(square), "FLOP/s")
    small = max(0.0, at_size - at_ceiling - overhead)
    parts.append(Term(_("small size"), small, note.format(n=square, rate=rate)))
    parts.append(Term(_("call overhead"), overhead, _("what a 1 × 1 multiplication costs")))
    parts.append(_memory_part(run, at_ceiling + small, calibration))
    return parts


def _memory_part(run: MatmulRun, arithmetic_seconds: float, calibration: Calibration) -> Term:
    cache = calibration.last_cache_bytes
    if cache is not None and run.matrix_bytes <= cache:
        return Term(_("memory traffic"), 0.0, _("the matrices stay in the cache"))
    moving = run.matrix_bytes / calibration.bytes_per_sec
    note = _("{size} at {rate} beyond the time of the arithmetic")
    text = note.format(size=units.si_bytes(run.matrix_bytes), rate=units.si(calibration.bytes_per_sec, "B/s"))
    return Term(_("memory traffic"), max(0.0, moving - arithmetic_seconds), text)


def beats_ceiling(run: MatmulRun, peak: Peak) -> bool:
    """Whether a run is faster than its calibrated peak, which then was taken in a bad moment."""
    if peak.kind != "calibrated" or peak.dtype != run.dtype or peak.flop_per_sec is None:
        return False
    return run.flops / run.time.value > BEYOND * peak.flop_per_sec


def _warnings(run: MatmulRun, peak: Peak) -> tuple[str, ...]:
    found = []
    busy = run.time.conditions.busy_fraction
    if busy is not None and busy >= BUSY_WARNING:
        message = _(
            "The machine was busy: {share:.0%} of the processor went to other work. Measure again when it is quiet."
        )
        found.append(message.format(share=busy))
    if beats_ceiling(run, peak) and peak.flop_per_sec is not None:
        message = _("This is {factor} the calibrated peak, so that peak is too low: calibrate again.")
        found.append(message.format(factor=units.factor(run.flops / run.time.value / peak.flop_per_sec)))
    return tuple(found)
