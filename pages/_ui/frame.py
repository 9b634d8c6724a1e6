"""The frame of every page: its sections, one on the projector at a time, and the switches beside the title."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.words import _
from pages._ui import binding, inputs, markup, prose, warm

STYLE = Path(__file__).with_name("style.css")
COPY = Path(__file__).with_name("copy.js").read_text(encoding="utf-8")
WHOLE_PAGE = "all"
LECTURE_TYPE_SIZE_PX = 21  # the browser's usual 16 px, readable from the back row

logger = logging.getLogger("napkin")


@dataclass(frozen=True)
class Section:
    """One question of a page: its name in links, its short label, and the function that answers it."""

    name: str
    question: str
    label: str
    show: Callable[[], None]
    needs_torch: bool = False


def section(question: str, label: str, *, needs_torch: bool = False) -> Callable[[Callable[[], None]], Section]:
    """Make a section of a page function. It becomes a fragment: a click inside it recomputes it alone.

    ``needs_torch`` shows a spinner in the few seconds after the server's start in which torch is not there yet.
    """

    def wrap(function: Callable[[], None]) -> Section:
        return Section(function.__name__, question, label, function, needs_torch)

    return wrap


def page(name: str, title: str, sections: Sequence[Section]) -> None:
    """Show a page: title and switches, the control that chooses a section, and the section's answer."""
    st.html(STYLE)
    new = binding.enter_page(name)
    header = st.container(horizontal=True, vertical_alignment="center", key="np_header")
    titled = f'<p class="np-title">{title}</p><script>{COPY}</script>'  # ours, and no word of a visitor's in it
    header.html(titled, width="content", unsafe_allow_javascript=True)
    notes = st.container()
    asked = _asked(name, sections) if new else None
    if asked:
        st.header(asked.question, anchor=False)
        warm.words_first()
    with header:
        shown = _choose(name, sections)
        st.space("stretch")
        inputs.switches(share)
    if inputs.lecture_mode():
        st.html(f"<style>html {{ font-size: {LECTURE_TYPE_SIZE_PX}px; }}</style>")
    if asked not in (None, shown[0]):
        st.rerun()
    for one in shown:
        _show(name, one, alone=len(shown) == 1, headed=one is asked)
    binding.settle()
    with notes:
        binding.show_notes()
    warm.page_is_out()


def share() -> None:
    """The address that reproduces this page, in a box with a copy button."""
    st.write(_("This link shows the page as you see it, values and all:"))
    st.code(binding.link(), language=None, wrap_lines=True)


def _asked(name: str, sections: Sequence[Section]) -> Section:
    """The section that the address asks for, before the control that chooses it is drawn."""
    label = st.query_params.get(f"{name}_section")
    return next((one for one in sections if one.label == label), sections[0])


def _choose(name: str, sections: Sequence[Section]) -> list[Section]:
    by_name = {one.name: one for one in sections}
    if len(sections) == 1:
        return list(sections)
    labels = {one.name: one.label for one in sections}
    labels[WHOLE_PAGE] = _("Whole page")
    key = f"{name}_section"
    chosen = inputs.choice(_("Section"), key, list(labels), labels.__getitem__, label_visibility="collapsed", wrap=True)
    position = list(by_name).index(chosen) if chosen in by_name else None
    _turn(_("Previous"), "←", key, list(by_name), position, -1)
    _turn(_("Next"), "→", key, list(by_name), position, +1)
    return [by_name[chosen]] if chosen in by_name else list(sections)


def _turn(label: str, arrow: str, key: str, names: list[str], position: int | None, step: int) -> None:
    """A button that turns to the neighbouring section."""
    target = None if position is None else position + step
    possible = target is not None and 0 <= target < len(names)

    def turn() -> None:
        if target is not None:
            st.session_state[key] = names[target]

    st.button(arrow, key=f"{key}_{step}", on_click=turn, disabled=not possible, help=label, type="tertiary")


def _show(name: str, one: Section, *, alone: bool, headed: bool) -> None:
    if not headed:
        st.header(one.question, anchor=False)
    words = prose.text(name, one.name)
    if words and not inputs.lecture_mode():  # a lecturer says them, and the room goes to the answer
        st.markdown(words)
    binding.begin_section(one.name)
    if one.needs_torch and not warm.torch_is_here():
        with st.spinner(_("Loading torch, once…")):
            warm.load_torch()
    # Alone on screen a section is a fragment: a click recomputes it and nothing else. On the whole page sections share
    # controls, so a click recomputes them all.
    show = _guarded(one)
    if alone:
        show = st.fragment(show)
    show()


def _guarded(one: Section) -> Callable[[], None]:
    """The section, with a clear sentence instead of a traceback when it is refused or fails."""

    def answered() -> None:
        try:
            if one.needs_torch:
                warm.on_this_thread()
            binding.begin_run()
            one.show()
            binding.settle()
        except ValueError as refused:
            st.warning(prose.plain(str(refused)))
        except Exception as failure:
            logger.exception("section %s failed", one.show.__qualname__)
            st.error(
                _("This section failed ({kind}). The server's log has the details; the other sections work on.").format(
                    kind=type(failure).__name__
                )
            )

    @functools.wraps(one.show)
    def guarded() -> None:
        with markup.drawn_together():
            answered()

    return guarded
