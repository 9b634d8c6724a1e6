"""Controls bound to the address: what is on screen can be linked, reloaded, and survives a visit to another page.

Streamlit binds a widget to a query parameter and keeps its value for the session. Added here: a visible note when the
address asked for something that a control does not take, the kept values when the browser's Back button returns to a
page, and the link that holds every value of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from core.words import _

LECTURE = "lecture"
PREDICT_FIRST = "predict_first"
_PAGE, _CONTROLS, _NOTES = "_napkin_page", "_napkin_controls", "_napkin_notes"
_BOUND: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}


@dataclass(frozen=True)
class _Control:
    """What the link needs to know of a control."""

    default: Any
    page: str


def enter_page(name: str) -> None:
    """Begin a run of a page. When the visitor comes back to it, give its controls the values they had."""
    state = st.session_state
    state.setdefault(_CONTROLS, {})
    state.setdefault(_NOTES, {})
    coming = state.get(_PAGE) != name
    state[_PAGE] = name
    if not coming:
        return
    state[_NOTES] = {}
    kept = {key: state[key] for key, control in state[_CONTROLS].items() if control.page == name and key in state}
    if kept and not st.query_params:
        # After the Back button Streamlit would read the bare address as "everything at its default": a plain rerun
        # takes the values from the session instead.
        for key, value in kept.items():
            state[key] = value
        st.rerun()


def choice(
    label: str,
    key: str,
    options: Sequence[str],
    show: Callable[[str], str] = str,
    default: str | None = None,
    **layout: Any,
) -> str:
    """One of a few options, side by side. Always one is chosen; the first, unless ``default`` names another."""
    default = options[0] if default is None else default
    asked = _register(key, default)
    _drop_unknown(key, lambda value: value in options)
    chosen: Any = st.segmented_control(
        label, options, default=default, format_func=show, key=key, required=True, **_BOUND, **layout
    )
    _compare(key, label, asked, chosen, _alternatives(options, show), lambda text: text in (chosen, show(chosen)))
    return str(chosen)


def select(
    label: str, key: str, options: Sequence[str], show: Callable[[str], str] = str, default: str | None = None
) -> str:
    """One of many options, from a list."""
    default = options[0] if default is None else default
    asked = _register(key, default)
    _drop_unknown(key, lambda value: value in options)
    chosen: Any = st.selectbox(label, options, index=list(options).index(default), format_func=show, key=key, **_BOUND)
    _compare(key, label, asked, chosen, _alternatives(options, show), lambda text: text in (chosen, show(chosen)))
    return str(chosen)


def several(label: str, key: str, options: Sequence[str], default: Sequence[str], **layout: Any) -> list[str]:
    """Any number of a few options, at least one: with none chosen, the default."""
    asked = _register(key, list(default), several_values=True)
    _drop_unknown(key, lambda values: all(value in options for value in values))
    chosen: Any = st.segmented_control(
        label, options, default=list(default), selection_mode="multi", key=key, **_BOUND, **layout
    )
    _compare(key, label, asked, chosen, _alternatives(options, str), lambda texts: sorted(texts) == sorted(chosen))
    return [option for option in options if option in chosen] or list(default)


def whole_number(label: str, key: str, default: int, low: int, high: int, **layout: Any) -> int:
    """A whole number within bounds."""
    asked = _register(key, default)
    _drop_unknown(key, lambda value: isinstance(value, int) and low <= value <= high)
    value: Any = st.number_input(label, low, high, default, key=key, **_BOUND, **layout)
    right = _("a whole number from {low:,} to {high:,}").format(low=low, high=high)
    _compare(key, label, asked, value, right, lambda text: _number(text) == value)
    return int(value)


def real_number(label: str, key: str, default: float, low: float, high: float, **layout: Any) -> float:
    """A number within bounds."""
    asked = _register(key, default)
    _drop_unknown(key, lambda value: isinstance(value, (int, float)) and low <= value <= high)
    value: Any = st.number_input(label, low, high, default, key=key, **_BOUND, **layout)
    right = _("a number from {low:g} to {high:g}").format(low=low, high=high)
    _compare(key, label, asked, value, right, lambda text: _number(text) == value)
    return float(value)


def step(label: str, key: str, total: int) -> int:
    """How many of a number of steps are done, all of them at first: a slider, with a button back and one forward."""
    asked = _register(key, total)
    _drop_unknown(key, lambda value: isinstance(value, int) and 0 <= value <= total)
    now = st.session_state.get(key, total)
    st.button("◀", key=f"{key}_back", on_click=set_values, kwargs={key: max(0, now - 1)}, help=_("one line back"))
    st.button("▶", key=f"{key}_on", on_click=set_values, kwargs={key: min(total, now + 1)}, help=_("one line on"))
    value: Any = st.slider(label, 0, total, total, key=key, width=360, **_BOUND)
    right = _("a whole number from {low:,} to {high:,}").format(low=0, high=total)
    _compare(key, label, asked, value, right, lambda text: _number(text) == value)
    return int(value)


def page_key(name: str) -> str:
    """A control's key made of the page's name and its own, for controls that every page has."""
    return f"{st.session_state[_PAGE]}_{name}"


def hidden(key: str) -> str:
    """A value in the address without a control, such as the number of a running job; empty where there is none."""
    _register(key, "")
    with st.container(key=f"np_hidden_{key}"):
        value: Any = st.text_input(key, key=key, max_chars=64, label_visibility="collapsed", **_BOUND)
    return str(value or "")


def switch(label: str, key: str, *, default: bool = False, help: str | None = None) -> bool:  # noqa: A002
    """On or off."""
    asked = _register(key, default)
    value: Any = st.toggle(label, default, key=key, help=help, **_BOUND)
    _compare(key, label, asked, value, _("true or false"), lambda text: text.lower() == str(value).lower())
    return bool(value)


def switches(share: Callable[[], None]) -> None:
    """What every page has beside its title: predict first, lecture, share."""
    switch(_("Predict first"), PREDICT_FIRST, help=_("Hide each answer until you have guessed it."))
    switch(_("Lecture"), LECTURE, help=_("Large type, for the back row."))
    popover: Any = st.popover(_("Share"), key="np_share", on_change="rerun", type="tertiary")
    if popover.open:
        with popover:
            share()


def lecture_mode() -> bool:
    return bool(st.session_state.get(LECTURE, False))


def predict_first() -> bool:
    return bool(st.session_state.get(PREDICT_FIRST, False))


def set_values(**values: Any) -> None:
    """For a button's callback: give controls new values, as a preset does."""
    for key, value in values.items():
        st.session_state[key] = value


def presets(choices: dict[str, dict[str, Any]]) -> None:
    """Buttons that set several controls at once."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for label, values in choices.items():
            st.button(label, key=f"np_preset_{label}", type="tertiary", on_click=set_values, kwargs=values)


def hidden_value(key: str) -> str:
    """What ``hidden`` holds, without showing it again."""
    return str(st.session_state.get(key) or "")


def link() -> str:
    """The address of this page with every value that is not a default."""
    state = st.session_state
    shared = {
        key: str(state[key]).lower() if isinstance(state[key], bool) else state[key]
        for key, control in state[_CONTROLS].items()
        if control.page in (state[_PAGE], "") and key in state and state[key] != control.default
    }
    parts = urlsplit(st.context.url or "/")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(shared, doseq=True), ""))


def show_notes() -> None:
    """Say what the address asked for that could not be given."""
    for note in st.session_state[_NOTES].values():
        st.info(note)


def _register(key: str, default: Any, *, several_values: bool = False) -> Any:
    """Remember the control for the link; return what the address asks of it when it appears for the first time."""
    state = st.session_state
    page = "" if key in (LECTURE, PREDICT_FIRST) else state[_PAGE]
    known = state[_CONTROLS].get(key)
    assert known is None or known.page == page, f"the control {key!r} of {known.page} is also on {page}: rename one"
    state[_CONTROLS][key] = _Control(default, page)
    if key in state or key not in st.query_params:
        return None
    return st.query_params.get_all(key) if several_values else st.query_params[key]


def _drop_unknown(key: str, valid: Callable[[Any], bool]) -> None:
    """Forget a kept value that the control no longer takes, as when its options depend on another control."""
    if key in st.session_state and not valid(st.session_state[key]):
        del st.session_state[key]


def _compare(key: str, label: str, asked: Any, value: Any, right: str, same: Callable[[Any], bool]) -> None:
    """Note it when the address asked for something else than what is shown."""
    if asked is None or same(asked):
        return
    text = ", ".join(asked) if isinstance(asked, list) else str(asked)
    shown = ", ".join(value) if isinstance(value, list) else value
    message = _("The link asked for {label} = “{asked}”. It takes {right}, so this page shows {shown}.")
    label_text = label or key
    st.session_state[_NOTES][key] = message.format(label=label_text, asked=text[:40], right=right, shown=shown)


def _alternatives(options: Sequence[str], show: Callable[[str], str]) -> str:
    names = [show(option) for option in options[:12]]
    return _("one of {options}").format(options=", ".join(names) + (", …" if len(options) > 12 else ""))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
