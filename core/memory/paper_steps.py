"""A training step on paper: parameters, inputs and states, every micro-batch forward and backward, the optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from core.memory import paper_models, result
from core.memory.config import StepConfig
from core.memory.paper import Placeholder, Sheet, Storage, Tape
from core.memory.paper_huggingface import huggingface
from core.memory.paper_models import PaperModel, Parameters
from core.memory.paper_ops import BF16, FP32, INT64
from core.memory.paper_optimizers import optimizer_state_bytes, optimizer_temporary_bytes
from core.memory.result import Moment

Kept = dict[tuple[str, int | None], int]


@dataclass(frozen=True)
class PaperStep:
    """The moments of a steady step, and what is kept for backward by label and block."""

    moments: tuple[Moment, ...]
    kept: Kept


def write_step(config: StepConfig) -> PaperStep:
    """The step at the config's own depth, every block written down."""
    model = paper_model(config)
    t = Tape(config.precision == "autocast")
    item = item_bytes(config)
    once, block = (*model.embeddings, *model.head), model.block
    w = _parameters(t, model.embeddings, item)
    blocks = [_parameters(t, block, item) for _block in range(config.num_layers)]
    w |= _parameters(t, model.head, item)
    state = Storage(t.timeline, optimizer_state_bytes(config, once, block), result.OPTIMIZER_STATE, ("", None))
    buffers = Storage(t.timeline, model.buffers, result.BUFFER, ("", None))
    shape = (config.batch_size, config.seq_len)
    tokens, labels = (t.new(shape, INT64, category=result.INPUT) for _input in range(2))
    kept: Kept = {}
    for micro_batch in range(min(2, config.accumulation_steps)):
        t.timeline.micro_batch = micro_batch
        t.timeline.start(result.EMBEDDING)
        loss = model.loss(t, w, blocks, tokens, labels)
        t.casts.clear()
        kept = kept_bytes(loss) if not micro_batch else kept
        t.timeline.start(result.LOSS_BACKWARD)
        t.backward(loss)
        del loss
    t.timeline.start(result.OPTIMIZER)
    size = optimizer_temporary_bytes(config, model.embeddings, block, model.head, item)
    temporary = Storage(t.timeline, size, result.TEMPORARY, ("", None))
    t.timeline.mark()
    del temporary
    for parameter in (*w.values(), *(one for weights in blocks for one in weights.values())):
        assert parameter.node is not None
        parameter.node.saved = []
    t.timeline.stop()
    del state, buffers
    return PaperStep(tuple(t.timeline.moments), kept)


def paper_model(config: StepConfig) -> PaperModel:
    """The model that the config asks for."""
    return paper_models.napkin(config) if config.implementation == "napkin" else huggingface(config)


def item_bytes(config: StepConfig) -> int:
    """Bytes of a stored parameter."""
    return BF16 if config.precision == "bf16" else FP32


def _parameters(t: Tape, shapes: paper_models.Shapes, item: int) -> Parameters:
    return {name: t.parameter(shape, item, result.PARAMETER) for name, shape in shapes}


def kept_bytes(loss: Sheet) -> Kept:
    """Bytes of the storages that the graph holds, by label and block."""
    found: dict[int, Storage] = {id(loss.storage): loss.storage}
    seen: set[int] = set()
    waiting = [loss.node]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        for one in node.saved:
            held = one.checkpoint.inputs if isinstance(one, Placeholder) else (one,)
            found |= {id(sheet.storage): sheet.storage for sheet in held}
        waiting += [edge[0] for edge in node.edges if edge is not None]
    kept: Kept = {}
    for storage in found.values():
        if storage.category == result.ACTIVATION:
            kept[storage.label] = kept.get(storage.label, 0) + storage.size
    return kept
