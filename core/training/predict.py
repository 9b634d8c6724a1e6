"""A run on a napkin: its loss before the first step, FLOPs, seconds and FLOP/s of a step, beside the run's records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core import units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term, spread_sample
from core.flops.explain import Peak
from core.hardware import available_cores, device_name_of
from core.optimizers.registry import OPTIMIZERS
from core.training.config import TrainConfig
from core.training.records import StepRecord
from core.words import _

if TYPE_CHECKING:
    from core.memory.config import StepConfig
    from core.training.runs import RunInfo

EMBEDDING_STD = 0.02  # core.models.Embedding's
SKIPPED_STEPS = 3  # the first are cold
KEPT_SAMPLES = 2000


def predict_initial_loss(config: TrainConfig) -> Prediction:
    """The loss before the first step: log V where every token is as likely as any; E[y²] where the guess is about 0.

    >>> predict_initial_loss(TrainConfig(task="text", dim=64)).formula
    'log 256'
    >>> predict_initial_loss(TrainConfig(dim=16)).value
    1240
    """
    if config.task == "text":
        return Prediction(
            _("loss at step 0"), math.log(config.vocab_size), "nats", f"log {config.vocab_size}", source="−Σ p·log(1/V)"
        )
    d = config.dim
    squares = (d - 1) * d * (2 * d - 1) // 6
    formula = f"0² + 1² + … + {d - 1}² = {d - 1}·{d}·{2 * d - 1}/6"
    return Prediction(_("loss at step 0"), squares, "", formula, source=_("y = Σ i·xᵢ with xᵢ ~ N(0, 1): E[y²] = Σ i²"))


def compare_initial_loss(config: TrainConfig, first: StepRecord) -> Comparison:
    """The prediction beside the first record; named is what the fresh network adds to it, on average.

    Logits with a spread of σ add about σ²/2: log Σ exp of V normal numbers is log V + σ²/2. The regression's fresh
    output y′ has E[y′²] = 1 of its own (the ReLUs leave 2^−L of it), and one batch of B rows scatters by √(2/B).
    """
    prediction = predict_initial_loss(config)
    assert prediction.value is not None
    if config.task == "text":
        variance = config.dim * EMBEDDING_STD**2 if config.tied_head else 1.0
        parts = (Term(_("spread of the logits"), variance / 2, _("σ²/2, with σ² = {v:.3g}").format(v=variance)),)
    else:
        own = 1.0 if config.model == "cruncher" else 2.0**-config.num_layers
        parts = (Term(_("the fresh network's own output"), own, _("E[y′²], weights N(0, 1/D)")),)
    note = _("one batch of {rows:,}").format(rows=config.batch_size)
    conditions = Conditions(config.device, device_name(config), config.precision, 1, 0, 1, notes=(note,))
    return Comparison(prediction, Measurement(prediction.quantity, (first.loss,), prediction.unit, conditions), parts)


def predict_step_flops(config: TrainConfig) -> Prediction:
    """FLOPs of an update, multiplies and adds of matrix products alone.

    >>> predict_step_flops(TrainConfig(dim=4, num_layers=2, batch_size=2)).formula
    '6·2·36 − 2·2·4²'
    """
    if config.task == "text":
        from core.flops.transformer import predict_transformer_flops

        return predict_transformer_flops(config.transformer(), config.batch_size, config.context_length)
    b, n, d = config.batch_size, config.num_params, config.dim
    terms = (
        Term("6·B·N", 6 * b * n, _("forward, and twice that backward")),
        Term(_("no gradient for x"), -2 * b * d * d, _("the first layer's input needs none")),
    )
    return Prediction(_("FLOPs"), config.flops_per_step, "FLOP", f"6·{b:,}·{n:,} − 2·{b:,}·{d:,}²", terms)


def compare_step_flops(config: TrainConfig, counted: int | None = None) -> Comparison:
    """The count beside what torch's counter sees in one real update, run now unless the run has ``counted``.

    >>> compare_step_flops(TrainConfig()).difference
    0
    """
    if counted is None:
        from core.flops import count_flops
        from core.training.loop import Trainer

        trainer = Trainer(config)
        inputs, targets = trainer.batches.next()
        counted = count_flops(lambda: trainer.backward(inputs, targets))
    prediction = predict_step_flops(config)
    name = _("counted by torch's FlopCounterMode")
    conditions = Conditions(config.device, name, config.precision, 1, 0, 1)
    return Comparison(prediction, Measurement(prediction.quantity, (counted,), "FLOP", conditions))


def predict_step_seconds(config: TrainConfig, peak: Peak) -> Prediction:
    """Seconds of an update if every FLOP ran at the peak; unknown where the peak is.

    >>> predict_step_seconds(TrainConfig(), Peak(1e9, "calibrated", "fp32", "")).text
    '10.6 µs'
    """
    flops = config.flops_per_step
    if peak.flop_per_sec is None:
        return Prediction(_("step time"), None, "s", _("FLOPs / peak"), unknown=peak.source)
    formula = f"{flops:,} FLOP / {units.si(peak.flop_per_sec, 'FLOP/s')}"
    return Prediction(_("step time"), flops / peak.flop_per_sec, "s", formula, source=peak.source)


def compare_step_seconds(
    config: TrainConfig, records: Sequence[StepRecord], peak: Peak, threads: int | None = None
) -> Comparison:
    """The prediction beside the median step of a run, the first three left out. Raises ValueError without a record.

    Named: interruptions (the median over the fastest step). The rest is what a small network is made of: calls.
    """
    kept = _warm(records)
    seconds = [record.step_seconds for record in kept]
    median = statistics.median(seconds)
    note = _("the median step over the fastest one: other work, interrupts, clock changes")
    parts = (Term(_("interruptions"), median - min(seconds), note),)
    prediction = predict_step_seconds(config, peak)
    samples = spread_sample(seconds, KEPT_SAMPLES)
    measurement = Measurement(prediction.quantity, samples, "s", _conditions(config, kept, threads))
    return Comparison(prediction, measurement, parts if prediction.value is not None else ())


def compare_step_rate(
    config: TrainConfig, records: Sequence[StepRecord], peak: Peak, threads: int | None = None
) -> Comparison:
    """The peak beside the FLOP/s of a run's steps; their ratio is its MFU. Raises ValueError without a record."""
    kept = _warm(records)
    rates = spread_sample([record.flop_per_sec for record in kept], KEPT_SAMPLES)
    formula = _("{kind} peak, {dtype}").format(kind=_(peak.kind), dtype=peak.dtype)
    unknown = peak.source if peak.flop_per_sec is None else ""
    prediction = Prediction("FLOP/s", peak.flop_per_sec, "FLOP/s", formula, source=peak.source, unknown=unknown)
    return Comparison(prediction, Measurement("FLOP/s", rates, "FLOP/s", _conditions(config, kept, threads)))


def predict_run_seconds(config: TrainConfig, peak: Peak, mfu: float) -> Prediction:
    """Seconds of all steps at a share of the peak.

    >>> predict_run_seconds(TrainConfig(num_steps=100), Peak(1e9, "calibrated", "fp32", ""), 0.5).text
    '2.12 ms'
    """
    one = predict_step_seconds(config, peak)
    if one.value is None:
        return Prediction(_("time"), None, "s", _("steps · FLOPs / (MFU · peak)"), unknown=one.unknown)
    formula = f"{config.num_steps:,} · {units.seconds(one.value)} / {mfu:g}"
    return Prediction(_("time"), config.num_steps * one.value / mfu, "s", formula, source=one.source)


def remaining_seconds(info: RunInfo, records: Sequence[StepRecord]) -> float | None:
    """Seconds until a run's last step, by its median step so far; None before there is one."""
    if not records:
        return None
    left = info.config.num_steps - info.num_records
    return left * statistics.median(record.step_seconds for record in records[-KEPT_SAMPLES:])


def memory_step(config: TrainConfig) -> StepConfig | None:
    """The run's update as ``core.memory`` accounts for it, to predict its memory; None for what it does not cover.

    >>> step = memory_step(TrainConfig(task="text", batch_size=8, num_accumulation_steps=2, optimizer="adamw"))
    >>> step.batch_size, step.accumulation_steps, step.seq_len, step.precision
    (4, 2, 64, 'fp32')
    >>> memory_step(TrainConfig()) is None
    True
    """
    from core.memory.config import StepConfig

    precision = {"fp32": "fp32", "bf16 autocast": "autocast", "bf16": "bf16"}.get(config.precision)
    if config.task != "text" or precision is None or config.optimizer not in OPTIMIZERS:
        return None
    if config.implementation == "torch" and config.optimizer not in ("adam", "adamw"):
        return None
    return StepConfig(
        config.transformer(),
        batch_size=config.batch_size // config.num_accumulation_steps,
        seq_len=config.context_length,
        precision=precision,
        accumulation_steps=config.num_accumulation_steps,
        optimizer=config.optimizer,
        optimizer_implementation="napkin" if config.implementation == "napkin" else "for-loop",
    )


def _warm(records: Sequence[StepRecord]) -> Sequence[StepRecord]:
    if not records:
        raise ValueError(_("the run has no record yet"))
    return records[SKIPPED_STEPS:] or records


def _conditions(config: TrainConfig, records: Sequence[StepRecord], threads: int | None) -> Conditions:
    return Conditions(
        config.device, device_name(config), config.precision, threads or available_cores(), SKIPPED_STEPS,
        len(records), window_seconds=math.fsum(record.step_seconds for record in records),
    )  # fmt: skip


def device_name(config: TrainConfig) -> str:
    """The processor's name; a GPU's is asked of torch in jobs alone, so here it keeps torch's."""
    return device_name_of("cpu") if config.device == "cpu" else config.device
