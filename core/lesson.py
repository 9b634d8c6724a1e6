"""Run a lesson: a function of this repository, with the value of every name at the line that assigned it.

A lesson is an ordinary function in ``core.lessons``. It runs once, for real, with the values of the page; what it
returns here is its own source (never a retyped copy) and, for each line in the order they ran, the names which that
line assigned and what they then held. Nothing that a user types is ever run: only functions of ``core.lessons``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any

from core import units

MAX_STEPS = 400
_MAX_ITEMS = 12


@dataclass(frozen=True)
class Inspected:
    """A name and what it held: the value in words, and for a tensor its shape, strides and dtype."""

    name: str
    text: str


@dataclass(frozen=True)
class Step:
    """One line as it ran: its number in the source (1 is the ``def``) and the names that it assigned."""

    line: int
    values: tuple[Inspected, ...]
    holds: bool = False  # an assert that held


@dataclass(frozen=True)
class LessonRun:
    """A lesson that ran: its source, its steps in the order they ran, and what it returned."""

    name: str
    source: str
    steps: tuple[Step, ...]
    result: Any
    truncated: bool = False
    start_of: Mapping[int, int] = field(default_factory=dict)  # by line: the line on which its statement starts

    @property
    def lines(self) -> list[str]:
        return self.source.splitlines()

    def values_after(self, number_of_steps: int) -> dict[int, Step]:
        """Per source line, the latest step among the first that many: what a reader sees there by then."""
        return {step.line: step for step in self.steps[:number_of_steps]}


def describe(value: Any) -> str:
    """A value as a lesson shows it: tensors with shape and dtype, floats to three significant digits.

    >>> describe(0.1 + 0.2), describe(33554432), describe("fp32"), describe([1.0, 2.5])
    ('0.300', '33,554,432', "'fp32'", '[1.00, 2.50]')
    """
    if isinstance(value, float):  # most of what lessons hold
        if value.is_integer() and 1000 <= abs(value) < 1e15:  # three digits would not be the number
            return f"{value:,.0f}"
        return units.significant(value) if math.isfinite(value) else repr(value)
    if isinstance(value, str) and value.startswith(tempfile.gettempdir()):
        return "a temporary folder"  # its name is random, and says where this machine keeps such things
    if isinstance(value, PurePath):
        return f"…/{value.name}"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, int):
        return f"{value:,}"
    if type(value).__module__.startswith("torch") and hasattr(value, "shape") and hasattr(value, "dtype"):
        return _describe_tensor(value)
    if isinstance(value, (list, tuple)):
        inside = ", ".join(describe(item) for item in value[:_MAX_ITEMS]) + (", …" if len(value) > _MAX_ITEMS else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        items = [f"{key!r}: {describe(item)}" for key, item in list(value.items())[:_MAX_ITEMS]]
        return "{" + ", ".join(items) + ("…" if len(value) > _MAX_ITEMS else "") + "}"
    is_module, is_optimizer = hasattr(value, "forward"), hasattr(value, "param_groups")
    text = "" if is_module or is_optimizer else repr(value)
    if not text or " object at 0x" in text:  # a repr of many lines, or one that says nothing
        return f"{_article(type(value).__name__)} {type(value).__name__}"
    if hasattr(value, "text") and isinstance(value.text, str):
        return value.text
    return text if len(text) <= 80 else text[:77] + "…"


def _article(name: str) -> str:
    return "an" if name[0] in "AEIOaeio" else "a"


def _describe_tensor(tensor: Any) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    head = f"{tuple(tensor.shape)} {dtype}"
    if not tensor.is_cpu:
        return f"{head} on {tensor.device}"
    if tensor.numel() > _MAX_ITEMS:
        return head
    values = describe(tensor.tolist())
    return f"{head} = {values}" if tensor.dim() else f"{values} ({dtype})"


def _assigned_names(node: ast.stmt | ast.excepthandler) -> list[str]:
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        return []
    plain = [target for target in targets if not isinstance(target, ast.Attribute)]  # x.grad = None leaves x as it is
    return [name.id for target in plain for name in ast.walk(target) if isinstance(name, ast.Name)]


def _statements(body: Sequence[ast.stmt | ast.excepthandler]) -> Iterator[ast.stmt | ast.excepthandler]:
    for node in body:
        yield node
        for inner in ("body", "handlers", "orelse", "finalbody"):
            yield from _statements(getattr(node, inner, []))


def _end_of_head(node: ast.stmt | ast.excepthandler) -> int:
    """The last line of a statement without the block that it may hold."""
    body = getattr(node, "body", None)
    return max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno


@dataclass(frozen=True)
class _Statement:
    """What a lesson shows of a statement: the names that it assigns; or that it returns, or asserts."""

    names: tuple[str, ...]
    returns: bool
    asserts: bool


def _statement(node: ast.stmt | ast.excepthandler) -> _Statement:
    return _Statement(
        tuple(dict.fromkeys(_assigned_names(node))), isinstance(node, ast.Return), isinstance(node, ast.Assert)
    )


@dataclass(frozen=True)
class _Source:
    """A function's source, its statements by the line where each starts, and for each line where its statement does."""

    text: str
    first_line: int
    statements: dict[int, _Statement]
    start_of: dict[int, int]


@functools.lru_cache(maxsize=256)
def _parsed(code: CodeType) -> _Source:
    """The source of that code. Reading it takes longer than most lessons."""
    source_lines, first_line = inspect.getsourcelines(code)
    source = textwrap.dedent("".join(source_lines)).rstrip()
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    nodes = {node.lineno: node for node in _statements(definition.body)}
    # A statement may span lines, and the interpreter may report any of them: all belong to where it starts.
    start_of = {line: start for start, node in nodes.items() for line in range(start, _end_of_head(node) + 1)}
    return _Source(source, first_line, {start: _statement(node) for start, node in nodes.items()}, start_of)


class _Recorder:
    """Follows one function's frame and, when a line is done, looks at the names that it assigned."""

    def __init__(self, code: CodeType, parsed: _Source) -> None:
        self.code, self.first_line = code, parsed.first_line
        self.statements, self.start_of = parsed.statements, parsed.start_of
        self.steps: list[Step] = []
        self.pending: int | None = None
        self.truncated = False

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not self.code:
            return None
        if event in ("line", "return"):
            line = self.start_of.get(frame.f_lineno - self.first_line + 1) if event == "line" else None
            if line is None or line != self.pending:
                self._finish(frame, argument)
                self.pending = line
        return self.trace

    def _finish(self, frame: FrameType, returned: Any) -> None:
        if self.pending is None:
            return
        if len(self.steps) >= MAX_STEPS:
            self.truncated = True
            return
        done = self.statements[self.pending]
        values: tuple[Inspected, ...] = ()
        if done.returns:
            values = (Inspected("return", describe(returned)),)
        elif done.names:
            held = frame.f_locals  # made anew at each look
            values = tuple(Inspected(name, describe(held[name])) for name in done.names if name in held)
        self.steps.append(Step(self.pending, values, done.asserts))


def run(function: Callable[..., Any], **values: Any) -> LessonRun:
    """Run a lesson with these values and record each line.

    Raises ValueError for a function that is not one of ``core.lessons``; what the lesson itself raises (an assert
    of the lecture's numbers, a refused size) passes through.

    >>> from core.lessons.flops_mfu import linear_model
    >>> lesson = run(linear_model, b=2, d=3, k=4)
    >>> [value.text for step in lesson.steps for value in step.values if value.name == "flops"]
    ['48']
    """
    if not getattr(function, "__module__", "").startswith("core.lessons."):
        raise ValueError(f"only the functions of core.lessons run as lessons; received {function!r}")
    parsed = _parsed(function.__code__)
    recorder = _Recorder(function.__code__, parsed)
    before = sys.gettrace()
    sys.settrace(recorder.trace)
    try:
        result = function(**values)
    finally:
        sys.settrace(before)
    steps = tuple(recorder.steps)
    return LessonRun(function.__name__, parsed.text, steps, result, recorder.truncated, parsed.start_of)
