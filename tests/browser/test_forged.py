"""Values that no control takes, in the address: each falls back to its default with a note, and never a traceback."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.student import PAGES

pytestmark = pytest.mark.browser

BAD_NUMBERS = ("abc", "-1e30", "nan", "999999999999999", "", "0x10", "1 000", "<b>7</b>")
INFINITE = ("1e999", "-inf", "9" * 400)
BAD_CHOICES = ("evil", "", "0", "None", "x" * 500, "<script>alert(1)</script>", "[]")
TURNS = 2  # of each kind of bad number for each control: more take minutes; page tests try some of the others


def forged(controls: dict[str, str], turn: int) -> dict[str, str]:
    """A bad value for every control, each turn another: numbers are infinite in the last turns."""
    numbers, number = (BAD_NUMBERS, turn) if turn < TURNS else (INFINITE, turn - TURNS)
    bad = {"number": (numbers, number), "choice": (BAD_CHOICES, turn), "switch": (BAD_CHOICES, turn)}
    return {
        key: bad[kind][0][(bad[kind][1] + place) % len(bad[kind][0])]
        for place, (key, kind) in enumerate(controls.items())
        if kind in bad
    }


@pytest.mark.parametrize("page", PAGES)
def test_bad_values_fall_back_with_a_note(visit, page):
    """Every control of the whole page shows its default, and a note."""
    section = {f"{page or 'napkin'}_section": "Whole page"}
    student = visit(page, **section)
    controls = student.bound_controls()
    defaults = {key: student.shown(key) for key in forged(controls, 0)}
    assert defaults, "the page has controls"
    wrong = []
    other = PAGES.index(page) % TURNS  # all controls read the address in one place: on each page half of the values
    for turn in (other, TURNS + other):
        asked = forged(controls, turn)
        student.open(page, **section, **asked)
        assert not student.broken(), asked
        notes = student.notes.all_inner_texts()
        for key, value in asked.items():
            if not any(f"“{value[:40].strip()}”" in note for note in notes):
                wrong.append(f"{key}={value[:40]!r} has no note")
            if student.shown(key) != defaults[key]:
                wrong.append(f"{key}={value[:40]!r} shows {student.shown(key)!r}, not {defaults[key]!r}")
        if len(notes) != len(asked):
            wrong.append(f"{len(notes)} notes for {len(asked)} values: {notes}")
    assert not wrong, "\n".join(wrong)


def test_fractions_and_values_below_the_bounds_fall_back_with_a_note(visit):
    asked = {
        "b": "1.5",
        "d": "-5",
        "k": "0",
        "threads": "0",
        "devices": "2.5",
        "weeks": "-1",
        "mfu": "0",
        "dtypes": "FP32",
    }
    student = visit("flops_mfu", flops_mfu_section="Whole page", **asked)
    expect(student.notes).to_have_count(len(asked))
    shown = {"b": "1024", "d": "256", "k": "64", "devices": "8", "weeks": "1.00", "mfu": "1.00", "dtypes": "fp32"}
    assert {key: student.shown(key) for key in shown} == shown
    assert student.shown("threads") != "0"
    student.expect_whole()


@pytest.mark.parametrize("page", PAGES)
def test_an_unknown_section_shows_the_first_with_a_note(visit, page):
    student = visit(page)
    first = student.question.inner_text()
    bad = ("zzz", "", "99")[PAGES.index(page) % 3]
    student.open(page, **{f"{page or 'napkin'}_section": bad})
    expect(student.question).to_have_text(first)
    expect(student.notes).to_have_count(1)
    student.expect_whole()


def test_a_forged_measurement_is_no_longer_here(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", measured="forged")
    student.ready_to_measure()
    expect(student.page.get_by_text("no longer here")).to_be_visible()
    student.expect_whole()
    student.measure()
    expect(student.page.get_by_text("no longer here")).to_have_count(0)
    student.open("flops_mfu", flops_mfu_section="MFU", measured="../" * 40)
    expect(student.page.get_by_text("Press Measure to see it.")).to_be_visible()
    student.expect_whole()


def test_a_bad_value_for_another_section_is_noted_there(visit):
    student = visit("flops_mfu", flops_mfu_section="Count", weeks="-1")
    student.section("Scale")
    expect(student.field("weeks")).to_have_value("1.00")
    expect(student.notes).to_have_count(1)
    student.set_number("weeks", 2)
    expect(student.field("weeks")).to_have_value("2.00")
    student.section("Count")
    expect(student.notes).to_have_count(0)


def test_good_values_have_no_note(visit):
    student = visit(
        "flops_mfu", flops_mfu_section="Whole page", b=64, d="100", k=7, weeks="2", mfu=0.4, dtypes=["fp64", "fp32"],
        lecture="true", predict_first="false", scale_dtype="fp16", devices=1000, flops_mfu_linear_model_step=2,
    )  # fmt: skip
    expect(student.field("b")).to_have_value("64")
    expect(student.field("weeks")).to_have_value("2.00")
    expect(student.toggle("Lecture")).to_be_checked()
    assert sorted(student.control("dtypes").locator("[aria-pressed=true]").all_inner_texts()) == ["fp32", "fp64"]
    expect(student.notes).to_have_count(0)
    student.expect_whole()


def test_a_number_typed_out_of_bounds_is_not_taken(visit):
    student = visit("flops_mfu", flops_mfu_section="Count")
    before = student.predicted.inner_text()
    student.set_number("b", -5)
    student.settle()
    student.expect_whole()
    expect(student.predicted).to_have_text(before)
