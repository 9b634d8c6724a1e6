"""Bits turned over with the mouse and the keyboard, the next number in one press, and a number that is no number."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def bits(student):
    """The bits on screen, from the left."""
    return "".join(student.page.locator(".np-cell").all_inner_texts())


def expect_bits(student, wanted):
    expect(student.page.locator(".np-cell")).to_have_text(list(wanted))


def test_a_click_turns_a_bit_over(visit):
    student = visit("dtypes", dt_number="1")
    expect_bits(student, "0011110000000000")
    student.page.locator(".np-cell").nth(0).click()
    expect_bits(student, "1011110000000000")
    expect(student.field("dt_number")).to_have_value("-1")
    expect(student.predicted).to_have_text("-1")
    student.expect_value("dt_number", "-1")
    student.page.locator(".np-cell").nth(6).click()
    expect_bits(student, "1011111000000000")
    expect(student.field("dt_number")).to_have_value("-1.5")
    expect(student.measured).to_have_text(re.compile("1.50"))
    for place in range(1, 6):  # to NaN, whose bits no decimal keeps
        if bits(student)[place] == "0":
            student.page.locator(".np-cell").nth(place).click()
            expect(student.page.locator(".np-cell").nth(place)).to_have_text("1")
    expect_bits(student, "1111111000000000")
    expect(student.field("dt_number")).to_have_value("0b1111111000000000")
    expect(student.page.get_by_text("NaN, code 0xfe00")).to_be_visible()
    student.expect_whole()


def test_the_next_number_in_one_press_and_by_keyboard(visit):
    student = visit("dtypes", dt_number="1", dt_format="bf16")
    student.button("number above ▶").click()
    expect(student.field("dt_number")).to_have_value("1.0078125")
    expect(student.page.get_by_text("1.0078125", exact=True)).to_be_visible()
    student.button("◀ number below").click()
    expect(student.field("dt_number")).to_have_value("1")
    expect_bits(student, "0011111110000000")
    last = student.page.locator(".np-cell").nth(15)
    last.focus()
    last.press("Enter")
    expect_bits(student, "0011111110000001")
    expect(student.field("dt_number")).to_have_value("1.0078125")


def test_a_line_that_is_no_number_is_refused_and_then_corrected(visit):
    student = visit("dtypes")
    student.set_number("dt_number", "1/0")
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("divides by 0")
    expect(student.page.locator(".np-cell")).to_have_count(0)
    student.set_number("dt_number", "1e-8")
    expect(student.page.get_by_test_id("stAlert")).to_have_count(0)
    expect_bits(student, "0" * 16)
    student.expect_whole()


def test_pointing_at_a_bit_says_what_it_is_worth(visit):
    student = visit("dtypes")
    student.page.locator(".np-cell").nth(1).hover()
    expect(student.page.get_by_text("exponent: worth 16 in the field")).to_be_visible()
