"""HTML of ours, in the looks of ``style.css``. What a visitor typed must be escaped before it comes here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from html import escape
from typing import Any

import streamlit as st
from streamlit.proto.Element_pb2 import Element

from pages._ui import redraw

_drawn: dict[Any, Element] = {}  # by layout
_waiting = threading.local()  # every run of a page has a thread of its own


class _Markup(str):
    """Says that it is HTML: a plain string Streamlit first looks up among the server's files."""

    def _repr_html_(self) -> str:
        return str(self)


def show(html: str, **layout: Any) -> None:
    """Show HTML; Streamlit takes out what could run."""
    body = _Markup(_taken() + html)

    def put_in(element: Element) -> None:
        element.html.body = body

    redraw.draw_with(_drawn, tuple(layout.items()), put_in, lambda: st.html(body, **layout))


def caption(text: str) -> None:
    """Small print, in the looks of Streamlit's; what waits for a next element goes with it."""
    show(f'<p class="np-caption">{escape(text)}</p>')


def with_the_next(html: str) -> None:
    """HTML that takes no room on screen: it goes into the next element, as each costs the server and the browser."""
    _waiting.html = getattr(_waiting, "html", "") + html


@contextlib.contextmanager
def drawn_together() -> Iterator[None]:
    """At the end what has waited for a next element and found none is shown; of a run that is broken off, nothing."""
    try:
        yield
        if html := _taken():
            show(html)
    finally:
        _taken()  # the thread may go on with the next run


def _taken() -> str:
    html: str = getattr(_waiting, "html", "")
    _waiting.html = ""
    return html
