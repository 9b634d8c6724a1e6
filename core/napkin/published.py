"""Trainings that were published: what the napkin predicts, what was reported, and the MFU that this implies."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from core import units
from core.checks import positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.napkin.estimates import FLOPS_PER_PARAM_AND_TOKEN
from core.words import _

TABLE = Path(__file__).with_name("published_runs.csv")
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class PublishedRun:
    """One row: what a report said of a training, or of a benchmark of a few steps.

    ``num_params`` are all parameters, ``active_params`` those that a token passes through (fewer in a mixture of
    experts). ``gpu_hours`` is None where none was reported. ``is_benchmark``: an hour's throughput of a few steps, not
    a training. ``status`` is "read" where somebody read the source, else "partly" or "unverified".
    """

    model: str
    num_params: float
    active_params: float
    num_tokens: float
    accelerator: str
    gpu_hours: float | None
    peak_flop_per_sec: float
    reported: str
    status: str
    source: str
    notes: str

    @property
    def is_benchmark(self) -> bool:
        return "bench" in self.model or "torchtitan" in self.model or "iteration" in self.model

    @property
    def is_doubtful(self) -> bool:
        return self.status != "read"

    @property
    def flops(self) -> float:
        """6ND with the active parameters."""
        return FLOPS_PER_PARAM_AND_TOKEN * self.active_params * self.num_tokens

    @property
    def implied_mfu(self) -> float | None:
        """The share of the peak that the reported hours imply; None without hours."""
        if self.gpu_hours is None:
            return None
        return self.flops / (self.gpu_hours * SECONDS_PER_HOUR * self.peak_flop_per_sec)

    def predicted_gpu_hours(self, mfu: float) -> float:
        """The napkin's hours at that fraction of the peak."""
        return self.flops / (self.peak_flop_per_sec * positive_number("MFU", mfu) * SECONDS_PER_HOUR)


@functools.cache
def published_runs() -> tuple[PublishedRun, ...]:
    """All rows, the doubtful ones too.

    >>> run = next(run for run in published_runs() if run.model == "Llama 3.1 405B")
    >>> round(run.implied_mfu, 3)
    0.345
    """
    with TABLE.open(encoding="utf-8", newline="") as lines:
        return tuple(_run(row) for row in csv.DictReader(lines))


def _run(row: dict[str, str]) -> PublishedRun:
    params = float(row["params_N"])
    return PublishedRun(
        model=row["model"],
        num_params=params,
        active_params=float(row["active_params"] or params),
        num_tokens=float(row["tokens_D"]),
        accelerator=row["accelerator"],
        gpu_hours=float(row["gpu_hours"]) if row["gpu_hours"] else None,
        peak_flop_per_sec=float(row["peak_bf16_dense"]),
        reported=row["reported_mfu_or_tflops"],
        status=row["status"],
        source=row["source"],
        notes=row["notes"],
    )


def flops_per_token(num_params: float, num_layers: int = 0, d_model: int = 0, seq_len: int = 0) -> float:
    """Training FLOPs for a token: 6N, and 12·L·d·T for the attention where a shape is given.

    Source: PaLM (Chowdhery et al. 2022), appendix B; the full T × T square is counted, causal or not.

    >>> flops_per_token(6.65886e9)
    39953160000.0
    >>> flops_per_token(6.65886e9, 32, 4096, 2048)
    43174385472.0
    """
    base = FLOPS_PER_PARAM_AND_TOKEN * positive_number(_("number of parameters"), num_params)
    attention = 12 * num_layers * d_model * seq_len
    return base + attention


def mfu_of_throughput(
    tokens_per_sec: float, num_devices: int, peak_flop_per_sec: float, flops_per_token: float
) -> float:
    """MFU of a training step from its tokens per second. Source: PaLM (Chowdhery et al. 2022), appendix B.

    >>> round(100 * mfu_of_throughput(238.3e3, 6144, 275e12, 6 * 540e9), 2)  # PaLM 540B, without attention
    45.7
    """
    devices = whole_number(_("number of devices"), num_devices, 1, 10**7)
    rate = positive_number(_("tokens per second"), tokens_per_sec) * positive_number(
        _("FLOPs per token"), flops_per_token
    )
    return rate / (devices * positive_number(_("peak FLOP/s"), peak_flop_per_sec))


def compare_gpu_hours(run: PublishedRun, mfu: float) -> Comparison | None:
    """The napkin's GPU-hours beside the reported ones; None where none were reported.

    The difference is one factor: the assumed MFU over the implied one.
    """
    if run.gpu_hours is None or run.implied_mfu is None:
        return None
    work = f"6 · {units.count(run.active_params)} · {units.count(run.num_tokens)}"
    formula = f"{work} / ({units.si(run.peak_flop_per_sec, 'FLOP/s')} · {mfu:g} · 3,600 s)"
    prediction = Prediction("GPU-hours", run.predicted_gpu_hours(mfu), "GPU-hours", formula, source=run.source)
    notes = tuple(one for one in (run.source, run.notes) if one)
    conditions = Conditions(
        run.accelerator, run.accelerator, _("bf16 peak"), threads=0, warmup=0, trials=1, notes=notes
    )
    measurement = Measurement("GPU-hours", (run.gpu_hours,), "GPU-hours", conditions)
    note = _("the hours imply {implied:.1%} of the peak, the napkin assumed {mfu:.1%}")
    part = Term(
        _("a different MFU"),
        run.gpu_hours - run.predicted_gpu_hours(mfu),
        note.format(implied=run.implied_mfu, mfu=mfu),
    )
    return Comparison(prediction, measurement, (part,))


@functools.cache
def published_table() -> tuple[dict[str, object], ...]:
    """All rows for a table: what was reported, what follows, how far it can be trusted."""
    return tuple(
        {
            _("model"): run.model,
            _("kind"): _("benchmark") if run.is_benchmark else _("training"),
            _("active parameters"): run.active_params,
            _("tokens"): run.num_tokens,
            _("accelerator"): run.accelerator,
            _("GPU-hours"): run.gpu_hours,
            _("implied MFU"): None if run.implied_mfu is None else round(run.implied_mfu, 3),
            _("reported"): run.reported,
            _("status"): run.status,
            _("source"): run.source,
            _("notes"): run.notes,
        }
        for run in published_runs()
    )
