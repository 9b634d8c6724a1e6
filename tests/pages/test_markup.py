"""HTML without room of its own: it goes with what is shown next, and is never lost."""

import pytest

from pages._ui import frame, markup
from tests.pages.helpers import open_page

WORDS = '<p class="np-spoken">'


def bodies(app):
    return [element.proto.body for element in app.get("html")]


@pytest.mark.parametrize(
    ("section", "spoken", "elements"),
    [
        ("Updates", [1], 1),  # a chart, then a table
        ("Loss scaling", [2], 1),  # two charts, then nothing
        ("Bits", [], 0),
    ],
)
def test_a_charts_words_are_in_the_next_element_or_in_one_of_their_own(section, spoken, elements):
    app = open_page("dtypes", dtypes_section=section)
    assert not app.exception
    with_words = [one for one in bodies(app) if WORDS in one]
    assert [one.count(WORDS) for one in with_words] == spoken
    assert len(with_words) == elements
    if section == "Updates":
        assert "<table" in with_words[0]
    if section == "Loss scaling":
        assert with_words[0].count("<") == 4, "nothing but the words"


@pytest.fixture
def shown(monkeypatch):
    kept = []
    monkeypatch.setattr(markup.st, "html", lambda html, **_layout: kept.append(str(html)))
    return kept


def test_what_waits_is_shown_once(shown):
    with markup.drawn_together():
        markup.with_the_next("<p>one</p>")
        markup.with_the_next("<p>two</p>")
        markup.show("<table></table>")
        markup.show("<p>three</p>")
        markup.with_the_next("<p>four</p>")
        assert shown == ["<p>one</p><p>two</p><table></table>", "<p>three</p>"]
    assert shown[2:] == ["<p>four</p>"]
    with markup.drawn_together():
        markup.show("<p>five</p>")
    assert shown[3:] == ["<p>five</p>"]


def test_what_waits_in_a_run_that_is_broken_off_is_not_shown_in_the_next(shown):
    class BrokenOff(BaseException):
        """As Streamlit's, where a new value comes while the old one is still drawn."""

    def section():
        markup.with_the_next("<p>old</p>")
        raise BrokenOff

    with pytest.raises(BrokenOff):
        frame._guarded(frame.Section("name", "Question?", "Label", section))()
    with markup.drawn_together():
        markup.show("<p>new</p>")
    assert shown == ["<p>new</p>"]
