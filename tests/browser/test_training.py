"""A lecturer trains: starts, pauses, reloads, resumes, kills, and hunts a bug."""

from __future__ import annotations

import datetime
import io
import re
import sys

import pytest
import torch
from playwright.sync_api import expect

from core import training
from core.training import TrainConfig
from tests.browser.conftest import new_context, running_app
from tests.browser.student import Student

pytestmark = pytest.mark.browser


def press(student, name):
    button = student.control(f"train_{name}").locator("button")
    expect(button).to_be_enabled()
    button.click()


def state(student, text):
    expect(student.page.get_by_text(re.compile(text)).first).to_be_visible(timeout=90_000)


def test_start_pause_reload_resume_on_the_smallest_run(visit):
    student = visit("training", train_steps_regression=60)
    press(student, "start")
    state(student, r"step \d+ of 60")
    run_id = student.values()["train_run"][0]
    press(student, "pause")
    state(student, r"paused: \d+ of 60 steps")
    expect(student.control("train_resume").locator("button")).to_be_enabled()
    shown = student.page.get_by_text(re.compile(r"paused: \d+ of 60 steps")).first.inner_text()
    student.page.reload()
    state(student, re.escape(shown))
    assert student.values()["train_run"] == [run_id]
    press(student, "step")
    before = int(re.search(r"\d+", shown)[0])
    state(student, f"paused: {before + 1} of 60 steps")
    press(student, "resume")
    state(student, "done: 60 of 60 steps")
    last = list(training.train(TrainConfig(num_steps=60)))[-1].loss
    expect(student.measured).to_have_attribute("title", repr(last))
    student.settle()
    student.expect_whole()


def test_a_killed_run_goes_on(visit):
    student = visit("training", train_steps_regression=100)
    press(student, "start")
    state(student, r"step (2[1-9]|[3-9]\d) of 100")
    press(student, "kill")
    state(student, r"killed: \d+ of 100 steps; resumes at step \d+")
    press(student, "resume")
    state(student, "done: 100 of 100 steps")
    last = list(training.train(TrainConfig(num_steps=100)))[-1].loss
    expect(student.measured).to_have_attribute("title", repr(last))
    student.expect_whole()


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_the_app_is_killed_and_another_one_goes_on(browser, server, visit):
    """The other one is the app of all tests: here both keep their runs in the same folder."""
    with running_app(server.log.with_name("killed.log")) as app:
        student = Student(new_context(browser).new_page(), app.url)
        student.open("training", train_steps_regression=100)
        press(student, "start")
        state(student, r"step (2[1-9]|[3-9]\d) of 100")
        run_id = student.values()["train_run"][0]
        app.process.kill()
        app.process.wait()
        student.page.context.close()
    student = visit("training", train_steps_regression=100, train_run=run_id)
    state(student, r"killed: \d+ of 100 steps; resumes at step [2-9]\d")
    press(student, "resume")
    state(student, "done: 100 of 100 steps")
    last = list(training.train(TrainConfig(num_steps=100)))[-1].loss
    expect(student.measured).to_have_attribute("title", repr(last))
    student.expect_whole()


def test_name_the_bug(visit):
    student = visit("training", training_section="Bugs")
    student.button("Run the loop").click()
    expect(student.page.get_by_text("Show the answer")).to_be_visible(timeout=90_000)
    student.turn("Show the answer", on=True)
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("no optimizer restored")
    student.expect_whole()


def upload(student, name, content):
    student.page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )
    expect(student.page.get_by_test_id("stAlert")).to_have_count(0)  # what was said of another file is gone
    student.button("Inspect").click()


def test_a_stranger_s_checkpoint_is_looked_at_and_a_hostile_one_refused(visit):
    ours, hostile = io.BytesIO(), io.BytesIO()
    training.Trainer(TrainConfig()).save(ours)
    torch.save({"today": datetime.date(2026, 1, 1)}, hostile)
    student = visit("training", training_section="Checkpoints")
    upload(student, "ours.pt", ours.getvalue())
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("A checkpoint before step 0", timeout=90_000)
    student.settle()
    upload(student, "hostile.pt", hostile.getvalue())
    expect(student.page.get_by_test_id("stAlert")).to_contain_text("carries code or objects", timeout=90_000)
    student.expect_whole()
