"""A training step on paper: parameters, inputs and states, every micro-batch forward and backward, the optimizer."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from core.memory import paper_models, result
from core.memory.config import StepConfig
from core.memory.paper import Placeholder, Sheet, Storage, Tape
from core.memory.paper_huggingface import huggingface
from core.memory.paper_ledger import BATCH, SEQ, Script, Size, bytes_of, coefficients
from core.memory.paper_models import PaperModel, Parameters
from core.memory.paper_ops import BF16, FP32, INT64
from core.memory.paper_optimizers import optimizer_state_bytes, optimizer_temporary_bytes
from core.memory.result import Moment
from core.models.config import TransformerConfig

Kept = dict[tuple[str, int | None], int]


@dataclass(frozen=True)
class PaperStep:
    """The moments of a steady step, and what is kept for backward by label and block."""

    moments: tuple[Moment, ...]
    kept: Kept


def write_step(config: StepConfig) -> PaperStep:
    """The step at the config's own depth, every block written down."""
    script, kept = _written(
        config.model, config.implementation, config.attention, config.precision, config.checkpointing,
        config.accumulation_steps > 1, config.batch_size > 1, config.seq_len > 1,
    )  # fmt: skip
    model, item, sizes = paper_model(config), item_bytes(config), (config.batch_size, config.seq_len)
    state = optimizer_state_bytes(config, (*model.embeddings, *model.head), model.block)
    temporary = optimizer_temporary_bytes(config, model.embeddings, model.block, model.head, item)
    moments = script.moments(*sizes)
    if state:
        for sizes_of in (sizes_of for one in moments for sizes_of in (one.highest, one.end)):
            sizes_of[result.OPTIMIZER_STATE] = state
    if temporary:
        moments[-1].highest[result.TEMPORARY] = temporary
    return PaperStep(moments, {place: sum(bytes_of(one, *sizes) for one in held) for place, held in kept.items()})


@functools.lru_cache(maxsize=128)
def _written(
    model: TransformerConfig, implementation: str, attention: str, precision: str, checkpointing: int | None,
    accumulated: bool, many_sequences: bool, many_positions: bool,
) -> tuple[Script, dict[tuple[str, int | None], tuple[Size, ...]]]:  # fmt: skip
    """A step's ledger, and the sizes kept for backward: for every batch size and length but 1, or for 1.

    The optimizer's state and what its step takes beside it are left out: they are the same at every moment.
    """
    config = StepConfig(
        model, implementation, seq_len=1, attention=attention, precision=precision, checkpointing=checkpointing
    )
    paper, item, t = paper_model(config), item_bytes(config), Tape(precision == "autocast")
    w = _parameters(t, paper.embeddings, item)
    blocks = [_parameters(t, paper.block, item) for _block in range(model.num_layers)]
    w |= _parameters(t, paper.head, item)
    buffers = Storage(t.ledger, paper.buffers, result.BUFFER, ("", None))
    shape = (BATCH if many_sequences else 1, SEQ if many_positions else 1)
    tokens, labels = (t.new(shape, INT64, category=result.INPUT) for _input in range(2))
    kept: dict[tuple[str, int | None], tuple[Size, ...]] = {}
    for micro_batch in range(1 + accumulated):
        t.ledger.micro_batch = micro_batch
        t.ledger.start(result.EMBEDDING)
        loss = paper.loss(t, w, blocks, tokens, labels)
        t.casts.clear()
        kept = kept_sizes(loss) if not micro_batch else kept
        t.ledger.start(result.LOSS_BACKWARD)
        t.backward(loss)
        del loss
    t.ledger.start(result.OPTIMIZER)
    for parameter in (*w.values(), *(one for weights in blocks for one in weights.values())):
        assert parameter.node is not None
        parameter.node.saved = []
    script = t.ledger.close()
    del buffers
    return script, kept


def paper_model(config: StepConfig) -> PaperModel:
    """The model that the config asks for."""
    return paper_models.napkin(config) if config.implementation == "napkin" else huggingface(config)


def item_bytes(config: StepConfig) -> int:
    """Bytes of a stored parameter."""
    return BF16 if config.precision == "bf16" else FP32


def _parameters(t: Tape, shapes: paper_models.Shapes, item: int) -> Parameters:
    return {name: t.parameter(shape, item, result.PARAMETER) for name, shape in shapes}


def kept_sizes(loss: Sheet) -> dict[tuple[str, int | None], tuple[Size, ...]]:
    """Sizes of the storages that the graph holds, by label and block."""
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
    kept: dict[tuple[str, int | None], list[int]] = {}
    for storage in found.values():
        if storage.category == result.ACTIVATION:
            kept.setdefault(storage.label, []).append(storage.size)
    return {label: tuple(coefficients(size) for size in sizes) for label, sizes in kept.items()}
