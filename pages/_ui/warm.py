"""What the server prepares in the background, so that no visitor waits for an import.

An import holds the interpreter, and a first visitor who comes with the server's start would wait for it. So the start
page's own imports come at once, while a browser still loads; pandas, altair and torch follow once the first page's
words are out, or when nobody has come for a while. The job agent, a process of its own, starts with them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from streamlit.runtime.pages_manager import PagesManager

from pages._ui import serving

IDLE_SECONDS = 3.0
# What comes within 10 ms of each other the browser draws together, controls, chart and all: the question of a first
# visitor's section is drawn sooner where the rest comes a moment later.
WORDS_FIRST_SECONDS = 0.03
# Python looks for garbage after every 700 new objects, which is a quarter of a millisecond of a rerun.
COLLECT_AFTER = (20_000, 10, 10)

# What the start page imports, 0.15 s: while the first visitor's browser reads Streamlit's own scripts. The server sends
# them meanwhile, more slowly: what only charts need (pyarrow, numpy) is not among it.
START_PAGE = (
    "core.flops", "core.napkin", "pages._ui.cards", "pages._ui.frame", "pages._ui.tour", "pages._ui.charts.napkin",
    "pages._ui.scripts.napkin",
)  # fmt: skip

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
    serving.speed_up()
    _serving.set()
    start()
    yield {}
    _serving.clear()


def start() -> None:
    """Start warming, once in the life of the process."""
    if _started.acquire(blocking=False):
        gc.disable()  # or it would look at all that is imported time and again: a second of the first eight
        threading.Thread(target=_warm, name="warm", daemon=True).start()


def first_visit() -> None:
    """A visitor is here: warm, if the server did not begin it (as when a test runs the script alone)."""
    start()


def words_first() -> None:
    """Let a browser that has just come draw the words that it has, before the rest of the page follows."""
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
    try:
        for name in START_PAGE:
            importlib.import_module(name)
        _visited.wait(IDLE_SECONDS)
        import altair
        import pandas  # noqa: F401

        from core import jobs

        altair.Chart  # noqa: B018  (altair loads its parts lazily)
        jobs.warm()
        load_torch()
        importlib.import_module("torch._dynamo")  # torch's FLOP counter asks for it: 2 to 4 s of the first count
    finally:
        gc.collect()
        gc.freeze()  # what is imported stays: later collections need not look at it
        gc.set_threshold(*COLLECT_AFTER)
        gc.enable()
