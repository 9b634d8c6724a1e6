"""A lesson on screen: its source as it ran, each value beside the line that made it, step by step."""

from __future__ import annotations

import functools
import importlib
import keyword
import re
from collections.abc import Callable
from html import escape
from typing import Any

import streamlit as st

from core import lesson as lessons
from core.words import _
from pages._ui import inputs, markup

_TOKEN = re.compile(
    r"(?P<com>#[^\n]*)"
    r"""|(?P<str>(?:\b[rbfRBF]{1,2})?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    rf"|\b(?P<kw>{'|'.join(keyword.kwlist)})\b"
    r"|(?<![\w.])(?P<num>\.?\d(?:[eE][+-]|[\w.])*)"
)


class Lessons:
    """The functions of a module of ``core.lessons``. It needs torch, and is imported when the first one is asked for:
    a page's words do not wait for it.
    """

    def __init__(self, name: str) -> None:
        self._module = f"core.lessons.{name}"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(self._module), name)
        return function


def lesson(key: str, function: Callable[..., Any], **values: Any) -> None:
    """Run a lesson with these values and let the reader step through its lines."""
    given = tuple(sorted(values.items()))
    total = len(_run(function, given).steps)
    with st.container(horizontal=True, vertical_alignment="center", key=f"np_steps_{key}"):
        step = inputs.step(_("Lines run"), key, total)
    markup.show(_listing(function, given, step))


@functools.lru_cache(maxsize=256)
def _run(function: Callable[..., Any], values: tuple[tuple[str, Any], ...]) -> lessons.LessonRun:
    return lessons.run(function, **dict(values))


@functools.lru_cache(maxsize=256)
def _listing(function: Callable[..., Any], given: tuple[tuple[str, Any], ...], step: int) -> str:
    ran = _run(function, given)
    values = ran.values_after(step)
    now = ran.steps[step - 1].line if step else 0
    reached = {one.line for one in ran.steps[:step]} | {1}
    rows = []
    for number, code in enumerate(highlighted(ran.source), 1):
        at = values.get(number)
        held = ""
        if at is not None:
            found = " · ".join(
                f"{value.name} = {value.text}" if value.name != "return" else f"→ {value.text}" for value in at.values
            )
            held = found or ("✓" if at.holds else "")
        start = ran.start_of.get(number, number)
        later = " np-later" if start not in reached and ran.lines[number - 1].strip() else ""
        current = " np-now" if start == now else ""
        rows.append(
            f'<div class="np-row{current}{later}"><span class="np-no">{number}</span><span>{code}</span>'
            f'<span class="np-held">{escape(held)}</span></div>'
        )
    return f'<div class="np-code" role="region" aria-label="{_("code with values")}" tabindex="0">{"".join(rows)}</div>'


def highlighted(source: str) -> list[str]:
    """The source's lines as HTML, with keywords, strings, numbers and comments marked.

    >>> highlighted("if x:  # why")
    ['<span class="np-kw">if</span> x:  <span class="np-com"># why</span>']
    """
    return [_line(line) for line in source.split("\n")]


@functools.lru_cache(maxsize=4096)
def _line(line: str) -> str:  # a script's lines are the same at every value, but for one or two
    html, position = [], 0
    for found in _TOKEN.finditer(line):
        html.append(escape(line[position : found.start()]))
        html.append(f'<span class="np-{found.lastgroup}">{escape(found[0])}</span>')
        position = found.end()
    html.append(escape(line[position:]))
    return "".join(html)
