"""The words of a page: ``pages/_prose/<language>/<page>.md``, a ``## name`` for each section's text."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from core import words

FOLDER = Path(__file__).resolve().parent.parent / "_prose"
_MARKS = re.compile(r"[\\`*_\[\]<>$]")
_HEADING = re.compile(r"^## +(\S+) *$", re.MULTILINE)


def text(page: str, section: str) -> str:
    """The text of a section, empty where the page has none for it."""
    return _sections(page, words.language()).get(section, "")


def plain(text: str) -> str:
    r"""A text that Markdown shows as it is: no emphasis, formula, link or picture, and -> is no arrow.

    Sentences that repeat what a visitor typed, or what an address asked for, go through here.

    >>> print(plain("no ![x](y) in a_b -> c"))
    no !\[x\](y) in a\_b `->` c
    """
    return "`->`".join(_MARKS.sub(r"\\\g<0>", part) for part in text.split("->"))


@functools.cache
def _sections(page: str, language: str) -> dict[str, str]:
    path = FOLDER / language / f"{page}.md"
    if not path.exists():
        path = FOLDER / "en" / f"{page}.md"
    if not path.exists():
        return {}
    parts = _HEADING.split(path.read_text(encoding="utf-8"))
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
