"""jaxtyping: the annotation alone checks nothing, a runtime checker does (CS336 lecture 2, §5.3).

Every function here has fixed annotations; only the shapes that it is called with come from a person. (jaxtyping
evaluates the text of an annotation as Python, so no text of a person's may become one.)

Shapes: B batch, S seq, H heads, D hidden.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core import checks
from core.named_dims.sizes import Shape, check_elements, check_shape
from core.words import _

if TYPE_CHECKING:
    import torch

EXAMPLES = ("loss", "scores", "bias")


@dataclass(frozen=True)
class Example:
    """A function with annotations: its source, its parameters, and the shapes that its author had in mind."""

    name: str
    source: str
    parameters: tuple[str, ...]
    right_shapes: tuple[Shape, ...]
    wrong_shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Call:
    """One call: the shape of the result, or what was raised. ``error`` is the message as it came, trimmed."""

    shape: Shape | None
    error: str


@dataclass(frozen=True)
class Checked:
    """The same function called with the same shapes: with annotations alone, and with a checker that reads them.

    ``broadcast`` is the shape that torch made of the two tensors on the way, where the function is elementwise.
    """

    annotated_only: Call
    with_checker: Call
    broadcast: Shape | None = None


def annotated_example(name: str) -> Example:
    """One of the examples: loss, scores or bias.

    >>> annotated_example("loss").wrong_shapes
    ((8, 1), (8,))
    """
    return _example(checks.one_of("name", name, EXAMPLES))


@functools.cache
def _example(name: str) -> Example:
    import inspect

    from core.lessons import einops_playground as lessons

    function = getattr(lessons, f"annotated_{name}")
    shapes: dict[str, tuple[tuple[Shape, ...], tuple[Shape, ...]]] = {
        "loss": (((8,), (8,)), ((8, 1), (8,))),
        "scores": (((2, 3, 4), (2, 5, 4)), ((2, 3, 4), (1, 5, 4))),
        "bias": (((8, 4), (4,)), ((4, 4), (4, 1))),
    }
    parameters = tuple(inspect.signature(function).parameters)
    return Example(name, inspect.getsource(function), parameters, *shapes[name])


def check_annotations(name: str, shapes: Sequence[Shape]) -> Checked:
    """Call an example twice with tensors of these shapes: as it is, and under jaxtyping with beartype.

    Raises ValueError for shapes that are too large, or too many or too few.

    >>> checked = check_annotations("loss", [(8, 1), (8,)])
    >>> checked.annotated_only.shape, checked.broadcast, checked.with_checker.shape  # no error, and wrong
    ((), (8, 8), None)
    """
    example = annotated_example(name)
    if len(shapes) != len(example.parameters):
        message = _("{name} takes {wanted} tensors; received {n} shapes")
        raise ValueError(message.format(name=name, wanted=len(example.parameters), n=len(shapes)))
    sizes = [check_shape(shape, label) for label, shape in zip(example.parameters, shapes, strict=True)]
    check_elements((math.prod(sizes[0]), math.prod(sizes[1])), _("the two tensors, broadcast,"))
    return _checked(name, tuple(sizes))


@functools.lru_cache(maxsize=128)
def _checked(name: str, sizes: tuple[Shape, ...]) -> Checked:
    import torch

    tensors = [torch.ones(shape) for shape in sizes]
    plain, checking = _functions(name)
    alone = _call(plain, tensors)
    elementwise = name != "scores" and not alone.error
    broadcast = tuple(torch.broadcast_shapes(*sizes)) if elementwise else None  # type: ignore[no-untyped-call]
    return Checked(alone, _call(checking, tensors), broadcast)


@functools.cache
def _functions(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function as it is written, and the same with its annotations checked at every call."""
    import beartype
    import jaxtyping

    from core.lessons import einops_playground as lessons

    function = getattr(lessons, f"annotated_{name}")
    return function, jaxtyping.jaxtyped(typechecker=beartype.beartype)(function)


def _call(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Call:
    import jaxtyping

    try:
        return Call(tuple(function(*tensors).shape), "")
    except jaxtyping.TypeCheckError as refused:
        return Call(None, _trimmed(str(refused)))
    except (RuntimeError, IndexError) as refused:  # torch's own, where the shapes fit no operation
        return Call(None, f"{type(refused).__name__}: {refused}")


def _trimmed(message: str) -> str:
    """jaxtyping's message without the lines that repeat the call."""
    lines = message.replace("core.lessons.einops_playground.", "").splitlines()
    cut = next((index for index, line in enumerate(lines) if line.startswith("---")), len(lines))
    rest = [line for line in lines[cut:] if "=" in line and ":" not in line]
    return "\n".join(["TypeCheckError: " + lines[0], *lines[1:cut], *rest])
