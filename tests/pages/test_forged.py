"""Values that no control takes, in the address: every control of every page falls back to its default with a note.

In a browser each control has one of them; here it has another, of any kind.
"""

import pytest

from tests.browser.student import PAGES
from tests.browser.test_every_section import BAD_CHOICES, BAD_NUMBERS
from tests.pages.helpers import open_page, said

BAD = (*BAD_NUMBERS, *BAD_CHOICES)


@pytest.mark.parametrize("page", PAGES)
def test_bad_values_fall_back_with_a_note(page):
    section = f"{page or 'napkin'}_section"
    plain = open_page(page, **{section: "Whole page"})
    controls = plain.session_state["_napkin_book"].controls
    asked = {}
    for place, key in enumerate(controls):
        value = BAD[(3 + PAGES.index(page) + place) % len(BAD)]
        if key != section and controls[key].read([value]) is None:  # in a line of text some of them are good
            asked[key] = value
    assert len(asked) > 5
    app = open_page(page, **{section: "Whole page"}, **asked)
    notes = [said(one) for one in app.info if "The link asked for" in said(one)]
    assert len(notes) == len(asked)
    for key, value in asked.items():
        assert app.session_state[key] == plain.session_state[key], key
        assert any(controls[key].label in note and value[:40].strip() in note for note in notes), (key, value)
