"""How the server answers sooner: where Streamlit does at every rerun what once would do, or piece by piece.

Each of these was measured (``python -m benchmarks rerun``). Where another version of Streamlit, uvicorn or asyncio
has not got what is changed here, it is left alone.
"""

from __future__ import annotations

import asyncio.base_events
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from streamlit.runtime import app_session, runtime

# Streamlit hands on what a script has made every 5 ms, and a script that ends in between waits for the next time: a
# section's rerun of 14 to 16 ms takes 12 to 13 with this.
FLUSH_SECONDS = 0.001
TOGETHER_BYTES = 2**16
MOMENT_SECONDS = 0.01
GREETINGS = 2  # the handshake and the session's description are not kept waiting


def speed_up() -> None:
    """Change what can be changed before the first visitor comes."""
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = FLUSH_SECONDS  # type: ignore[attr-defined]
    _send_small_messages_at_once()
    _read_the_theme_once()


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


class Together:
    """ASGI middleware: messages that a rerun sends right after each other leave in one write.

    Streamlit sends each in a turn of the loop of its own, and uvicorn writes each to the socket: some 15 calls of the
    system, of 0.15 ms where the interpreter is busy. Together they cost one, and the browser wakes once.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        connection: Any = getattr(send, "__self__", None)  # uvicorn's
        if scope["type"] == "websocket" and hasattr(connection, "transport"):
            connection.transport = _Gathering(connection.transport)
            receive = connection.transport.counting(receive)
        await self._app(scope, receive, send)


class _Gathering:
    """A transport that writes when the loop has had a turn in which nothing was added.

    What the first request of a visit gets is written when nothing was added for a moment: the browser draws the
    navigation and the words at once.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._requests = 0
        self._waiting = bytearray()
        self._seen = 0
        self._written = 0

    def counting(self, receive: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        """The same, with the requests counted."""

        async def receive_and_count() -> Any:
            message = await receive()
            self._requests += message["type"] == "websocket.receive"
            return message

        return receive_and_count

    def write(self, data: bytes) -> None:
        self._written += 1
        if not self._waiting:
            self._seen = 0
            self._wait()
        self._waiting += data
        if len(self._waiting) > TOGETHER_BYTES or self._written <= GREETINGS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        if self._requests > 1:
            loop.call_soon(self._turn)
        else:
            loop.call_later(MOMENT_SECONDS, self._turn)

    def _turn(self) -> None:
        if len(self._waiting) == self._seen:
            self._flush()
        else:
            self._seen = len(self._waiting)
            self._wait()

    def _flush(self) -> None:
        if self._waiting:
            self._transport.write(bytes(self._waiting))
            self._waiting.clear()
