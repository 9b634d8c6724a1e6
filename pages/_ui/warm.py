"""What the server prepares in the background, so that no visitor waits for an import.

An import holds the interpreter, and a first visitor who comes with the server's start would wait for it: so pandas,
altair and torch follow once the first page's words are out, or when nobody has come for a while. The job agent, a
process of its own, starts with them.
"""

from __future__ import annotations

import asyncio.base_events
import contextlib
import gc
import importlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from streamlit.runtime import app_session, runtime
from streamlit.runtime.pages_manager import PagesManager

from core import jobs

IDLE_SECONDS = 3.0
# Streamlit hands on what a script has made every 5 ms, and a script that ends in between waits for the next time: a
# section's rerun of 14 to 16 ms takes 12 to 13 with this.
FLUSH_SECONDS = 0.001
# What comes within 10 ms of each other the browser draws together, controls, chart and all: the words that a first
# visitor waits for are drawn 0.1 s sooner where the rest comes a moment later.
WORDS_FIRST_SECONDS = 0.03

_started = threading.Lock()
_visited = threading.Event()
_torch_is_here = threading.Event()
_serving = threading.Event()


@contextlib.asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[dict[str, Any]]:
    """The server's life. The job agent ends with this process by itself."""
    # Streamlit takes a folder named pages for its older kind of app until st.navigation has run once: a first visitor
    # with a deep link would get that page without app.py.
    PagesManager.uses_pages_directory = False
    _send_small_messages_at_once()
    _read_the_theme_once()
    _serving.set()
    runtime.MESSAGE_FLUSH_INTERVAL_SECS = FLUSH_SECONDS  # type: ignore[attr-defined]
    start()
    yield {}
    _serving.clear()


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


def start() -> None:
    """Start warming, once in the life of the process."""
    if _started.acquire(blocking=False):
        threading.Thread(target=_warm, name="warm", daemon=True).start()


def first_visit() -> None:
    """A visitor is here: warm, if the server did not begin it (as when a test runs the script alone)."""
    start()


def words_first() -> None:
    """Let a browser that has just come draw the words it has, before the rest of the page follows."""
    if _serving.is_set():
        time.sleep(WORDS_FIRST_SECONDS)


def page_is_out() -> None:
    """The first page has been sent: torch may take the interpreter now."""
    _visited.set()


def torch_is_here() -> bool:
    """Whether torch is imported: True from a few seconds after the server's start."""
    return _torch_is_here.is_set()


def load_torch() -> None:
    """Import torch; waits for an import that is under way.

    What pages compute is small, and many visitors' computations run side by side: each on one thread. Threads that
    wait for one another would take ten times as long on a busy machine. Measurements run in jobs with their own.
    """
    import torch

    torch.set_num_threads(1)
    _torch_is_here.set()


def on_this_thread() -> None:
    """Tell this thread how many threads torch computes on, once torch is there: a page's every run has a new thread.

    torch passes the number on at its first loop there, and its matrix products do not wait for one: the first of them
    would start threads as many as cores, which takes 4 ms, and every other would wait for them.
    """
    if _torch_is_here.is_set():
        import torch

        torch.get_num_threads()


def _warm() -> None:
    _visited.wait(IDLE_SECONDS)
    import altair
    import pandas  # noqa: F401

    altair.Chart  # noqa: B018  (altair loads its parts lazily)
    jobs.warm()
    load_torch()
    importlib.import_module("torch._dynamo")  # torch's FLOP counter asks for it: 2 to 4 s of the first count

    gc.collect()
    gc.freeze()  # what is imported stays: later collections need not look at it
