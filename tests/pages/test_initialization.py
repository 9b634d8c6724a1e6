"""Initialization: each control's effect, the lecture's values, measured runs, and config files good and hostile."""

import json
import re

import pytest

from core import jobs, models
from core.models.picture import share_beyond, weight_histogram
from tests.pages.helpers import choose, open_page, press, rows, said, text_of, value_of

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 96, "attention_dropout": 0.1,
}  # fmt: skip


def at_section(section, **values):
    app = choose(open_page("initialization"), "initialization_section", section)
    for key, value in values.items():
        choose(app, key, value)
    assert "This section failed" not in text_of(app)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured")


def finish(app, key):
    """Wait for the job under that key, and show what came of it."""
    now = jobs.status(app.session_state[key])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    assert now.state == "done", now.error
    app.run()


def having(app, field, index=-1):
    return [row for row in rows(app, index) if row.get(field) is not None]


def labels(app, index):
    return {row["label"] for row in having(app, "label", index)}


def test_the_lecture_s_output_grows_as_the_root_of_its_input():
    app = at_section("output")
    predicted, measured = figures(app)
    assert predicted == "128"
    assert float(measured) == pytest.approx(128, rel=0.05)
    assert "standard error of 2.00" in text_of(app)
    by_dim = {row["d"]: row["measured"] for row in having(app, "measured") if row["scheme"] == "standard normal"}
    assert by_dim.keys() == {16, 64, 256, 1024}
    for d, std in by_dim.items():
        assert std == pytest.approx(d**0.5, rel=0.1)
    assert len({row["scheme"] for row in having(app, "measured")}) == len(models.SCHEMES)
    for held in ("bound_in_sigmas = 384", "lecture_DK = (16384, 32)", "std = 0.00781"):
        assert held in text_of(app)


@pytest.mark.parametrize(("scheme", "predicted"), [("one_over_sqrt", "1"), ("kaiming", "1.41"), ("truncated", "0.987"),
                                                   ("lecture_truncated", "1"), ("xavier_normal", "1.41")])  # fmt: skip
def test_each_scheme_has_its_output(scheme, predicted):
    app = at_section("output", init_scheme=scheme)
    assert value_of(app) == predicted
    assert float(value_of(app, "measured")) == pytest.approx(float(predicted), rel=0.05)
    assert [row["scheme"] for row in having(app, "here")] == [models.SCHEMES[scheme].name]


def test_sizes_and_seed_change_what_is_drawn():
    app = at_section("output")
    first = figures(app)
    choose(app, "init_seed", 1)
    assert value_of(app) == first[0]
    assert value_of(app, "measured") != first[1]
    choose(app, "init_d", 400)
    assert value_of(app) == "20"
    assert [row["d"] for row in having(app, "here")] == [400]
    choose(app, "init_scheme", "xavier_uniform")
    before = value_of(app)
    choose(app, "init_k", 256)
    assert value_of(app) != before
    assert "w_DK = (400, 256)" in text_of(app)
    choose(app, "init_d", 32768)
    assert "with the lecture's sizes" in text_of(app)
    choose(app, "init_d", 1)
    assert "This section failed" not in text_of(app)


def test_three_truncates_nothing_and_three_sigmas_do():
    app = at_section("truncation")
    assert figures(app) == ("0.00781", "0.00781")
    assert "**384σ**: **nothing** of a normal lies beyond" in text_of(app)
    assert "(predicted 0.270%)" in text_of(app)
    reach = {row["bound"]: row["high"] for row in sorted(having(app, "measured"), key=lambda row: row["high"])}
    assert reach["±3σ"] == 3
    assert reach["±3 (the lecture's)"] >= 4
    choose(app, "init_bound", "truncated")
    assert value_of(app) == "0.00771"
    assert "**3σ**: **0.270%** of a normal lies beyond" in text_of(app)
    assert "**nothing** is beyond ±3σ (predicted nothing)" in text_of(app)
    assert {row["bound"] for row in having(app, "predicted") if row["chosen"]} == {"±3σ"}


def test_the_bound_moves_with_the_width_and_draws_with_the_seed():
    app = at_section("truncation", init_d=4)
    assert "**6σ**" in text_of(app)
    choose(app, "init_d", 1)
    assert "**3σ**" in text_of(app)
    measured = having(app, "measured")
    choose(app, "init_seed", 5)
    assert having(app, "measured") != measured
    predicted, share = share_beyond(weight_histogram("lecture_truncated", 16384, 2**18), 3)
    assert share == pytest.approx(predicted, rel=0.2)


def test_depth_predicted_then_measured():
    app = at_section("depth", init_scheme="kaiming", init_width=64, init_layers=40, init_batch=16)
    assert value_of(app) == "1"
    assert "press Measure" in text_of(app)
    assert not having(app, "measured", 0)
    predicted = [row["predicted"] for row in having(app, "predicted", 0) if row["scheme"] == "1/√d"]
    assert predicted == pytest.approx([0.5 ** (layer / 2) for layer in range(41)])
    press(app, "init_gains_start")
    finish(app, "init_gains")
    assert float(value_of(app, "measured")) == pytest.approx(1, abs=0.1)
    for index in (0, 1):
        by_scheme = {row["scheme"] for row in having(app, "measured", index)}
        assert len(by_scheme) == len(models.SCHEMES)
    run = models.measure_gains("one_over_sqrt", 64, 40, 16)
    shown = [row["measured"] for row in having(app, "measured", 1) if row["scheme"] == "1/√d"]
    assert shown == pytest.approx(list(run.gradient_rms))
    before = value_of(app, "measured")
    choose(app, "init_of", "gradients")
    assert value_of(app, "measured") != before
    choose(app, "init_relu", False)
    assert value_of(app) == "1.41"
    assert "The settings have changed" in text_of(app)


def test_what_leaves_fp32_says_at_which_layer():
    app = at_section("depth", init_width=256, init_layers=35, init_batch=1, init_relu=False)
    assert value_of(app) == "16"
    press(app, "init_gains_start")
    finish(app, "init_gains")
    at = models.measure_gains("standard_normal", 256, 35, 1, relu=False).overflow_at
    assert f"standard normal, beyond fp32 at layer {at}" in labels(app, 0)
    assert all(row["measured"] < 3.5e38 for row in having(app, "measured", 0))


def test_a_network_without_a_living_unit_is_told_in_words():
    app = at_section("depth", init_width=1, init_layers=200, init_batch=1)
    press(app, "init_gains_start")
    finish(app, "init_gains")
    choose(app, "init_of", "gradients")
    assert "the gradient left what fp32 can hold" in text_of(app)
    assert not app.error


def test_what_is_too_large_cannot_be_measured():
    app = at_section("depth", init_width=4096, init_layers=256)
    assert "17." in said(app.warning[0])
    assert "the limit here is 512 MiB" in said(app.warning[0])
    assert app.button(key="init_gains_start").disabled


def test_the_lecture_s_cruncher_has_8256_parameters():
    app = at_section("parameters")
    assert figures(app) == ("8.26 K parameters", "8.26 K parameters")
    text = text_of(app)
    for shown in ("**8,256** parameters: 33.0 kB in fp32", "2 · 64² + 64", "→ 8,256", "sizes = [4,096, 4,096, 64]"):
        assert shown in text
    table = app.dataframe[0].value
    assert table["parameter"].tolist() == ["layers.0.weight", "layers.1.weight", "head.weight"]
    assert table["entries"].tolist() == [4096, 4096, 64]
    assert {row["kind"]: row["numel"] for row in rows(app)} == {"hidden layers": 8192, "head": 64}
    choose(app, "init_cruncher_layers", 3)
    choose(app, "init_cruncher_dim", 10)
    assert "**310** parameters" in text_of(app)
    assert "→ 310" in text_of(app)
    choose(app, "init_cruncher_dim", 131072)
    assert "**51,539,738,624** parameters" in text_of(app)
    assert "with the lecture's sizes" in text_of(app)


def test_a_published_model_predicted_then_counted():
    app = at_section("parameters", init_model="gpt2")
    assert value_of(app) == "124 M parameters"
    assert "**124,439,808** parameters" in text_of(app)
    assert not app.dataframe
    press(app, "init_counted_start")
    finish(app, "init_counted")
    assert figures(app) == ("124 M parameters", "124 M parameters")
    assert app.dataframe[0].value["entries"].sum() == 124_439_808
    assert sum(row["numel"] for row in rows(app)) == 124_439_808
    assert [row["kind"] for row in rows(app)] == ["embeddings", "attention", "feed-forward", "norms"]
    choose(app, "init_model", "qwen3-0.6b")
    assert not app.dataframe
    assert "**596,049,920** parameters" in text_of(app)


def paste(app, text):
    app.text_area(key="init_config").set_value(text).run()
    assert not app.exception
    assert "This section failed" not in text_of(app)
    return app


def test_a_pasted_config_is_predicted_counted_and_never_in_the_address():
    app = at_section("parameters", init_model="own")
    assert "Nothing is downloaded" in said(app.info[0])
    paste(app, json.dumps(LLAMA))
    expected = models.config_from_huggingface(LLAMA)
    assert f"**{expected.num_params:,}** parameters" in text_of(app)
    assert "Dropout (attention_dropout) is left out." in text_of(app)
    press(app, "init_counted_start")
    finish(app, "init_counted")
    assert app.dataframe[0].value["entries"].sum() == expected.num_params
    assert "init_config" not in app.query_params
    assert not any("hidden_size" in str(value) for value in app.query_params.values())
    paste(app, json.dumps(LLAMA | {"hidden_size": 128}))
    assert not app.dataframe
    choose(app, "init_model", "cruncher")
    choose(app, "init_model", "own")
    assert '"hidden_size": 128' in app.text_area(key="init_config").value


def test_an_uploaded_config_wins_over_the_pasted():
    app = at_section("parameters", init_model="own")
    paste(app, "nonsense")
    app.file_uploader(key="init_config_file").upload("config.json", json.dumps(LLAMA).encode(), "application/json")
    app.run()
    assert f"**{models.config_from_huggingface(LLAMA).num_params:,}** parameters" in text_of(app)
    app.file_uploader(key="init_config_file").upload("config.json", b"x" * 200_001, "application/json")
    app.run()
    assert "at most 200,000 bytes; this one has 200,001" in said(app.warning[0])
    app.file_uploader(key="init_config_file").upload("config.json", b"\xff\xfe\x00", "application/json")
    app.run()
    assert "this is not a config.json" in said(app.warning[0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os", "this is not a config.json"),
        ("[1, 2]", "a config.json holds an object"),
        ("[" * 100_000, "nested too deeply|not a config.json"),
        ('{"model_type": "bert"}', "model_type must be one of gpt2, llama"),
        (json.dumps(LLAMA | {"num_hidden_layers": 10**12}), "num_hidden_layers must be a whole number from 1 to 1,024"),
        (json.dumps(LLAMA | {"hidden_size": "__import__('os')"}), "hidden_size must be a whole number"),
        (json.dumps(LLAMA | {"num_attention_heads": 7}), "must be a multiple of num_heads"),
        ('{"model_type": "llama", "hidden_size": NaN}', "NaN is no JSON"),
    ],
)  # fmt: skip
def test_a_wrong_or_hostile_config_gets_a_sentence(text, told):
    app = paste(at_section("parameters", init_model="own"), text)
    assert re.search(told, said(app.warning[0]))
    assert not app.error


def test_predict_first_hides_every_answer():
    app = choose(open_page("initialization"), "predict_first", True)
    for section, hidden in (("output", "128"), ("truncation", "384"), ("depth", "11.3"), ("parameters", "8,256")):
        choose(app, "initialization_section", section)
        assert not any('np-box np-predicted"' in one.proto.body for one in app.get("html"))
        assert not app.dataframe
        assert not app.get("vega_lite_chart")
        assert hidden not in text_of(app)
    choose(app, "np_guess_init_parameters", "8 K")
    assert "You guessed 8.00 K parameters" in text_of(app)
    assert value_of(app) == "8.26 K parameters"


@pytest.mark.parametrize(
    ("section", "key", "bad"),
    [("Output", "init_scheme", "zeros"), ("Output", "init_d", "0"), ("Output", "init_k", "257"),
     ("Output", "init_seed", "-1"), ("Truncation", "init_bound", "2"), ("Depth", "init_width", "4097"),
     ("Depth", "init_layers", "1e9"), ("Depth", "init_batch", "nan"), ("Depth", "init_relu", "maybe"),
     ("Depth", "init_of", "weights"), ("Parameters", "init_model", "gpt5"),
     ("Parameters", "init_cruncher_dim", "2.5"), ("Parameters", "init_cruncher_layers", "33")],
)  # fmt: skip
def test_a_forged_value_falls_back_with_a_note(section, key, bad):
    app = open_page("initialization", initialization_section=section, **{key: bad})
    assert any(f"“{bad}”" in info.value for info in app.info)
    assert "This section failed" not in text_of(app)


def test_the_whole_page_shares_its_controls():
    app = at_section("all")
    for question in ("a layer's output", "truncating at ±3", "many layers", "How many parameters"):
        assert question in text_of(app)
    choose(app, "init_d", 100)
    assert {one.value for one in app.text_input if one.key and "_init_d_" in one.key} == {"100"}
    assert "**30σ**" in text_of(app)
