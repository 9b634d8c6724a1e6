"""What a student does on the start page, with sweep and roofline, a Transformer's FLOPs, and gradients."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def choose(student, key, option):
    """Choose an option of a list."""
    student.control(key).get_by_role("combobox").click()
    student.page.get_by_role("option", name=option, exact=True).click()


def press(student, key, option):
    """Press one of a few options that stand side by side."""
    student.control(key).get_by_text(option, exact=True).first.click()


def charts(student):
    return student.page.get_by_test_id("stVegaLiteChart")


def test_how_long_training_takes_and_what_it_costs(visit):
    student = visit("")
    expect(student.predicted.first).to_have_text("144 days")
    expect(student.page.locator(".np-predicted .np-detail").first).to_contain_text("6 · 70.0 B")
    student.set_number("train_devices", 2048)
    expect(student.predicted.first).to_have_text("72.0 days")
    student.turn("Energy and cost", on=True)
    expect(student.predicted).to_have_count(3)
    before = student.predicted.nth(2).inner_text()
    assert before.endswith(" $"), before
    student.set_number("price", 5)
    expect(student.predicted.nth(2)).not_to_have_text(before)
    expect(student.predicted.first).to_have_text("72.0 days")
    link = student.share_link()
    other = visit(link=link)
    expect(other.predicted.first).to_have_text("72.0 days")
    expect(other.field("price")).to_have_value("5.00")
    other.expect_whole()


def test_the_largest_model_by_recipe(visit):
    student = visit("", napkin_section="Largest model")
    predicted = student.predicted.first
    expect(predicted).to_have_text("40.0 B parameters")
    choose(student, "recipe", "bf16, fp32 moments")
    expect(predicted).to_have_text("53.3 B parameters")
    student.set_number("fit_devices", 16)
    expect(predicted).to_have_text("107 B parameters")
    expect(charts(student)).to_have_count(1)
    student.expect_whole()


def test_published_runs_and_the_two_mfus(visit):
    student = visit("", napkin_section="Published runs")
    expect(student.predicted).to_have_text("26.6 M GPU-hours")
    expect(student.measured).to_have_text("30.8 M GPU-hours")
    student.set_number("assumed_mfu", 0.345)
    expect(student.ratio).to_have_text(re.compile(r"^1(\.0\d*)?×$"))
    student.section("Two MFUs")
    expect(student.measured).to_have_text("45.7 %")
    press(student, "throughput", "MPT-7B, T = 65,536")
    expect(student.predicted).to_have_text("8.21 %")
    expect(student.measured).to_have_text("28.6 %")
    student.button("Why, in words").click()
    expect(student.opened).to_contain_text("attention")
    student.page.keyboard.press("Escape")
    student.button("Copy as Python").click()
    copy = student.opened.get_by_role("button", name="Copy")
    copy.click()
    expect(copy).to_have_class("np-copy np-copied")
    assert student.page.evaluate("getSelection().toString()").startswith("from core import napkin\n")
    student.page.keyboard.press("Escape")
    expect(student.opened).to_have_count(0)
    student.expect_whole()


def test_the_tour_leads_to_the_control_that_shows_a_stop(visit):
    student = visit("", napkin_section="Tour")
    student.page.get_by_role("link", name=re.compile("§5.6")).click()
    expect(student.question).to_have_text("How many FLOPs is the backward pass?")
    expect(student.measured).to_have_text("201 MFLOP")
    student.page.go_back()
    expect(student.page.get_by_role("link", name=re.compile("§5.6"))).to_be_visible()
    student.expect_whole()


def test_a_sweep_runs_in_the_background_and_draws_itself(visit):
    student = visit("flops_mfu", flops_mfu_section="Sweep")
    student.button("Sweep").click()
    expect(student.button("Cancel")).to_be_visible()
    expect(charts(student).first).to_be_visible(timeout=120_000)
    # A size with its conditions; on a machine that was busy meanwhile, that there is none.
    outcome = student.page.locator(".np-measured .np-detail, .np-waiting .np-detail")
    expect(outcome).to_contain_text(re.compile("thread|no square of this sweep reached half"))
    shown = outcome.inner_text()
    student.page.reload()  # the sweep is found again by its number in the address
    expect(outcome).to_have_text(shown)
    student.expect_whole()


def test_the_roofline_places_operations_and_one_s_own_matmul(visit):
    student = visit("flops_mfu", flops_mfu_section="Roofline", b=64, d=64, k=64)
    expect(charts(student)).to_have_count(1, timeout=120_000)
    student.button("Measure").click()
    expect(student.measured).to_be_visible(timeout=120_000)
    bound = student.page.get_by_text(re.compile("(memory|compute)-bound")).first
    expect(bound).to_be_visible()
    press(student, "operation", "relu")
    expect(student.page.get_by_text("memory-bound").first).to_be_visible()
    expect(student.measured).to_be_visible()
    student.expect_whole()


def test_where_a_transformer_s_flops_go(visit):
    student = visit("transformer_flops")
    expect(student.predicted).to_have_text("875 GFLOP")
    student.button("Count with torch").click()
    expect(student.measured).to_have_text("875 GFLOP", timeout=120_000)
    expect(student.ratio).to_have_text("1.00×")
    student.section("Context length")
    student.settle()  # for a moment both sections' figures are on the page
    choose(student, "model", "GPT-2 XL")
    student.set_number("context", 16384)
    expect(student.predicted).to_have_text("61.8 %")
    student.turn("Count only what a causal mask keeps", on=True)
    expect(student.predicted).not_to_have_text("61.8 %")
    student.section("Rules of thumb")
    expect(student.page.get_by_role("region", name="rules of thumb beside the exact count")).to_be_visible()
    student.expect_whole()


def test_a_shape_of_one_s_own(visit):
    student = visit("transformer_flops")
    choose(student, "model", "your own")
    before = student.predicted.inner_text()
    student.set_number("own_num_layers", 3)
    expect(student.predicted).not_to_have_text(before)
    student.expect_whole()


def test_gradients_are_given_and_withheld(visit):
    student = visit("gradients")
    expect(student.measured).to_have_text("3")
    student.turn("w requires a gradient", on=False)
    expect(student.page.get_by_text("torch refuses backward()")).to_be_visible()
    student.turn("x requires a gradient", on=True)
    expect(student.page.get_by_text("torch refuses backward()")).to_have_count(0)
    student.turn("w requires a gradient", on=True)
    student.section("Backward")
    student.settle()  # for a moment both sections' controls are on the page
    expect(student.measured).to_have_text("201 MFLOP")
    student.turn("x requires a gradient", on=True)
    expect(student.measured).to_have_text("336 MFLOP")
    student.section("Accumulation")
    student.set_number("grad_times", 4)
    expect(student.measured).to_have_text("12")
    press(student, "grad_trace", "zero_grad()")
    expect(student.measured).to_have_text("3")
    student.expect_whole()


def test_forward_and_backward_are_timed(visit):
    student = visit("gradients", gradients_section="Time", grad_b=64, grad_d=32, grad_k=8)
    student.button("Measure").click()
    expect(student.measured).to_be_visible(timeout=120_000)
    expect(student.page.get_by_text("Forward took")).to_be_visible()
    student.expect_whole()
