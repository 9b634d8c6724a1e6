"""What the server prepares in the background."""

import asyncio
import inspect
import threading
from pathlib import Path

import torch
from streamlit import config
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session, runtime

from pages._ui import warm


def test_pages_compute_on_one_thread():
    """Visitors' small computations run side by side; measurements have processes of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        warm.load_torch()
        assert warm.torch_is_here()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_new_thread_computes_alone():
    """A page's run has a new thread, whose first matrix product starts as many threads as cores unless it is told."""
    x = torch.ones(64, 64)

    def run() -> None:
        warm.on_this_thread()
        before = set(Path("/proc/self/task").iterdir())
        x @ x
        started.append(set(Path("/proc/self/task").iterdir()) - before)

    started: list[set[Path]] = []
    before = torch.get_num_threads()
    try:
        warm.load_torch()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert started == [set()]


def theme_sent() -> bytes:
    """What the browser is told of the theme, as a server of this version asks for it part by part."""
    theme = ForwardMsg().new_session.custom_theme
    for part, section in (
        (theme, "theme"),
        (theme.light, "theme.light"),
        (theme.dark, "theme.dark"),
        (theme.sidebar, "theme.sidebar"),
        (theme.light.sidebar, "theme.light.sidebar"),
        (theme.dark.sidebar, "theme.dark.sidebar"),
    ):
        app_session._populate_theme_msg(part, section)
    return theme.SerializeToString(deterministic=True)


def test_the_theme_is_read_once_and_said_the_same_every_time(monkeypatch):
    config.get_config_options()
    asked = []
    read = app_session._populate_theme_msg
    monkeypatch.setattr(app_session, "_populate_theme_msg", lambda *of: (asked.append(of[1:]), read(*of)))
    expected = theme_sent()
    assert b"#0072B2" in expected
    asked.clear()
    warm._read_the_theme_once()
    assert [theme_sent() for _ in range(3)] == [expected] * 3
    assert len(asked) == 6


def test_the_server_hands_on_what_a_script_has_made_within_a_millisecond(monkeypatch):
    """Streamlit's server reads this name at each round: a version that calls it otherwise would not be sped up."""
    assert isinstance(runtime.MESSAGE_FLUSH_INTERVAL_SECS, float)
    assert "sleep(MESSAGE_FLUSH_INTERVAL_SECS)" in inspect.getsource(runtime.Runtime)

    monkeypatch.setattr(app_session, "_populate_theme_msg", app_session._populate_theme_msg)  # put back afterwards

    async def life() -> float:
        async with warm.lifespan(None):
            return runtime.MESSAGE_FLUSH_INTERVAL_SECS

    before = runtime.MESSAGE_FLUSH_INTERVAL_SECS
    try:
        assert asyncio.run(life()) == warm.FLUSH_SECONDS == 0.001
    finally:
        runtime.MESSAGE_FLUSH_INTERVAL_SECS = before
