"""A student asks when a training step needs most memory, deals it out to devices, and checks the lecture's count."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def choose(student, key, option):
    """Choose an option of a list."""
    student.control(key).get_by_role("combobox").click()
    student.page.get_by_role("option", name=option, exact=True).click()


def excess(student):
    """How much of the section a projector does not show."""
    return student.page.evaluate(
        "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollHeight - e.clientHeight; }"
    )


def test_a_step_is_metered_cancelled_and_its_peak_moves(visit):
    student = visit("optimizer_memory")
    expect(student.predicted).to_have_text("6.41 GB")
    assert excess(student) <= 0
    student.start_measuring()
    student.button("Cancel").click()
    expect(student.page.get_by_text("Cancelled. Nothing was kept.")).to_be_visible()
    choose(student, "mem_model", "your own")
    student.set_number("mem_batch", 2)
    student.set_number("mem_length", 64)
    student.settle()
    predicted = student.predicted.inner_text()
    student.measure()
    expect(student.measured).to_have_text(predicted)
    expect(student.ratio).to_have_text("1.00×")
    choose(student, "mem_model", "GPT-2 small")
    expect(student.page.get_by_text("The settings have changed")).to_be_visible()
    student.button("Llama 2 7B").click()
    expect(student.predicted).to_have_text("54.2 GB")
    choose(student, "mem_model", "GPT-2 small")
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("seq_len must be a whole number from 1 to 1,024")
    student.button("GPT-2 XL").click()
    expect(student.predicted).to_have_text("29.4 GB")
    student.expect_whole()


def test_what_fits_and_the_assignment_s_exercise(visit):
    student = visit("optimizer_memory", optimizer_memory_section="Fits")
    expect(student.predicted).to_contain_text("sequences")
    expect(student.page.get_by_text("Fits: ")).to_be_visible()
    student.settle()
    assert excess(student) <= 0
    choose(student, "mem_model", "Llama 3 70B")
    expect(student.predicted).to_have_text("0 sequences")
    expect(student.page.get_by_text("Does not fit")).to_be_visible()
    student.section("GPT-2 XL")
    student.settle()
    expect(student.predicted).to_have_text("5 sequences")
    expect(student.page.get_by_text("5,115 days")).to_be_visible()
    student.turn("Checkpoint every block", on=True)
    expect(student.predicted).not_to_have_text("5 sequences")
    student.settle()
    assert excess(student) <= 0
    student.expect_whole()


def test_dealt_out_to_devices_and_the_lecture_s_cruncher(visit):
    student = visit("optimizer_memory", optimizer_memory_section="Sharding")
    before = student.predicted.inner_text()
    choose(student, "mem_stage", "ZeRO 3")
    expect(student.predicted).not_to_have_text(before)
    student.settle()
    assert excess(student) <= 0
    student.control("mem_view").get_by_text("of two processes here").click()
    expect(student.page.get_by_text("GPT-2 small does not fit twice here")).to_be_visible()
    student.start_measuring()
    student.button("Cancel").click()
    expect(student.page.get_by_text("Cancelled. Nothing was kept.")).to_be_visible()
    student.measure()
    expect(student.measured).to_have_text(student.predicted.inner_text())
    expect(student.page.get_by_text("no reduce-scatter in gloo").first).to_be_visible()
    assert excess(student) <= 0
    student.section("Cruncher")
    student.settle()
    expect(student.predicted).to_have_text("496 B")
    expect(student.measured).to_have_text("544 B")
    student.expect_whole()


def test_a_config_json_of_one_s_own(visit):
    student = visit("optimizer_memory", mem_model="your own config.json")
    student.control("mem_source").get_by_role("button").first.click()
    field = student.control("mem_config").locator("textarea")
    shape = '{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": %d, "vocab_size": 50257}'
    field.fill(shape % 7)
    field.press("Control+Enter")
    expect(student.page.get_by_text("d_model must be a multiple of num_heads")).to_be_visible()
    expect(field).to_have_value(shape % 7)
    field.fill(shape % 12)
    field.press("Control+Enter")
    expect(student.predicted).to_have_text("6.41 GB")
    student.page.keyboard.press("Escape")
    student.control("mem_house").get_by_text("Hugging Face").click()
    expect(student.predicted).to_have_text("8.22 GB")
    student.settle()
    assert excess(student) <= 30  # a line more than a listed model has
    student.section("Rules")
    expect(student.page.get_by_text("gpt2: 124 M parameters")).to_be_visible()
    student.expect_whole()
