"""Shapes and sizes as a person types them."""

from __future__ import annotations

import functools
import re

from core.named_dims.parse import MAX_OPERANDS
from core.named_dims.sizes import MAX_DIMS, Shape
from core.words import _

MAX_TEXT_CHARS = 200
_MAX_DIGITS = 12
_SHAPES = re.compile(r"[(\[]([^()\[\]]*)[)\]]\s*[,;]?\s*")


@functools.lru_cache(maxsize=256)
def read_shapes(text: str, most: int = MAX_OPERANDS, *, minus_one: bool = False) -> tuple[Shape, ...]:
    """Shapes from a text: ``(2, 3, 4), (2, 3, 4)``, or ``2 3 4; 2 3 4``; ``()`` is a tensor without dimensions.

    Raises ValueError with what was received and what would be right.

    >>> read_shapes("(2, 3, 4), (2,)"), read_shapes("2x3; 4"), read_shapes("()")
    (((2, 3, 4), (2,)), ((2, 3), (4,)), ((),))
    """
    text = _checked(text, _("the shapes"), "(2, 3, 4)")
    if "(" in text or "[" in text:
        parts = [found[1] for found in _SHAPES.finditer(text)]
        if _SHAPES.sub("", text).strip() or not parts:
            raise ValueError(
                _("{text} is not a list of shapes; write for example (2, 3), (3, 4)").format(text=repr(text[:40]))
            )
    else:
        parts = text.split(";")
        if any(not part.strip() for part in parts):
            raise ValueError(_("a shape is empty: write () for a tensor without dimensions"))
    if len(parts) > most:
        raise ValueError(_("{n} shapes; at most {most} are read").format(n=len(parts), most=most))
    return tuple(_read_shape(part, minus_one) for part in parts)


def read_sizes(text: str) -> dict[str, int]:
    """Sizes by name from a text such as ``heads=2 d=4``; empty where there are none.

    >>> read_sizes("heads=2, d = 4")
    {'heads': 2, 'd': 4}
    """
    if len(text) > MAX_TEXT_CHARS:
        _checked(text, _("the sizes"), "heads=2 d=4")
    sizes: dict[str, int] = {}
    for part in re.sub(r"\s*=\s*", "=", text).replace(",", " ").split():
        name, equals, size = part.partition("=")
        if not (name and equals):
            raise ValueError(_("{part} is no size; write name=number, for example heads=2").format(part=repr(part)))
        if name in sizes:
            raise ValueError(_("{name} is given twice").format(name=name))
        sizes[name] = _read_size(size, part, minus_one=False)
    return sizes


def _checked(text: str, name: str, example: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        message = _("{name} have {n:,} characters; at most {most} are read. They begin “{begin}…”")
        raise ValueError(message.format(name=name, n=len(text), most=MAX_TEXT_CHARS, begin=text[:40]))
    if not text.strip():
        raise ValueError(_("{name} are empty; write for example {example}").format(name=name, example=example))
    return text.strip()


def _read_shape(text: str, minus_one: bool) -> Shape:
    words = re.sub(r"[,×*x]", " ", text).split()
    if text.strip() and not words:
        raise ValueError(_("{text} is no shape; write for example (2, 3), or ()").format(text=repr(text.strip()[:40])))
    if len(words) > MAX_DIMS:
        raise ValueError(
            _("a shape has {n:,} dimensions; at most {most} are shown").format(n=len(words), most=MAX_DIMS)
        )
    return tuple(_read_size(word, text.strip(), minus_one=minus_one) for word in words)


def _read_size(word: str, where: str, *, minus_one: bool) -> int:
    word = word.replace("−", "-")
    if minus_one and word == "-1":
        return -1
    if not word.isdecimal():
        message = _("{word} in {where} is no size: whole numbers from 0 are")
        raise ValueError(message.format(word=repr(word[:40]), where=repr(where[:60])))
    if len(word) > _MAX_DIGITS:
        message = _("a size of {n} digits is larger than any tensor: {begin}…")
        raise ValueError(message.format(n=len(word), begin=word[:8]))
    return int(word)
