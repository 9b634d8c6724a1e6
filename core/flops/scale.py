"""The scale of things: the FLOPs of famous trainings, and what a room full of accelerators does in a week."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from core import hardware
from core.checks import positive_number, whole_number
from core.claims import Prediction, Term
from core.words import _

GPT3_TRAINING_FLOPS = 3.14e23  # Brown et al. 2020, table D.1: 3.14e23
GPT4_TRAINING_FLOPS = 2e25  # an outside estimate quoted by CS336 lecture 2; OpenAI published no figure
LECTURE_H100_BF16_FLOP_PER_SEC = 1979e12 / 2  # CS336 lecture 2: half of the sheet's sparse figure
LECTURE_A100_BF16_FLOP_PER_SEC = 312e12  # CS336 lecture 2; NVIDIA A100 datasheet, dense
SECONDS_PER_WEEK = 7 * 24 * 60 * 60


@dataclass(frozen=True)
class Landmark:
    """A training whose FLOPs are published or guessed at, with the source."""

    name: str
    flops: float
    source: str
    speculated: bool = False

    @property
    def label(self) -> str:
        return _("{name} (speculated)").format(name=self.name) if self.speculated else self.name


LANDMARKS = (
    Landmark("GPT-3", GPT3_TRAINING_FLOPS, "Brown et al. 2020, appendix D"),
    Landmark("GPT-4", GPT4_TRAINING_FLOPS, "speculated; quoted by CS336 lecture 2", speculated=True),
)


@dataclass(frozen=True)
class PromisedPeak:
    """A dense peak to compute with: a data sheet's, or the lecture's own figure where that is a round one."""

    name: str
    flop_per_sec: float | None
    source: str
    doubt: str | None = None


def promised_peaks(dtype: str) -> dict[str, PromisedPeak]:
    """Peaks by name: the lecture's two first, then every accelerator of the table, None where none is known.

    >>> promised_peaks("bf16")["H100 (the lecture's)"].flop_per_sec
    989500000000000.0
    """
    return dict(_promised_peaks(dtype))


@functools.lru_cache(maxsize=32)
def _promised_peaks(dtype: str) -> dict[str, PromisedPeak]:
    peaks = []
    if dtype == "bf16":
        peaks = [
            PromisedPeak(
                "H100 (the lecture's)",
                LECTURE_H100_BF16_FLOP_PER_SEC,
                _("CS336 lecture 2: 1979e12 is sparse, half is dense"),
            ),
            PromisedPeak("A100 (the lecture's)", LECTURE_A100_BF16_FLOP_PER_SEC, _("CS336 lecture 2")),
        ]
    for one in sorted(hardware.all_accelerators(), key=lambda one: one.name):
        peaks.append(PromisedPeak(one.name, one.peak_flop_per_sec(dtype), one.source, one.doubt(dtype)))
    return {peak.name: peak for peak in peaks}


def budget_flops(num_devices: int, peak_flop_per_sec: float, seconds: float, mfu: float = 1.0) -> float:
    """FLOPs that so many devices do in that time at that fraction of their peak.

    Source: CS336 lecture 2, §5.4. Raises ValueError for what is not a positive number.

    >>> f"{budget_flops(8, 1979e12 / 2, 7 * 86400):.5g}"
    '4.7876e+21'
    """
    num_devices = whole_number(_("number of devices"), num_devices, 1, 10**7)
    peak_flop_per_sec = positive_number(_("peak FLOP/s"), peak_flop_per_sec)
    return num_devices * peak_flop_per_sec * positive_number(_("seconds"), seconds) * positive_number("MFU", mfu)


def predict_budget(num_devices: int, peak_flop_per_sec: float | None, weeks: float, mfu: float = 1.0) -> Prediction:
    """What a cluster does in so many weeks, as a claim; unknown where the peak is.

    >>> predict_budget(8, 1979e12 / 2, 2).text
    '9.58 ZFLOP'
    """
    if peak_flop_per_sec is None:
        missing = _("no sourced dense peak for this accelerator and dtype")
        return Prediction(_("FLOPs"), None, "FLOP", _("devices × peak × seconds × MFU"), unknown=missing)
    seconds = weeks * SECONDS_PER_WEEK
    flops = budget_flops(num_devices, peak_flop_per_sec, seconds, mfu)
    terms = (
        Term(_("devices"), num_devices, unit=""),
        Term(_("peak of each, dense"), peak_flop_per_sec, unit="FLOP/s"),
        Term(_("time"), seconds, unit="s"),
        Term("MFU", mfu, unit=""),
    )
    formula = f"{num_devices:,} × {peak_flop_per_sec / 1e12:g}e12 FLOP/s × {seconds:,.0f} s × {mfu:g}"
    return Prediction(_("FLOPs"), flops, "FLOP", formula, terms, _("CS336 lecture 2, §5.4"))


def weeks_of_training(total_flops: float, num_devices: int, peak_flop_per_sec: float, mfu: float = 1.0) -> float:
    """Weeks that so many devices need for so many FLOPs.

    >>> round(weeks_of_training(GPT3_TRAINING_FLOPS, 8, 1979e12 / 2), 2)
    65.59
    """
    per_week = budget_flops(num_devices, peak_flop_per_sec, SECONDS_PER_WEEK, mfu)
    return positive_number(_("FLOPs"), total_flops) / per_week
