"""Every page, as one visitor walks through it: its sections are whole, fit a phone and a projector, all is local.

The address that leads there names a section that there is not, the last one has a bad value for every control: each
falls back to its default with a note, and never a traceback.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.browser.conftest import SCREEN
from tests.browser.student import PAGES, Student

pytestmark = pytest.mark.browser

SCREENS = {"phone": ViewportSize(width=390, height=844), "projector": SCREEN}
BAD_SECTIONS = ("zzz", "", "99")
BAD_NUMBERS = (
    "abc", "1e999", "-1e30", "nan", "-inf", "999999999999999", "", "9" * 400, "0x10", "1 000", "<b>7</b>",
)  # fmt: skip
BAD_CHOICES = ("evil", "", "0", "None", "x" * 500, "<script>alert(1)</script>", "[]")


def faults(student: Student) -> list[str]:
    """What is wrong with the section on screen."""
    student.settle()
    excess = student.page.evaluate(
        """() => Math.max(...[document.documentElement, document.querySelector('[data-testid=stMain]')]
             .map(e => e.scrollWidth - e.clientWidth))"""
    )
    unsaid = student.page.evaluate(
        """() => {
             const unspoken = [...document.querySelectorAll('.np-spoken')].filter(one => one.textContent.trim());
             return [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].filter(chart => {
               const label = chart.getAttribute('aria-label') || '';
               const words = unspoken.findIndex(one =>
                 chart.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
               return !label || !(label.includes('Why, in words') || words >= 0 && unspoken.splice(words, 1));
             }).map(chart => chart.getAttribute('aria-label'));
           }"""
    )
    return [
        *student.broken(),
        *([f"{excess} px wider than the screen"] if excess > 0 else []),
        *(f"a chart without words: {label!r}" for label in unsaid),
    ]


def forged(controls: dict[str, str], turn: int) -> dict[str, str]:
    """A bad value for every control: on each page, and for each control there, another."""
    bad = {"number": BAD_NUMBERS, "choice": BAD_CHOICES, "switch": BAD_CHOICES}
    return {key: bad[kind][(turn + place) % len(bad[kind])] for place, (key, kind) in enumerate(controls.items())}


def untaken(student: Student, asked: dict[str, str], defaults: dict[str, str]) -> list[str]:
    """What is wrong where every value of the address is bad: no note, or not the default."""
    notes = student.notes.all_inner_texts()
    shown = student.shown(*asked)
    wrong = [
        f"{key}={value[:40]!r} has no note"
        for key, value in asked.items()
        if not any(f"“{value[:40].strip()}”" in note for note in notes)
    ]
    wrong += [
        f"{key}={asked[key][:40]!r} shows {shown[key]!r}, not {defaults[key]!r}"
        for key in asked
        if shown[key] != defaults[key]
    ]
    if len(notes) != len(asked):
        wrong.append(f"{len(notes)} notes for {len(asked)} values: {notes}")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_section_is_whole_and_fits_and_no_address_breaks_it(visit, page):
    turn, section = PAGES.index(page), f"{page or 'napkin'}_section"
    first, second = SCREENS
    student = visit(page, screen=SCREENS[first], **{section: BAD_SECTIONS[turn % len(BAD_SECTIONS)]})
    expect(student.notes).to_have_count(1)
    question, labels = student.question.inner_text(), student.section_labels()
    student.share_link()
    student.open_menu()
    student.page.keyboard.press("Escape")

    wrong = []
    for label in labels:
        student.section(label)  # on the screen that the last one was seen on: each needs one turn to the other screen
        wrong += [f"{label}, {first}: {fault}" for fault in faults(student)]
        student.page.set_viewport_size(SCREENS[second])
        wrong += [f"{label}, {second}: {fault}" for fault in faults(student)]
        if label == labels[0]:
            assert student.question.inner_text() == question, "an unknown section shows the first"
        first, second = second, first
    assert not wrong, "\n".join(wrong)

    controls = student.bound_controls()  # of the whole page, which is the last label: nobody has touched them
    assert controls, "the page has controls"
    defaults, asked = student.shown(*controls), forged(controls, turn)
    student.open(page, **{section: labels[-1]}, **asked)
    assert not student.broken(), asked
    wrong = untaken(student, asked, defaults)
    assert not wrong, "\n".join(wrong)

    hosts = {urlsplit(url).hostname for url in student.requests if not url.startswith(("data:", "blob:"))}
    assert hosts <= {"localhost", "127.0.0.1"}, [url for url in student.requests if "//localhost" not in url]
    assert not student.errors
