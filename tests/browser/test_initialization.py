"""A student predicts how large weights should start, measures depth, and counts parameters of models of their own."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 96,
}  # fmt: skip


def choose(student, key, option):
    """Choose an option of a list."""
    student.control(key).get_by_role("combobox").click()
    student.page.get_by_role("option", name=option, exact=True).click()


def fits(student):
    """Whether the section needs no scrolling on a projector."""
    script = (
        "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollHeight - e.clientHeight; }"
    )
    return student.page.evaluate(script) <= 0


def charts_end(student):
    """Where the last chart ends: a lesson may stand below it."""
    student.settle()
    box = student.page.get_by_test_id("stVegaLiteChart").last.bounding_box()
    return box["y"] + box["height"]


def test_a_student_finds_out_what_a_scheme_is_for(visit):
    student = visit("initialization")
    student.turn("Predict first", on=True)
    expect(student.predicted).to_have_count(0)
    student.settle()
    student.page.get_by_label("Your guess").fill("16384")
    student.button("Guess").click()
    expect(student.page.get_by_text("You guessed 16,384: 130 times too high against the napkin")).to_be_visible()
    student.turn("Predict first", on=False)
    expect(student.predicted).to_have_text("128")
    assert charts_end(student) <= 720
    choose(student, "init_scheme", "1/√d")
    expect(student.predicted).to_have_text("1")
    expect(student.measured).to_have_text(re.compile(r"^(1\.0|0\.9)\d"))
    student.expect_value("init_scheme", "1/√d")

    student.section("Truncation")
    expect(student.page.get_by_text("384σ")).to_be_visible()
    expect(student.predicted).to_have_text("0.00781")
    student.settle()
    assert fits(student)
    student.control("init_bound").get_by_text("±3σ", exact=True).click()
    expect(student.predicted).to_have_text("0.00771")
    student.expect_whole()


def test_depth_is_measured_and_cancelled(visit):
    student = visit("initialization", initialization_section="Depth", init_width=1024, init_layers=100)
    student.button("Measure").click()
    student.button("Cancel").click()
    expect(student.page.get_by_text("Cancelled. Nothing was kept.")).to_be_visible()
    student.set_number("init_width", 64)
    student.set_number("init_layers", 30)
    choose(student, "init_scheme", "Kaiming")
    expect(student.predicted).to_have_text("1")
    student.button("Measure").click()
    expect(student.measured).to_be_visible(timeout=90_000)
    student.settle()
    assert fits(student)
    assert 0.8 < float(student.measured.inner_text()) < 1.2
    student.button("Why, in words").click()
    expect(student.opened).to_contain_text("what ReLU keeps")
    student.page.keyboard.press("Escape")
    student.turn("ReLU", on=False)
    expect(student.predicted).to_have_text("1.41")
    expect(student.page.get_by_text("The settings have changed")).to_be_visible()
    student.set_number("init_width", 4096)
    student.set_number("init_layers", 256)
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("the limit here is 512 MiB")
    expect(student.button("Measure")).to_be_disabled()
    student.expect_whole()


def test_parameters_of_the_lecture_s_model_and_of_any(visit):
    student = visit("initialization", initialization_section="Parameters")
    expect(student.page.get_by_text("8,256 parameters")).to_be_visible()
    expect(student.predicted).to_have_text("8.26 K parameters")
    assert charts_end(student) <= 720
    choose(student, "init_model", "GPT-2 small")
    expect(student.page.get_by_text("124,439,808 parameters")).to_be_visible()
    student.button("Build and count").click()
    expect(student.measured).to_have_text("124 M parameters", timeout=90_000)
    student.settle()
    assert fits(student)

    choose(student, "init_model", "any: its config.json")
    box = student.control("init_config").locator("textarea")
    box.fill("rm -rf /")
    box.press("Control+Enter")
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("this is not a config.json")
    box.fill(json.dumps(CONFIG))
    box.press("Control+Enter")
    expect(student.predicted).to_have_text("82.8 K parameters")
    student.button("Build and count").click()
    expect(student.measured).to_have_text("82.8 K parameters", timeout=90_000)
    student.settle()
    assert fits(student)
    assert "hidden_size" not in student.page.url
    uploaded = {"name": "config.json", "mimeType": "application/json",
                "buffer": json.dumps(CONFIG | {"num_hidden_layers": 1}).encode()}  # fmt: skip
    student.page.locator("input[type=file]").set_input_files([uploaded])
    expect(student.predicted).not_to_have_text("82.8 K parameters")
    expect(student.measured).to_have_count(0)
    student.expect_whole()
    assert not student.errors
