"""Values that no control takes, in the address of one page; ``test_every_section`` has them for every control."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


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
    assert student.shown(*shown) == shown
    assert student.shown("threads") != {"threads": "0"}
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
