"""The plan of an operation: reshape → permute → reduce → expand → reshape, as steps that torch runs.

A step is data, not text to be run: ``kind`` names one of a fixed set of operations, ``argument`` holds its numbers.
The order of the steps is einops' own (``einops.einops._apply_recipe``), so that what is a view there is one here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.named_dims.parse import REDUCTIONS
from core.named_dims.sizes import ELEMENT_BYTES, Keys, Shape, Solved, check_elements
from core.strides.layout import contiguous_strides
from core.strides.merging import Broken, view_strides
from core.words import _

if TYPE_CHECKING:
    import torch

_TORCH_NAMES = {"max": "amax", "min": "amin"}
_ONE_AT_A_TIME = ("prod", "any", "all")


@dataclass(frozen=True)
class Step:
    """One step: what is done, the tensor after it, and whether it is a view of the one before.

    ``sources`` and ``target`` are the names of tensors in the code. ``axes`` says of which named axes each dimension
    is made. ``is_view`` and ``strides`` are predicted from the strides before; None where that cannot be told.
    """

    kind: str
    argument: tuple[int, ...]
    sources: tuple[str, ...]
    target: str
    shape: Shape
    axes: Keys
    strides: Shape | None
    is_view: bool | None
    new_bytes: int
    flops: int = 0
    why: str = ""

    @property
    def expression(self) -> str:
        """The step as torch code, without the assignment."""
        x = self.sources[0]
        numbers = ", ".join(map(str, self.argument))
        if self.kind in ("matmul", "multiply"):
            return f"{x} {'@' if self.kind == 'matmul' else '*'} {self.sources[1]}"
        if self.kind in _ONE_AT_A_TIME:
            return x + "".join(f".{self.kind}(dim={dim})" for dim in reversed(self.argument))
        if self.kind in REDUCTIONS:
            single = "," if len(self.argument) == 1 else ""
            return f"{x}.{_TORCH_NAMES.get(self.kind, self.kind)}(dim=({numbers}{single}))"
        if self.kind == "expand":
            fresh = "".join(f".unsqueeze({dim})" for dim, size in enumerate(self.argument) if size != -1)
            return f"{x}{fresh}.expand({numbers})"
        if self.kind == "index":
            return f"{x}[{', '.join(['None' if number else ':' for number in self.argument])}]"
        if self.kind == "diagonal":
            return f"{x}.diagonal(dim1={self.argument[0]}, dim2={self.argument[1]})"
        if self.kind in ("reshape", "permute") and not numbers:
            return f"{x}.{self.kind}(())"
        return f"{x}.{self.kind}({numbers})"

    @property
    def code(self) -> str:
        return f"{self.target} = {self.expression}"


class Builder:
    """Adds steps to a plan and keeps shape, axes and strides of every tensor in it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.shapes: dict[str, Shape] = {}
        self.axes: dict[str, Keys] = {}
        self.strides: dict[str, Shape | None] = {}

    def begin(self, name: str, shape: Shape, axes: Keys, strides: Shape | None = None) -> None:
        """A tensor of the input, contiguous unless its strides are given."""
        self.shapes[name], self.axes[name] = shape, axes
        self.strides[name] = strides or contiguous_strides(shape)

    def add(
        self, kind: str, argument: Sequence[int], name: str, shape: Shape, axes: Keys, strides: Shape | None,
        is_view: bool | None, *, flops: int = 0, why: str = "", other: str = "", target: str = "",
    ) -> None:  # fmt: skip
        """Append a step; the tensors keep their name unless a target is given."""
        check_elements(shape, _("the tensor after {kind}").format(kind=kind))
        new_bytes = 0 if is_view else math.prod(shape) * (1 if kind in ("any", "all") else ELEMENT_BYTES)
        target, sources = target or name, (name, other) if other else (name,)
        step = Step(kind, tuple(argument), sources, target, shape, axes, strides, is_view, new_bytes, flops, why)
        self.steps.append(step)
        self.shapes[target], self.axes[target], self.strides[target] = shape, axes, strides

    def reshape(self, name: str, shape: Shape, axes: Keys) -> None:
        before, strides = self.shapes[name], self.strides[name]
        if strides is None:
            self.add("reshape", shape, name, shape, axes, None, None)
            return
        after = view_strides(before, strides, shape)
        if isinstance(after, Broken):
            why = _why_copied(after, self.axes[name])
            self.add("reshape", shape, name, shape, axes, contiguous_strides(shape), False, why=why)
        else:
            self.add("reshape", shape, name, shape, axes, after, True)

    def permute(self, name: str, order: Sequence[int]) -> None:
        shape, axes, strides = self.shapes[name], self.axes[name], self.strides[name]
        self.add(
            "permute", order, name, tuple(shape[dim] for dim in order), tuple(axes[dim] for dim in order),
            None if strides is None else tuple(strides[dim] for dim in order), True,
        )  # fmt: skip

    def reduce(self, name: str, operation: str, dims: Sequence[int]) -> None:
        shape, axes = self.shapes[name], self.axes[name]
        kept = [dim for dim in range(len(shape)) if dim not in dims]
        new_shape = tuple(shape[dim] for dim in kept)
        elements, left = math.prod(shape), math.prod(new_shape)
        flops = max(0, elements - left) + (left if operation == "mean" else 0)
        self.add(
            operation, dims, name, new_shape, tuple(axes[dim] for dim in kept), contiguous_strides(new_shape), False,
            flops=flops, why=_("a result that is computed is new"),
        )  # fmt: skip


def _why_copied(broken: Broken, axes: Keys) -> str:
    """Which two axes cannot be merged, in words."""
    outer, inner = (label(axes[dim][-1]) if axes[dim] else "1" for dim in (broken.outer, broken.inner))
    if 0 in (broken.outer_stride, broken.inner_stride):
        message = _("“{name}” repeats elements without storing them: merged, each needs a place of its own")
        return message.format(name=outer if broken.outer_stride == 0 else inner)
    message = _("“{outer}” and “{inner}” do not lie one inside the other: {outer} steps by {step}, not {needed}")
    return message.format(outer=outer, inner=inner, step=broken.outer_stride, needed=broken.needed)


def label(key: str) -> str:
    """An axis as it is written: the number of an axis without a name, else its name."""
    return key.partition("@")[0]


def transform_steps(solved: Solved, operation: str, shape: Shape) -> tuple[Step, ...]:
    """The steps of rearrange, repeat and the reductions; none where nothing changes."""
    plan = Builder()
    (dims,), output, sizes = solved.inputs, solved.output, solved.sizes
    plan.begin("x", shape, dims)
    left = [key for keys in dims for key in keys]
    right = [key for keys in output for key in keys]
    if any(len(keys) != 1 for keys in dims):
        plan.reshape("x", tuple(sizes[key] for key in left), tuple((key,) for key in left))
    kept = [key for key in right if key in set(left)]
    gone = [key for key in left if key not in set(right)]
    order = [left.index(key) for key in (*kept, *gone)]
    if order != sorted(order):
        plan.permute("x", order)
    if gone:
        _check_not_empty(operation, gone, sizes)
        plan.reduce("x", operation, range(len(kept), len(order)))
    added = [key for key in right if key not in set(left)]
    if added:
        _expand(plan, right, set(added), sizes)
    if any(len(keys) != 1 for keys in output):
        plan.reshape("x", solved.shape(output), output)
    return tuple(plan.steps)


def _expand(plan: Builder, keys: list[str], added: set[str], sizes: dict[str, int]) -> None:
    strides = plan.strides["x"]
    assert strides is not None
    kept = iter(strides)
    new_strides = tuple(0 if key in added else next(kept) for key in keys)
    argument = [sizes[key] if key in added else -1 for key in keys]
    shape = tuple(sizes[key] for key in keys)
    plan.add("expand", argument, "x", shape, tuple((key,) for key in keys), new_strides, True)


def _check_not_empty(operation: str, gone: list[str], sizes: dict[str, int]) -> None:
    empty = next((key for key in gone if sizes[key] == 0), None)
    if empty is not None and operation in ("max", "min"):
        message = _("“{name}” has size 0: there is no {operation} of nothing (a sum of nothing is 0)")
        raise ValueError(message.format(name=label(empty), operation=operation))


def run(steps: Sequence[Step], tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Run the steps in torch; the tensor after each of them."""
    named = dict(tensors)
    after = []
    for step in steps:
        named[step.target] = _run_step(step, *(named[source] for source in step.sources))
        after.append(named[step.target])
    return tuple(after)


def _run_step(step: Step, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
    kind, numbers = step.kind, step.argument
    if other is not None:
        return x @ other if kind == "matmul" else x * other
    if kind in _ONE_AT_A_TIME:
        for dim in reversed(numbers):
            x = getattr(x, kind)(dim=dim)
        return x
    if kind in REDUCTIONS:
        reduced: torch.Tensor = getattr(x, _TORCH_NAMES.get(kind, kind))(dim=numbers)
        return reduced
    if kind == "expand":
        for dim, size in enumerate(numbers):
            x = x.unsqueeze(dim) if size != -1 else x
        return x.expand(numbers)
    if kind == "index":
        return x[tuple(None if number else slice(None) for number in numbers)]
    if kind == "diagonal":
        return x.diagonal(dim1=numbers[0], dim2=numbers[1])
    if kind == "squeeze":
        return x.squeeze(numbers[0])
    assert kind in ("reshape", "permute"), kind
    return x.reshape(numbers) if kind == "reshape" else x.permute(numbers)
