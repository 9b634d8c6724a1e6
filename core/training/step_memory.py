"""The memory of a run's update: predicted by ``core.memory``, and counted in the run itself, storage by storage.

The second update is counted, when the optimizer's state is there. Counting slows that one update down and changes no
bit of it; medians of step times leave the first three updates out anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.memory import CATEGORIES, NAMES, StepMemory, predict_cruncher_step, predict_peak, predict_step
from core.training.config import TrainConfig
from core.training.predict import device_name, memory_step
from core.training.records import StepCount
from core.words import _

if TYPE_CHECKING:
    from core.training.loop import Trainer
    from core.training.records import StepRecord

COUNTED_STEP = 1  # the second


def predict_step_memory(config: TrainConfig) -> StepMemory | None:
    """The run's update on paper; None for a run whose update ``core.memory`` does not cover.

    >>> predict_step_memory(TrainConfig(batch_size=4, dim=16, num_layers=2)).peak_bytes
    4744
    >>> predict_step_memory(TrainConfig(model="deep network")) is None
    True
    """
    step = memory_step(config)
    if step is not None:
        return predict_step(step)
    if config.model != "cruncher" or config.precision != "fp32" or config.num_accumulation_steps > 1:
        return None
    house = config.implementation if config.implementation == "napkin" else "for-loop"
    try:
        return predict_cruncher_step(config.batch_size, config.dim, config.num_layers, config.optimizer, house)
    except ValueError:  # larger than the lecture's, or another optimizer
        return None


def compare_step_memory(config: TrainConfig, counted: Mapping[str, int]) -> Comparison:
    """The peak on paper beside the one that ``advance_counted`` counted; the parts are the categories that differ.

    >>> from core.training import Trainer
    >>> config = TrainConfig(task="text", dim=16, num_layers=1, batch_size=2, context_length=8, optimizer="adamw")
    >>> trainer = Trainer(config)
    >>> first, (second, counted) = trainer.advance(), advance_counted(trainer)
    >>> compare_step_memory(config, counted.live_bytes).difference
    0
    """
    predicted = predict_step_memory(config)
    quantity = _("peak memory of a step")
    note = _("the second step; live storages, by a dispatch mode")
    conditions = Conditions(config.device, device_name(config), config.precision, 1, COUNTED_STEP, 1, notes=(note,))
    measurement = Measurement(quantity, (sum(counted.values()),), "B", conditions)
    if predicted is None:
        unknown = _("core.memory has this model, optimizer or precision not on paper")
        return Comparison(Prediction(quantity, None, "B", "", unknown=unknown), measurement)
    paper = predicted.peak.highest
    sizes = {name: counted.get(name, 0) - paper.get(name, 0) for name in CATEGORIES}
    parts = tuple(Term(NAMES[name], size, _why(config, name)) for name, size in sizes.items() if size)
    return Comparison(predict_peak(predicted), measurement, parts)


def _why(config: TrainConfig, category: str) -> str:
    if config.task == "regression":
        notes = {
            "input": _("targets y, which the paper's loss (y²).mean() has not; x is freed with its batch"),
            "activation": _("the loss's own numbers"),
        }
        return notes.get(category, "")
    if category == "input":
        return _("all parts of a batch are drawn at once")
    return _("bf16 logits are copied to fp32 for the loss") if config.precision == "bf16" else ""


def advance_counted(trainer: Trainer) -> tuple[StepRecord, StepCount]:
    """One update with its live storages and its FLOPs counted, those of forward and backward; its record, and those.

    What a kernel allocates and frees inside itself is not seen.

    >>> from core.training import Trainer
    >>> trainer = Trainer(TrainConfig(batch_size=4, dim=16, num_layers=2))
    >>> first, (second, counted) = trainer.advance(), advance_counted(trainer)
    >>> second.step, counted.live_bytes["parameter"], counted.flops
    (1, 2112, 10624)
    """
    from core.flops import count_flops
    from core.memory.meter import MemoryMeter

    flops, losses, backward = list[int](), list[Any](), trainer.backward

    def counting(inputs: Any, targets: Any) -> Any:
        flops.append(count_flops(lambda: losses.append(backward(inputs, targets))))
        return losses.pop()

    meter, batches, handles = MemoryMeter(), trainer.batches, list[Any]()
    state = [one for optimizer in trainer.optimizers for each in optimizer.state.values() for one in each.values()]
    drawn: Any = _Drawn(batches, lambda tensors: meter.add(tensors, "input"))
    try:
        trainer.batches, trainer.backward = drawn, counting  # type: ignore[method-assign]
        with meter:
            meter.add(trainer.model.parameters(), "parameter")
            meter.add(trainer.model.buffers(), "buffer")
            meter.add((one for one in state if hasattr(one, "untyped_storage")), "optimizer_state")
            for p in trainer.parameters:
                on_gradient: Any = p.register_post_accumulate_grad_hook
                handles.append(on_gradient(lambda p: meter.add([p.grad], "gradient")))
            meter.timeline.start("step")
            record = trainer.advance()
            meter.timeline.stop()
    finally:
        trainer.batches, trainer.backward = batches, backward  # type: ignore[method-assign]
        for handle in handles:
            handle.remove()
    return record, StepCount(meter.timeline.moments[0].highest, flops[0])


class _Drawn:
    """Batches whose tensors are told of when they are drawn."""

    def __init__(self, batches: Any, tell: Callable[[Any], None]) -> None:
        self.batches, self.tell = batches, tell

    def next(self) -> Any:
        tensors = self.batches.next()
        self.tell(tensors)
        return tensors
