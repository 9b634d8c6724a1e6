"""How controls and the address hold together: what is on screen can be linked, reloaded, and survives another page.

Streamlit binds a widget to a query parameter and keeps its value for the session. Added here: a visible note when the
address asked for something that a control does not take, the kept values when the browser's Back button returns to a
page, one control for all sections that share it, and the link that holds every value of a page.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit.proto.Element_pb2 import Element

from core.words import _
from pages._ui import prose, redraw

LECTURE = "lecture"
PREDICT_FIRST = "predict_first"
_ABSENT = object()
_BOUND = {"bind": "query-params", "persist_state": "session"}

Draw = Callable[[dict[str, Any]], Any]  # draws the widget, given how it is bound


@dataclass(frozen=True)
class Control:
    """A control of a page. Values appear in the address as ``write`` makes them; ``read`` gives None for others."""

    key: str
    label: str
    default: Any
    right: str
    read: Callable[[list[str]], Any]
    write: Callable[[Any], str | list[str]] = str


@dataclass
class _Book:
    """What is known of a visitor's page between two runs; one value of the session, since each look there costs."""

    page: str = ""
    section: str = ""
    controls: dict[str, Control] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)  # by control: the page it is on, "" where on every page
    notes: dict[str, tuple[Any, str]] = field(default_factory=dict)  # by control: what is shown instead, and the note
    drawn: dict[str, str] = field(default_factory=dict)  # by name: the section that showed it first
    resets: dict[str, Any] = field(default_factory=dict)  # values that the next run gives to controls
    kept: redraw.Kept = field(default_factory=dict)
    answers: dict[str, Callable[[], None]] = field(default_factory=dict)  # what a click does, as things are now


_run = threading.local()  # every run of a page has a thread of its own


def _book() -> _Book:
    book: _Book | None = getattr(_run, "book", None)
    return begin_run() if book is None else book


def begin_run() -> _Book:
    """Look the book up once for a run of a page or of a section: each look into the session takes 30 µs."""
    book: _Book | None = st.session_state.get("_napkin_book")
    if book is None:
        book = st.session_state["_napkin_book"] = _Book()
    _run.book, _run.switches = book, {}
    return book


def is_on(key: str) -> bool:
    """Whether a switch that every page has is on, looked up once for a run."""
    known: dict[str, bool] = getattr(_run, "switches", {})
    if key not in known:
        known[key] = bool(st.session_state.get(key, False))
    return known[key]


def enter_page(name: str) -> bool:
    """Begin a run of a page; True where a visit begins with it.

    When the visitor comes back to it, its controls get the values they had.
    """
    state, book = st.session_state, begin_run()
    set_values(**book.resets)
    new, coming = not book.page, book.page != name
    book.page, book.section, book.drawn, book.resets = name, "", {}, {}
    if not coming:
        return False
    book.notes = {}
    kept = {key: state[key] for key, page in book.pages.items() if page == name and key in state}
    if kept and not st.query_params:
        # After the Back button Streamlit would read the bare address as "everything at its default": a plain rerun
        # takes the values from the session instead.
        set_values(**kept)
        st.rerun()
    return new


def begin_section(name: str) -> None:
    """What follows belongs to that section."""
    _book().section = name


def here() -> tuple[str, str]:
    """The page and the section that are being shown."""
    book = _book()
    return book.page, book.section


def first_here(name: str) -> bool:
    """Whether this section is the first of the whole page to show something that belongs there once."""
    book = _book()
    return book.drawn.setdefault(name, book.section) == book.section


def set_values(**values: Any) -> None:
    """For a button's callback: give controls new values, as a preset does."""
    for key, value in values.items():
        st.session_state[key] = value


def link() -> str:
    """The address of this page with every value that is not a default."""
    state, book = st.session_state, _book()
    shared = {
        key: control.write(state[key])
        for key, control in book.controls.items()
        if book.pages[key] in (book.page, "") and key in state and state[key] != control.default
    }
    parts = urlsplit(st.context.url or "/")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(shared, doseq=True), ""))


def show_notes() -> None:
    """Say what the address asked for that could not be given, while what is shown instead is still on screen."""
    for key, (value, note) in _book().notes.items():
        if st.session_state.get(key) == value:
            st.info(prose.plain(note))


def button(label: str, key: str, press: Callable[..., None], *args: Any, values: Any = None, **layout: Any) -> None:
    """A button that does something when it is pressed, before the page runs again; ``values`` are given by name."""

    def anew() -> None:
        st.button(label, key=key, on_click=press, args=args, kwargs=values, **layout)

    redraw.draw(_book().kept, key, (label, press, args, values, layout), anew)


def component(key: str, data: bytes, mount: Callable[..., Any], answer: Callable[[], None]) -> None:
    """A component that is drawn by the browser from ``data``; ``answer`` is called when something in it is picked."""
    book = _book()
    book.answers[key] = answer  # the one that is called is always the latest, though the component is the same

    def put_in(element: Element) -> None:
        element.bidi_component.bytes = data

    def anew() -> None:
        mount(key=key, data=data, on_picked_change=functools.partial(_answer, key))

    redraw.draw(book.kept, key, (), anew, change=put_in)


def _answer(key: str) -> None:
    _book().answers[key]()


def show(control: Control, draw: Draw, given: tuple[Any, ...], *, once: bool = False) -> Any:
    """Draw a control and return its value; where an earlier section of the whole page drew it, show the value only.

    ``given`` is what it is drawn with, apart from its key and how it is bound.
    """
    state, book, key = st.session_state, _book(), control.key
    page = "" if key in (LECTURE, PREDICT_FIRST) else book.page
    known = book.pages.setdefault(key, page)
    assert known == page, f"the control {key!r} of {known} is also on {page}: rename one"
    value = state.get(key, _ABSENT)
    if book.drawn.setdefault(key, book.section) != book.section and value is not _ABSENT:
        if not once:
            written = control.write(value)
            text = ", ".join(written) if isinstance(written, list) else written
            # The value is part of the name: a control of that name would keep its first value.
            st.text_input(control.label, text, key=f"np_same_{book.section}_{key}_{text}", disabled=True)
        return value
    book.controls[key] = control
    if value is not _ABSENT:
        if not _not_taken(control, value):
            return redraw.draw(book.kept, key, given, lambda: draw(_BOUND))
        del state[key]  # kept from when the control took it, as when options depend on another control
    asked = st.query_params.get_all(key)
    if not asked or control.read(asked) is not None:
        return draw(_BOUND)
    # Streamlit clamps some bad values and fails on others: the control is drawn without the address for once, at its
    # default, and the next run takes the value out of the address.
    shown = control.write(control.default)
    shown = ", ".join(shown) if isinstance(shown, list) else shown
    message = _("The link asked for {label} = “{asked}”. It takes {right}; this page shows {shown}.")
    note = message.format(label=control.label, asked=", ".join(asked)[:40], right=control.right, shown=shown)
    book.notes[key] = (control.default, note)
    book.resets[key] = control.default
    return draw({})


def settle() -> None:
    """Run again, once, where the address held values that were not taken."""
    if _book().resets:
        st.rerun()


def _not_taken(control: Control, value: Any) -> bool:
    if value in (None, []):
        return False  # nothing chosen
    text = control.write(value)
    return control.read(text if isinstance(text, list) else [text]) is None
