"""The einops page in a browser: a broken pattern is fixed, a cell lights up those that it is made of."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def cells(student, title, kind=".np-cell"):
    """The cells of the grid with that title."""
    grid = student.page.locator(".np-grid").filter(has=student.page.locator(".np-grid-title", has_text=title))
    return grid.locator(kind)


def lit(student, title):
    return cells(student, title, ".np-cell.np-lit")


def write(student, key, text):
    student.field(key).fill(text)
    student.field(key).press("Enter")


def test_a_broken_pattern_is_marked_and_fixed(visit):
    student = visit("einops_playground", en_pattern="b (h d -> b h d", en_shape="(2, 6)", en_sizes="h=2")
    refusal = student.page.get_by_test_id("stAlert")
    expect(refusal).to_contain_text("This ( is never closed")
    marked = student.page.get_by_test_id("stCode").first
    assert marked.inner_text().rstrip().splitlines()[-2:] == ["b (h d -> b h d", "  ^"]
    expect(student.measured).to_have_count(0)
    student.page.get_by_text("What einops says").click()
    expect(student.page.get_by_text("Imbalanced parentheses in expression")).to_be_visible()

    write(student, "en_pattern", "b (h d) -> b h e")
    expect(refusal).to_contain_text("“d” is on the left only")
    write(student, "en_pattern", "b (h d) -> b h d")
    expect(refusal).to_have_count(0)
    expect(student.measured).to_have_text("12")
    expect(cells(student, "output (2, 2, 3)")).to_have_count(12)
    student.expect_value("en_pattern", "b (h d) -> b h d")
    student.expect_whole()
    assert not student.errors


def test_pointing_at_a_cell_lights_up_where_it_comes_from(visit):
    student = visit("einops_playground", en_op="max", en_pattern="(h 2) (w 2) -> h w", en_shape="(4, 4)", en_sizes="")
    expect(cells(student, "output (2, 2)")).to_have_text(["5", "7", "13", "15"])
    cells(student, "output (2, 2)").nth(1).hover()
    expect(lit(student, "x (4, 4)")).to_have_text(["2", "3", "6", "7"])
    expect(lit(student, "output (2, 2)")).to_have_text(["7"])
    expect(student.page.locator(".np-told")).to_have_text("output[0, 1] = max of 4 cells")
    cells(student, "x (4, 4)").nth(8).hover()
    expect(lit(student, "output (2, 2)")).to_have_text(["13"])
    expect(lit(student, "x (4, 4)")).to_have_text(["8"])

    student.section("Einsum")
    expect(student.question).to_contain_text("einsum")
    cells(student, "output (2, 3, 3)").nth(1).hover()
    expect(lit(student, "x (2, 3, 4)")).to_have_text(["0", "1", "2", "3"])
    expect(lit(student, "y (2, 3, 4)")).to_have_text(["4", "5", "6", "7"])
    student.expect_whole()


def test_what_is_typed_is_in_the_link_and_comes_back(visit):
    student = visit("einops_playground")
    student.button("patches").click()
    expect(student.field("en_sizes")).to_have_value("p1=2 p2=2")
    write(student, "en_sizes", "p1=2 p2=3")
    expect(cells(student, "output (4, 12)")).to_have_count(48)
    link = student.share_link()
    other = visit(link=link)
    expect(other.field("en_pattern")).to_have_value("(h p1) (w p2) c -> (h w) (p1 p2 c)")
    expect(other.field("en_sizes")).to_have_value("p1=2 p2=3")
    expect(cells(other, "output (4, 12)")).to_have_count(48)
