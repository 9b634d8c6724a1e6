"""The lecture's Cruncher through one step: bytes and FLOPs as the lecture counts them, and as torch does (§6.5).

Letters: B batch, D width, L layers, N = L·D² + D parameters. All fp32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.memory import paper_layers, result
from core.memory import paper_ops as ops
from core.memory.config import OPTIMIZER_IMPLEMENTATIONS, StepConfig
from core.memory.measure import activation_terms, conditions
from core.memory.paper import Shape, Sheet, Storage, Tape
from core.memory.paper_ledger import bytes_of
from core.memory.paper_optimizers import optimizer_state_bytes, optimizer_temporary_bytes
from core.memory.paper_steps import kept_sizes
from core.memory.step_memory import StepMemory
from core.models.config import TransformerConfig
from core.optimizers.registry import OPTIMIZERS, STEP_BYTES
from core.words import _

if TYPE_CHECKING:
    from torch import Tensor, nn

FP32 = 4
TRAINERS = ("sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw")
MAX_BATCH, MAX_DIM, MAX_LAYERS = 256, 256, 16  # a step of this size takes a few milliseconds
SOURCE = "CS336 lecture 2, §6.5"


@dataclass(frozen=True)
class CruncherRun:
    """A real step: entries of the parameters, the gradients and what autograd saved beside them; state bytes; FLOPs."""

    batch_size: int
    dim: int
    num_layers: int
    optimizer: str
    num_parameters: int
    num_saved: int
    num_gradients: int
    state_bytes: int
    flops: int
    torch_version: str


def check_cruncher(batch_size: object, dim: object, num_layers: object) -> tuple[int, int, int]:
    """The sizes as whole numbers. Raises ValueError for what is none, and for what takes longer than a moment."""
    b, d = whole_number("B", batch_size, 1, MAX_BATCH), whole_number("D", dim, 1, MAX_DIM)
    return b, d, whole_number("L", num_layers, 1, MAX_LAYERS)


def predict_cruncher_bytes(batch_size: int, dim: int, num_layers: int, optimizer: str = "adagrad") -> Prediction:
    """4·(N parameters + B·D·L activations + N gradients + k·N optimizer state), as the lecture counts.

    >>> prediction = predict_cruncher_bytes(2, 4, 2)
    >>> prediction.value, prediction.formula
    (496, '4 · (36 + 16 + 36 + 36)')
    """
    b, d, layers = check_cruncher(batch_size, dim, num_layers)
    kind = OPTIMIZERS[one_of("optimizer", optimizer, TRAINERS)]
    n = layers * d * d + d
    counts = (
        (_("parameters"), n, "L·D² + D"),
        (_("activations"), b * d * layers, "B·D·L"),
        (_("gradients"), n, _("one for each parameter")),
        (_("optimizer state"), kind.state_per_parameter * n, kind.source),
    )
    terms = tuple(Term(name, FP32 * count, note) for name, count, note in counts)
    formula = f"4 · ({' + '.join(f'{count:,}' for _name, count, _note in counts)})"
    return Prediction(_("memory of a step"), sum(term.value for term in terms), "B", formula, terms, SOURCE)


def predict_cruncher_flops(batch_size: int, dim: int, num_layers: int) -> Prediction:
    """6·B·N: 2 forward, 4 backward for each parameter and row.

    >>> predict_cruncher_flops(2, 4, 2).value
    432
    """
    b, d, layers = check_cruncher(batch_size, dim, num_layers)
    n = layers * d * d + d
    return Prediction(_("FLOPs of a step"), 6 * b * n, "FLOP", f"6 · {b:,} · {n:,}", source=SOURCE)


def measure_cruncher(batch_size: int, dim: int, num_layers: int, optimizer: str = "adagrad") -> CruncherRun:
    """One step for real: forward, mean squared error, backward, optimizer; a few milliseconds.

    >>> run = measure_cruncher(2, 4, 2)
    >>> run.num_saved, run.flops, run.state_bytes
    (28, 368, 144)
    """
    import torch
    from torch.nn.functional import mse_loss
    from torch.utils.flop_counter import FlopCounterMode

    from core.models.lecture import Cruncher
    from core.optimizers.registry import make, measured_state_bytes

    b, d, layers = check_cruncher(batch_size, dim, num_layers)
    one_of("optimizer", optimizer, TRAINERS)
    model = Cruncher(d, layers)
    trainer = make(optimizer, model.parameters(), lr=0.01)
    x_BD, y_B = torch.randn(b, d), torch.randn(b)
    with FlopCounterMode(display=False) as counter, saved_by_backward(model) as saved:
        loss = mse_loss(model(x_BD), y_B)
        loss.backward()  # type: ignore[no-untyped-call]
    trainer.step()
    num_gradients = sum(p.grad.numel() for p in model.parameters() if p.grad is not None)
    return CruncherRun(
        b, d, layers, optimizer, sum(p.numel() for p in model.parameters()), sum(saved.values()), num_gradients,
        measured_state_bytes(trainer), counter.get_total_flops(), str(torch.__version__),
    )  # fmt: skip


@contextlib.contextmanager
def saved_by_backward(model: nn.Module) -> Iterator[dict[int, int]]:
    """Entries of each storage that autograd saves for backward, by its address; the parameters' left out."""
    import torch

    held = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held:
            saved[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield saved


def compare_cruncher_bytes(run: CruncherRun) -> Comparison:
    """The lecture's bytes beside those of the real step; its count has the layers' outputs alone.

    >>> comparison = compare_cruncher_bytes(measure_cruncher(2, 4, 2))
    >>> comparison.measurement.value, [(part.name, part.value) for part in comparison.parts], comparison.unexplained
    (544, [('the input x', 32), ('the loss', 16)], 0.0)
    """
    prediction = predict_cruncher_bytes(run.batch_size, run.dim, run.num_layers, run.optimizer)
    value = FP32 * (run.num_parameters + run.num_saved + run.num_gradients) + run.state_bytes
    parts = [
        Term(_("the input x"), FP32 * run.batch_size * run.dim, _("the first layer's weights need it in backward")),
        Term(_("the loss"), FP32 * 2 * run.batch_size, _("the squared error keeps its prediction and its target")),
    ]
    if OPTIMIZERS[run.optimizer].keeps_step:
        tensors = run.num_layers + 1
        parts.append(Term(_("steps"), STEP_BYTES * tensors, _("{n:,} tensors, a counter each").format(n=tensors)))
    notes = (_("all that the step holds, together"),)
    measured = Measurement(prediction.quantity, (value,), "B", _conditions(run, notes))
    return Comparison(prediction, measured, tuple(parts))


def compare_cruncher_flops(run: CruncherRun) -> Comparison:
    """6·B·N beside torch's count: nobody needs the gradient of x.

    >>> comparison = compare_cruncher_flops(measure_cruncher(2, 4, 2))
    >>> comparison.difference, comparison.unexplained
    (-64, 0.0)
    """
    prediction = predict_cruncher_flops(run.batch_size, run.dim, run.num_layers)
    skipped = Term(_("no gradient for x"), -2 * run.batch_size * run.dim**2, _("2·B·D²: its matmul is not run"))
    measured = Measurement(prediction.quantity, (run.flops,), "FLOP", _conditions(run))
    return Comparison(prediction, measured, (skipped,))


def _conditions(run: CruncherRun, notes: tuple[str, ...] = ()) -> Conditions:
    name = _("this machine's processor")
    return Conditions("cpu", name, "fp32", threads=1, warmup=0, trials=1, torch_version=run.torch_version, notes=notes)


# Every storage of the step, moment by moment


def predict_cruncher_step(
    batch_size: int, dim: int, num_layers: int, optimizer: str = "adagrad", implementation: str = "napkin"
) -> StepMemory:
    """The step on paper, every storage counted; its loss is the mean of y², which needs no targets.

    ``implementation`` is that of the optimizer (see ``StepConfig``).

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
    weights = [t.parameter(shape, FP32, result.PARAMETER) for _name, shape in (*first, *last)]
    state = Storage(t.ledger, optimizer_state_bytes(config, (*first, *last), ()), result.OPTIMIZER_STATE, ("", None))
    x = t.new((b, d), FP32, category=result.INPUT)
    t.ledger.start(result.HEAD)
    loss = _loss(t, weights, x)
    kept = kept_sizes(loss)
    t.ledger.start(result.LOSS_BACKWARD)
    t.backward(loss)
    del loss
    t.ledger.start(result.OPTIMIZER)
    size = optimizer_temporary_bytes(config, first, (), last, FP32)
    temporary = Storage(t.ledger, size, result.TEMPORARY, ("", None))
    del temporary
    for weight in weights:
        assert weight.node is not None
        weight.node.saved = []
    moments = t.ledger.close().moments()
    del state
    sizes = {label: sum(bytes_of(one, 1, 1) for one in held) for (label, _block), held in kept.items()}
    return StepMemory(layers, moments, tuple(Term(_(label), size, f"{size:,} B") for label, size in sizes.items()))


def _loss(t: Tape, weights: list[Sheet], x: Sheet) -> Sheet:
    for number, weight in enumerate(weights[:-1]):
        t.label = f"h{number + 1}"
        x = paper_layers.linear(t, x, weight)
    t.label = "y"
    y = ops.view(t, paper_layers.linear(t, x, weights[-1]), (x.shape[0],))
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
    b, d, layers = check_cruncher(batch_size, dim, num_layers)
    one_of("implementation", implementation, OPTIMIZER_IMPLEMENTATIONS)
    one_of("optimizer", optimizer, TRAINERS)
    model = TransformerConfig("none", num_layers=1, d_model=4, num_heads=1, d_ff=4, vocab_size=4)
    return b, d, layers, StepConfig(model, seq_len=1, optimizer=optimizer, optimizer_implementation=implementation)
