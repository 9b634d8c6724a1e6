"""A tensor and its storage light up together, a view is refused with the pair named, a click writes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def grid(student, title):
    return student.page.locator(".np-grid").filter(has_text=title)


def test_pointing_at_a_place_in_storage_lights_its_element(visit):
    student = visit("strides_views", strides_views_section="Chain", strides_chain="x.transpose(1, 0)")
    tensor, storage = grid(student, "the tensor"), grid(student, "its storage")
    expect(tensor.locator(".np-cell")).to_have_text(["0", "3", "1", "4", "2", "5"])
    expect(storage.locator(".np-cell")).to_have_text(["0", "1", "2", "3", "4", "5"])
    storage.locator(".np-cell").nth(4).hover()
    expect(student.page.locator(".np-lit")).to_have_count(2)
    expect(tensor.locator(".np-lit")).to_have_text("4")
    expect(student.page.locator(".np-told")).to_have_text("place 4 is [1, 1]: 0 + 1·1 + 1·3 = 4")
    tensor.locator(".np-cell").nth(5).hover()
    expect(storage.locator(".np-lit")).to_have_text("5")
    expect(student.page.locator(".np-told")).to_have_text("[2, 1] lies at 0 + 2·1 + 1·3 = 5, byte 20")
    student.question.hover()
    expect(student.page.locator(".np-lit")).to_have_count(0)


def test_an_expanded_element_lights_wherever_it_shows(visit):
    student = visit(
        "strides_views", strides_views_section="Chain", strides_shape="1, 3", strides_chain="x.expand(4, 3)"
    )
    grid(student, "its storage").locator(".np-cell").nth(1).hover()
    expect(grid(student, "the tensor").locator(".np-lit")).to_have_count(4)


def test_a_view_is_broken_and_mended(visit):
    student = visit("strides_views", strides_views_section="Chain")
    student.field("strides_chain").fill("x.transpose(1, 0).view(2, 3)")
    student.field("strides_chain").press("Enter")
    sentence = student.page.get_by_text("cannot merge")
    expect(sentence).to_contain_text("Dimensions 0 (size 3, stride 1) and 1 (size 2, stride 3) cannot merge")
    expect(sentence).to_contain_text("stride[0] = size[1] · stride[1] = 2 · 3 = 6, and it is 1")
    expect(sentence).to_contain_text("torch: “view size is not compatible")
    student.expect_value("strides_chain", "x.transpose(1, 0).view(2, 3)")
    student.button("Undo").click()
    expect(sentence).to_have_count(0)
    student.field("strides_op").click()
    student.page.get_by_role("option", name="reshape(size, …)").click()
    student.field("strides_args").fill("2, 3")
    student.field("strides_args").press("Enter")
    student.settle()
    student.button("Append").click()
    student.expect_value("strides_chain", "x.transpose(1, 0).reshape(2, 3)")
    last = student.page.locator(".np-wide tr").last
    expect(last).to_contain_text(".reshape(2, 3)")
    expect(last.locator("span")).to_have_text(["copy", "copy"])
    student.page.reload()
    expect(student.page.locator(".np-wide tr").last).to_contain_text(".reshape(2, 3)")
    student.expect_whole()


def test_the_view_section_names_the_pair(visit):
    student = visit("strides_views", strides_views_section="View")
    expect(student.page.get_by_text("1 ≠ 2 · 3 = 6")).to_be_visible()
    student.button("untouched").click()
    expect(student.page.get_by_text("view(3, 2): view")).to_be_visible()
    expect(student.page.get_by_text("≠")).to_have_count(0)


def test_a_click_writes_through_the_views(visit):
    student = visit("strides_views", strides_views_section="Write")
    copied = grid(student, "3 · view(2, 3)")
    copied.locator(".np-cell").nth(5).click()
    expect(copied.locator(".np-marked")).to_have_text("100")
    expect(grid(student, "2 · contiguous()").locator(".np-marked")).to_have_text("100")
    expect(grid(student, "0 · x").locator(".np-marked")).to_have_count(0)
    student.expect_value("strides_to", "3")
    student.expect_value("strides_at", "1, 2")


def test_a_click_chooses_the_element(visit):
    student = visit("strides_views", strides_views_section="Storage")
    expect(student.predicted).to_have_text("6")
    grid(student, "its storage").locator(".np-cell").nth(13).click()
    expect(student.predicted).to_have_text("13")
    expect(student.field("strides_element")).to_have_value("3, 1")


def test_guessing_a_chain(visit):
    student = visit("strides_views", strides_views_section="Chain", predict_first="true")
    for guess in ("view", "copy", "view"):
        student.button(guess).click()
        expect(student.page.get_by_text(f"You said {guess}: right.")).to_be_visible()
        student.settle()
    expect(student.page.get_by_text("3 of 3 steps right")).to_be_visible()
    student.expect_whole()
