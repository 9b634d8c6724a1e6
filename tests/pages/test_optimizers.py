"""Optimizers: each control's effect, the lecture's values, and what diverges."""

import json

import pytest

from core import optimizers
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of


def at_section(section, **values):
    app = choose(open_page("optimizers"), "optimizers_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def ends(app):
    """Where each optimizer is on the surface."""
    return {row["optimizer"]: (row["x"], row["y"]) for row in rows(app, 0) if row.get("last")}


def test_sgd_ends_where_its_closed_form_says():
    app = at_section("surface")
    predicted, measured, ratio = figures(app)
    assert predicted == measured
    assert ratio == "1.00×"
    went = optimizers.trajectory("quadratic", "sgd", 0.05, steps=200, condition=25.0)
    assert ends(app)["SGD"] == went.points[-1]
    assert set(ends(app)) == {"SGD", "Momentum", "AdaGrad", "RMSProp", "Adam"}
    assert "SGD diverges from lr = 0.0800 on; Momentum diverges from lr = 0.152 on" in text_of(app)


@pytest.mark.parametrize(
    ("key", "value"),
    [("opt_surface", "beale"), ("opt_condition", 3.0), ("opt_lr", 0.01), ("opt_x_quadratic", 2.0),
     ("opt_y_quadratic", -1.0), ("opt_who", ["SGD", "Muon"]), ("optimizers_race_step", 17)],
)  # fmt: skip
def test_each_control_changes_where_they_go(key, value):
    app = at_section("surface")
    before = ends(app)
    choose(app, key, value)
    assert ends(app) != before
    assert "This section failed" not in text_of(app)


def test_a_race_is_stepped_through():
    app = at_section("surface", optimizers_race_step=0)
    assert set(ends(app).values()) == {(-4.0, 1.5)}
    assert value_of(app) == value_of(app, "measured") == "36.1"
    press(app, "np_on_optimizers_race_step")
    assert ends(app)["SGD"] == optimizers.trajectory("quadratic", "sgd", 0.05, steps=1, condition=25.0).points[1]
    assert max(row["step"] for row in rows(app, 1)) == 1


def test_a_race_is_replayed_in_the_browser():
    app = at_section("surface", optimizers_race_step=60)
    spec = json.loads(app.get("vega_lite_chart")[0].proto.spec)
    frame = next(one for one in spec["params"] if one["name"] == "frame")
    assert frame["value"] == frame["bind"]["max"] == 200
    assert {row["end"] for row in rows(app, 0) if row.get("end") is not None} == {60}
    assert {row["step"] for row in rows(app, 0) if row.get("optimizer") == "Adam"} == set(range(61))


def test_the_one_predicted_always_runs():
    app = at_section("surface", opt_who=["Adam"], opt_followed="Momentum")
    assert set(ends(app)) == {"Momentum", "Adam"}
    assert figures(app)[2] == "1.00×"
    choose(app, "opt_followed", "Adam")
    assert figures(app)[0] == "unknown"
    assert "no closed form for Adam on this surface: take the steps" in text_of(app)


def test_beyond_its_limit_sgd_diverges():
    app = at_section("surface")
    press(app, "np_preset_surface_SGD diverges")
    went = optimizers.trajectory("quadratic", "sgd", 0.085, steps=200, condition=25.0)
    assert went.diverged_at is not None
    assert f"SGD diverged: after {went.diverged_at:,} steps it was beyond a million" in text_of(app)
    choose(app, "optimizers_race_step", went.diverged_at - 1)
    assert figures(app)[2] == "1.00×"


def test_a_start_beyond_the_window_is_refused():
    app = open_page("optimizers", opt_x_quadratic="99")
    assert "“99”" in said(app.info[0])
    assert ends(app)


@pytest.mark.parametrize("gradient", [-1000.0, 0.001, 1e6])
def test_adagrad_s_first_step_is_the_learning_rate(gradient):
    app = at_section("first_step", opt_lr=0.1, opt_g=gradient)
    shown = "0.100" if gradient < 0 else "−0.100"
    assert figures(app) == (shown, shown, "1.00×")


def test_first_steps_of_the_others():
    app = at_section("first_step", opt_lr=0.1, opt_first="sgd")
    assert value_of(app, "measured") == "-100"
    choose(app, "opt_first", "rmsprop")
    assert value_of(app, "measured") == "−1.00"
    drawn = {(row["optimizer"], row["g"]): row["measured"] for row in rows(app) if row.get("g")}
    assert drawn["SGD", 1.0] == pytest.approx(0.1)
    assert drawn["AdaGrad", 1e-6] == pytest.approx(0.1, rel=1e-3)
    assert drawn["Adam", 1e-12] < 1e-4  # ε is larger than the gradient
    choose(app, "opt_g", 0.0)
    assert "This section failed" not in text_of(app)
    before = charts(app)
    choose(app, "opt_lr", 0.2)
    assert charts(app) != before


def test_the_lesson_is_adagrad_by_hand():
    app = at_section("first_step", opt_lr=0.1, opt_g=8.0)
    assert "→ [−0.100, −0.171, −0.228]" in text_of(app)
    assert "s = 192" in text_of(app)


def test_state_of_the_lecture_s_cruncher():
    app = at_section("state")
    assert figures(app) == ("144 B", "144 B", "1.00×")
    held = {row["optimizer"]: row["bytes"] for row in rows(app) if row.get("bytes") is not None}
    assert held == {"SGD": 0, "Momentum": 144, "AdaGrad": 144, "RMSProp": 144, "Adam": 300, "AdamW": 300,
                    "Adafactor": 96, "Muon": 144}  # fmt: skip
    choose(app, "opt_state", "AdamW")
    assert figures(app)[1] == "300 B"
    choose(app, "opt_dtype", "bf16")
    assert figures(app)[1] == "156 B"
    choose(app, "opt_dim", 4096)
    choose(app, "opt_layers", 32)
    assert figures(app)[1] == "2.15 GB"
    assert rows(app)[-1]["bytes"] < rows(app)[0]["bytes"] or rows(app)[0]["bytes"] == 0


def test_predict_first_hides_every_answer():
    app = choose(open_page("optimizers"), "predict_first", True)
    for section in ("surface", "first_step", "state"):
        choose(app, "optimizers_section", section)
        assert not any("np-box np-" in element.proto.body for element in app.get("html"))
        assert not app.get("vega_lite_chart")
        assert "by_optimizer" not in text_of(app)
    choose(app, "np_guess_opt_state", "300 B")
    assert "You guessed 300 B: 2.1 times too high against the napkin" in text_of(app)
