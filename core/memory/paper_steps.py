"""A training step on paper: every micro-batch forward and backward, then the optimizer."""

from __future__ import annotations

from core.memory import paper_models, result
from core.memory.config import StepConfig
from core.memory.paper import Sheet, Tape
from core.memory.paper_models import PaperModel, Parameters
from core.memory.paper_ops import BF16, FP32, INT64
from core.memory.result import Moment


def paper_step(config: StepConfig) -> tuple[Moment, ...]:
    """The moments of a steady step, at the config's own depth, every block written down."""
    model = paper_models.napkin(config)
    t = Tape(config.precision == "autocast")
    item = BF16 if config.precision == "bf16" else FP32
    w = _parameters(t, (*model.embeddings,), item)
    blocks = [_parameters(t, model.block, item) for _block in range(config.num_layers)]
    w |= _parameters(t, model.head, item)
    shape = (config.batch_size, config.seq_len)
    tokens, labels = (t.new(shape, INT64, category=result.INPUT) for _input in range(2))
    for micro_batch in range(min(2, config.accumulation_steps)):
        t.timeline.micro_batch = micro_batch
        _forward_backward(t, model, w, blocks, tokens, labels)
    t.timeline.start(result.OPTIMIZER)
    t.timeline.stop()
    return tuple(t.timeline.moments)


def _parameters(t: Tape, shapes: tuple[tuple[str, tuple[int, ...]], ...], item: int) -> Parameters:
    return {name: t.parameter(shape, item, result.PARAMETER) for name, shape in shapes}


def _forward_backward(
    t: Tape, model: PaperModel, w: Parameters, blocks: list[Parameters], tokens: Sheet, labels: Sheet
) -> None:
    t.timeline.start(result.EMBEDDING)
    loss = model.loss(t, w, blocks, tokens, labels)
    t.casts.clear()
    t.timeline.start(result.LOSS_BACKWARD)
    t.backward(loss)
