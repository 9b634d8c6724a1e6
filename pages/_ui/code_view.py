"""A lesson on screen: its source as it ran, each value beside the line that made it, step by step."""

from __future__ import annotations

import functools
import io
import keyword
import tokenize
from collections.abc import Callable
from html import escape
from typing import Any

import streamlit as st

from core import lesson as lessons
from core.words import _
from pages._ui import inputs

_CLASSES = {tokenize.STRING: "np-str", tokenize.COMMENT: "np-com", tokenize.NUMBER: "np-num"}


def lesson(key: str, function: Callable[..., Any], **values: Any) -> None:
    """Run a lesson with these values and let the reader step through its lines."""
    ran = _run(function, tuple(sorted(values.items())))
    total = len(ran.steps)
    with st.container(horizontal=True, vertical_alignment="center", key=f"np_steps_{key}"):
        step = inputs.step(_("Lines run"), key, total)
    st.html(_listing(ran, step))


@functools.lru_cache(maxsize=256)
def _run(function: Callable[..., Any], values: tuple[tuple[str, Any], ...]) -> lessons.LessonRun:
    return lessons.run(function, **dict(values))


def _listing(ran: lessons.LessonRun, step: int) -> str:
    values = ran.values_after(step)
    now = ran.steps[step - 1].line if step else 0
    reached = {one.line for one in ran.steps[:step]} | {1}
    rows = []
    for number, code in enumerate(_highlighted(ran.source), 1):
        at = values.get(number)
        held = ""
        if at is not None:
            found = " · ".join(
                f"{value.name} = {value.text}" if value.name != "return" else f"→ {value.text}" for value in at.values
            )
            held = found or ("✓" if at.holds else "")
        later = " np-later" if number not in reached and ran.lines[number - 1].strip() else ""
        current = " np-now" if number == now else ""
        rows.append(
            f'<div class="np-row{current}{later}"><span class="np-no">{number}</span><span>{code}</span>'
            f'<span class="np-held">{escape(held)}</span></div>'
        )
    return f'<div class="np-code" role="region" aria-label="{_("code with values")}" tabindex="0">{"".join(rows)}</div>'


@functools.lru_cache(maxsize=256)
def _highlighted(source: str) -> tuple[str, ...]:
    """The source's lines as HTML, with keywords, strings, numbers and comments marked."""
    lines = source.splitlines()
    marks: dict[int, list[tuple[int, int, str]]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = "np-kw" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else _CLASSES.get(token.type)
        if kind and token.start[0] == token.end[0]:
            marks.setdefault(token.start[0], []).append((token.start[1], token.end[1], kind))
    marked = []
    for number, line in enumerate(lines, 1):
        html, position = "", 0
        for start, end, kind in marks.get(number, []):
            html += escape(line[position:start]) + f'<span class="{kind}">{escape(line[start:end])}</span>'
            position = end
        marked.append(html + escape(line[position:]) or " ")
    return tuple(marked)
