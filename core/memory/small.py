"""The lecture's Cruncher as a training step under the meter, and on paper: small enough to count every byte.

The loss is the mean of the squared outputs, (y²).mean(), so that there are no targets; all fp32.
"""

from __future__ import annotations

from typing import Any

from core.checks import one_of
from core.claims import Term
from core.memory import paper_layers as layers
from core.memory import paper_ops as ops
from core.memory import result
from core.memory.config import OPTIMIZER_IMPLEMENTATIONS, StepConfig
from core.memory.measure import activation_terms, conditions
from core.memory.paper import Shape, Sheet, Storage, Tape
from core.memory.paper_optimizers import optimizer_state_bytes, optimizer_temporary_bytes
from core.memory.paper_steps import kept_bytes
from core.memory.step_memory import StepMemory
from core.models.config import TransformerConfig
from core.words import _


def predict_cruncher_step(
    batch_size: int, dim: int, num_layers: int, optimizer: str = "adagrad", implementation: str = "napkin"
) -> StepMemory:
    """The step on paper. ``implementation`` is that of the optimizer (see ``StepConfig``).

    >>> step = predict_cruncher_step(2, 4, 2)
    >>> step.parameter_bytes, step.gradient_bytes, step.optimizer_state_bytes, step.activation_bytes
    (144, 144, 144, 76)
    >>> step = predict_cruncher_step(2, 4, 2, "adamw", "for-loop")
    >>> step.optimizer_state_bytes, step.peak_bytes, step.peak_moment
    (300, 812, 'optimizer')
    """
    b, d, layers, config = _checked(batch_size, dim, num_layers, optimizer, implementation)
    first: tuple[tuple[str, Shape], ...] = tuple((f"layers.{n}", (d, d)) for n in range(layers))
    last = (("head", (1, d)),)
    t = Tape(autocast=False)
    weights = [t.parameter(shape, ops.FP32, result.PARAMETER) for _name, shape in (*first, *last)]
    state = Storage(t.timeline, optimizer_state_bytes(config, (*first, *last), ()), result.OPTIMIZER_STATE, ("", None))
    x = t.new((b, d), ops.FP32, category=result.INPUT)
    t.timeline.start(result.HEAD)
    loss = _loss(t, weights, x)
    kept = kept_bytes(loss)
    t.timeline.start(result.LOSS_BACKWARD)
    t.backward(loss)
    del loss
    t.timeline.start(result.OPTIMIZER)
    size = optimizer_temporary_bytes(config, first, (), last, ops.FP32)
    temporary = Storage(t.timeline, size, result.TEMPORARY, ("", None))
    t.timeline.mark()
    del temporary
    for weight in weights:
        assert weight.node is not None
        weight.node.saved = []
    t.timeline.stop()
    del state
    terms = tuple(Term(_(label), size, f"{size:,} B") for (label, _block), size in kept.items())
    return StepMemory(layers, tuple(t.timeline.moments), terms)


def _loss(t: Tape, weights: list[Sheet], x: Sheet) -> Sheet:
    for number, weight in enumerate(weights[:-1]):
        t.label = f"h{number + 1}"
        x = layers.linear(t, x, weight)
    t.label = "y"
    y = ops.view(t, layers.linear(t, x, weights[-1]), (x.shape[0],))
    assert y.node is not None
    y.node.moment = result.HEAD_BACKWARD, None
    t.label = "y²"
    squares = ops.square(t, y)
    t.label = "loss"
    return ops.mean_all(t, squares)


def measure_cruncher_step(
    batch_size: int, dim: int, num_layers: int, optimizer: str = "adagrad", implementation: str = "napkin"
) -> StepMemory:
    """Two real steps under the meter, the second told.

    >>> step = measure_cruncher_step(2, 4, 2, "adamw", "for-loop")
    >>> step.activation_bytes, step.peak_bytes, step.peak_moment
    (76, 812, 'optimizer')
    """
    import torch

    from core.memory import steps, subjects
    from core.models.lecture import Cruncher

    b, d, layers, config = _checked(batch_size, dim, num_layers, optimizer, implementation)
    model = Cruncher(d, layers)
    x, nothing = torch.randn(b, d), torch.empty(0)

    def loss(x: Any, _labels: Any) -> Any:
        return model(x).square().mean()

    subject = subjects.Subject(model, (), model, loss)
    moments = steps.metered_steps(subject, subjects.optimizers(config, model), x, nothing, 1, autocast=False)
    return StepMemory(layers, moments, activation_terms(moments), conditions=conditions("fp32", True, [layers]))


def _checked(
    batch_size: int, dim: int, num_layers: int, optimizer: str, implementation: str
) -> tuple[int, int, int, StepConfig]:
    """The sizes, and what the optimizers' functions ask of a config; its model does not matter."""
    from core.memory.cruncher import TRAINERS, check_cruncher

    b, d, layers = check_cruncher(batch_size, dim, num_layers)
    one_of("implementation", implementation, OPTIMIZER_IMPLEMENTATIONS)
    one_of("optimizer", optimizer, TRAINERS)
    model = TransformerConfig("none", num_layers=1, d_model=4, num_heads=1, d_ff=4, vocab_size=4)
    return b, d, layers, StepConfig(model, seq_len=1, optimizer=optimizer, optimizer_implementation=implementation)
