"""The optimizers by name: their class and what each keeps for every parameter tensor. Works without torch."""

from __future__ import annotations

import functools
import importlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.words import _

if TYPE_CHECKING:
    import torch

    from core.optimizers.base import Optimizer

STEP_BYTES = 4  # torch keeps the number of steps in an fp32 tensor of its own for each parameter tensor
IMPLEMENTATIONS = ("napkin", "torch")
_ITEM_BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
_TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_MAX_AXIS = 2**40


@dataclass(frozen=True)
class OptimizerKind:
    """An optimizer: what it is called, where its class is, and its state.

    ``states`` are the tensors as large as the parameter; ``keeps_step`` says that a step is kept for each of them here,
    ``torch_keeps_step`` that torch's own keeps one. ``hyper`` are the settings beside the learning rate.
    """

    name: str
    class_name: str
    module: str
    states: tuple[str, ...]
    keeps_step: bool
    torch_keeps_step: bool
    hyper: tuple[str, ...]
    source: str

    @property
    def state_per_parameter(self) -> int:
        """Numbers of state for each parameter; 0 for Adafactor, whose matrices keep rows and columns alone."""
        return len(self.states)


_ADAM, _ADAM_HYPER = ("exp_avg", "exp_avg_sq"), ("betas", "eps", "weight_decay")
_KINDS = (
    OptimizerKind("sgd", "SGD", "algorithms", (), False, False, (), "Robbins and Monro 1951"),
    OptimizerKind(
        "momentum", "Momentum", "algorithms", ("momentum_buffer",), False, False, ("momentum",), "Polyak 1964"
    ),
    OptimizerKind("adagrad", "AdaGrad", "algorithms", ("sum",), False, True, ("eps",), "Duchi et al. 2011"),
    OptimizerKind("rmsprop", "RMSProp", "algorithms", ("square_avg",), False, True, ("alpha", "eps"), "Hinton 2012"),
    OptimizerKind("adam", "Adam", "algorithms", _ADAM, True, True, _ADAM_HYPER, "Kingma and Ba 2015"),
    OptimizerKind("adamw", "AdamW", "algorithms", _ADAM, True, True, _ADAM_HYPER, "Loshchilov and Hutter 2019"),
    OptimizerKind(
        "adafactor", "Adafactor", "modern", (), True, True, ("beta2_decay", "d", "weight_decay"),
        "Shazeer and Stern 2018",
    ),
    OptimizerKind(
        "muon", "Muon", "modern", ("momentum_buffer",), False, False, ("weight_decay", "momentum", "steps"),
        "Jordan et al. 2024",
    ),
)  # fmt: skip
OPTIMIZERS = {kind.name: kind for kind in _KINDS}


def make(name: str, params: Iterable[torch.Tensor], lr: float, **hyper: Any) -> Optimizer:
    """An optimizer by its name. Raises ValueError for a name or a setting that it does not have.

    >>> import torch
    >>> make("sgd", [torch.zeros(2, requires_grad=True)], lr=0.1, momentum=0.9)
    Traceback (most recent call last):
    ValueError: SGD has no setting momentum; it has lr
    """
    kind = OPTIMIZERS[one_of("optimizer", name, tuple(OPTIMIZERS))]
    for unknown in (one for one in hyper if one not in kind.hyper):
        message = _("{name} has no setting {unknown}; it has {known}")
        raise ValueError(
            message.format(name=kind.class_name, unknown=unknown[:40], known=", ".join(("lr", *kind.hyper)))
        )
    optimizer = getattr(importlib.import_module(f"core.optimizers.{kind.module}"), kind.class_name)
    made: Optimizer = optimizer(params, lr=lr, **hyper)
    return made


def state_bytes(
    optimizer: str,
    shapes: Iterable[Sequence[int]],
    dtype: str | torch.dtype = "fp32",
    implementation: str = "napkin",
) -> int:
    """Bytes of optimizer state after the first step, for parameters of these shapes, all of one dtype.

    State has the parameters' dtype; a step is 4 bytes for each tensor, of any size. ``implementation`` is "napkin" or
    "torch", which also keeps a step for AdaGrad and RMSProp. Raises ValueError for an unknown optimizer or dtype, and
    for Muon where a shape is no matrix.

    >>> [state_bytes(name, [(4, 4), (4, 4), (1, 4)]) for name in ("sgd", "momentum", "adagrad", "rmsprop", "adamw")]
    [0, 144, 144, 144, 300]
    >>> state_bytes("adafactor", [(4096, 4096), (4096,)])
    49160
    """
    kind = OPTIMIZERS[one_of("optimizer", optimizer, tuple(OPTIMIZERS))]
    one_of("implementation", implementation, IMPLEMENTATIONS)
    keeps_step = kind.torch_keeps_step if implementation == "torch" else kind.keeps_step
    return sum(_numel(kind, shape) * _item_bytes(dtype) + keeps_step * STEP_BYTES for shape in shapes)


def _numel(kind: OptimizerKind, shape: Sequence[int]) -> int:
    """Numbers of state of one parameter tensor."""
    sizes = [whole_number(_("an axis of a shape"), size, 0, _MAX_AXIS) for size in shape]
    if kind.name == "muon" and len(sizes) != 2:
        message = _("Muon is for matrices, two axes; received a parameter of shape {shape}. Use AdamW for it.")
        raise ValueError(message.format(shape=tuple(sizes)))
    if kind.name != "adafactor":
        return kind.state_per_parameter * math.prod(sizes)
    if len(sizes) < 2:
        return math.prod(sizes)
    *stack, rows, columns = sizes
    return math.prod(stack) * (rows + columns)


def _item_bytes(dtype: str | torch.dtype) -> int:
    size = getattr(dtype, "itemsize", None)
    return size if isinstance(size, int) else _ITEM_BYTES[one_of("dtype", dtype, tuple(_ITEM_BYTES))]


def measured_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes that the tensors in an optimizer's state hold now, each storage once; torch's own optimizers, too.

    >>> import torch
    >>> p = torch.zeros(10, requires_grad=True)
    >>> adam = make("adam", [p], lr=0.1)
    >>> before = measured_state_bytes(adam)
    >>> p.sum().backward(); _ = adam.step()
    >>> before, measured_state_bytes(adam)
    (0, 84)
    """
    import torch

    tensors = [one for state in optimizer.state.values() for one in state.values() if isinstance(one, torch.Tensor)]
    storages = {storage._cdata: storage.nbytes() for storage in (one.untyped_storage() for one in tensors)}
    return sum(storages.values())


def compare_state_bytes(
    optimizer: str, shapes: Sequence[Sequence[int]], dtype: str | torch.dtype = "fp32"
) -> Comparison:
    """The state predicted beside what the optimizer makes at its first step, on torch's meta device: without memory.

    The state belongs to each parameter alone, so of several of one shape one is asked for. What a step does with it
    changes numbers, not bytes, and is left out: on the meta device Muon's alone takes 30 ms.

    >>> compare_state_bytes("adamw", [(4, 4), (4, 4), (1, 4)]).measurement.value
    300
    """
    import torch

    predicted = state_bytes(optimizer, shapes, dtype)
    kind = OPTIMIZERS[optimizer]
    steps = kind.keeps_step * STEP_BYTES * len(shapes)
    names = ", ".join(kind.states) or (_("rows and columns") if kind.keeps_step else _("none"))
    terms = (Term(names, predicted - steps, kind.source), Term(_("steps"), steps, _("4 bytes for each tensor")))
    formula = f"{predicted - steps:,} + {steps:,}"
    torch_dtype = dtype if isinstance(dtype, torch.dtype) else getattr(torch, _TORCH_NAMES[dtype])
    how_many = Counter(tuple(shape) for shape in shapes)
    total = sum(n * _state_bytes_of_one(optimizer, shape, torch_dtype) for shape, n in how_many.items())
    conditions = Conditions("meta", _("torch's meta device"), str(dtype), 1, 0, 1, torch_version=str(torch.__version__))
    measured = Measurement(_("optimizer state"), (total,), "B", conditions)
    return Comparison(Prediction(_("optimizer state"), predicted, "B", formula, terms, kind.source), measured)


@functools.lru_cache(maxsize=4096)
def _state_bytes_of_one(optimizer: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    import torch

    p = torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)
    made = make(optimizer, [p], lr=0.001)
    made.state[p] = made.new_state(p)
    return measured_state_bytes(made)
