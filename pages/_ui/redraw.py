"""What is drawn as before is sent as before.

At every rerun Streamlit checks each control's arguments, makes its name and its description anew, and hashes it: two
thirds of what a control costs. Where nothing that it is drawn with has changed since this visitor's last run of the
section, none of that can come out differently. So its message is kept, and only what depends on the run is done: the
value is looked up, and the place taken. Streamlit's own replay of cached functions does the same. A chart whose
drawing is known gets its data, and is not described anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import get_script_run_ctx

try:
    from streamlit.delta_generator import _needs_outside_wrapper
    from streamlit.elements.lib.utils import _register_element_id
    from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState, enqueue_message
    from streamlit.runtime.state.widgets import register_widget_from_metadata
except ImportError:  # another version: every control is drawn by Streamlit
    ThreadState = None  # type: ignore[assignment,misc]


MOST_KEPT = 512
# The field by which a control is told a value that the browser does not know.
_VALUE = {
    "number_input": "value", "text_input": "value", "checkbox": "value", "slider": "value", "selectbox": "raw_value",
    "button_group": "raw_values",
}  # fmt: skip


@dataclass(frozen=True)
class _Drawn:
    """What a control was drawn with, and what came of it."""

    given: tuple[Any, ...]
    message: ForwardMsg
    metadata: tuple[Any, ...]  # the control's own, and of a component also that of its events


@dataclass(frozen=True)
class _Sent:
    value: Any


Kept = dict[str, _Drawn]  # by key, for one visitor


def draw(
    kept: Kept,
    key: str,
    given: tuple[Any, ...],
    anew: Callable[[], Any],
    change: Callable[[Element], None] | None = None,
) -> Any:
    """The value of the control ``key``, which ``anew`` draws and ``given`` tells apart from others drawn so.

    It is sent as it was where it was last drawn in this fragment, with the same given; a value that the browser does
    not know is told. ``change`` puts in what is new at every run.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if ThreadState is None or context is None or not context.fragment_ids_this_run:
        return anew()
    drawn = kept.get(key)
    if drawn is not None and drawn.given == given:
        sent = _send_again(context, key, drawn, change)
        if sent is not None:
            return sent.value
    return _draw_and_keep(context, kept, key, given, anew)


def draw_with(kept: dict[Any, Element], key: Any, change: Callable[[Element], None], anew: Callable[[], Any]) -> None:
    """Draw what ``anew`` draws, which differs from what else has that ``key`` only in what ``change`` puts in."""
    context, element = get_script_run_ctx(suppress_warning=True), kept.get(key)
    if ThreadState is None or context is None:
        anew()
    elif element is None:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        sent = _looking(context, anew)[1]
        if len(sent) == 1 and sent[0].delta.WhichOneof("type") == "new_element":
            kept[key] = Element()
            kept[key].CopyFrom(sent[0].delta.new_element)
    else:
        place = _place(context)
        if place is None:
            anew()
            return
        message = ForwardMsg()
        message.delta.new_element.CopyFrom(element)
        change(message.delta.new_element)
        message.metadata.delta_path[:] = place.delta_path
        enqueue_message(message)
        place.lock_element()


def _place(context: Any) -> Any:
    """Where the next element goes; None where that takes more than going there."""
    at, thread = st._main._active_dg, ThreadState.get()
    return None if thread.fragment_id and _needs_outside_wrapper(at, thread, context.fragment_storage) else at._cursor


def _send_again(context: Any, key: str, drawn: _Drawn, change: Callable[[Element], None] | None) -> _Sent | None:
    state, place = context.session_state._state, _place(context)
    kind = drawn.message.delta.new_element.WhichOneof("type") or ""
    # Set by the script, or kept from when it was last on the page: then there may be a value to tell.
    may_tell = key in state._new_session_state or key in state._old_state
    elsewhere = ThreadState.get().fragment_id != drawn.metadata[0].fragment_id
    if place is None or elsewhere or (may_tell and kind not in _VALUE):
        return None
    result, *_events = [register_widget_from_metadata(one, context) for one in drawn.metadata]
    if result.value_changed and kind not in _VALUE:
        return None
    _register_element_id(context, kind, drawn.metadata[0].id)
    message = ForwardMsg()
    message.CopyFrom(drawn.message)
    if result.value_changed:
        message.delta.new_element.has_one_shot_effect = True
        told = getattr(message.delta.new_element, kind)
        value, told.set_value = drawn.metadata[0].serializer(result.value), True
        if isinstance(value, list):
            getattr(told, _VALUE[kind]).extend(value)
        else:
            setattr(told, _VALUE[kind], value)
    if change is not None:
        change(message.delta.new_element)
    if change is not None or result.value_changed:
        message.hash = ""  # made anew
    message.metadata.delta_path[:] = place.delta_path
    context.enqueue(message)
    place.lock_element()
    return _Sent(result.value)


def _looking(context: Any, anew: Callable[[], Any]) -> tuple[Any, list[ForwardMsg]]:
    """What a function returns, and what it sends."""
    sent: list[ForwardMsg] = []
    enqueue = context._enqueue

    def look(message: ForwardMsg) -> None:
        sent.append(message)
        enqueue(message)

    context._enqueue = look
    try:
        return anew(), sent
    finally:
        context._enqueue = enqueue


def _draw_and_keep(context: Any, kept: Kept, key: str, given: tuple[Any, ...], anew: Callable[[], Any]) -> Any:
    known = context.session_state._state._new_widget_state.widget_metadata
    before = dict(known)
    value, sent = _looking(context, anew)
    kept.pop(key, None)
    if len(sent) != 1 or sent[0].delta.WhichOneof("type") != "new_element":
        return value
    kind = sent[0].delta.new_element.WhichOneof("type") or ""
    metadata = tuple(one for name, one in known.items() if before.get(name) is not one)
    if not metadata or metadata[0].id != getattr(getattr(sent[0].delta.new_element, kind), "id", None):
        return value
    message = ForwardMsg()
    message.CopyFrom(sent[0])
    if getattr(getattr(message.delta.new_element, kind), "set_value", False):
        if kind not in _VALUE:
            return value
        message.hash = ""
        message.delta.new_element.ClearField("has_one_shot_effect")
        for name in ("set_value", _VALUE[kind]):
            getattr(message.delta.new_element, kind).ClearField(name)
    kept[key] = _Drawn(given, message, metadata)
    return value
