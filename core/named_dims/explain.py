"""What an einops operation does, worked out from the pattern and the shapes alone: nothing is computed here."""

from __future__ import annotations

import functools
import keyword
import math
from dataclasses import dataclass

from core import checks
from core.named_dims.contraction import OPERAND_NAMES, Contraction, contract
from core.named_dims.parse import OPERATIONS, Pattern, PatternError, parse
from core.named_dims.plan import Step, label, transform_steps
from core.named_dims.sizes import ELEMENT_BYTES, Keys, Shape, Solved, check_elements, check_shape, solve, solve_einsum
from core.words import _


@dataclass(frozen=True)
class Explanation:
    """An operation explained.

    ``sizes`` holds every axis with its size; ``inputs`` and ``output`` say, for each dimension of each tensor, which
    axes it is made of. ``kept``, ``gone`` (summed or reduced) and ``added`` are axes. ``is_view`` is predicted from
    strides, for contiguous inputs. ``read_bytes`` and ``written_bytes`` are those of all steps that copy or compute,
    in fp32; ``new_bytes`` is what the result's own storage takes: 0 for a view.
    """

    operation: str
    pattern: Pattern
    shapes: tuple[Shape, ...]
    given: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[Keys, ...]
    output: Keys
    output_shape: Shape
    steps: tuple[Step, ...]
    is_view: bool
    new_bytes: int
    flops: int
    read_bytes: int
    written_bytes: int
    notes: tuple[str, ...]
    contraction: Contraction | None = None

    def __hash__(self) -> int:
        """Of what all the rest follows from: the generated one goes through every step, at each look into a cache."""
        return hash((self.operation, self.pattern.text, self.shapes, self.given))

    @property
    def code(self) -> str:
        """The same in plain torch, a step a line."""
        if not self.steps:
            return _("{name}  # nothing to do").format(name=OPERAND_NAMES[0])
        return "\n".join(step.code for step in self.steps)

    @property
    def call(self) -> str:
        """The call of einops that this explains."""
        tensors = ", ".join(OPERAND_NAMES[: len(self.shapes)])
        pattern = repr(self.pattern.text).replace("'", '"') if '"' not in self.pattern.text else repr(self.pattern.text)
        sizes = "".join(f", {name}={size}" for name, size in self.given)
        if self.operation in ("rearrange", "repeat", "einsum"):
            return f"{self.operation}({tensors}, {pattern}{sizes})"
        return f'reduce({tensors}, {pattern}, "{self.operation}"{sizes})'

    @property
    def left(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for dims in self.inputs for keys in dims for key in keys))

    @property
    def right(self) -> tuple[str, ...]:
        return tuple(key for keys in self.output for key in keys)

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(key for key in self.left if key in self.right)

    @property
    def gone(self) -> tuple[str, ...]:
        """The axes that are summed or reduced."""
        return tuple(key for key in self.left if key not in self.right)

    @property
    def added(self) -> tuple[str, ...]:
        return tuple(key for key in self.right if key not in self.left)

    @property
    def why_no_view(self) -> str:
        """The first step that needs memory of its own, and why."""
        return next((step.why for step in self.steps if not step.is_view), "")


def explain(pattern: str, /, *shapes: Shape, operation_: str = "rearrange", **sizes: int) -> Explanation:
    """Explain an operation on tensors of these shapes, with the sizes that the pattern needs.

    ``operation_`` is rearrange, repeat, einsum or a reduction: sum, mean, max, min, prod, any, all. Its name ends
    with an underscore so that it cannot be an axis: einops allows none there.

    Raises PatternError (a ValueError that marks the place in the pattern) where the operation cannot be, and
    ValueError for shapes that are too large to be shown; both before anything is allocated.
    Source: einops 0.8.2 and CS336 lecture 2, §5.3.

    >>> done = explain("batch (heads d) -> batch heads d", (2, 8), heads=2)
    >>> done.output_shape, done.is_view, done.code
    ((2, 2, 4), True, 'x = x.reshape(2, 2, 4)')
    >>> explain("b s1 h, b s2 h -> b s1 s2", (2, 3, 4), (2, 3, 4), operation_="einsum").flops
    144
    """
    checks.one_of("operation_", operation_, OPERATIONS)
    given = tuple(sizes.items())
    try:
        return _explain(pattern, tuple(tuple(shape) for shape in shapes), operation_, given)
    except TypeError as unhashable:
        raise ValueError(
            _("shapes and sizes are whole numbers; received {shapes}").format(shapes=repr(shapes)[:80])
        ) from unhashable


@functools.lru_cache(maxsize=512)
def _explain(
    pattern: str, shapes: tuple[Shape, ...], operation: str, given: tuple[tuple[str, int], ...]
) -> Explanation:
    parsed = parse(pattern, operation)
    _check_operands(parsed, len(shapes))
    shapes = tuple(check_shape(shape, _("the shape of {name}").format(name=name))
                   for name, shape in zip(OPERAND_NAMES, shapes, strict=False))  # fmt: skip
    contraction = None
    if operation == "einsum":
        solved = solve_einsum(parsed, shapes, dict(given))
        check_elements(solved.shape(solved.output), _("the result"))
        steps, contraction = contract(solved, shapes)
    else:
        solved = solve(parsed, shapes[0], dict(given))
        check_elements(solved.shape(solved.output), _("the result"))
        steps = transform_steps(solved, operation, shapes[0])
    output_shape = solved.shape(solved.output)
    read, written = _moved(steps, dict(zip(OPERAND_NAMES, shapes, strict=False)))
    return Explanation(
        operation, parsed, shapes, tuple((name, int(size)) for name, size in given), tuple(solved.sizes.items()),
        solved.inputs, solved.output, output_shape, steps, all(step.is_view for step in steps), _new_bytes(steps),
        sum(step.flops for step in steps), read, written, _notes(solved, shapes, operation), contraction,
    )  # fmt: skip


def _check_operands(pattern: Pattern, number: int) -> None:
    wanted = len(pattern.inputs)
    if number == wanted:
        return
    end = pattern.inputs[-1].end
    if number > wanted:
        message = _("{n} tensors for a pattern of {wanted}: a comma separates the axes of one tensor from the next's")
    else:
        message = _("{n} tensors for a pattern of {wanted}: one shape for each comma-separated part is needed")
    raise PatternError(message.format(n=number, wanted=wanted), pattern.text, 0, end)


def _new_bytes(steps: tuple[Step, ...]) -> int:
    """Bytes of the storage that the result does not share with the input: those of the last step that is no view."""
    return next((step.new_bytes for step in reversed(steps) if not step.is_view), 0)


def _moved(steps: tuple[Step, ...], shapes: dict[str, Shape]) -> tuple[int, int]:
    """Bytes read and written by every step that copies or computes, in fp32."""
    now = dict(shapes)
    read = written = 0
    for step in steps:
        if step.is_view is False:
            read += sum(ELEMENT_BYTES * math.prod(now[name]) for name in step.sources)
            written += step.new_bytes
        now[step.target] = step.shape
    return read, written


def _notes(solved: Solved, shapes: tuple[Shape, ...], operation: str) -> tuple[str, ...]:
    """What is allowed and yet worth knowing."""
    names = dict.fromkeys(label(key) for key in solved.sizes)
    doubtful = [name for name in names if keyword.iskeyword(name) or name == "axis"]
    notes = [_("einops warns of “{name}” as a name: take another").format(name=name) for name in doubtful]
    for dims, shape in zip(solved.inputs, shapes, strict=True) if operation == "einsum" else ():
        for (key,), size in zip(dims, shape, strict=True):
            if size == 1 != solved.sizes[key]:
                message = _("“{name}” is 1 in one operand and {size} in another: torch repeats it without a word")
                notes.append(message.format(name=label(key), size=solved.sizes[key]))
    if operation == "mean" and any(solved.sizes[key] == 0 for keys in solved.inputs[0] for key in keys):
        notes.append(_("a mean of nothing is NaN"))
    return tuple(notes)
