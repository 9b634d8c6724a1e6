"""The truth: a chain run by torch on a real tensor, with what it did read off the tensors themselves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from core import units
from core.strides.chains import random_chain
from core.strides.layout import ITEM_BYTES, Layout, check_shape
from core.strides.operation import Operation
from core.strides.rules import Step, predict_chain
from core.words import _

if TYPE_CHECKING:
    import torch

MAX_BYTES = 2**22  # of any tensor that a chain makes: chains run while a page is drawn


@dataclass(frozen=True)
class Ran:
    """One step as torch ran it. ``kind`` is decided by the storage's pointer; ``error`` is torch's own message.

    ``layout`` (None after an error) has the real sizes, strides, offset and storage; ``contiguous`` is torch's
    answer. ``tensor`` is the result itself.
    """

    operation: Operation
    kind: str
    layout: Layout | None
    contiguous: bool
    allocated_bytes: int
    storage_pointer: int
    error: str = ""
    tensor: torch.Tensor | None = None


def base_tensor(shape: Sequence[int]) -> torch.Tensor:
    """0, 1, 2, … in fp32, in that shape. Errors: ValueError beyond 4 MiB, before anything is allocated."""
    import torch

    sizes = check_shape(shape)
    check_bytes(sizes)
    return torch.arange(math.prod(sizes), dtype=torch.float32).view(sizes)


def check_bytes(shape: Sequence[int]) -> None:
    """Raises ValueError where a tensor of that shape is too large to run while a page is drawn."""
    wanted = math.prod(shape) * ITEM_BYTES
    if wanted > MAX_BYTES:
        message = _("a tensor of shape {shape} takes {wanted}; the limit here is {limit}")
        limits = {"wanted": units.binary_bytes(wanted), "limit": units.binary_bytes(MAX_BYTES)}
        raise ValueError(message.format(shape=tuple(shape), **limits))


def run_chain(shape: Sequence[int], operations: Sequence[Operation]) -> tuple[Ran, ...]:
    """Run a chain on 0, 1, 2, … of that shape; it ends with the first error.

    Errors: ValueError for a tensor or a copy beyond 4 MiB, before it is made.

    >>> steps = run_chain((2, 3), [Operation("transpose", (0, 1)), Operation("view", (2, 3))])
    >>> [one.kind for one in steps], steps[0].layout.strides
    (['view', 'error'], (1, 3))
    """
    return _run(shape, operations, predict_chain(Layout.contiguous(shape), operations))


def _run(shape: Sequence[int], operations: Sequence[Operation], predicted: Sequence[Step]) -> tuple[Ran, ...]:
    for step in predicted:
        if step.kind == "copy" and step.after is not None:
            check_bytes(step.after.shape)
    tensor = base_tensor(shape)
    steps: list[Ran] = []
    for operation in operations:
        steps.append(run_operation(tensor, operation))
        after = steps[-1].tensor
        if after is None:
            break
        tensor = after
    return tuple(steps)


def run_operation(tensor: torch.Tensor, operation: Operation) -> Ran:
    """One operation by torch. What it raises is a step of kind "error"."""
    try:
        after = _RUN[operation.name](tensor, operation.args)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return Ran(operation, "error", None, False, 0, 0, str(error).split("\n")[0])
    storage = after.untyped_storage()
    kind = "view" if shares_storage(tensor, after) else "copy"
    layout = layout_of(after)
    allocated = storage.nbytes() if kind == "copy" else 0
    return Ran(operation, kind, layout, after.is_contiguous(), allocated, storage.data_ptr(), "", after)


def layout_of(tensor: torch.Tensor) -> Layout:
    """The layout of a real tensor.

    >>> import torch
    >>> layout_of(torch.zeros(2, 3).t()).strides
    (1, 3)
    """
    item_bytes = tensor.element_size()
    storage_size = tensor.untyped_storage().nbytes() // item_bytes
    return Layout(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), storage_size, item_bytes)


def shares_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors lie in one storage: by its pointer, and where it has no bytes, by the storage itself.

    >>> import torch
    >>> x = torch.zeros(2, 3)
    >>> shares_storage(x, x.t()), shares_storage(x, x.clone())
    (True, False)
    """
    one, other = a.untyped_storage(), b.untyped_storage()
    if one.data_ptr() != other.data_ptr():
        return False
    # All empty storages have the pointer 0: they are told apart by the object behind them.
    return one.data_ptr() != 0 or bool(one._cdata == other._cdata)


@dataclass(frozen=True)
class Disagreement:
    """A step of a chain where the prediction and torch differ, with both as text."""

    shape: tuple[int, ...]
    operations: tuple[Operation, ...]
    predicted: str
    ran: str


def compare_chain(shape: Sequence[int], operations: Sequence[Operation]) -> Disagreement | None:
    """The first step at which prediction and torch differ, in kind, shape, strides, offset, contiguity or bytes.

    >>> compare_chain((2, 3), [Operation("transpose", (0, 1)), Operation("flatten")]) is None
    True
    """
    steps = predict_chain(Layout.contiguous(shape), operations)
    for step, ran in zip_longest(steps, _run(shape, operations, steps)):
        predicted, truth = step and _predicted_facts(step), ran and _ran_facts(ran)
        if predicted != truth:
            return Disagreement(tuple(shape), tuple(operations), str(predicted), str(truth))
    return None


def disagreements(chains: int, seed: int = 0) -> Iterator[Disagreement | None]:
    """Random chains one by one: None where prediction and torch agree in every step.

    >>> sum(one is None for one in disagreements(50))
    50
    """
    generator = random.Random(seed)  # noqa: S311
    for _chain in range(chains):
        yield compare_chain(*random_chain(generator))


def _predicted_facts(step: Step) -> tuple[Any, ...]:
    contiguous = step.after is not None and step.after.is_contiguous
    return step.kind, step.after, contiguous, step.allocated_bytes


def _ran_facts(ran: Ran) -> tuple[Any, ...]:
    return ran.kind, ran.layout, ran.contiguous, ran.allocated_bytes


def _items(items: Sequence[Any]) -> tuple[Any, ...]:
    """The items of an index as torch takes them."""
    made: list[Any] = []
    for item in items:
        if isinstance(item, tuple):
            made.append(list(item[1:]) if item[0] == "pick" else slice(*item))
        else:
            made.append(... if item == "..." else item)
    return tuple(made)


_RUN: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "index": lambda x, args: x[_items(args)],
    "select": lambda x, args: x.select(*args),
    "transpose": lambda x, args: x.transpose(*args),
    "permute": lambda x, args: x.permute(args),
    "view": lambda x, args: x.view(args),
    "reshape": lambda x, args: x.reshape(args),
    "flatten": lambda x, args: x.flatten(*args),
    "expand": lambda x, args: x.expand(args),
    "unsqueeze": lambda x, args: x.unsqueeze(*args),
    "squeeze": lambda x, args: x.squeeze(*args),
    "unfold": lambda x, args: x.unfold(*args),
    "diagonal": lambda x, args: x.diagonal(*args),
    "flip": lambda x, args: x.flip(args),
    "contiguous": lambda x, args: x.contiguous(),
    "clone": lambda x, args: x.clone(),
    "sqrt": lambda x, args: x.sqrt(),
    "rsqrt": lambda x, args: x.rsqrt(),
    "pow": lambda x, args: x.pow(*args),
    "add": lambda x, args: x + args[0],
    "mul": lambda x, args: x * args[0],
    "div": lambda x, args: x / args[0],
    "triu": lambda x, args: x.triu(*args),
    "as_strided": lambda x, args: x.as_strided(*args),
}
