"""One run in every precision side by side, what underflows in fp16, and what few bits cost a trained model (§6.8)."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.checks import one_of, whole_number
from core.optimizers import measured_state_bytes
from core.training.config import PRECISIONS, TrainConfig
from core.training.loop import Trainer
from core.training.models import loss_of
from core.training.quantised import WEIGHT_FORMATS, quantise_model

OnProgress = Callable[[float], None]
MAX_COMPARED_STEPS = 2000
EVALUATION_SEED = 2**31 - 1  # other batches than those of any run that somebody types


@dataclass(frozen=True)
class PrecisionRun:
    """A run in one precision. ``tokens_per_sec`` is the median of its steps; bytes are those after the last step.

    ``emulated``: the numbers are those of the format, the speed is not.
    """

    precision: str
    losses: tuple[float, ...]
    tokens_per_sec: float
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    emulated: bool

    @property
    def total_bytes(self) -> int:
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes


def compare_precisions(
    config: TrainConfig,
    precisions: Sequence[str] = PRECISIONS,
    *,
    data: Any = None,
    on_progress: OnProgress = lambda _fraction: None,
) -> tuple[PrecisionRun, ...]:
    """Train with the same seed in each precision, one after another. Raises ValueError.

    >>> runs = compare_precisions(TrainConfig(num_steps=3), ("fp32", "bf16"))
    >>> [(one.precision, one.total_bytes) for one in runs]
    [('fp32', 4224), ('bf16', 2112)]
    """
    whole_number("num_steps", config.num_steps, 1, MAX_COMPARED_STEPS)
    for precision in precisions:
        one_of("precision", precision, PRECISIONS)
    runs = []
    for number, precision in enumerate(precisions):
        trainer = Trainer(config.replace(precision=precision), data=data)
        records = []
        while not trainer.finished:
            records.append(trainer.advance())
            on_progress((number + trainer.step / config.num_steps) / len(precisions))
        parameters = sum(p.nbytes for p in trainer.parameters)
        runs.append(
            PrecisionRun(
                precision,
                tuple(record.loss for record in records),
                statistics.median(record.tokens_per_sec for record in records),
                parameters,
                parameters,  # a gradient has its parameter's dtype; zero_grad has just freed it
                sum(map(measured_state_bytes, trainer.optimizers)),
                "matmul" in precision,
            )
        )
    return tuple(runs)


@dataclass(frozen=True)
class LayerUnderflow:
    """One layer's gradients in a precision, beside those in fp32 of the same weights and batch.

    ``zero_share`` is the share of those that are 0 and would not be in fp32. ``median_size`` is the median of |g| in
    fp32, without the loss scale; 0 where all are.
    """

    layer: str
    num_gradients: int
    zero_share: float
    median_size: float


def gradient_underflow(
    config: TrainConfig, precision: str = "fp16 unscaled", *, data: Any = None
) -> tuple[LayerUnderflow, ...]:
    """Which gradients underflow, layer by layer, after ``config.num_steps`` steps in fp32.

    ``config.loss_scale_log2`` scales the loss in both. Raises ValueError.

    >>> layers = gradient_underflow(TrainConfig(num_steps=1, loss_scale_log2=-36))
    >>> [(one.layer, one.zero_share) for one in layers]
    [('layers.0', 1.0), ('layers.1', 1.0), ('head', 1.0)]
    """
    whole_number("num_steps", config.num_steps, 1, MAX_COMPARED_STEPS)
    exact = Trainer(config.replace(precision="fp32"), data=data)
    while not exact.finished:
        exact.advance()
    rounded = Trainer(config.replace(precision=precision), data=data)
    rounded.model.load_state_dict(exact.model.state_dict())
    inputs, targets = exact.batches.next()
    of: list[dict[str, list[Tensor]]] = []
    for trainer in (exact, rounded):
        trainer.backward(inputs, targets)
        layers: dict[str, list[Tensor]] = {}
        for name, parameter in trainer.model.named_parameters():
            assert parameter.grad is not None
            layers.setdefault(_layer(name), []).append(parameter.grad.flatten().float())
        of.append(layers)
    rows = []
    for layer, gradients in of[0].items():
        wanted, got = torch.cat(gradients), torch.cat(of[1][layer])
        there = wanted != 0
        lost = int((there & (got == 0)).sum())
        median = float(wanted[there].abs().median()) / exact.loss_scale if bool(there.any()) else 0.0
        rows.append(LayerUnderflow(layer, wanted.numel(), lost / max(1, int(there.sum())), median))
    return tuple(rows)


def _layer(name: str) -> str:
    """blocks.0.attention.query.weight belongs to blocks.0, network.layers.2.linear.weight to layers.2."""
    parts = name.removeprefix("network.").split(".")
    return ".".join(parts[:2]) if len(parts) > 1 and parts[1].isdigit() else parts[0]


@dataclass(frozen=True)
class WeightOnly:
    """A trained model with its matrices stored in one format: its loss, and the bytes of all of its parameters."""

    name: str
    loss: float
    num_bytes: int
    bits_per_parameter: float


def trained(config: TrainConfig, checkpoint: str | Path | None = None, *, data: Any = None) -> Trainer:
    """A run at its end, or where its checkpoint has it."""
    trainer = Trainer(config, data=data)
    if checkpoint is not None:
        trainer.load(checkpoint)
    while checkpoint is None and not trainer.finished:
        trainer.advance()
    return trainer


def evaluate(trainer: Trainer, model: torch.nn.Module | None = None, num_batches: int = 8) -> float:
    """The mean loss on batches that no run draws, the same at every call; the run's own batches stay where they are."""
    model = trainer.model if model is None else model
    position = trainer.batches.state_dict()
    trainer.batches.generator.manual_seed(EVALUATION_SEED)
    with torch.no_grad():
        losses = [float(loss_of(model, *trainer.batches.next())) for _batch in range(num_batches)]
    trainer.batches.load_state_dict(position)
    return statistics.fmean(losses)


def compare_weight_only(
    trainer: Trainer, formats: Sequence[str] = WEIGHT_FORMATS, num_batches: int = 8
) -> tuple[WeightOnly, ...]:
    """The trained model with its weights rounded to each format; the trainer's own stays as it is. Raises ValueError.

    >>> rows = compare_weight_only(trained(TrainConfig(num_steps=200)), ("fp32", "int8", "int4"))
    >>> [one.num_bytes for one in rows], rows[0].loss < rows[1].loss < rows[2].loss
    ([2112, 608, 608], True)
    """
    rows = []
    for name in formats:
        model = copy.deepcopy(trainer.model)
        num_bytes = quantise_model(model, name)
        loss = evaluate(trainer, model, whole_number("num_batches", num_batches, 1, 1000))
        rows.append(WeightOnly(name, loss, num_bytes, 8 * num_bytes / trainer.config.num_params))
    return tuple(rows)
