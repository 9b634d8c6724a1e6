"""The training loop: forward, backward, clip, step, and one record of it (CS336 §6.6, §6.8)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from core import hardware
from core.training.batches import Batches, RegressionBatches, TextBatches
from core.training.checkpoints import load_checkpoint, save_checkpoint
from core.training.clip import clip_grad_norm, gradient_norm
from core.training.config import TrainConfig
from core.training.determinism import seed_everything
from core.training.models import build_model, build_optimizers, loss_of, parameter_dtype
from core.training.parallel import Alone, Parallel, check_shares
from core.training.quantised import QuantisedMatmuls
from core.training.records import StepRecord
from core.training.schedules import Schedule

LECTURE_LR = 0.01  # what a loop that ignores its learning rate uses
MEMORY_SECONDS = 0.1  # between two looks at the memory
_AUTOCAST = {"bf16 autocast": torch.bfloat16, "fp16 scaled": torch.float16, "fp16 unscaled": torch.float16}
# What runs on the device: products on operands of 8 and 4 bits are emulated in fp32.
PEAK_DTYPES = {
    "fp32": "fp32", "fp8 matmul": "fp32", "fp4 matmul": "fp32", "bf16": "bf16", "bf16 autocast": "bf16",
    "fp16 scaled": "fp16", "fp16 unscaled": "fp16",
}  # fmt: skip


class Trainer:
    """A run between two steps: model, optimizer, schedule, batches, and how many steps are done.

    Seeds every generator with ``config.seed``. ``peak_flop_per_sec`` is what an MFU is a share of: the data sheet's
    where the device is in it, else unknown. ``data`` are tokens to use instead of the corpus.

    >>> trainer = Trainer(TrainConfig(num_steps=2))
    >>> trainer.advance().step, trainer.step
    (0, 1)
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        parallel: Parallel | None = None,
        peak_flop_per_sec: float | None = None,
        data: Any = None,
    ) -> None:
        self.config, self.step = config, 0
        self.parallel: Parallel = parallel or Alone()
        seed_everything(config.seed)
        self.device_type = torch.device(config.device).type
        self.model = build_model(config)
        self.called = self.parallel.wrap(self.model)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizers = build_optimizers(config, self.model)
        self.schedule = Schedule(config.schedule, config.lr, config.min_lr, config.warmup_steps, config.num_steps)
        self.batches = self._make_batches(data)
        self.scaled = config.precision == "fp16 scaled"
        self.scaler = torch.amp.GradScaler(self.device_type, enabled=self.scaled)
        self.loss_scale = 2.0**config.loss_scale_log2
        self.flops_per_step = config.flops_per_step
        self.peak_flop_per_sec = peak_flop_per_sec or promised_peak(config)
        self._memory = _Memory(config.device)

    def _make_batches(self, data: Any) -> Batches:
        check_shares(self.config, self.parallel.world)
        each = self.config.batch_size // self.parallel.world
        rows = slice(self.parallel.rank * each, (self.parallel.rank + 1) * each)
        if self.config.task == "text":
            return TextBatches(self.config, rows, data)
        return RegressionBatches(self.config, rows, parameter_dtype(self.config))

    @property
    def finished(self) -> bool:
        """Whether every step is done."""
        return self.step >= self.config.num_steps

    def advance(self) -> StepRecord:
        """One update and its record."""
        config, start = self.config, time.perf_counter()
        lr = self._set_lr()
        loss = self.backward(*self.batches.next())
        norm = self._update()
        self.step += 1
        if config.bug == "no optimizer restored" and self.step == config.num_steps // 2:
            self.optimizers = build_optimizers(config, self.model)  # as if only the model had been saved
        loss_value, norm_value = float(loss), float(norm)  # waits for the device
        seconds = time.perf_counter() - start
        rate = self.flops_per_step / seconds
        return StepRecord(
            self.step - 1,
            loss_value,
            norm_value,
            lr,
            seconds,
            config.tokens_per_step / seconds,
            rate,
            rate / self.peak_flop_per_sec if self.peak_flop_per_sec else None,
            self._memory.bytes(),
            float(self.scaler.get_scale()) if self.scaled else None,
        )

    def backward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Add the batch's gradients to ``.grad``, part by part; the mean loss over all processes, on the device."""
        parts = self.config.num_accumulation_steps
        # The gradient of the mean over a batch is the mean of its parts' gradients: each part's loss is divided.
        share = self.loss_scale * (1.0 if self.config.bug == "mean for sum" else 1.0 / parts)
        losses = []
        pieces = [(inputs, targets)]
        if parts > 1:
            pieces = list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))
        for number, (x, y) in enumerate(pieces):
            with self.parallel.gathering(self.called, last=number == parts - 1):
                with self.autocast():
                    loss = loss_of(self.called, x, y)
                shared = loss * share if share != 1.0 else loss
                (self.scaler.scale(shared) if self.scaled else shared).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        mean = losses[0] if parts == 1 else torch.stack(losses).mean()
        return self.parallel.mean(mean)

    def autocast(self) -> AbstractContextManager[object]:
        """Products in 16, 8 or 4 bits where the precision asks for them."""
        if self.config.precision.endswith(" matmul"):
            return QuantisedMatmuls(self.config.precision.split()[0])
        dtype = _AUTOCAST.get(self.config.precision)
        return nullcontext() if dtype is None else torch.autocast(self.device_type, dtype=dtype)

    def _set_lr(self) -> float:
        lr = self.schedule.lr(self.step)
        used = LECTURE_LR if self.config.bug == "ignored lr" else lr
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = used
        return lr

    def _update(self) -> Tensor:
        if self.scaled:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
        if self.loss_scale != 1.0:
            for p in self.parameters:
                if p.grad is not None:
                    p.grad.div_(self.loss_scale)
        limit = self.config.max_grad_norm
        norm = gradient_norm(self.parameters) if limit is None else clip_grad_norm(self.parameters, limit)
        for optimizer in self.optimizers:
            if self.scaled:
                self.scaler.step(optimizer)  # leaves out a step whose gradients overflowed
            else:
                optimizer.step()
        if self.scaled:
            self.scaler.update()
        if self.config.bug != "no zero_grad":
            for optimizer in self.optimizers:
                optimizer.zero_grad()
        return norm

    def change_lr(self, lr: float) -> None:
        """Use another learning rate (the highest of the schedule) from the next step on. Raises ValueError."""
        self.schedule.max_lr = self.config.replace(lr=lr, min_lr=0.0).lr

    def save(self, path_or_file: str | Path | IO[bytes]) -> int:
        """Write a checkpoint; its bytes."""
        return save_checkpoint(path_or_file, step=self.step, config=self.config, **self._parts())

    def load(self, path_or_file: str | Path | IO[bytes], *, optimizer: bool = True, rng: bool = True) -> None:
        """Go on from a checkpoint: the next steps are those of the run that wrote it, to the bit.

        ``optimizer=False`` and ``rng=False`` leave out what a careless checkpoint leaves out: the optimizer's state;
        the generators' and the position in the data. Raises CheckpointError for what does not fit this run.
        """
        parts = self._parts()
        if not optimizer:
            parts.pop("optimizer")
        if not rng:
            parts.pop("data")
        self.step = load_checkpoint(path_or_file, rng=rng, **parts).step

    def _parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizers,
            "scheduler": self.schedule,
            "scaler": self.scaler,
            "data": self.batches,
            "parallel": self.parallel,
        }


def train(config: TrainConfig, *, peak_flop_per_sec: float | None = None, data: Any = None) -> Iterator[StepRecord]:
    """Train, one record a step.

    Raises ValueError for what cannot be trained, at the first record.

    >>> records = list(train(TrainConfig(num_steps=200, lr=0.001)))
    >>> len(records), records[-1].loss < 1e-6 * records[0].loss
    (200, True)
    """
    trainer = Trainer(config, peak_flop_per_sec=peak_flop_per_sec, data=data)
    while not trainer.finished:
        yield trainer.advance()


def promised_peak(config: TrainConfig) -> float | None:
    """The dense FLOP/s that the device's data sheet promises for the precision's products; None where unknown.

    >>> promised_peak(TrainConfig(device="cpu")) is None
    True
    """
    if torch.device(config.device).type != "cuda":
        return None
    accelerator = hardware.find(torch.cuda.get_device_name(config.device))
    return None if accelerator is None else accelerator.peak_flop_per_sec(PEAK_DTYPES[config.precision])


class _Memory:
    """The memory that a run takes, looked at ten times a second at most: a look takes as long as a small step."""

    def __init__(self, device: str) -> None:
        self._cuda = device if device.startswith("cuda") else None
        self._looked, self._bytes = -1.0, 0
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(self._cuda)

    def bytes(self) -> int:
        now = time.monotonic()
        if now - self._looked >= MEMORY_SECONDS:
            self._looked = now
            self._bytes = torch.cuda.max_memory_allocated(self._cuda) if self._cuda else _resident_bytes()
        return self._bytes


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
