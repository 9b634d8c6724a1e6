"""The controls of pages. Each is bound to the address by ``pages._ui.binding``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from core.words import _
from pages._ui import binding
from pages._ui.binding import LECTURE, PREDICT_FIRST, Control, button, first_here, set_values

__all__ = [
    "button", "choice", "first_here", "hidden", "lecture_mode", "pasted", "predict_first", "presets", "real_number",
    "select", "set_values", "several", "slider", "step", "switch", "switches", "tags", "text", "whole_number",
]  # fmt: skip

_HIDDEN = "np-hidden "  # style.css hides what is labelled so


def choice(
    label: str,
    key: str,
    options: Sequence[str],
    show: Callable[[str], str] = str,
    default: str | None = None,
    **layout: Any,
) -> str:
    """One of a few options, side by side. Always one is chosen; the first, unless ``default`` names another."""
    shown = tuple(map(show, options))
    control = _options_control(label, key, options, shown, show, default)

    def draw(bound: dict[str, Any]) -> Any:
        return st.segmented_control(
            label, options, default=control.default, format_func=show, key=key, required=True, **bound, **layout
        )

    return str(binding.show(control, draw, (label, shown, control.default, layout)))


def select(
    label: str,
    key: str,
    options: Sequence[str],
    show: Callable[[str], str] = str,
    default: str | None = None,
    **layout: Any,
) -> str:
    """One of many options, from a list."""
    shown = tuple(map(show, options))
    control = _options_control(label, key, options, shown, show, default)
    index = list(options).index(control.default)
    given = (label, shown, control.default, layout)
    return str(
        binding.show(
            control, lambda bound: st.selectbox(label, options, index, show, key=key, **bound, **layout), given
        )
    )


def several(label: str, key: str, options: Sequence[str], default: Sequence[str], **layout: Any) -> list[str]:
    """Any number of a few options, at least one."""

    def read(texts: list[str]) -> list[str] | None:
        return sorted(texts, key=list(options).index) if texts and set(texts) <= set(options) else None

    control = Control(key, label, list(default), _one_of(options), read, list)

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

    chosen = binding.show(control, draw, (label, tuple(options), tuple(default), layout))
    return [option for option in options if option in chosen] or list(default)


def tags(label: str, key: str, options: Sequence[str], default: Sequence[str]) -> list[str]:
    """Any number of many options, none too."""

    def read(texts: list[str]) -> list[str] | None:
        wanted = [text for text in texts if text]
        return wanted if set(wanted) <= set(options) else None

    control = Control(key, label, list(default), _one_of(options), read, list)
    given = (label, tuple(options), tuple(default))
    return list(
        binding.show(control, lambda bound: st.multiselect(label, options, list(default), key=key, **bound), given)
    )


def whole_number(label: str, key: str, default: int, low: int, high: int, **layout: Any) -> int:
    """A whole number within bounds."""
    right = _("a whole number from {low:,} to {high:,}").format(low=low, high=high)

    def read(texts: list[str]) -> int | None:
        value = _number(texts)
        return int(value) if value is not None and value == int(value) and low <= value <= high else None

    control = Control(key, label, default, right, read)
    given = (label, default, low, high, layout)
    return int(
        binding.show(
            control, lambda bound: st.number_input(label, low, high, default, key=key, **bound, **layout), given
        )
    )


def real_number(label: str, key: str, default: float, low: float, high: float, **layout: Any) -> float:
    """A number within bounds."""
    right = _("a number from {low:g} to {high:g}").format(low=low, high=high)

    def read(texts: list[str]) -> float | None:
        value = _number(texts)
        return value if value is not None and low <= value <= high else None

    control = Control(key, label, default, right, read)
    given = (label, default, low, high, layout)
    return float(
        binding.show(
            control, lambda bound: st.number_input(label, low, high, default, key=key, **bound, **layout), given
        )
    )


def text(label: str, key: str, default: str, max_chars: int, **layout: Any) -> str:
    """A line of text. It may be anything: what reads it says what is wrong with it."""
    right = _("a text of at most {n} characters").format(n=max_chars)

    def read(texts: list[str]) -> str | None:
        return texts[-1] if len(texts[-1]) <= max_chars else None

    control = Control(key, label, default, right, read)

    def draw(bound: dict[str, Any]) -> Any:
        return st.text_input(label, default, key=key, max_chars=max_chars, **bound, **layout)

    return str(binding.show(control, draw, (label, default, max_chars, layout)))


def pasted(label: str, key: str, max_chars: int, file_types: Sequence[str], **layout: Any) -> str | bytes:
    """A long text, pasted or in a file; the file wins. Kept for the visit, and never in the address: see ``text``."""
    with st.container(horizontal=True, vertical_alignment="top"):
        pasted_text = st.text_area(label, key=key, max_chars=max_chars, persist_state="session", **layout)
        uploaded = st.file_uploader(_("or a file"), file_types, key=f"{key}_file", max_upload_size=1, width=320)
    return (pasted_text or "") if uploaded is None else uploaded.getvalue()


def slider(label: str, key: str, default: int, low: int, high: int, **layout: Any) -> int:
    """A whole number within bounds that is moved rather than typed."""
    right = _("a whole number from {low:,} to {high:,}").format(low=low, high=high)

    def read(texts: list[str]) -> int | None:
        value = _number(texts)
        return int(value) if value is not None and value == int(value) and low <= value <= high else None

    control = Control(key, label, default, right, read)
    given = (label, default, low, high, layout)
    return int(
        binding.show(control, lambda bound: st.slider(label, low, high, default, key=key, **bound, **layout), given)
    )


def switch(label: str, key: str, *, default: bool = False) -> bool:
    """On or off."""

    def read(texts: list[str]) -> bool | None:
        return {"true": True, "false": False}.get(texts[-1].lower())

    control = Control(key, label, default, _("true or false"), read, lambda value: str(value).lower())
    return bool(binding.show(control, lambda bound: st.toggle(label, default, key=key, **bound), (label, default)))


def step(label: str, name: str, total: int) -> int:
    """How many of a number of steps are done, all of them at first: a slider, with a button back and one forward."""
    key = f"{binding.here()[0]}_{name}_step"
    right = _("a whole number from {low:,} to {high:,}").format(low=0, high=total)

    def read(texts: list[str]) -> int | None:
        value = _number(texts)
        return int(value) if value is not None and value == int(value) and 0 <= value <= total else None

    button("◀", f"np_back_{key}", _turn, key, total, -1, help=_("one line back"))
    button("▶", f"np_on_{key}", _turn, key, total, +1, help=_("one line on"))
    control = Control(key, label, total, right, read)
    return int(
        binding.show(
            control,
            lambda bound: st.slider(label, 0, total, total, key=key, width=360, **bound),
            (label, total),
        )
    )


def _turn(key: str, total: int, by: int) -> None:
    set_values(**{key: min(max(0, st.session_state.get(key, total) + by), total)})


def hidden(key: str) -> str:
    """A value in the address without a control, such as the number of a running job; empty where there is none."""
    control = Control(key, key, "", "", lambda texts: texts[-1])

    def draw(bound: dict[str, Any]) -> Any:
        return st.text_input(_HIDDEN + key, key=key, max_chars=64, **bound)

    return str(binding.show(control, draw, (), once=True) or "")


def presets(choices: dict[str, dict[str, Any]]) -> None:
    """Buttons that set several controls at once."""
    section = binding.here()[1]
    sets = sorted({key for values in choices.values() for key in values})
    if not first_here(f"np_presets_{'_'.join(sets)}"):
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for label, values in choices.items():
            button(label, f"np_preset_{section}_{label}", set_values, values=values, type="tertiary")


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
    return binding.is_on(LECTURE)


def predict_first() -> bool:
    return binding.is_on(PREDICT_FIRST)


def _options_control(
    label: str,
    key: str,
    options: Sequence[str],
    shown: Sequence[str],
    show: Callable[[str], str],
    default: str | None,
) -> Control:
    names = dict(zip(shown, options, strict=True))
    right = _one_of(shown)
    return Control(
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
