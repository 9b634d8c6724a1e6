"""One server and one browser for all browser tests; each test begins as a new visitor."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, ViewportSize, expect, sync_playwright

from tests.browser import chromium
from tests.browser.student import Student

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
HEALTH = "/_stcore/health"
TIMEOUT_MS = 30_000  # generous: a condition is waited for as long as a busy machine may need
SCREEN = ViewportSize(width=1280, height=720)


@dataclass(frozen=True)
class Server:
    """A running app: its address and what it has written."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def tracebacks(self, after: int = 0) -> str:
        """What was logged from there on, if a traceback is in it."""
        text = self.log.read_bytes()[after:].decode(errors="replace")
        return text if "Traceback (most recent call last)" in text else ""


@contextmanager
def running_app(log: Path, changed: str = "") -> Iterator[Server]:
    """The app as a student starts it, on a free port of this machine; or ``changed`` by a line of Python."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NAPKIN_", "STREAMLIT_"))}
    environment |= {"NAPKIN_RUNS_DIR": str(log.parent / "runs"), "NAPKIN_CALIBRATE_ONCE": "1"}
    start = ["-c", f"{changed}; from streamlit.web import cli; cli.main()"] if changed else ["-m", "streamlit"]
    command = [sys.executable, *start, "run", "app.py", f"--server.port={port}", "--server.headless=true"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    server = Server(f"http://localhost:{port}", log, process)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"{server.url}{HEALTH}"):
            assert process.poll() is None, f"the app ended at its start:\n{log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, f"the app did not start:\n{log.read_text(errors='replace')}"
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A Chromium without a window. Raises LookupError where there is none."""
    path = chromium.find()
    if path is None:
        raise LookupError("no Chromium: `python -m tests.browser.chromium` brings one")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        yield browser
        browser.close()


# The scope is the package: the server and Playwright's event loop are gone before other tests run.
@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_app(tmp_path_factory.mktemp("server") / "streamlit.log") as app:
        yield app


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if chromium.find() is None and not os.environ.get("CI"):
        pytest.skip("no Chromium: `python -m tests.browser.chromium` brings one")
    with running_browser() as started:
        yield started


class Tab:
    """A browser tab that visitors use one after another: in a new one Chromium would load and compile the app anew."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._page: Page | None = None

    def page(self) -> Page:
        """The tab as a new visitor finds it: nothing stored, nothing shown."""
        if self._page is None:
            self._page = new_context(self._browser).new_page()
        return self._page

    def forget(self) -> None:
        """Leave the app and remove all traces. What cannot be brought in order is thrown away."""
        if self._page is None:
            return
        try:
            self._page.mouse.move(0, 0)
            self._page.goto(f"{self._url}{HEALTH}")  # of the same origin, whose storage it can clear
            self._page.evaluate("localStorage.clear(); sessionStorage.clear()")
            self._page.context.clear_cookies()
        except Error:
            self._page.context.close()
            self._page = None


def new_context(browser: Browser, **settings: Any) -> BrowserContext:
    context = browser.new_context(**{"viewport": SCREEN, "reduced_motion": "reduce", **settings})
    context.set_default_timeout(TIMEOUT_MS)
    return context


@pytest.fixture(scope="package")
def tabs(browser: Browser, server: Server) -> list[Tab]:
    """For the first visitor of a test, and for the second."""
    return [Tab(browser, server.url), Tab(browser, server.url)]


@pytest.fixture
def visit(
    browser: Browser, server: Server, tabs: list[Tab], request: pytest.FixtureRequest
) -> Iterator[Callable[..., Student]]:
    """``visit("flops_mfu", b=64)``: a new visitor opens that address, or a ``link``. No test may leave a traceback.

    Whoever comes with a ``context`` of their own gets a browser context of their own.
    """
    students: list[Student] = []
    own: list[Page] = []
    free = list(tabs)
    before = server.log.stat().st_size

    def new(
        page: str = "",
        *,
        link: str = "",
        context: dict[str, Any] | None = None,
        screen: ViewportSize = SCREEN,
        **values: Any,
    ) -> Student:
        if context is not None:
            own.append(new_context(browser, **context).new_page())
        student = Student(free.pop(0).page() if context is None else own[-1], server.url)
        students.append(student)
        student.page.set_viewport_size(screen)
        if link:
            student.open_link(link)
        else:
            student.open(page, **values)
        return student

    yield new
    for student in students:
        student.leave()
    for one in own:
        one.context.close()
    for tab in tabs[: len(tabs) - len(free)]:
        tab.forget()
    assert server.process.poll() is None, f"the app ended with {server.process.returncode}"
    if not request.node.get_closest_marker("xfail"):
        assert not server.tracebacks(before), server.tracebacks(before)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False
