"""Shapes and chains as text: ``2, 3`` and ``x[:, 1].transpose(0, 1).view(3, 2)``, read by a small strict parser."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from core.strides.layout import MAX_DIMS, check_shape
from core.strides.operation import NAMES, SIGNATURES, Operation, usage
from core.words import _

MAX_TEXT = 300
MAX_OPERATIONS = 12
MAX_DIGITS = 10
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_]+)|(\.\.\.)|(.))", re.DOTALL)
_DECIMAL = re.compile(r"-?(?:[0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(?:[eE][-+]?[0-9]{1,2})?")
_SPELLINGS = str.maketrans({"−": "-", "×": ",", "…": "...", "\u00a0": " "})  # as pages and PDFs write them


@functools.lru_cache(maxsize=256)
def parse_shape(text: str) -> tuple[int, ...]:
    """The sizes in a text such as ``2, 3``, ``(2, 3)`` or ``2×3``; an empty one is a tensor of no dimensions.

    Errors: ValueError that says where, for anything else, and for too many dimensions or elements.

    >>> parse_shape("(4, 4)"), parse_shape("2×3"), parse_shape("")
    ((4, 4), (2, 3), ())
    """
    return check_shape(_numbers_of(text, _("shape")))


def parse_values(text: str) -> tuple[float, ...]:
    """The numbers in a text such as ``1, 4, 9.5``. Errors: ValueError that names the part that is none.

    >>> parse_values("1, 4, −2.5")
    (1.0, 4.0, -2.5)
    """
    if len(text) > MAX_TEXT:
        message = _("at most {most} characters, please; received {count}")
        raise ValueError(message.format(most=MAX_TEXT, count=len(text)))
    parts = [part.strip() for part in text.translate(_SPELLINGS).split(",")]
    for part in parts:
        if not _DECIMAL.fullmatch(part):
            message = _("expected numbers with commas between them, for example 1, 4, 9; received “{part}”")
            raise ValueError(message.format(part=part[:20]))
    return tuple(map(float, parts))


def _numbers_of(text: str, what: str) -> tuple[int, ...]:
    reader = _Reader(text, what)
    opened = reader.take("(") or reader.take("[")
    numbers = reader.numbers(")" if opened == "(" else "]" if opened else "")
    if opened:
        reader.need(")" if opened == "(" else "]")
    reader.need_end()
    return numbers


def parse_index(text: str) -> tuple[int, ...]:
    """The numbers in a text such as ``1, 2`` or ``[1, 2]``. Errors: ValueError that says where.

    >>> parse_index("1, 2"), parse_index("")
    ((1, 2), ())
    """
    return _numbers_of(text, _("element"))


@functools.lru_cache(maxsize=256)
def parse_chain(text: str) -> tuple[Operation, ...]:
    """The operations in a text such as ``x[:, 1].transpose(0, 1).view(3, 2)``; the ``x`` may be left out.

    Errors: ValueError that says where the text stops making sense, and what would be right there.

    >>> [one.name for one in parse_chain("transpose(0, 1).view(3, 2)")], parse_chain("x[::2, ...]")[0].args
    (['transpose', 'view'], ((None, None, 2), '...'))
    >>> parse_chain("x.transpose(0, 1).view(3, )")[1].text
    'view(3)'
    >>> parse_chain("x.transpse(0, 1)")
    Traceback (most recent call last):
    ValueError: chain, at “transpse(0, 1)”: no operation is called transpse; did you mean transpose?
    """
    reader = _Reader(text, _("chain"))
    operations: list[Operation] = []
    named = reader.take_name("x")
    while not reader.at_end:
        if len(operations) == MAX_OPERATIONS:
            reader.fail(_("at most {most} operations").format(most=MAX_OPERATIONS))
        operations.append(reader.operation(first=not operations and not named))
    return tuple(operations)


def format_chain(operations: Sequence[Operation]) -> str:
    """The text that ``parse_chain`` reads.

    >>> format_chain(parse_chain("x[0].unsqueeze( 1 ).flip(0,1)"))
    'x[0].unsqueeze(1).flip(0, 1)'
    """
    return "x" + "".join(one.text if one.name == "index" else f".{one.text}" for one in operations)


def parse_operation(name: str, arguments: str) -> Operation:
    """An operation from its name and the text of its arguments.

    >>> parse_operation("index", ":, 1").text, parse_operation("permute", "1, 0").text
    ('[:, 1]', 'permute(1, 0)')
    """
    if len(arguments) > MAX_TEXT:
        raise ValueError(
            _("at most {most} characters, please; received {count}").format(most=MAX_TEXT, count=len(arguments))
        )
    text = f"[{arguments}]" if name == "index" else f".{name}({arguments})"
    operations = parse_chain(f"x{text}")
    if len(operations) != 1 or operations[0].name != name:
        raise ValueError(_("write the arguments of one operation: {usage}").format(usage=usage(name)))
    return operations[0]


class _Reader:
    """Reads a text token by token and says where it stopped making sense."""

    def __init__(self, text: str, what: str) -> None:
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            count = len(text) if isinstance(text, str) else repr(text)[:40]
            message = _("{what}: at most {most} characters, please; received {count}")
            raise ValueError(message.format(what=what, most=MAX_TEXT, count=count))
        self.text, self.what, self.place = text.translate(_SPELLINGS).rstrip(), what, 0

    @property
    def at_end(self) -> bool:
        return self.place >= len(self.text)

    def fail(self, why: str, place: int | None = None) -> NoReturn:
        rest = self.text[self.place if place is None else place :].strip()
        where = _("at “{rest}”").format(rest=rest[:30] + ("…" if len(rest) > 30 else "")) if rest else _("at the end")
        raise ValueError(f"{self.what}, {where}: {why}")

    def peek(self) -> tuple[str, str, int]:
        """Kind ("number", "name", "mark", "end"), text and end of the next token."""
        found = _TOKEN.match(self.text, self.place)
        if found is None:
            return "end", "", self.place
        number, name, dots, mark = found.groups()
        kind = "number" if number else "name" if name else "mark"
        return kind, number or name or dots or mark, found.end()

    def take(self, mark: str) -> str:
        """The mark, if it comes next."""
        kind, text, end = self.peek()
        if kind != "mark" or text != mark:
            return ""
        self.place = end
        return mark

    def need(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(_("expected “{mark}”").format(mark=mark))

    def need_end(self) -> None:
        if not self.at_end:
            self.fail(_("expected numbers with commas between them, for example 2, 3"))

    def take_name(self, name: str) -> bool:
        kind, text, end = self.peek()
        if kind != "name" or text != name:
            return False
        self.place = end
        return True

    def number(self) -> int | None:
        """A whole number, if one comes next."""
        start, sign = self.place, -1 if self.take("-") else 1
        kind, text, end = self.peek()
        if kind != "number":
            self.place = start
            return None
        if len(text) > MAX_DIGITS:
            self.fail(_("a number of at most {digits} digits").format(digits=MAX_DIGITS))
        self.place = end
        return sign * int(text)

    def numbers(self, until: str) -> tuple[int, ...]:
        """Whole numbers with commas between them, up to that mark or the end."""
        found: list[int] = []
        while not (self.at_end if not until else self.peek()[1] == until):
            number = self.number()
            if number is None:
                self.fail(_("expected a whole number"))
            found.append(number)
            if len(found) > 4 * MAX_DIMS:
                self.fail(_("too many numbers"))
            if not self.take(","):
                break
        return tuple(found)

    def operation(self, *, first: bool) -> Operation:
        """``.name(arguments)`` or ``[items]``."""
        start = self.place
        if self.take("["):
            return self._make(start, "index", self._items())
        if not self.take(".") and not first:
            self.fail(_("expected “.” and an operation, or “[”"))
        start = self.place
        kind, name, end = self.peek()
        if kind != "name" or name not in SIGNATURES or name == "index":
            self._unknown(kind, name)
        self.place = end
        self.need("(")
        arguments = self._nested() if name == "as_strided" else self._flat(name)
        return self._make(start, name, arguments)

    def _make(self, start: int, name: str, arguments: tuple[Any, ...]) -> Operation:
        try:
            return Operation(name, arguments)
        except ValueError as error:
            self.fail(str(error), start)

    def _unknown(self, kind: str, name: str) -> NoReturn:
        import difflib

        if kind != "name":
            self.fail(_("expected the name of an operation: {names}").format(names=", ".join(NAMES[1:])))
        close = difflib.get_close_matches(name, NAMES[1:], 1)
        hint = _("did you mean {name}?").format(name=close[0]) if close else _("there are {names}")
        message = _("no operation is called {name}; {hint}")
        self.fail(message.format(name=name[:30], hint=hint.format(names=", ".join(NAMES[1:]))))

    def _flat(self, name: str) -> tuple[int, ...]:
        """Numbers in parentheses; a second pair, as in view((2, 3)), changes nothing where there may be any number."""
        any_number = SIGNATURES[name].any_number
        inner = ("(" if self.take("(") else "[" if self.take("[") else "") if any_number else ""
        if not inner:
            numbers = self.numbers(")")
            if any_number and not numbers:  # torch takes x.view(()), and not x.view()
                self.fail(_("expected {usage}").format(usage=usage(name)))
        else:
            close = ")" if inner == "(" else "]"
            numbers = self.numbers(close)
            self.need(close)
        self.need(")")
        return numbers

    def _nested(self) -> tuple[Any, ...]:
        """The arguments of as_strided: sizes and strides in parentheses, then the offset."""
        found: list[Any] = []
        while not self.take(")"):
            if self.take("("):
                found.append(self.numbers(")"))
                self.need(")")
            else:
                number = self.number()
                if number is None:
                    self.fail(_("expected {usage}").format(usage=usage("as_strided")))
                found.append(number)
            if len(found) > len(SIGNATURES["as_strided"].names):
                self.fail(_("too many arguments"))
            if self.peek()[1] != ")":
                self.need(",")
        return tuple(found)

    def _items(self) -> tuple[Any, ...]:
        """The items of an index, up to its closing bracket."""
        items: list[Any] = []
        while not self.take("]"):
            items.append(self._item())
            if len(items) > 2 * MAX_DIMS:
                self.fail(_("too many items"))
            if self.peek()[1] != "]":
                self.need(",")
        return tuple(items)

    def _item(self) -> Any:
        if self.take("..."):
            return "..."
        if self.take_name("None"):
            return None
        if self.take("["):
            picked = self.numbers("]")
            self.need("]")
            return ("pick", *picked)
        start = self.number()
        if not self.take(":"):
            if start is None:
                self.fail(_("expected a number, a slice such as 0:4:2, [0, 2], ... or None"))
            return start
        stop = self.number()
        step = self.number() if self.take(":") else None
        return (start, stop, step)
