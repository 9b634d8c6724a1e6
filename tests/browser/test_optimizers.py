"""A student watches optimizers on a surface, step by step, until one diverges."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def excess(student):
    """How much of the section a projector does not show."""
    return student.page.evaluate(
        "() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollHeight - e.clientHeight; }"
    )


def test_a_race_step_by_step_until_sgd_diverges(visit):
    student = visit("optimizers")
    expect(student.ratio).to_have_text("1.00×")
    chart = student.page.get_by_test_id("stVegaLiteChart").first
    box = chart.bounding_box()
    assert box["y"] + box["height"] <= 720  # a projector shows all of the race
    replay, whole = chart.locator(".vega-bind input[type=range]"), chart.screenshot()
    replay.fill("3")
    student.settle()
    assert chart.screenshot() != whole  # drawn anew by the browser: the page still shows step 200
    expect(student.page.locator(".np-predicted .np-label")).to_contain_text("loss after 200 steps")
    student.set_number("opt_condition", 10)
    student.set_number("opt_lr", 0.2)  # exactly where SGD begins to diverge: it swings for ever
    expect(student.page.get_by_text("SGD diverges from lr = 0.200 on")).to_be_visible()
    student.settle()
    student.button("◀").click()
    expect(student.page.locator(".np-predicted .np-label")).to_contain_text("loss after 199 steps")
    student.button("SGD diverges").click()
    expect(student.page.locator(".np-waiting")).to_contain_text("SGD diverged")
    expect(student.predicted).to_contain_text("× 10")
    student.expect_whole()


def test_predict_the_first_step_and_see_what_adam_keeps(visit):
    student = visit("optimizers", optimizers_section="First step", predict_first="true")
    expect(student.predicted).to_have_count(0)
    student.control("np_guess_opt_first").locator("input").fill("-50")
    student.button("Show").click()
    expect(student.measured).to_have_text("−0.0500")
    student.control("opt_first").get_by_text("SGD", exact=True).click()
    student.button("Show").click()
    expect(student.measured).to_have_text("-50")
    student.turn("Predict first", on=False)
    student.section("State")
    expect(student.measured).to_have_text("144 B")
    student.control("opt_state").get_by_text("AdamW", exact=True).click()
    expect(student.measured).to_have_text("300 B")
    student.settle()
    assert excess(student) <= 0
    student.expect_whole()
