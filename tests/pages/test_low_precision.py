"""Low precision: bytes, vanished gradients and rounded weights, predicted and counted."""

import pytest

from core import jobs, training
from core.training import PRECISIONS
from pages._ui import training_precision
from tests.pages.helpers import choose, open_page, press, rows, text_of, value_of


def at_section(section, **values):
    app = choose(open_page("low_precision"), "low_precision_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def finish(app, key):
    now = jobs.status(app.session_state[key])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    assert now.state == "done", now.error
    app.run()


def test_each_precision_trains_and_its_bytes_are_those_predicted():
    app = at_section("precision", prec_steps=10, prec_wanted=list(PRECISIONS))
    press(app, "prec_job_start")
    finish(app, "prec_job")
    assert (value_of(app), value_of(app, "measured")) == ("4.22 kB", "4.24 kB")  # and 4 bytes for each tensor
    assert "mostly step counters" in text_of(app)
    assert {row["series"] for row in rows(app)} == set(PRECISIONS)
    choose(app, "prec_followed", "fp32")
    assert value_of(app) == "8.45 kB"
    choose(app, "prec_steps", 11)
    assert "press Train in each" in text_of(app)


def test_a_large_batch_makes_fp16_gradients_vanish():
    app = at_section("underflow", under_task="regression, D=16", under_steps=2, under_scale=-40)
    press(app, "under_job_start")
    finish(app, "under_job")
    assert value_of(app, "measured") == "1"
    assert {row["value"] for row in rows(app)} == {100.0}
    choose(app, "under_scale", 0)
    assert "press Look for zeros" in text_of(app)


@pytest.mark.parametrize("name", list(training_precision.BITS))
def test_bytes_of_rounded_weights_to_the_last_one(name):
    config = training_precision.TASKS[list(training_precision.TASKS)[1]]
    (row,) = training.compare_weight_only(training.Trainer(config), (name,), num_batches=1)
    parts = training_precision.weight_parts(config, name)
    predicted = training_precision.predict_weight_bytes(config, name).value + sum(part.value for part in parts)
    # Norms are rows of one vector in bf16: nothing else is there.
    assert row.num_bytes == predicted


def test_loss_against_bytes_on_the_page():
    app = at_section("weights", weights_steps=1, weights_format="int8")
    press(app, "weights_job_start")
    finish(app, "weights_job")
    assert {row["name"] for row in rows(app)} == set(training_precision.BITS)
    assert "mostly" in text_of(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("low_precision"), "predict_first", True)
    for section in ("precision", "underflow", "weights"):
        choose(app, "low_precision_section", section)
        assert not any("np-box np-" in element.proto.body for element in app.get("html"))
        assert not app.get("vega_lite_chart")
