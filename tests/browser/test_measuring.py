"""A multiplication predicted, measured, cancelled, reloaded and refused."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LONG = ("fp32", "bf16", "fp16", "fp64")  # about a second for each


def test_predict_then_measure_then_explain(visit):
    student = visit("flops_mfu")
    student.section("Measure")
    student.ready_to_measure()
    before = student.predicted.inner_text()
    expect(student.page.locator(".np-waiting")).to_contain_text("press Measure")
    student.set_number("b", 512)
    expect(student.predicted).not_to_have_text(before)
    student.expect_value("b", "512")
    predicted = student.predicted.inner_text()

    student.measure()
    expect(student.predicted).to_have_text(predicted)
    measured = student.measured.inner_text()
    assert measured.split()[-1] in ("ns", "µs", "ms", "s"), measured
    assert student.ratio.inner_text().endswith("×")
    conditions = student.page.locator(".np-measured .np-detail")
    for part in ("fp32", "thread", "warm-up", "trials", "torch", "half of all trials", "fastest"):
        expect(conditions).to_contain_text(part)

    student.section("MFU")
    expect(student.page.locator(".np-measured .np-label")).to_have_text("Achieved")
    assert student.measured.inner_text().endswith("FLOP/s")
    student.section("Timing")
    expect(student.page.locator(".np-measured .np-label").first).to_have_text("Warm median")
    expect(student.measured.first).to_have_text(measured)
    student.expect_whole()


def test_changed_settings_ask_for_a_new_measurement(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", b=128, d=128, k=128)
    student.measure()
    student.set_number("b", 256)
    expect(student.page.get_by_text("The settings have changed")).to_be_visible()
    expect(student.measured).to_have_count(0)
    student.set_number("b", 128)
    expect(student.measured).to_be_visible()


def test_cancel_and_measure_again(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", dtypes=LONG)
    student.start_measuring()
    student.button("Cancel").click()
    expect(student.page.get_by_text("Cancelled. Nothing was kept.")).to_be_visible()
    expect(student.measured).to_have_count(0)
    student.choose_dtypes("fp32")
    student.measure()
    expect(student.page.get_by_text("Cancelled")).to_have_count(0)


def test_reload_while_measuring(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", b=600, dtypes=LONG[:2])
    student.start_measuring()
    student.page.reload()
    expect(student.button("Cancel")).to_be_visible()
    student.expect_measured()
    expect(student.field("b")).to_have_value("600")
    student.expect_whole()


def test_visits_elsewhere_while_measuring(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure", b=700, dtypes=LONG)
    student.start_measuring()
    student.section("Count")
    expect(student.question).to_have_text("How many FLOPs is a matrix multiply?")
    student.section("Measure")
    expect(student.question).to_have_text("How long does it take on this machine?")
    student.menu("Start", "Napkin")
    expect(student.question).to_have_text("How long does it take to train a language model?")
    student.menu("Compute", "FLOPs & MFU")
    expect(student.question).to_have_text("How long does it take on this machine?")
    expect(student.field("b")).to_have_value("700")
    student.expect_measured()
    student.expect_whole()


def test_too_large_is_refused_in_words(visit):
    student = visit("flops_mfu", flops_mfu_section="Measure")
    student.ready_to_measure()
    student.button("lecture, GPU").click()
    for key, value in (("b", "16384"), ("d", "32768"), ("k", "8192")):
        expect(student.field(key)).to_have_value(value)
    refusal = student.page.get_by_test_id("stAlert")
    expect(refusal).to_contain_text("3.50 GiB")
    expect(refusal).to_contain_text("1.00 GiB")
    expect(student.button("Measure")).to_be_disabled()
    student.button("256³").click()
    for key in "bdk":
        expect(student.field(key)).to_have_value("256")
    expect(student.button("Measure")).to_be_enabled()
    expect(refusal).to_have_count(0)
