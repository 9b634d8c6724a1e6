"""The computation graph of ½(x·w − y)²: built by torch for real, with the chain rule by hand beside it.

Shapes: N entries in x and in w; everything after the dot product is a scalar.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.gradients.inputs import Vector, check_quadratic
from core.words import _

if TYPE_CHECKING:
    import torch

INPUTS = ("x", "w", "y")
COMPUTED = ("pred_y", "error", "squared", "loss")


@dataclass(frozen=True)
class Node:
    """A tensor of the graph as torch holds it after ``loss.backward()``.

    ``value`` and ``grad`` are its entries (one for a scalar, whose ``shape`` is ()); ``grad`` is None exactly where
    torch's ``.grad`` is None, and ``why`` says in one sentence why it is so. ``grad_fn`` is torch's name of the node
    that would take its gradient further back, None for a leaf. ``column`` is its place in a drawing, 0 on the left.
    """

    name: str
    formula: str
    shape: tuple[int, ...]
    value: Vector
    is_leaf: bool
    requires_grad: bool
    retains_grad: bool
    grad: Vector | None
    why: str
    grad_fn: str | None
    column: int


@dataclass(frozen=True)
class Operation:
    """One operation: what it reads, what it makes, and what torch recorded of it.

    ``grad_fn`` is None where nothing was recorded. ``next_functions`` are the nodes that backward visits after it, in
    the order of the operands: "AccumulateGrad" writes into a leaf's ``.grad``, None means no gradient goes there.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    grad_fn: str | None
    next_functions: tuple[str | None, ...]


@dataclass(frozen=True)
class BackwardEdge:
    """The chain rule over one edge: gradient of the source = upstream · local derivative.

    ``predicted`` is that product by hand, ``measured`` the gradient that torch computed for the source; None where
    torch computes none because the source requires no gradient. All are entries (one for a scalar).
    """

    source: str
    target: str
    formula: str
    upstream: Vector
    local: Vector
    predicted: Vector
    measured: Vector | None


@dataclass(frozen=True)
class Graph:
    """The graph of one loss: its tensors, its operations from left to right, and backward's products.

    ``backward_error`` is torch's message where there is nothing to go back to, else "".
    """

    nodes: tuple[Node, ...]
    operations: tuple[Operation, ...]
    backward: tuple[BackwardEdge, ...]
    backward_error: str = ""

    def node(self, name: str) -> Node:
        """The tensor of that name."""
        return next(node for node in self.nodes if node.name == name)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """What to draw: (tensor, operation) for each input and (operation, tensor) for each output."""
        into = [(source, one.name) for one in self.operations for source in one.inputs]
        return (*into, *((one.name, one.output) for one in self.operations))

    @property
    def largest_difference(self) -> float:
        """The largest difference between a gradient by hand and torch's, over all edges; 0 where torch has none."""
        pairs = [(one.predicted, one.measured) for one in self.backward if one.measured is not None]
        return max((abs(a - b) for left, right in pairs for a, b in zip(left, right, strict=True)), default=0.0)


def kept_grad(tensor: torch.Tensor) -> torch.Tensor | None:
    """torch's ``tensor.grad``, without the warning that torch gives for a tensor that keeps none.

    >>> import torch
    >>> w = torch.ones(1, requires_grad=True)
    >>> loss = (2 * w).sum()
    >>> loss.backward()
    >>> kept_grad(w), kept_grad(loss)
    (tensor([2.]), None)
    """
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def explain_graph(
    x: Iterable[float],
    w: Iterable[float],
    target: float,
    x_requires_grad: bool = False,
    w_requires_grad: bool = True,
    retain: Sequence[str] = (),
) -> Graph:
    """Run ½(x·w − y)² and its backward in torch (fp32, CPU), and say of each tensor why it has a .grad or not.

    ``x`` and ``w`` hold from 1 to 6 numbers each; ``retain`` names computed tensors (pred_y, error, squared, loss)
    on which ``retain_grad()`` is called. Raises ValueError for vectors that do not fit (see ``check_quadratic``) and
    for a name to retain that is not a computed tensor. Source: CS336 lecture 2, §5.5.

    >>> graph = explain_graph([1, 2, 3], [1, 1, 1], 5)
    >>> graph.node("pred_y").value, graph.node("loss").value, graph.node("w").grad
    ((6.0,), (0.5,), (1.0, 2.0, 3.0))
    >>> [name for name in ("loss", "pred_y", "x") if graph.node(name).grad is not None]
    []
    """
    return _explained(
        *check_quadratic(x, w, target), bool(x_requires_grad), bool(w_requires_grad), _check_retain(retain)
    )


@functools.lru_cache(maxsize=64)
def _explained(
    x_N: Vector, w_N: Vector, y: float, x_requires_grad: bool, w_requires_grad: bool, retain: tuple[str, ...]
) -> Graph:
    import torch

    tensors = {
        "x": torch.tensor(x_N, requires_grad=x_requires_grad),
        "w": torch.tensor(w_N, requires_grad=w_requires_grad),
        "y": torch.tensor(y),
    }
    with torch.enable_grad():
        tensors["pred_y"] = tensors["x"] @ tensors["w"]
        tensors["error"] = tensors["pred_y"] - tensors["y"]
        tensors["squared"] = tensors["error"].pow(2)
        tensors["loss"] = 0.5 * tensors["squared"]
    flowing = _watch(tensors)
    operations = _operations(tensors)
    for name in retain:
        if tensors[name].requires_grad:
            tensors[name].retain_grad()
    error = ""
    try:
        tensors["loss"].backward()  # type: ignore[no-untyped-call]
    except RuntimeError as refused:
        error = str(refused).splitlines()[0]
    nodes = tuple(_node(name, tensors[name], name in retain) for name in (*INPUTS, *COMPUTED))
    passed = {name: _entries(gradient) for name, gradient in flowing.items()}
    return Graph(nodes, operations, _backward_edges(x_N, w_N, y, passed), error)


def gradient_by_hand(x: Iterable[float], w: Iterable[float], target: float) -> tuple[Vector, Vector]:
    """(w.grad, x.grad) of ½(x·w − y)² by the chain rule: (x·w − y)·x and (x·w − y)·w.

    >>> gradient_by_hand([1, 2, 3], [1, 1, 1], 5)
    ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0))
    """
    x_N, w_N, y = check_quadratic(x, w, target)
    error = sum(a * b for a, b in zip(x_N, w_N, strict=True)) - y
    return tuple(error * a for a in x_N), tuple(error * b for b in w_N)


def _check_retain(retain: Sequence[str]) -> tuple[str, ...]:
    for name in (retain,) if isinstance(retain, str) else retain:
        if name not in COMPUTED:
            message = _("retain_grad() is for computed tensors: {allowed}; received {name!r}")
            raise ValueError(message.format(allowed=", ".join(COMPUTED), name=str(name)[:40]))
    return (retain,) if isinstance(retain, str) else tuple(retain)


def _watch(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Where backward will leave what flows to each tensor that requires a gradient, whether or not it keeps it."""
    flowing: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            tensor.register_hook(functools.partial(flowing.__setitem__, name))  # type: ignore[no-untyped-call]
    return flowing


def _operations(tensors: dict[str, torch.Tensor]) -> tuple[Operation, ...]:
    described = (
        (_("dot product"), ("x", "w"), "pred_y"),
        (_("minus"), ("pred_y", "y"), "error"),
        (_("square"), ("error",), "squared"),
        (_("times ½"), ("squared",), "loss"),
    )
    operations = []
    for name, inputs, output in described:
        function: Any = tensors[output].grad_fn
        after = () if function is None else function.next_functions[: len(inputs)]
        following = tuple(_function_name(one) for one, _index in after)
        operations.append(Operation(name, inputs, output, _function_name(function), following))
    return tuple(operations)


def _function_name(function: Any) -> str | None:
    """torch's name of a node of its graph, for example "DotBackward0"."""
    return None if function is None else str(function.name()).rpartition("::")[2]


def _backward_edges(x_N: Vector, w_N: Vector, y: float, flowing: dict[str, Vector]) -> tuple[BackwardEdge, ...]:
    """Backward from the loss, whose own gradient is 1, to the inputs."""
    error = sum(a * b for a, b in zip(x_N, w_N, strict=True)) - y
    one: Vector = (1.0,)
    chain = (
        ("squared", "loss", "∂loss/∂squared = ½", one, (0.5,)),
        ("error", "squared", "∂squared/∂error = 2 · error", (0.5,), (2 * error,)),
        ("pred_y", "error", "∂error/∂pred_y = 1", (error,), one),
        ("y", "error", "∂error/∂y = −1", (error,), (-1.0,)),
        ("w", "pred_y", "∂pred_y/∂w = x", (error,), x_N),
        ("x", "pred_y", "∂pred_y/∂x = w", (error,), w_N),
    )
    return tuple(
        BackwardEdge(
            source, target, formula, up, local, tuple(up[0] * each + 0.0 for each in local), flowing.get(source)
        )
        for source, target, formula, up, local in chain
    )


def _node(name: str, tensor: torch.Tensor, asked_to_retain: bool) -> Node:
    formulas = {
        "x": _("data"),
        "w": _("weights"),
        "y": _("target"),
        "pred_y": "x · w",
        "error": "pred_y − y",
        "squared": "error²",
        "loss": "½ · squared",
    }
    grad = kept_grad(tensor)
    return Node(
        name=name,
        formula=formulas[name],
        shape=tuple(tensor.shape),
        value=_entries(tensor),
        is_leaf=tensor.is_leaf,
        requires_grad=tensor.requires_grad,
        retains_grad=tensor.retains_grad,
        grad=None if grad is None else _entries(grad),
        why=_why(name, tensor, asked_to_retain),
        grad_fn=_function_name(tensor.grad_fn),
        column=0 if name in INPUTS else 1 + COMPUTED.index(name),
    )


def _why(name: str, tensor: torch.Tensor, asked_to_retain: bool) -> str:
    """One sentence: why this tensor has a .grad after backward, or none."""
    if tensor.is_leaf and tensor.requires_grad:
        text = _("{name} has a .grad: it is a leaf (made by you, not computed) that requires a gradient.")
    elif tensor.requires_grad and tensor.retains_grad:
        text = _("{name} has a .grad: it is no leaf, but retain_grad() asked to keep it.")
    elif tensor.requires_grad:
        text = _(
            "{name}.grad is None: its gradient was used and freed; it is no leaf, and nobody called retain_grad()."
        )
    elif name in INPUTS:
        text = _("{name}.grad is None: it requires no gradient, so none is computed.")
    elif asked_to_retain:
        text = _("{name}.grad is None: nothing it comes from requires a gradient, so torch refuses retain_grad().")
    else:
        text = _("{name}.grad is None: nothing it comes from requires a gradient.")
    return text.format(name=name)


def _entries(tensor: torch.Tensor) -> Vector:
    return tuple(float(value) for value in tensor.detach().reshape(-1).tolist())
