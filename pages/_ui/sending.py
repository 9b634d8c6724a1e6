"""How what the server sends leaves it: ASGI middleware, given through ``st.App``.

Each was measured (``python -m benchmarks rerun``, ``first_render``). Another server than uvicorn is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

TOGETHER_BYTES = 2**16
MOMENT_SECONDS = 0.01
GREETINGS = 2  # the handshake and the session's description are not kept waiting


class FilesAtOnce:
    """ASGI middleware: a file leaves in one piece.

    Starlette reads a file in a thread of its own, 64 KB at a time, unless the server says that it sends files by
    itself (ASGI's ``http.response.pathsend``), which uvicorn does not. Streamlit's own scripts are sixty files that
    the system has in memory, the largest of 0.9 MB: a visitor's first page takes 80 ms of the server instead of 150.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_file(message: Any) -> None:
            if message["type"] == "http.response.pathsend":
                message = {"type": "http.response.body", "body": Path(message["path"]).read_bytes()}
            await send(message)

        if scope["type"] != "http" or "http.response.pathsend" in scope.get("extensions", {}):
            await self._app(scope, receive, send)
            return
        extensions = scope.get("extensions", {}) | {"http.response.pathsend": {}}
        await self._app({**scope, "extensions": extensions}, receive, send_file)


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
