"""Controls bound to the address: what is on screen can be linked, reloaded, and survives a visit to another page.

Streamlit binds a widget to a query parameter and keeps its value for the session. Added here: a visible note when the
address asked for something that a control does not take, the kept values when the browser's Back button returns to a
page, one control for all sections that share it, and the link that holds every value of a page.
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
_PAGE, _SECTION = "_napkin_page", "_napkin_section"
_CONTROLS, _NOTES, _DRAWN, _RESETS = "_napkin_controls", "_napkin_notes", "_napkin_drawn", "_napkin_resets"
_BOUND = {"bind": "query-params", "persist_state": "session"}

Draw = Callable[[dict[str, Any]], Any]  # draws the widget, given how it is bound


@dataclass(frozen=True)
class _Control:
    """A control of a page. Values appear in the address as ``write`` makes them; ``read`` gives None for others."""

    key: str
    label: str
    default: Any
    right: str
    read: Callable[[list[str]], Any]
    write: Callable[[Any], str | list[str]] = str
    page: str = ""


def enter_page(name: str) -> None:
    """Begin a run of a page. When the visitor comes back to it, give its controls the values they had."""
    state = st.session_state
    state.setdefault(_CONTROLS, {})
    state[_DRAWN] = {}
    set_values(**state.pop(_RESETS, {}))
    coming = state.get(_PAGE) != name
    state[_PAGE], state[_SECTION] = name, ""
    if not coming:
        return
    state[_NOTES] = {}
    kept = {key: state[key] for key, control in state[_CONTROLS].items() if control.page == name and key in state}
    if kept and not st.query_params:
        # After the Back button Streamlit would read the bare address as "everything at its default": a plain rerun
        # takes the values from the session instead.
        set_values(**kept)
        st.rerun()


def begin_section(name: str) -> None:
    """What follows belongs to that section."""
    st.session_state[_SECTION] = name


def first_here(name: str) -> bool:
    """Whether this section is the first of the whole page to show something that belongs there once."""
    state = st.session_state
    return bool(state[_DRAWN].setdefault(name, state[_SECTION]) == state[_SECTION])


def choice(
    label: str,
    key: str,
    options: Sequence[str],
    show: Callable[[str], str] = str,
    default: str | None = None,
    **layout: Any,
) -> str:
    """One of a few options, side by side. Always one is chosen; the first, unless ``default`` names another."""
    control = _options_control(label, key, options, show, default)

    def draw(bound: dict[str, Any]) -> Any:
        return st.segmented_control(
            label, options, default=control.default, format_func=show, key=key, required=True, **bound, **layout
        )

    return str(_show(control, draw))


def select(
    label: str, key: str, options: Sequence[str], show: Callable[[str], str] = str, default: str | None = None
) -> str:
    """One of many options, from a list."""
    control = _options_control(label, key, options, show, default)
    index = list(options).index(control.default)
    return str(_show(control, lambda bound: st.selectbox(label, options, index, show, key=key, **bound)))


def several(label: str, key: str, options: Sequence[str], default: Sequence[str], **layout: Any) -> list[str]:
    """Any number of a few options, at least one."""

    def read(texts: list[str]) -> list[str] | None:
        return sorted(texts, key=list(options).index) if texts and set(texts) <= set(options) else None

    control = _Control(key, label, list(default), _one_of(options), read, list)

    def draw(bound: dict[str, Any]) -> Any:
        return st.segmented_control(
            label,
            options,
            selection_mode="multi",
            default=list(default),
            key=key,
            **bound,
            **layout,
        )

    chosen = _show(control, draw)
    return [option for option in options if option in chosen] or list(default)


def tags(label: str, key: str, options: Sequence[str], default: Sequence[str]) -> list[str]:
    """Any number of many options, none too."""

    def read(texts: list[str]) -> list[str] | None:
        wanted = [text for text in texts if text]
        return wanted if set(wanted) <= set(options) else None

    control = _Control(key, label, list(default), _one_of(options), read, list)
    return list(_show(control, lambda bound: st.multiselect(label, options, list(default), key=key, **bound)))


def whole_number(label: str, key: str, default: int, low: int, high: int, **layout: Any) -> int:
    """A whole number within bounds."""
    right = _("a whole number from {low:,} to {high:,}").format(low=low, high=high)

    def read(texts: list[str]) -> int | None:
        value = _number(texts)
        return int(value) if value is not None and value == int(value) and low <= value <= high else None

    control = _Control(key, label, default, right, read)
    return int(_show(control, lambda bound: st.number_input(label, low, high, default, key=key, **bound, **layout)))


def real_number(label: str, key: str, default: float, low: float, high: float, **layout: Any) -> float:
    """A number within bounds."""
    right = _("a number from {low:g} to {high:g}").format(low=low, high=high)

    def read(texts: list[str]) -> float | None:
        value = _number(texts)
        return value if value is not None and low <= value <= high else None

    control = _Control(key, label, default, right, read)
    return float(_show(control, lambda bound: st.number_input(label, low, high, default, key=key, **bound, **layout)))


def switch(label: str, key: str, *, default: bool = False) -> bool:
    """On or off."""

    def read(texts: list[str]) -> bool | None:
        return {"true": True, "false": False}.get(texts[-1].lower())

    control = _Control(key, label, default, _("true or false"), read, lambda value: str(value).lower())
    return bool(_show(control, lambda bound: st.toggle(label, default, key=key, **bound)))


def step(label: str, name: str, total: int) -> int:
    """How many of a number of steps are done, all of them at first: a slider, with a button back and one forward."""
    key = f"{st.session_state[_PAGE]}_{name}_step"
    right = _("a whole number from {low:,} to {high:,}").format(low=0, high=total)

    def read(texts: list[str]) -> int | None:
        value = _number(texts)
        return int(value) if value is not None and value == int(value) and 0 <= value <= total else None

    now = st.session_state.get(key, total)
    st.button("◀", key=f"np_back_{key}", on_click=set_values, kwargs={key: max(0, now - 1)}, help=_("one line back"))
    st.button("▶", key=f"np_on_{key}", on_click=set_values, kwargs={key: min(total, now + 1)}, help=_("one line on"))
    control = _Control(key, label, total, right, read)
    return int(_show(control, lambda bound: st.slider(label, 0, total, total, key=key, width=360, **bound)))


def hidden(key: str) -> str:
    """A value in the address without a control, such as the number of a running job; empty where there is none."""
    control = _Control(key, key, "", "", lambda texts: texts[-1])

    def draw(bound: dict[str, Any]) -> Any:
        with st.container(key=f"np_hidden_{key}"):
            return st.text_input(key, key=key, max_chars=64, label_visibility="collapsed", **bound)

    return str(_show(control, draw, once=True) or "")


def presets(choices: dict[str, dict[str, Any]]) -> None:
    """Buttons that set several controls at once."""
    section = st.session_state[_SECTION]
    if not first_here("np_presets"):
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for label, values in choices.items():
            name = f"np_preset_{section}_{label}"
            st.button(label, key=name, type="tertiary", on_click=set_values, kwargs=values)


def switches(share: Callable[[], None]) -> None:
    """What every page has beside its title: predict first, lecture, share."""
    with st.container(horizontal=True, vertical_alignment="center", width="content", key="np_switches"):
        switch(_("Predict first"), PREDICT_FIRST)
        switch(_("Lecture"), LECTURE)
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


def link() -> str:
    """The address of this page with every value that is not a default."""
    state = st.session_state
    shared = {
        key: control.write(state[key])
        for key, control in state[_CONTROLS].items()
        if control.page in (state[_PAGE], "") and key in state and state[key] != control.default
    }
    parts = urlsplit(st.context.url or "/")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(shared, doseq=True), ""))


def show_notes() -> None:
    """Say what the address asked for that could not be given, while what is shown instead is still on screen."""
    state = st.session_state
    for key, (value, note) in state[_NOTES].items():
        if state.get(key) == value:
            st.info(note)


def _show(control: _Control, draw: Draw, *, once: bool = False) -> Any:
    """Draw a control and return its value; where an earlier section of the whole page drew it, show the value only."""
    state, key = st.session_state, control.key
    page = "" if key in (LECTURE, PREDICT_FIRST) else state[_PAGE]
    known = state[_CONTROLS].get(key)
    assert known is None or known.page == page, f"the control {key!r} of {known.page} is also on {page}: rename one"
    if not first_here(key) and key in state:
        if not once:
            written = control.write(state[key])
            text = ", ".join(written) if isinstance(written, list) else written
            # The value is part of the name: a control of that name would keep its first value.
            st.text_input(control.label, text, key=f"np_same_{state[_SECTION]}_{key}_{text}", disabled=True)
        return state[key]
    state[_CONTROLS][key] = _Control(**{**control.__dict__, "page": page})
    if key in state and _not_taken(control, state[key]):
        del state[key]  # kept from when the control took it, as when options depend on another control
    asked = st.query_params.get_all(key) if key not in state else []
    if not asked or control.read(asked) is not None:
        return draw(_BOUND)
    # Streamlit clamps some bad values and fails on others: the control is drawn without the address for once, at its
    # default, and the next run takes the value out of the address.
    shown = control.write(control.default)
    shown = ", ".join(shown) if isinstance(shown, list) else shown
    message = _("The link asked for {label} = “{asked}”. It takes {right}; this page shows {shown}.")
    note = message.format(label=control.label, asked=", ".join(asked)[:40], right=control.right, shown=shown)
    state[_NOTES][key] = (control.default, note)
    state.setdefault(_RESETS, {})[key] = control.default
    return draw({})


def settle() -> None:
    """Run again, once, where the address held values that were not taken."""
    if st.session_state.get(_RESETS):
        st.rerun()


def _not_taken(control: _Control, value: Any) -> bool:
    if value in (None, []):
        return False  # nothing chosen
    text = control.write(value)
    return control.read(text if isinstance(text, list) else [text]) is None


def _options_control(
    label: str, key: str, options: Sequence[str], show: Callable[[str], str], default: str | None
) -> _Control:
    names = {show(option): option for option in options}
    right = _one_of(list(names))
    return _Control(
        key, label, options[0] if default is None else default, right, lambda texts: names.get(texts[-1]), show
    )


def _one_of(names: Sequence[str]) -> str:
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return _("one of {options}").format(options=listed)


def _number(texts: list[str]) -> float | None:
    """The number that the address holds; None where it holds no finite one."""
    try:
        value = float(texts[-1])
    except ValueError:
        return None
    return value if value - value == 0 else None
