"""Transformer FLOPs: components, context and rules of thumb, each against figures computed elsewhere."""

import re

import pytest

from core import flops, jobs
from tests.pages.helpers import choose, open_page, press, rows, said, text_of, value_of


def at_section(section, **values):
    app = choose(open_page("transformer_flops"), "transformer_flops_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [("model", "GPT-2 XL", "10.5 TFLOP"), ("model", "Llama 3 8B", "47.8 TFLOP"), ("batch", 2, "1.75 TFLOP"),
     ("context", 512, "408 GFLOP")],
)  # fmt: skip
def test_each_control_changes_the_count(key, value, shown):
    app = at_section("components")
    assert value_of(app) == "875 GFLOP"
    before = rows(app)
    choose(app, key, value)
    assert value_of(app) == shown
    assert rows(app) != before


def test_the_components_are_those_of_the_lecture_and_add_up():
    app = at_section("components")
    drawn = rows(app)
    assert len({row["name"] for row in drawn}) == 6
    assert sum(row["flops"] for row in drawn) == pytest.approx(874.944921600)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_torch_counts_the_real_network_and_agrees(attention):
    app = at_section("components", attention=attention)
    assert "press Count with torch" in text_of(app)
    press(app, "counted_start")
    now = jobs.status(app.session_state["counted"])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    app.run()
    assert value_of(app, "ratio") == "1.00×"
    assert "never counted" in text_of(app)
    choose(app, "context", 256)
    assert "press Count with torch" in text_of(app)


def test_a_shape_of_your_own():
    app = at_section("components", model="your own")
    assert value_of(app) == "875 GFLOP"  # GPT-2 small's matrices
    choose(app, "own_num_layers", 24)
    assert value_of(app) == "1.51 TFLOP"
    choose(app, "own_gated", True)
    assert value_of(app) == "1.86 TFLOP"
    choose(app, "own_num_heads", 7)
    assert "d_model must be a multiple of num_heads" in text_of(app)
    assert not app.exception


def test_the_attention_takes_over_with_the_context():
    app = at_section("context", model="GPT-2 XL")
    assert value_of(app) == "9.19 %"
    choose(app, "context", 16384)
    assert value_of(app) == "61.8 %"
    choose(app, "causal_half", True)
    assert value_of(app) == "44.7 %"
    whole = flops.transformer_flops(flops.PRESETS["GPT-2 XL"], 1, 16384, causal_half=True)
    assert f"{whole.attention_share:.1%}" == "44.7%"
    assert {row["length"] for row in rows(app)} == {2**power for power in range(8, 18)}
    text = text_of(app)
    assert all(one.who in text and one.formula in text for one in flops.CAUSAL_CONVENTIONS)


def test_6nd_is_taken_apart():
    app = at_section("rules")
    assert (value_of(app), value_of(app, "measured"), value_of(app, "ratio")) == ("765 GFLOP", "875 GFLOP", "1.14×")
    assert {row["name"] for row in rows(app)} >= {"attention", "norms, biases, positions", "unexplained"}
    assert re.findall(r"[-+]\d+\.\d%", text_of(app)) == ["-12.6%", "-40.3%", "+0.6%"]


@pytest.mark.parametrize(
    ("key", "bad"), [("model", "GPT-9"), ("batch", "0"), ("context", "1e99"), ("attention", "flash")]
)
def test_a_forged_value_falls_back_with_a_note(key, bad):
    app = open_page("transformer_flops", **{key: bad})
    assert value_of(app) == "875 GFLOP"
    assert f"“{bad}”" in said(app.info[0])


def test_the_whole_page_shares_model_batch_and_context():
    app = at_section("all")
    choose(app, "model", "Llama 2 7B")
    shown = {element.value for element in app.text_input if element.key and "_model_" in element.key}
    assert shown == {"Llama 2 7B"}
