"""What sections offer: predict first, stepping through a lesson, presets, the whole page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_predict_first_hides_the_answer_until_a_guess(visit):
    student = visit("flops_mfu")
    expect(student.predicted).to_be_visible()
    assert student.predicted.inner_text() == "4.79 ZFLOP"
    student.turn("Predict first", on=True)
    expect(student.predicted).to_have_count(0)
    expect(student.page.get_by_test_id("stVegaLiteChart")).to_have_count(0)
    assert "4.79" not in student.page.locator(".stMain").inner_text()

    guess = student.page.get_by_label("Your guess")
    guess.fill("a lot")
    student.button("Guess").click()
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("'a lot' is not a quantity in FLOP")
    expect(student.predicted).to_have_count(0)
    guess.fill("-3")
    guess.press("Enter")
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("a guess must be a positive number")

    guess.fill("1 ZFLOP")
    guess.press("Enter")
    expect(student.page.get_by_text("You guessed 1.00 ZFLOP: 4.8 times too low against the napkin.")).to_be_visible()
    expect(student.predicted).to_have_text("4.79 ZFLOP")
    student.set_number("weeks", 2)  # another prediction: another guess
    expect(student.predicted).to_have_count(0)
    student.page.get_by_label("Your guess").fill("1 YFLOP")
    student.button("Guess").click()
    expect(student.page.get_by_text("times too high")).to_be_visible()

    student.menu("Start", "Napkin")
    expect(student.question).to_have_text("How long does it take to train a language model?")
    expect(student.toggle("Predict first")).to_be_checked()
    expect(student.page.get_by_label("Your guess")).to_be_visible()
    expect(student.predicted).to_have_count(0)
    student.turn("Predict first", on=False)
    expect(student.predicted).to_be_visible()
    student.expect_whole()


def test_a_lesson_steps_back_and_on(visit):
    student = visit("flops_mfu", flops_mfu_section="Count")
    code = student.page.locator(".np-code")
    now, held, later = code.locator(".np-now"), code.locator(".np-held").filter(has_text="="), code.locator(".np-later")
    slider = student.page.get_by_role("slider")
    total = int(slider.get_attribute("max"))
    expect(slider).to_have_value(str(total))
    known, lines = held.count(), [int(now.locator(".np-no").inner_text())]
    assert known >= 2
    for step in range(total - 1, -1, -1):
        student.button("◀").click()
        expect(slider).to_have_value(str(step))
        expect(now).to_have_count(1 if step else 0)
        if step:
            expect(now.locator(".np-no")).not_to_have_text(str(lines[-1]))
            lines.append(int(now.locator(".np-no").inner_text()))
            assert not now.evaluate("e => e.classList.contains('np-later')")
    assert lines == sorted(lines, reverse=True), "line after line"
    expect(held).to_have_count(0)
    assert later.count() >= total
    student.expect_value("flops_mfu_linear_model_step", "0")
    for step in range(1, total + 1):
        student.button("▶").click()
        expect(slider).to_have_value(str(step))
    expect(held).to_have_count(known)
    expect(later).to_have_count(0)
    student.set_number("b", 3)
    expect(code).to_contain_text("98,304")
    student.expect_whole()


def test_presets_set_all_three_dimensions(visit):
    student = visit("flops_mfu", flops_mfu_section="Count")
    student.button("1024³").click()
    for key in "bdk":
        expect(student.field(key)).to_have_value("1024")
    expect(student.predicted).to_have_text("2.15 GFLOP")
    expect(student.page.get_by_text("too large to run while you type")).to_be_visible()
    student.button("lecture, CPU").click()
    for key, value in (("b", "1024"), ("d", "256"), ("k", "64")):
        expect(student.field(key)).to_have_value(value)
    expect(student.predicted).to_have_text("33.6 MFLOP")
    student.expect_value("b")


def test_the_whole_page_shows_all_sections_with_shared_controls(visit):
    student = visit("flops_mfu")
    student.section("Whole page")
    expect(student.question).to_have_count(len(student.section_labels()) - 1)
    student.ready_to_measure()
    student.settle()
    student.expect_whole()
    same = student.page.locator("[class*='st-key-np_same_'][class*='_b'] input")
    expect(same.first).to_have_value("1024")
    shared = same.count()
    assert shared >= 1
    student.set_number("b", 300)
    for place in range(shared):  # by place: another value is another field, and for a moment both are there
        expect(same.nth(place)).to_have_value("300")
        expect(same.nth(place)).to_be_disabled()
    expect(same).to_have_count(shared)
    expect(student.predicted.nth(1)).to_have_text("9.83 MFLOP")
    student.expect_whole()
    student.measure_all()
    student.expect_whole()
