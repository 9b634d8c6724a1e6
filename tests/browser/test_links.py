"""The address holds what is on screen: shared, copied, left with Back and found again."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_shared_link_and_the_address_bar_show_the_same_page(visit):
    student = visit("flops_mfu")
    student.section("Measure")
    student.ready_to_measure()
    student.set_number("b", 512)
    student.expect_value("b", "512")
    student.choose_dtypes("bf16", "fp32")
    student.turn("Predict first", on=True)
    student.button("Show").click()
    expect(student.predicted).to_be_visible()
    predicted = student.predicted.inner_text()
    student.expect_value("predict_first", "true")
    link = student.share_link()
    other = visit(link=link)
    for address in (link, student.page.url):
        if address != link:
            other.open_link(address)
        expect(other.question).to_have_text("How long does it take on this machine?")
        expect(other.toggle("Predict first")).to_be_checked()
        expect(other.field("b")).to_have_value("512")
        pressed = other.control("dtypes").locator("[aria-pressed=true]")
        assert sorted(pressed.all_inner_texts()) == ["bf16", "fp32"]
        expect(other.button("Measure")).to_be_visible()
        expect(other.predicted).to_have_count(0)
        other.button("Show").click()
        expect(other.predicted).to_have_text(predicted)
        expect(other.notes).to_have_count(0)
        other.expect_whole()


def test_a_link_to_a_measurement_shows_it_to_others(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", b=200, dtypes=["fp32", "fp64"])
    student.measure()
    measured = student.measured.inner_text()
    link = student.share_link()
    other = visit(link=link)
    expect(other.measured).to_have_text(measured)
    other.open_link(f"{link}&explained=evil")
    expect(other.measured).to_have_text(measured)
    expect(other.notes).to_contain_text("evil")
    other.expect_whole()


def test_back_and_forward_and_the_menu_keep_the_values(visit):
    student = visit("flops_mfu")
    student.section("Count")
    student.set_number("b", 77)
    student.expect_value("b", "77")
    predicted = "2.52 MFLOP"
    expect(student.predicted).to_have_text(predicted)

    def at_count() -> None:
        expect(student.question).to_have_text("How many FLOPs is a matrix multiply?")
        expect(student.field("b")).to_have_value("77")
        expect(student.predicted).to_have_text(predicted)
        student.settle()
        student.expect_whole()
        expect(student.notes).to_have_count(0)
        assert urlsplit(student.page.url).path == "/flops_mfu"
        student.expect_value("b", "77")
        student.expect_value("flops_mfu_section", "Count")

    def at_start() -> None:
        expect(student.question).to_have_text("How long does it take to train a language model?")
        student.settle()
        student.expect_whole()
        assert urlsplit(student.page.url).path == "/"

    student.menu("Start", "Napkin")
    at_start()
    student.page.go_back()
    at_count()
    student.page.go_forward()
    at_start()
    student.menu("Compute", "FLOPs & MFU")
    at_count()


def test_next_and_previous_turn_the_sections(visit):
    student = visit("flops_mfu")
    expect(student.button("←")).to_be_disabled()
    student.button("→").click()
    expect(student.question).to_have_text("How many FLOPs is a matrix multiply?")
    student.expect_value("flops_mfu_section", "Count")
    student.button("←").click()
    expect(student.question).to_have_text("What is the difference between FLOPs and FLOP/s?")
    student.section(student.section_labels()[-2])
    expect(student.button("→")).to_be_disabled()


def test_the_tour_leads_to_a_section_of_another_page(visit):
    student = visit("", napkin_section="Tour")
    link = student.page.get_by_test_id("stPageLink").locator("a[href*='flops_mfu']").first
    link.click()
    student.page.wait_for_url("**/flops_mfu*")
    student.settle()
    expect(student.question).to_have_count(1)
    student.expect_whole()
