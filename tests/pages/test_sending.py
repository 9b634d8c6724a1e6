"""How what the server sends leaves it."""

import asyncio
import inspect
from pathlib import Path

import pytest
import streamlit
from starlette.exceptions import HTTPException
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_handler
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from pages._ui import sending


class Connection:
    """What uvicorn's connection is to the app: it sends, by writing to its transport."""

    def __init__(self):
        self.transport = self.socket = Socket()

    async def send(self, message):
        self.transport.write(message["bytes"])


class Socket:
    def __init__(self):
        self.written, self.is_closed = [], False

    def write(self, data):
        assert not self.is_closed
        self.written.append(data)

    def close(self):
        self.is_closed = True

    def is_closing(self):
        return self.is_closed


GREETING = [b"handshake", b"session"]


def served(app, scope="websocket", requests=2, seconds=0.0):
    """The connection after the app has run behind the middleware, and all is written."""

    async def request():
        return {"type": "websocket.receive"}

    async def run():
        connection = Connection()

        async def answer(_scope, receive, send):
            for _one in range(requests):
                await receive()
            await app(connection, send)

        await sending.Together(answer)({"type": scope}, request, connection.send)
        while getattr(connection.transport, "_waiting", b""):
            await asyncio.sleep(seconds)
        return connection

    return asyncio.run(run())


async def say(send, *messages, seconds=0.0):
    """Each in a turn of the loop of its own, as Streamlit does."""
    for one in messages:
        await send({"bytes": one})
        await asyncio.sleep(seconds)


def test_messages_of_a_rerun_leave_in_one_write_in_their_order():
    async def app(_connection, send):
        await say(send, *GREETING)
        await say(send, b"new session", b"card", b"chart", b"finished")

    assert served(app).socket.written == [*GREETING, b"new sessioncardchartfinished"]


def test_what_comes_later_does_not_wait_and_is_not_lost():
    async def app(connection, send):
        await say(send, *GREETING, b"first", b"second")
        for _turn in range(3):
            await asyncio.sleep(0)
        assert connection.socket.written == [*GREETING, b"firstsecond"]
        await say(send, b"third")
        assert not connection.transport.is_closing(), "everything else is the transport's own"
        connection.transport.close()

    connection = served(app)
    assert connection.socket.written == [*GREETING, b"firstsecond", b"third"]
    assert connection.socket.is_closed, "after what was waiting"


def test_a_new_visitors_words_wait_for_a_moment_in_which_none_comes(monkeypatch):
    monkeypatch.setattr(sending, "MOMENT_SECONDS", 0.05)

    async def app(connection, send):
        await say(send, *GREETING)
        assert connection.socket.written == GREETING
        await say(send, b"navigation", b"style", b"question", seconds=0.001)
        assert connection.socket.written == GREETING

    assert served(app, requests=1, seconds=0.01).socket.written == [*GREETING, b"navigationstylequestion"]


def test_much_is_written_as_it_comes():
    large = bytes(sending.TOGETHER_BYTES)

    async def app(connection, send):
        await say(send, *GREETING)
        await send({"bytes": b"a"})
        await send({"bytes": large})
        assert connection.socket.written == [*GREETING, b"a" + large]
        await send({"bytes": b"b"})

    assert served(app).socket.written == [*GREETING, b"a" + large, b"b"]


def test_pages_over_http_and_other_servers_are_left_alone():
    async def app(connection, send):
        await say(send, b"one", b"two")
        assert connection.transport is connection.socket

    assert served(app, "http").socket.written == [b"one", b"two"]

    async def send(message):
        sent.append(message)

    async def other(_scope, _receive, given):
        await given({"bytes": b"one"})

    sent = []
    asyncio.run(sending.Together(other)({"type": "websocket"}, None, send))
    assert sent == [{"bytes": b"one"}]


def test_uvicorn_writes_each_message_to_a_transport_that_can_be_given():
    """A version that does otherwise would not be sped up."""
    assert "self.transport.write(" in inspect.getsource(WebSocketsSansIOProtocol.send)


FILES = Path(streamlit.__file__).parent / "static"
LARGEST = max((FILES / "static" / "js").iterdir(), key=lambda one: one.stat().st_size)


def answer(path, app, method="GET", **headers):
    """What an ASGI app sends for a request, and the messages it took."""

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(dict(message))

    sent = []
    scope = {"type": "http", "method": method, "path": path, "asgi": {"spec_version": "2.4"}, "extensions": {}}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(app(scope, receive, send))
    start, *rest = sent
    body = b"".join(one.get("body", b"") for one in rest)
    return (start["status"], sorted(start["headers"]), body), len(rest)


@pytest.mark.parametrize(
    ("path", "how"),
    [
        (f"/static/js/{LARGEST.name}", {}),
        (f"/static/js/{LARGEST.name}", {"method": "HEAD"}),
        (f"/static/js/{LARGEST.name}", {"range": "bytes=70000-70009"}),
        (f"/static/js/{LARGEST.name}", {"method": "POST"}),
        ("/", {}),
        ("/flops_mfu", {}),  # a deep link gets the page's frame
        ("/static/../../env_util.py", {}),
    ],
)
def test_a_file_is_the_same_in_one_piece(path, how):
    files = create_streamlit_static_handler(str(FILES), None)
    try:
        expected, pieces = answer(path, files, **how)
    except HTTPException as refused:
        with pytest.raises(HTTPException) as here:
            answer(path, sending.FilesAtOnce(files), **how)
        assert here.value.status_code == refused.status_code
        return
    got, at_once = answer(path, sending.FilesAtOnce(files), **how)
    assert got == expected
    assert at_once == 1
    if path.endswith("js") and not how:
        assert got[2] == LARGEST.read_bytes()
        assert pieces > 1, "a version that sends it so by itself needs no help"


def test_a_browser_that_has_the_file_gets_no_file():
    files = create_streamlit_static_handler(str(FILES), None)
    path = f"/static/js/{LARGEST.name}"
    headers = dict(answer(path, files)[0][1])
    (status, _headers, body), _pieces = answer(
        path, sending.FilesAtOnce(files), **{"if-none-match": headers[b"etag"].decode()}
    )
    assert (status, body) == (304, b"")


def test_a_server_that_sends_files_by_itself_does_so():
    async def app(scope, _receive, send):
        assert scope is given
        await send({"type": "http.response.pathsend", "path": "nowhere"})

    async def send(message):
        sent.append(message)

    sent = []
    given = {"type": "http", "extensions": {"http.response.pathsend": {}}}
    asyncio.run(sending.FilesAtOnce(app)(given, None, send))
    assert sent == [{"type": "http.response.pathsend", "path": "nowhere"}]
