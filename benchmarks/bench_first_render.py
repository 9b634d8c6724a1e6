"""How soon a visitor sees a page, against Streamlit's hello world: ``python -m benchmarks first_render``.

In Chromium, already running, with a new context (nothing cached) for each visit. Hello world is one ``st.write`` under
the same .streamlit/config.toml; the apps take turns, so that whatever else the machine does meets them alike.

- *from process start*: from starting ``streamlit run`` (a new server each time) to the text being visible. The page is
  opened as soon as the server answers its health check.
- *warm server*: from opening the page on a server that has been visited before and has imported everything, to the
  text being visible.

The text is "hello", and on a page the question that heads its first section; "control" is until its first number
input is visible. The page itself notes the frame in which they come: whoever asks it from outside is answered when it
has time, and that is after whatever else it draws. Reported are medians; a ratio is the median of the rounds', as a
shared machine is now quicker and now slower. It should be at most 1.15 for the start page.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from operator import truediv
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from benchmarks._server import HELLO, NAPKIN, Row, serve, wait_until_quiet
from tests.browser import chromium

ROUNDS = 15
TARGET = 1.15
WAIT_MS = 60_000
CONTROL = "[data-testid=stNumberInput]"
# Notes in window.seen when, in seconds since 1970, the first element of each selector had words or a size.
NOTE = """selectors => {
  window.seen = {};
  const look = () => {
    for (const one of selectors) {
      const found = document.querySelector(one);
      if (!window.seen[one] && found?.offsetHeight && (found.innerText.trim() || one.includes("Input")))
        requestAnimationFrame(() => window.seen[one] ??= (performance.timeOrigin + performance.now()) / 1e3);
    }
  };
  new MutationObserver(look).observe(document, {subtree: true, childList: true, characterData: true});
}"""
# name, app, path, what is waited for, the most that its median should be over hello world's
VISITS = (
    ("hello world", HELLO, "/", "[data-testid=stMarkdown] p", None),
    ("start page", NAPKIN, "/", "h2", TARGET),
    ("flops_mfu", NAPKIN, "/flops_mfu", "h2", None),
)
Times = dict[str, list[float]]


def visit(browser: Browser, url: Callable[[], str], text: str, times: list[float], control: list[float] | None) -> None:
    """One visit in a new context, timed from before ``url()``, which may start a server, until the text is visible."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    try:
        page = context.new_page()
        page.add_init_script(f"({NOTE})({json.dumps([text, CONTROL])})")
        started = time.time()
        page.goto(url(), wait_until="commit", timeout=WAIT_MS)
        for selector, kept in ((text, times), (CONTROL, control)):
            if kept is not None:
                seen = page.wait_for_function("one => window.seen[one]", arg=selector, timeout=WAIT_MS)
                kept.append(seen.json_value() - started)
    finally:
        context.close()


def from_process_start(browser: Browser) -> tuple[Times, Times]:
    """Seconds of each visit, to the text and to the first control, with a new server for each visit."""
    times: Times = {name: [] for name, *_ in VISITS}
    controls: Times = {name: [] for name, *_ in VISITS}
    for turn in range(ROUNDS + 1):
        for name, app, path, text, _ in VISITS:
            with ExitStack() as stack:

                def url(stack: ExitStack = stack, app: Path = app, path: str = path) -> str:
                    return stack.enter_context(serve(app)).url + path

                visit(browser, url, text, times[name], None if app == HELLO else controls[name])
            if turn == 0:  # not counted: the disk is read, Python compiles, the browser starts its processes
                times[name].clear()
                controls[name].clear()
    return times, controls


def warm_server(browser: Browser) -> tuple[Times, Times]:
    """Seconds of each visit, to the text and to the first control, to servers that were visited before."""
    times: Times = {name: [] for name, *_ in VISITS}
    controls: Times = {name: [] for name, *_ in VISITS}
    with serve(HELLO) as hello, serve(NAPKIN) as napkin:
        servers = {HELLO: hello, NAPKIN: napkin}
        for _, app, path, text, _ in VISITS:
            visit(browser, lambda app=app, path=path: servers[app].url + path, text, [], None)
        wait_until_quiet(napkin.pid, least=6.0)
        for _ in range(ROUNDS):
            for name, app, path, text, _ in VISITS:
                control = None if app == HELLO else controls[name]
                visit(browser, lambda app=app, path=path: servers[app].url + path, text, times[name], control)
    return times, controls


def rows_of(how: str, times: Times, controls: Times) -> list[Row]:
    """Medians, the fastest and the slowest, and what each page takes over hello world."""
    rows: list[Row] = []
    for name, _, _, _, target in VISITS:
        median = statistics.median(times[name])
        spread = f"{min(times[name]):.2f} to {max(times[name]):.2f}"
        rows.append((f"{how}, {name}: text visible ({spread})", median, "s", None))
        if controls[name]:
            rows.append((f"{how}, {name}: first control visible", statistics.median(controls[name]), "s", None))
            ratio = statistics.median(map(truediv, times[name], times["hello world"]))
            rows.append((f"{how}, {name}: text, over hello world", ratio, "×", target))
    return rows


def main() -> list[Row]:
    """Both ways of visiting, in one browser."""
    path = chromium.find()
    if path is None:
        raise RuntimeError("no Chromium: run python -m tests.browser.chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        rows = rows_of("from process start", *from_process_start(browser))
        rows += rows_of("warm server", *warm_server(browser))
        browser.close()
    return rows
