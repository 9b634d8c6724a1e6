"""What a student does on a page, in the words of a student: open, choose a section, set a number, press a button."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Locator, Page, expect

# The pages by their address, the start page first: each file of pages/ is one.
PAGES = [
    "",
    *sorted(
        file.stem for file in (Path(__file__).resolve().parents[2] / "pages").glob("[a-z]*.py") if file.stem != "napkin"
    ),
]

# Idle for a moment: between a click and the answer to it the page is still "not running".
_SETTLED = """() => {
  const app = document.querySelector('[data-testid=stApp]');
  const idle = app && app.dataset.testScriptState === 'notRunning' && app.dataset.testConnectionState === 'CONNECTED'
    && document.querySelector('h2') && !document.querySelector('[data-stale=true], [data-testid=stSkeleton]')
    && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(e => e.querySelector('svg, canvas'));
  if (!idle) { window.idleSince = undefined; return false; }
  window.idleSince ??= performance.now();
  return performance.now() - window.idleSince > 250;
}"""


_BOUND_CONTROLS = """() => {
  const kinds = {'input[type=number], input[type=range]': 'number', '[role=switch]': 'switch',
    '[data-testid=stSelectbox], [data-testid=stButtonGroup]': 'choice'};
  const kind = e => Object.keys(kinds).find(selector => e.querySelector(selector));
  return [...document.querySelectorAll('[data-testid=stElementContainer][class*=st-key-]')].filter(kind)
    .map(e => [[...e.classList].find(name => name.startsWith('st-key-')).slice(7), kinds[kind(e)]]);
}"""
_SHOWN = """keys => Object.fromEntries(keys.map(key => {
  const control = document.querySelector(`.st-key-${CSS.escape(key)}`);
  const one = selector => control.querySelector(selector);
  const chosen = [...control.querySelectorAll('[aria-pressed=true], [aria-checked=true]')];
  const slider = one('[role=slider], input[type=range]'), toggle = one('[role=switch]');
  return [key, slider ? slider.value : chosen.length ? chosen.map(e => e.innerText).sort().join(', ')
    : toggle ? String(toggle.checked) : one('input').value];
}))"""
_BROKEN = re.compile("This section failed|Page not found")


class Student:
    """A visitor with a browser tab of their own."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._listeners: dict[str, Callable[[Any], None]] = {
            "request": lambda request: self.requests.append(request.url),
            "websocket": lambda socket: self.requests.append(socket.url),
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": self._listen,
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def leave(self) -> None:
        """Hear no more of the tab, which somebody else may use after this."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)

    def _listen(self, message: Any) -> None:
        where = urlsplit(message.location.get("url", "")).path
        # On a deep link Streamlit looks for its server below the page's own path first.
        expected = re.search(r"/\w+/_stcore/(health|host-config)$", where) and "404" in message.text
        if message.type == "error" and not expected:
            self.errors.append(f"{message.text} ({where})")

    # Getting there

    def open(self, page: str = "", *, wait: bool = True, **values: Any) -> None:
        """Open a page of the app with values in its address; a list gives a value several times."""
        query = f"?{urlencode(values, doseq=True)}" if values else ""
        self.open_link(f"{self.url}/{page}{query}", wait=wait)

    def open_link(self, link: str, *, wait: bool = True) -> None:
        self.page.goto(link)
        if wait:
            self.settle()

    def settle(self) -> None:
        """Wait until the page has nothing left to do. While a job runs it never has."""
        self.page.wait_for_function("window.idleSince = undefined; true")
        self.page.wait_for_function(_SETTLED, polling=50)

    def section(self, label: str) -> None:
        """Choose a section in the control at the top."""
        self.page.get_by_role("radio", name=label, exact=True).first.click()
        expect(self.page.get_by_role("radio", name=label, exact=True).first).to_be_checked()

    def section_labels(self) -> list[str]:
        """The sections that the control at the top offers, the whole page last."""
        labels = self.page.locator("[class*='st-key-'][class*='_section ']").get_by_role("radio")
        expect(labels.first).to_be_visible()
        return labels.all_inner_texts()

    def menu(self, group: str, title: str) -> None:
        """Go to a page through the navigation at the top."""
        self.page.get_by_test_id("stTopNavSection").filter(has_text=group).first.click()
        self.page.get_by_test_id("stTopNavDropdownLink").filter(has_text=title).first.click()

    def open_menu(self) -> None:
        """Streamlit's own menu, in the corner."""
        self.page.get_by_test_id("stMainMenuButton").click()
        expect(self.page.get_by_test_id("stMainMenuList")).to_be_visible()

    def choose_theme(self, name: str) -> None:
        """Light or Dark, in Streamlit's own menu."""
        self.open_menu()
        self.page.get_by_role("menuitemradio", name=name).click()
        self.page.keyboard.press("Escape")

    # Controls

    def control(self, key: str) -> Locator:
        """The control with that key: the name that its value has in the address."""
        return self.page.locator(f".st-key-{key}")

    def field(self, key: str) -> Locator:
        return self.control(key).locator("input").first

    def bound_controls(self) -> dict[str, str]:
        """The controls whose values live in the address: by key, what kind they are."""
        found = self.page.evaluate(_BOUND_CONTROLS)
        return {key: kind for key, kind in found if not key.startswith("np_") and not key.endswith("_section")}

    def shown(self, *keys: str) -> dict[str, str]:
        """What the controls with those keys show: a number, a slider's position, the options chosen."""
        shown: dict[str, str] = self.page.evaluate(_SHOWN, list(keys))
        return shown

    def set_number(self, key: str, value: float | str) -> None:
        self.field(key).fill(str(value))
        self.field(key).press("Enter")

    def button(self, name: str) -> Locator:
        """A button that can be seen (a button with a tooltip is in the page twice)."""
        return self.page.get_by_role("button", name=name, exact=True).locator("visible=true").first

    def toggle(self, label: str) -> Locator:
        return self.page.get_by_role("switch", name=label, exact=True)

    def turn(self, label: str, on: bool) -> None:
        if self.toggle(label).is_checked() != on:
            self.page.get_by_test_id("stCheckbox").filter(has=self.toggle(label)).locator("label").first.click()
        expect(self.toggle(label)).to_be_checked(checked=on)

    def choose_dtypes(self, *dtypes: str) -> None:
        """Exactly these of the dtypes to measure."""
        group = self.control("dtypes")
        for name in dtypes:  # choose before giving up others: never none
            if group.get_by_role("button", name=name, exact=True).get_attribute("aria-pressed") != "true":
                group.get_by_role("button", name=name, exact=True).click()
                expect(group.get_by_role("button", name=name, exact=True)).to_have_attribute("aria-pressed", "true")
        for name in group.get_by_role("button").all_inner_texts():
            one = group.get_by_role("button", name=name, exact=True)
            if name not in dtypes and one.get_attribute("aria-pressed") == "true":
                one.click()
                expect(one).to_have_attribute("aria-pressed", "false")

    # What there is to see

    @property
    def question(self) -> Locator:
        return self.page.locator("h2")

    @property
    def predicted(self) -> Locator:
        return self.page.locator(".np-predicted .np-value")

    @property
    def measured(self) -> Locator:
        return self.page.locator(".np-measured .np-value")

    @property
    def ratio(self) -> Locator:
        return self.page.locator(".np-ratio .np-value")

    @property
    def opened(self) -> Locator:
        """What a card's "Why, in words" or "Copy as Python" has opened."""
        return self.page.locator(".np-pop:popover-open")

    @property
    def notes(self) -> Locator:
        """The notes about what a link asked for and did not get."""
        return self.page.get_by_test_id("stAlert").filter(has_text="The link asked for")

    def values(self) -> dict[str, list[str]]:
        """The values in the address bar."""
        return parse_qs(urlsplit(self.page.url).query, keep_blank_values=True)

    def expect_value(self, key: str, *values: str) -> None:
        """Wait until the address bar has these values under that key; none given: until it does not have it."""
        self.page.wait_for_function(
            "([key, values]) => new URLSearchParams(location.search).getAll(key).join() === values.join()",
            arg=[key, list(values)],
        )

    def broken(self) -> list[str]:
        """What shows that something broke: a traceback, a section that failed, a page that is not there."""
        signs = self.page.get_by_test_id("stException"), self.page.get_by_text(_BROKEN)
        return [text for sign in signs for text in sign.all_inner_texts()]

    def expect_whole(self) -> None:
        assert not self.broken()

    # Measuring

    def ready_to_measure(self) -> None:
        """Wait for the calibration, which runs by itself."""
        expect(self.button("Measure")).to_be_visible(timeout=120_000)

    def start_measuring(self) -> None:
        self.ready_to_measure()
        expect(self.button("Measure")).to_be_enabled()
        self.button("Measure").click()
        expect(self.button("Cancel")).to_be_visible()

    def measure(self) -> None:
        self.ready_to_measure()
        self.button("Measure").click()
        self.expect_measured()

    def measure_all(self) -> None:
        """Measure on the whole page: every section that needs the measurement shows it."""
        self.ready_to_measure()
        self.button("Measure").click()
        expect(self.measured).not_to_have_count(1, timeout=90_000)
        expect(self.page.locator(".np-measured .np-label").filter(has_text="Achieved")).to_be_visible(timeout=90_000)

    def expect_measured(self) -> None:
        expect(self.measured).to_be_visible(timeout=90_000)
        expect(self.button("Cancel")).to_have_count(0)
        self.settle()

    def share_link(self) -> str:
        """Open Share, take the link out of its box, close it."""
        self.control("np_share").get_by_role("button").first.click()
        box = self.page.get_by_test_id("stPopoverBody").get_by_test_id("stCode")
        expect(box).to_contain_text("http")
        link = box.locator("code").inner_text().strip()
        self.page.keyboard.press("Escape")
        return link
