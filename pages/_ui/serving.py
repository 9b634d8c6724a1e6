"""How the server answers sooner: where Streamlit does at every rerun what once would do, or piece by piece.

Each of these was measured (``python -m benchmarks rerun``). Where another version of Streamlit, uvicorn or asyncio
has not got what is changed here, it is left alone.
"""

from __future__ import annotations

import asyncio.base_events
import contextlib
import functools
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import streamlit as st
from streamlit import delta_generator
from streamlit.elements.layouts import LayoutsMixin
from streamlit.runtime import app_session, runtime
from streamlit.runtime.scriptrunner.script_runner import ScriptRunnerEvent
from streamlit.runtime.state.safe_session_state import SafeSessionState

# Streamlit hands on what a script has made every 5 ms, and a script that ends in between waits for the next time: a
# section's rerun of 14 to 16 ms takes 12 to 13 with this.
FLUSH_SECONDS = 0.001
HAND_OVER_SECONDS = 0.005  # as long as Streamlit lets a message wait
TURN_MESSAGES = 32  # a connection takes 500 that wait


def speed_up() -> None:
    """Change what can be changed before the first visitor comes."""
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = FLUSH_SECONDS  # type: ignore[attr-defined]
    _send_small_messages_at_once()
    _know_that_a_server_runs()
    _read_the_theme_once()
    _hand_over_together()
    _look_up_what_is_asked_for()
    _describe_each_container_once()
    _send_many_in_one_turn()


def _send_small_messages_at_once() -> None:
    """Switch off Nagle's algorithm on the server's connections, as asyncio means to.

    asyncio sets TCP_NODELAY where a socket's protocol says TCP; Streamlit's listening socket says 0, which means the
    same. Without it every second of two quick reruns waits 40 ms for an acknowledgement (48 ms against 6.5 ms for a
    control of an empty app). uvloop sees to it by itself; this is for where it is not there.
    """

    def set_nodelay(connection: socket.socket) -> None:
        if connection.type == socket.SOCK_STREAM and connection.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    if hasattr(asyncio.base_events, "_set_nodelay"):
        asyncio.base_events._set_nodelay = set_nodelay


def _know_that_a_server_runs() -> None:
    """Skip Streamlit's look, before its first element, whether somebody runs the script without a server.

    It asks where each function on the stack comes from, which follows the path of every module that is imported: 70 ms
    that the first visitor waits for the first word.
    """
    if hasattr(delta_generator, "_use_warning_has_been_displayed"):
        delta_generator._use_warning_has_been_displayed = True


def _read_the_theme_once() -> None:
    """Keep what Streamlit tells the browser of the theme, at every rerun anew: six looks through all its options.

    They take 0.4 of a rerun's 10 ms. A changed theme is seen when the server is started again.
    """
    if not hasattr(app_session, "_populate_theme_msg"):
        return
    read = app_session._populate_theme_msg
    known: dict[str, Any] = {}

    def populate(msg: Any, section: str = "theme") -> None:
        if section not in known:
            known[section] = type(msg)()
            read(known[section], section)
        if known[section].ListFields():  # an empty part would count as given
            msg.CopyFrom(known[section])

    app_session._populate_theme_msg = populate


class _Outbox:
    """What a visitor's script has made and the server's loop has not looked at yet, in its order."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_asked = False

    def put(self, session: Any, handle: Callable[[], None], *, may_wait: bool) -> None:
        """Called in the script's thread."""
        self._waiting.append(handle)
        if not may_wait:
            session._call_soon_on_event_loop(self._empty)
        elif not self._is_asked:
            self._is_asked = True
            session._call_soon_on_event_loop(self._wait)

    def _wait(self) -> None:
        asyncio.get_running_loop().call_later(HAND_OVER_SECONDS, self._empty)

    def _empty(self) -> None:
        self._is_asked = False  # first: what comes from now on asks anew
        loop = asyncio.get_running_loop()
        while self._waiting:
            loop.call_soon(self._waiting.popleft())


def _hand_over_together() -> None:
    """Let the loop have what a script makes when the script has ended, or 5 ms after the first of it.

    Streamlit wakes the loop for each message, and the interpreter goes back and forth between the two of them: that
    made a rerun of 10 ms 0.8 ms longer.
    """
    session = app_session.AppSession
    if not hasattr(session, "_on_scriptrunner_event") or not hasattr(session, "_call_soon_on_event_loop"):
        return
    may_wait = (ScriptRunnerEvent.SCRIPT_STARTED, ScriptRunnerEvent.ENQUEUE_FORWARD_MSG)

    def on_event(self: Any, sender: Any, event: Any, *rest: Any, **more: Any) -> None:
        outbox = self.__dict__.get("_napkin_outbox") or self.__dict__.setdefault("_napkin_outbox", _Outbox())
        handle = functools.partial(self._handle_scriptrunner_event_on_event_loop, sender, event, *rest, **more)
        outbox.put(self, handle, may_wait=event in may_wait)

    session._on_scriptrunner_event = on_event  # type: ignore[method-assign]
    notice = runtime.Runtime._enqueued_some_message

    def notice_at_once(self: Any) -> None:
        """Without a way round through the socket that wakes the loop, where the loop itself says it."""
        loop = self._get_async_objs()
        if asyncio._get_running_loop() is loop.eventloop:
            loop.need_send_data.set()
        else:
            notice(self)

    runtime.Runtime._enqueued_some_message = notice_at_once  # type: ignore[method-assign]


class _OneByOne(Mapping[str, Any]):
    """A session's values as its dictionary of them all has them; only what is asked for is looked up."""

    def __init__(self, state: Any, everything: Callable[[Any], dict[str, Any]]) -> None:
        self._state = state
        self._everything = everything

    def __getitem__(self, key: str) -> Any:
        if key.startswith("$"):  # Streamlit's own, of which the dictionary has none
            return self._everything(self._state)[key]
        with self._state._lock:
            return self._state._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._everything(self._state))

    def __len__(self) -> int:
        return len(self._everything(self._state))


def _look_up_what_is_asked_for() -> None:
    """Each number, text and choice makes a dictionary of all values of a session to look for its own: 4% of a rerun."""
    everything = getattr(SafeSessionState.__dict__.get("filtered_state"), "fget", None)
    if everything is not None:
        SafeSessionState.filtered_state = property(  # type: ignore[assignment,method-assign]
            lambda self: _OneByOne(self, everything)
        )


def _describe_each_container_once() -> None:
    """A row is described and checked anew at every rerun: 0.05 of a rerun's 8 ms, and a section has two to four."""
    describe = getattr(LayoutsMixin, "container", None)
    if describe is None or not hasattr(st._main, "_block"):
        return
    known: dict[tuple[Any, ...], Any] = {}
    asked = SimpleNamespace(dg=SimpleNamespace(_block=lambda block, **_more: block))

    def container(**layout: Any) -> Any:
        if "key" in layout:  # Streamlit looks whether another has it
            return describe(st._main, **layout)
        named = tuple(layout.items())
        if named not in known:
            known[named] = describe(asked, **layout)
        return st._main._block(known[named])

    st.container = container


class _Many(list[Any]):
    """Messages that the loop takes for one."""


def _send_many_in_one_turn() -> None:
    """Streamlit's loop makes a turn after each message: 0.2 of a rerun's 8 ms. So it gets some thirty as one."""
    session, server = app_session.AppSession, runtime.Runtime
    if not hasattr(session, "flush_browser_queue") or not hasattr(server, "_send_message"):
        return
    flush, send = session.flush_browser_queue, server._send_message

    def flush_many(self: Any) -> list[Any]:
        messages = flush(self)
        return [_Many(messages[at : at + TURN_MESSAGES]) for at in range(0, len(messages), TURN_MESSAGES)]

    def send_many(self: Any, session_info: Any, message: Any) -> None:
        for one in message if isinstance(message, _Many) else [message]:
            send(self, session_info, one)

    session.flush_browser_queue = flush_many  # type: ignore[method-assign]
    server._send_message = send_many  # type: ignore[method-assign,assignment]
