"""What a student waits for after a change, in Chromium, section by section: ``python -m benchmarks browser``.

From the press of Enter in a section's first number to what the page does about it, as seen inside the page:

- *first*: something outside of the control has changed;
- *still*: nothing has changed for a while; the clock stops at the last change. Charts are drawn by then.

Beside it, in turns, the same is done to an app with controls of the same kinds and one line that says their values, in
a fragment and nothing else. Times of both hold the server, which is on the same machine, and Chromium without a GPU.
*Charts kept* counts the charts of the section that were changed in place: the others were taken away and made anew.
"""

from __future__ import annotations

import asyncio
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright

from benchmarks._server import NAPKIN, SAME_CONTROLS, Row, serve, wait_until_quiet
from benchmarks.bench_rerun import find_sections
from tests.browser import chromium

ROUNDS = 5
TARGET = 1.5
WAIT_MS = 60_000
SETTLE_MS = 700  # after the page is there: fonts, charts
WATCH = """() => {
  const apart = '[data-testid=stNumberInput], [data-testid=stTextInput], header';
  const outside = node => !(node.nodeType === 1 ? node : node.parentElement)?.closest(apart);
  window.changes = [];
  new MutationObserver(records => {
    if (records.some(one => outside(one.target))) window.changes.push(performance.now());
  }).observe(document.querySelector('[data-testid=stMain]'), {childList: true, characterData: true, subtree: true});
  window.drawn = [...document.querySelectorAll('[data-testid=stVegaLiteChart] :is(svg, canvas)')];
}"""
CHANGE = """([label, value, quiet, most]) => new Promise(resolve => {
  const input = [...document.querySelectorAll('[data-testid=stNumberInput] input')]
    .find(one => one.getAttribute('aria-label') === label && one.offsetParent !== null);
  input.focus();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, value);
  input.dispatchEvent(new Event('input', {bubbles: true}));
  window.changes.length = 0;
  const start = performance.now();
  input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', code: 'Enter', keyCode: 13, bubbles: true}));
  const look = () => {
    const now = performance.now(), all = window.changes;
    if (all.length ? now - all.at(-1) > quiet : now - start > most)
      resolve(all.length ? [all[0] - start, all.at(-1) - start] : null);
    else setTimeout(look, 20);
  };
  look();
})"""
KEPT = "() => [window.drawn.filter(one => document.contains(one)).length, window.drawn.length]"
QUIET_MS, MOST_MS = 150, 3000
TWIN_STARTS_AT = 1024


def open_tab(browser: BrowserContext, url: str, label: str) -> Page:
    """A new tab, once its control is there and all is drawn."""
    page = browser.new_page()
    page.goto(url, timeout=WAIT_MS)
    page.get_by_label(label, exact=True).first.wait_for(state="visible", timeout=WAIT_MS)
    page.wait_for_timeout(SETTLE_MS)
    page.evaluate(WATCH)
    return page


def change(page: Page, label: str, value: float) -> tuple[float, float] | None:
    """Milliseconds until the first and until the last change; None where nothing changed."""
    text = f"{value:.6g}" if value % 1 else str(int(value))
    found: Any = page.evaluate(CHANGE, [label, text, QUIET_MS, MOST_MS])
    return tuple(found) if found else None


def measure(browser: BrowserContext, twin_url: str, napkin_url: str) -> list[Row]:
    """The medians of every section that has a number and answers it."""
    with ThreadPoolExecutor(1) as apart:  # Playwright has an event loop in this thread
        sections = apart.submit(lambda: asyncio.run(find_sections(napkin_url))).result()
    rows: list[Row] = []
    ratios: dict[str, list[float]] = {"first": [], "still": []}
    kept = drawn = 0
    for name, session in sections.items():
        number = next((one for one in session.of_kind("number_input") if one.fragment), None)
        if number is None:
            continue
        kinds = session.kinds(number.fragment)
        tabs = {
            "napkin": (open_tab(browser, f"{napkin_url}/{session.page}?{session.query}", number.proto.label),
                       number.proto.label),
            "twin": (open_tab(browser, f"{twin_url}/?values=1&elements={'.'.join(kinds)}",
                              f"c{kinds.index('number_input')}"), f"c{kinds.index('number_input')}"),
        }  # fmt: skip
        times: dict[str, list[tuple[float, float]]] = {"napkin": [], "twin": []}
        for step in range(1, ROUNDS + 2):
            for who, value in (("napkin", number.value(step)), ("twin", TWIN_STARTS_AT + step)):
                page, label = tabs[who]
                found = change(page, label, value)
                if step > 1 and found:  # the first is not counted: it loads what later ones use
                    times[who].append(found)
        kept_here, drawn_here = tabs["napkin"][0].evaluate(KEPT)
        kept, drawn = kept + kept_here, drawn + drawn_here
        for page, _ in tabs.values():
            page.close()
        if not times["napkin"] or not times["twin"]:
            continue
        for place, what in enumerate(("first", "still")):
            ours, alone = (statistics.median(one[place] for one in times[who]) for who in ("napkin", "twin"))
            ratios[what].append(ours / alone)
            rows.append((f"{name}: {number.proto.label}, {what}", ours, "ms", None))
            rows.append((f"— its {len(kinds)} controls alone ({alone:.0f} ms): over it", ours / alone, "×", TARGET))
    for what, found_ratios in ratios.items():
        rows.append((f"all sections, {what}: over the controls alone, median", statistics.median(found_ratios), "×",
                     TARGET))  # fmt: skip
        rows.append((f"sections within {TARGET} × of it", sum(one <= TARGET for one in found_ratios), "", None))
        rows.append(("of", len(found_ratios), "", None))
    rows.append(("charts changed in place", kept, "", None))
    rows.append(("of", drawn, "", None))
    return rows


def main() -> list[Row]:
    """Both servers and one browser."""
    path = chromium.find()
    if path is None:
        raise RuntimeError("no Chromium: run python -m tests.browser.chromium")
    with serve(SAME_CONTROLS) as twin, serve(NAPKIN) as napkin, sync_playwright() as playwright:
        wait_until_quiet(napkin.pid, least=6.0)
        browser = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        rows = measure(browser.new_context(viewport={"width": 1280, "height": 720}), twin.url, napkin.url)
        browser.close()
    return rows
