"""The start page: each control's effect, and what it refuses."""

import json

import pytest

from tests.pages.helpers import ROOT, charts, choose, open_page, press, rows, said, text_of, value_of


def test_the_lectures_first_estimate_greets_the_visitor():
    app = open_page()
    assert value_of(app) == "144 days"
    assert "6 · 70.0 B · 15.0 T / (1,024 · 990 TFLOP/s · 0.5)" in text_of(app)
    assert len(charts(app)) == 1


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("params", 7.0, "14.4 days"),
        ("tokens", 30.0, "288 days"),
        ("train_devices", 2048, "72.0 days"),
        ("train_mfu", 1.0, "72.0 days"),
        ("train_on", "A100 (the lecture's)", "1.25 years"),
    ],
)
def test_each_control_changes_the_days(key, value, shown):
    app = open_page()
    before = charts(app)
    choose(app, key, value)
    assert value_of(app) == shown
    assert charts(app) != before


def test_a_million_devices_have_their_chart():
    app = open_page()
    choose(app, "train_devices", 1_000_000)
    assert not app.warning
    assert len(charts(app)) == 1


def test_the_largest_model_follows_the_recipe():
    app = open_page()
    choose(app, "napkin_section", "largest_model")
    assert value_of(app) == "40.0 B parameters"
    choose(app, "recipe", "bf16, fp32 moments")
    assert value_of(app) == "53.3 B parameters"
    choose(app, "fit_on", "NVIDIA H200 SXM 141GB")
    assert value_of(app) == "94.0 B parameters"
    choose(app, "fit_devices", 1)
    assert value_of(app) == "11.8 B parameters"


@pytest.mark.parametrize(
    ("key", "bad"),
    [("params", "abc"), ("params", "-5"), ("params", "nan"), ("tokens", "1e999"), ("train_devices", "0"),
     ("train_devices", "2.5"), ("train_mfu", "7"), ("train_on", "Toaster 3000"), ("napkin_section", "zzz"),
     ("lecture", "maybe"), ("predict_first", "2")],
)  # fmt: skip
def test_a_forged_value_in_the_address_falls_back_with_a_note(key, bad):
    app = open_page(**{key: bad})
    assert value_of(app) == "144 days"
    assert f"“{bad}”" in said(app.info[0])


def test_a_good_value_in_the_address_is_taken():
    app = open_page(params="7", train_mfu="0.25")
    assert value_of(app) == "28.8 days"
    assert not app.info


def test_predict_first_hides_the_answer_until_the_guess():
    app = open_page()
    choose(app, "predict_first", True)
    assert "144 days" not in text_of(app)
    assert not charts(app)
    choose(app, "np_guess_training_time", "lots")
    assert "'lots' is not a quantity in s" in said(app.warning[0])
    choose(app, "np_guess_training_time", "30 days")
    assert "You guessed 30.0 days: 4.8 times too low against the napkin" in text_of(app)
    assert value_of(app) == "144 days"
    choose(app, "params", 7.0)  # another question: another guess
    assert "14.4 days" not in text_of(app)
    press(app, "np_guess_training_time_show")
    assert value_of(app) == "14.4 days"


def test_the_switches_hold_on_the_other_page_and_values_survive_the_visit():
    app = open_page()
    choose(app, "params", 7.0)
    choose(app, "predict_first", True)
    app.switch_page("pages/flops_mfu.py").run()
    assert app.toggle(key="predict_first").value is True
    app.switch_page("pages/napkin.py").run()
    assert app.number_input(key="params").value == 7.0


def test_lecture_mode_raises_the_type():
    app = open_page()
    before = charts(app)
    choose(app, "lecture", True)
    assert any("font-size: 21px" in element.proto.body for element in app.get("html"))
    assert charts(app) != before


def test_the_whole_page_shows_every_section():
    app = open_page()
    choose(app, "napkin_section", "all")
    text = text_of(app)
    assert "How long does it take to train" in text
    assert "What is the largest model" in text


def test_presets_set_every_control():
    app = open_page()
    press(app, "np_preset_training_time_GPT-3 on 8 H100, MFU 1")
    assert value_of(app) == "1.26 years"  # 65.7 weeks with 174.6 B parameters
    press(app, "np_preset_training_time_lecture: 70B on 15T")
    assert value_of(app) == "144 days"


def test_energy_and_cost_follow_their_inputs():
    app = choose(open_page(), "priced", True)
    assert "2.72 GWh" in text_of(app)
    assert "8,840,000 $" in text_of(app)
    choose(app, "watts", 350.0)
    assert "1.36 GWh" in text_of(app)
    choose(app, "price", 5.0)
    assert "17,700,000 $" in text_of(app)
    choose(app, "pue", 2.2)
    assert "2.72 GWh" in text_of(app)


def test_a_published_run_is_compared_with_the_napkin():
    app = choose(open_page(), "napkin_section", "published_runs")
    assert (value_of(app), value_of(app, "measured")) == ("26.6 M GPU-hours", "30.8 M GPU-hours")
    assert "34.5%" in text_of(app)
    choose(app, "assumed_mfu", 0.2)
    assert value_of(app) == "53.2 M GPU-hours"
    choose(app, "run", "MPT-7B")
    assert value_of(app, "measured") == "100 K GPU-hours"
    assert not app.dataframe  # made when it is opened
    app.session_state["np_all_runs"] = True
    assert app.run().dataframe[0].value.shape[0] == 33


def test_the_attention_explains_the_second_mfu():
    app = choose(open_page(), "napkin_section", "two_mfus")
    assert (value_of(app), value_of(app, "measured")) == ("45.7 %", "45.7 %")
    assert "30.4%" in text_of(app)
    assert "they agree" in text_of(app)
    choose(app, "throughput", "MPT-7B, T = 65,536")
    assert (value_of(app), value_of(app, "measured"), value_of(app, "ratio")) == ("8.21 %", "28.6 %", "3.48×")


def test_the_tour_links_what_is_there():
    app = choose(open_page(), "napkin_section", "stops")
    links = [element.proto for element in app.get("page_link")]
    assert any(link.label.endswith("2·B·D·K") for link in links)
    pages = {path.stem for path in (ROOT / "pages").glob("[a-z]*.py")}
    assert {link.page for link in links} == pages


def test_the_bars_from_predicted_to_measured_stand_in_their_order():
    """Also after a change that adds a part: the browser keeps the names that were there before."""
    app = open_page()
    choose(app, "napkin_section", "two_mfus")
    choose(app, "throughput", "MPT-7B, T = 65,536")
    assert [row["name"] for row in rows(app)] == ["MFU by 6N alone", "attention", "unexplained", "MFU as reported"]
    assert [row["order"] for row in rows(app)] == [0, 1, 2, 3]
    spec = json.loads(app.get("vega_lite_chart")[-1].proto.spec)
    assert all(layer["encoding"]["y"]["sort"] == {"field": "order", "op": "min"} for layer in spec["layer"])
