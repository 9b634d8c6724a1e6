"""Patterns of named axes, read with the place of everything in them, so that an error can point at its cause.

The grammar is einops': axes separated by spaces, parentheses around axes that share a dimension, ``...`` for any
number of dimensions, numbers for axes without a name, commas between the operands of an einsum.
Source: https://einops.rocks/api/rearrange, einops 0.8.2 (``einops.parsing``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from core.words import _

MAX_PATTERN_CHARS = 200
MAX_AXES = 24
MAX_OPERANDS = 6
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all")
OPERATIONS = ("rearrange", "repeat", *REDUCTIONS, "einsum")
ELLIPSIS = "..."


class PatternError(ValueError):
    """A pattern that cannot be, why, and the place in it that is wrong (characters ``start`` to ``end``).

    ``start`` equals ``end`` where the mistake is not in the pattern but in a shape or a size.
    """

    def __init__(self, message: str, pattern: str, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.message, self.pattern, self.start, self.end = message, pattern, start, end

    def __reduce__(self) -> tuple[type, tuple[str, str, int, int]]:
        return PatternError, (self.message, self.pattern, self.start, self.end)

    @property
    def marked(self) -> str:
        """The pattern with a line under it that marks the place; the pattern alone where there is none."""
        if self.start == self.end:
            return self.pattern
        return f"{self.pattern}\n{' ' * self.start}{'^' * (self.end - self.start)}"


@dataclass(frozen=True)
class Axis:
    """One axis as it is written, and where. ``size`` is that of a number; ``...`` stands for several axes.

    ``key`` is what it is called in sizes: two numbers in a pattern are two axes, even where they are equal.
    """

    text: str
    start: int
    end: int
    size: int | None = None

    @property
    def key(self) -> str:
        return self.text if self.size is None else f"{self.size}@{self.start}"


@dataclass(frozen=True)
class Dim:
    """A dimension as it is written: one axis, or those in parentheses; none where its size is 1."""

    axes: tuple[Axis, ...]
    start: int
    end: int
    in_parentheses: bool = False


@dataclass(frozen=True)
class Side:
    """The dimensions of one tensor."""

    dims: tuple[Dim, ...]
    start: int
    end: int

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for dim in self.dims for axis in dim.axes)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(axis.key for axis in self.axes)

    @property
    def ellipsis(self) -> Axis | None:
        return next((axis for axis in self.axes if axis.text == ELLIPSIS), None)

    @property
    def numbers(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.size is not None)


@dataclass(frozen=True)
class Pattern:
    """A pattern that was read: the tensors left of the arrow, and the one on its right."""

    text: str
    inputs: tuple[Side, ...]
    output: Side


def parse(pattern: str, operation: str = "rearrange") -> Pattern:
    """Read a pattern, and check that its two sides fit the operation.

    Raises PatternError, a ValueError that knows the place.

    >>> parsed = parse("batch (heads d) -> batch heads d")
    >>> [[axis.text for axis in dim.axes] for dim in parsed.inputs[0].dims]
    [['batch'], ['heads', 'd']]
    >>> parse("batch seq -> batch hidden")
    Traceback (most recent call last):
    core.named_dims.parse.PatternError: “seq” is on the left only: rearrange keeps every axis (reduce sums over one)
    """
    from core.named_dims import rules

    check_length(pattern)
    arrow = _arrow(pattern)
    left, right = (0, arrow), (arrow + 2, len(pattern))
    einsum = operation == "einsum"
    pieces = list(_operands(pattern, *left)) if einsum else [left]
    if len(pieces) > MAX_OPERANDS:
        message = _("{n:,} operands: this page takes at most {most}").format(n=len(pieces), most=MAX_OPERANDS)
        raise PatternError(message, pattern, *left)
    inputs = tuple(side(pattern, *piece, underscore=einsum, duplicates=einsum) for piece in pieces)
    parsed = Pattern(pattern, inputs, side(pattern, *right, underscore=einsum))
    rules.check(parsed, operation)
    return parsed


def check_length(pattern: object) -> None:
    """Refuse what is no text, and what is too long, before anything else looks at it."""
    if not isinstance(pattern, str):
        raise PatternError(
            _("a pattern is a text; received a {kind}").format(kind=type(pattern).__name__), str(pattern)[:40]
        )
    if len(pattern) > MAX_PATTERN_CHARS:
        message = _("The pattern has {n:,} characters; at most {most} are read. It begins “{begin}…”")
        begin = pattern[:40]
        raise PatternError(message.format(n=len(pattern), most=MAX_PATTERN_CHARS, begin=begin), begin)


def _arrow(pattern: str) -> int:
    at = pattern.find("->")
    if at < 0:
        for wrong in ("→", "=>", "⇒", ">", "-"):
            place = pattern.find(wrong)
            if place >= 0:
                message = _("“{wrong}” is not an arrow: write -> between input and output").format(wrong=wrong)
                raise PatternError(message, pattern, place, place + len(wrong))
        message = _("There is no -> in the pattern: write the axes of the input, then ->, then those of the output")
        raise PatternError(message, pattern, 0, len(pattern))
    again = pattern.find("->", at + 2)
    if again >= 0:
        raise PatternError(_("There is a second ->: a pattern has one"), pattern, again, again + 2)
    return at


def _operands(pattern: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while True:
        comma = pattern.find(",", start, end)
        yield start, end if comma < 0 else comma
        if comma < 0:
            return
        start = comma + 1


@functools.lru_cache(maxsize=512)
def side(pattern: str, start: int, end: int, *, underscore: bool = False, duplicates: bool = False) -> Side:
    """Read the dimensions of one tensor, between two places of the pattern.

    ``underscore`` allows ``_`` as a name, ``duplicates`` the same name twice (einsum's diagonal).
    """
    dots = _ellipsis_place(pattern, start, end)
    dims: list[Dim] = []
    group: list[Axis] = []
    opened: int | None = None
    seen: set[str] = set()
    for word, at in _words(pattern, start, end, dots):
        if word == "(":
            if opened is not None:
                message = _("Parentheses inside parentheses: one pair is enough, (a (b c)) is (a b c)")
                raise PatternError(message, pattern, at, at + 1)
            opened, group = at, []
        elif word == ")":
            if opened is None:
                raise PatternError(_("This ) closes nothing: no ( is open before it"), pattern, at, at + 1)
            dims.append(Dim(tuple(group), opened, at + 1, in_parentheses=True))
            opened = None
        else:
            axis = _axis(pattern, word, at, underscore)
            if axis is not None and axis.size is None:
                if axis.key in seen and not duplicates and axis.text != "_":
                    message = _("“{name}” is here twice on one side: each axis stands once in a tensor")
                    raise PatternError(message.format(name=axis.text), pattern, axis.start, axis.end)
                seen.add(axis.key)
            axes = [] if axis is None else [axis]  # a 1 is a dimension without axes
            if opened is None:
                dims.append(Dim(tuple(axes), at, at + len(word)))
            group += axes
    if opened is not None:
        raise PatternError(_("This ( is never closed: a ) is missing"), pattern, opened, opened + 1)
    found = Side(tuple(dims), start, end)
    if max(len(found.axes), len(dims)) > MAX_AXES:
        message = _("{n:,} axes for one tensor: this page takes at most {most}")
        raise PatternError(message.format(n=max(len(found.axes), len(dims)), most=MAX_AXES), pattern, start, end)
    return found


def _ellipsis_place(pattern: str, start: int, end: int) -> int | None:
    """Where the three dots of this side are; None where there are none."""
    first = pattern.find(".", start, end)
    if first < 0:
        return None
    after = first
    while after < end and pattern[after] == ".":
        after += 1
    if after - first != 3:
        message = _("Dots come in threes: ... stands for any number of dimensions; here are {n}")
        raise PatternError(message.format(n=after - first), pattern, first, after)
    again = pattern.find(".", after, end)
    if again >= 0:
        message = _("A second ...: with two of them nobody could tell which dimension belongs to which")
        last = again
        while last < end and pattern[last] == ".":
            last += 1
        raise PatternError(message, pattern, again, last)
    return first


def _words(pattern: str, start: int, end: int, dots: int | None) -> Iterator[tuple[str, int]]:
    """Parentheses and words, each with its place."""
    at = start
    while at < end:
        char = pattern[at]
        if char in "() ":
            if char != " ":
                yield char, at
            at += 1
            continue
        after = at
        while after < end and (pattern[after].isalnum() or pattern[after] == "_" or _in_dots(after, dots)):
            after += 1
        if after == at:
            raise PatternError(_unknown_character(char), pattern, at, at + 1)
        yield pattern[at:after], at
        at = after


def _in_dots(at: int, dots: int | None) -> bool:
    return dots is not None and dots <= at < dots + 3


def _unknown_character(char: str) -> str:
    if char == ",":
        return _("A comma separates the operands of an einsum; between the axes of one tensor stand spaces")
    if char == "…":
        return _("This … is one character: write three dots")
    if char.isspace():
        return _("Between axes stand spaces; this is another blank character")
    if char == "*":
        return _("“*” belongs to pack and unpack; in a pattern, (a b) multiplies two axes")
    shown = char if char.isprintable() else repr(char)
    return _("“{char}” cannot stand in a pattern: names, numbers, spaces, ( ), ... and -> can").format(char=shown)


def _axis(pattern: str, word: str, at: int, underscore: bool) -> Axis | None:
    """The axis that a word stands for; None for a 1."""
    end = at + len(word)
    if word == ELLIPSIS:
        return Axis(word, at, end)
    if ELLIPSIS in word:
        raise PatternError(_("Put a space between ... and the name beside it"), pattern, at, end)
    if word.isdecimal():
        size = int(word)
        if size == 0:
            raise PatternError(_("An axis of size 0 written as a number holds nothing"), pattern, at, end)
        return None if size == 1 else Axis(word, at, end, size)
    reason = wrong_name(word)
    if reason and not (underscore and word == "_"):
        raise PatternError(reason, pattern, at, end)
    return Axis(word, at, end)


def wrong_name(name: str) -> str:
    """Why a word cannot be the name of an axis; empty where it can.

    >>> wrong_name("2d")
    '“2d” begins with a digit: a name begins with a letter'
    """
    if name.isidentifier():
        if name[0] == "_" or name[-1] == "_":
            return _("“{name}” begins or ends with an underscore: einops keeps those for itself").format(name=name)
        return ""
    if name[:1].isdigit():
        return _("“{name}” begins with a digit: a name begins with a letter").format(name=name)
    return _("“{name}” is not a name: letters, digits and underscores make one").format(name=name)
