"""The operations of a chain: a name and plain arguments. What a user types becomes these, and is never evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.words import _

# An item of an index: a number, (start, stop, step), ("pick", 0, 2) for [0, 2], "..." or None for a new dimension.
Item = int | tuple[Any, ...] | str | None


@dataclass(frozen=True)
class Signature:
    """What an operation takes: the names of its arguments, how many it needs, and whether any number may follow."""

    names: tuple[str, ...]
    needed: int
    any_number: bool = False
    kind: str = "view"


VIEWS = ("select", "transpose", "permute", "view", "expand", "unsqueeze", "squeeze", "unfold", "diagonal", "as_strided")
UNARY = ("sqrt", "rsqrt", "pow")
WITH_NUMBER = ("add", "mul", "div")
ELEMENTWISE = (*UNARY, *WITH_NUMBER)
_SIZES, _DIMS = ("size", "…"), ("dim", "…")
SIGNATURES = {
    "index": Signature(("item", "…"), 1, any_number=True),
    "select": Signature(("dim", "index"), 2),
    "transpose": Signature(("dim0", "dim1"), 2),
    "permute": Signature(_DIMS, 0, any_number=True),
    "view": Signature(_SIZES, 0, any_number=True),
    "reshape": Signature(_SIZES, 0, any_number=True),
    "flatten": Signature(("start_dim", "end_dim"), 0),
    "expand": Signature(_SIZES, 0, any_number=True),
    "unsqueeze": Signature(("dim",), 1),
    "squeeze": Signature(("dim",), 0),
    "unfold": Signature(("dim", "size", "step"), 3),
    "diagonal": Signature(("offset", "dim1", "dim2"), 0),
    "flip": Signature(_DIMS, 1, any_number=True),
    "contiguous": Signature((), 0),
    "clone": Signature((), 0),
    "sqrt": Signature((), 0),
    "rsqrt": Signature((), 0),
    "pow": Signature(("exponent",), 1),
    "add": Signature(("number",), 1),
    "mul": Signature(("number",), 1),
    "div": Signature(("number",), 1),
    "triu": Signature(("diagonal",), 0),
    "as_strided": Signature(("(sizes)", "(strides)", "offset"), 2),
}
NAMES = tuple(SIGNATURES)


@dataclass(frozen=True)
class Operation:
    """An operation of a chain.

    ``args`` is plain data: numbers; for ``index`` the items described above; for ``as_strided`` sizes, strides and,
    where it is not the tensor's own, an offset. ``plain`` can go through JSON and back by ``of``.

    >>> Operation("transpose", (0, 1)).text, Operation("index", ((None, None, 2), 1)).text
    ('transpose(0, 1)', '[::2, 1]')
    >>> Operation.of({"name": "index", "args": [[None, None, 2], 1]}).text
    '[::2, 1]'
    """

    name: str
    args: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SIGNATURES:
            message = _("no operation is called {name}; there are {names}")
            raise ValueError(message.format(name=repr(self.name)[:40], names=", ".join(NAMES)))
        count, signature = len(self.args), SIGNATURES[self.name]
        if count < signature.needed or (count > len(signature.names) and not signature.any_number):
            message = _("{name} takes {usage}; received {count} arguments")
            raise ValueError(message.format(name=self.name, usage=usage(self.name), count=count))
        if not _fits(self.name, self.args):
            message = _("{name} takes whole numbers: {usage}; received {args}")
            raise ValueError(message.format(name=self.name, usage=usage(self.name), args=repr(self.args)[:60]))

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Operation:
        """The operation that ``plain`` describes, lists or tuples alike."""
        return cls(plain["name"], _tuples(plain["args"]))

    @property
    def plain(self) -> dict[str, Any]:
        """Name and arguments as JSON takes them."""
        return {"name": self.name, "args": _lists(self.args)}

    @property
    def text(self) -> str:
        """As it is written in a chain."""
        if self.name == "index":
            return f"[{', '.join(map(_item_text, self.args))}]"
        if SIGNATURES[self.name].any_number and not self.args:  # x.view() is no call that torch takes
            return f"{self.name}(())"
        return f"{self.name}({', '.join(map(_argument_text, self.args))})"


def usage(name: str) -> str:
    """How the operation is written.

    >>> usage("unfold"), usage("flatten"), usage("index")
    ('unfold(dim, size, step)', 'flatten(start_dim, end_dim)', '[0, 1:3, ::2, ..., None]')
    """
    if name == "index":
        return "[0, 1:3, ::2, ..., None]"
    return f"{name}({', '.join(SIGNATURES[name].names)})"


def _fits(name: str, args: tuple[Any, ...]) -> bool:
    if name == "index":
        return all(map(_is_item, args)) and sum(map(_is_pick, args)) <= 1 and args.count("...") <= 1
    if name == "as_strided":
        extents = all(isinstance(one, tuple) and all(map(_is_whole, one)) for one in args[:2])
        return extents and all(map(_is_whole, args[2:]))
    return all(map(_is_whole, args))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pick(item: object) -> bool:
    return isinstance(item, tuple) and len(item) >= 2 and item[0] == "pick" and all(map(_is_whole, item[1:]))


def _is_item(item: object) -> bool:
    if item is None or item == "..." or _is_whole(item) or _is_pick(item):
        return True
    return isinstance(item, tuple) and len(item) == 3 and all(one is None or _is_whole(one) for one in item)


def _item_text(item: Item) -> str:
    if isinstance(item, tuple) and item[0] == "pick":
        return f"[{', '.join(map(str, item[1:]))}]"
    if isinstance(item, tuple):
        start, stop, step = ("" if one is None else str(one) for one in item)
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return str(item)


def _argument_text(argument: Any) -> str:
    if not isinstance(argument, tuple):
        return str(argument)
    return f"({', '.join(map(str, argument))}{',' if len(argument) == 1 else ''})"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value
