"""Every section of every page: it is whole, charts have words, it fits a phone and a projector, all of it is local."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import ViewportSize

from tests.browser.conftest import SCREEN
from tests.browser.student import PAGES, Student

pytestmark = pytest.mark.browser

SCREENS = {"phone": ViewportSize(width=390, height=844), "projector": SCREEN}


def faults(student: Student) -> list[str]:
    """What is wrong with the section on screen."""
    student.settle()
    excess = student.page.evaluate(
        """() => Math.max(...[document.documentElement, document.querySelector('[data-testid=stMain]')]
             .map(e => e.scrollWidth - e.clientWidth))"""
    )
    words = [chart.get_attribute("aria-label") for chart in student.page.get_by_test_id("stVegaLiteChart").all()]
    return [
        *student.broken(),
        *([f"{excess} px wider than the screen"] if excess > 0 else []),
        *("a chart without words" for text in words if not text),
    ]


@pytest.mark.parametrize("page", PAGES)
def test_every_section_is_whole_and_fits_and_all_comes_from_this_machine(visit, page):
    first, second = SCREENS
    student = visit(page, screen=SCREENS[first])
    wrong = []
    for label in student.section_labels():
        student.section(label)  # on the screen that the last one was seen on: each needs one turn to the other screen
        wrong += [f"{label}, {first}: {fault}" for fault in faults(student)]
        student.page.set_viewport_size(SCREENS[second])
        wrong += [f"{label}, {second}: {fault}" for fault in faults(student)]
        first, second = second, first
    assert not wrong, "\n".join(wrong)
    student.share_link()
    student.open_menu()
    hosts = {urlsplit(url).hostname for url in student.requests if not url.startswith(("data:", "blob:"))}
    assert hosts <= {"localhost", "127.0.0.1"}, [url for url in student.requests if "//localhost" not in url]
    assert not student.errors
