"""Optimizer memory: each control's effect, the lecture's values, each refusal, and a measured step from end to end."""

import re

import pytest

from core.memory import sharding
from core.memory.cruncher import measure_cruncher
from core.models import PRESETS
from tests.pages.helpers import charts, choose, open_page, rows, text_of, value_of


def at_section(section, **values):
    app = choose(open_page("optimizer_memory"), "optimizer_memory_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def test_the_lecture_s_cruncher_in_bytes_and_flops():
    app = at_section("cruncher")
    assert figures(app) == ("496 B", "544 B", "1.10×")
    assert {row["name"]: row["label"] for row in rows(app)} == {
        "predicted": "496 B", "the input x": "+ 32 B", "the loss": "+ 16 B", "unexplained": "+ 0 B",
        "measured": "544 B",
    }  # fmt: skip
    assert "Autograd keeps **28** numbers for backward where the lecture counts **16** activations" in text_of(app)
    assert "→ 496" in text_of(app)
    choose(app, "crunch_of", "FLOPs")
    assert figures(app) == ("432 FLOP", "368 FLOP", "0.852×")
    assert "no gradient for x" in {row["name"] for row in rows(app)}


@pytest.mark.parametrize(("key", "value"), [("crunch_b", 5), ("crunch_d", 6), ("crunch_l", 3), ("crunch_opt", "adamw")])
def test_the_cruncher_follows_each_control(key, value):
    app = at_section("cruncher", **{key: value})
    asked = {"crunch_b": 2, "crunch_d": 4, "crunch_l": 2, "crunch_opt": "adagrad"} | {key: value}
    run = measure_cruncher(*asked.values())
    total = 4 * (run.num_parameters + run.num_saved + run.num_gradients) + run.state_bytes
    assert value_of(app, "measured") == f"{total} B" if total < 1000 else f"{total / 1000:.2f} kB"
    assert {row["label"] for row in rows(app) if row["name"] == "unexplained"} == {"+ 0 B"}
    assert ("num_states" in text_of(app)) == (asked["crunch_opt"] == "adagrad")  # the lesson is AdaGrad's


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_every_stage_of_sharding(stage):
    app = at_section("sharding", mem_stage=stage, mem_sharded="gpt2")
    dealt = sharding.shard(sharding.transformer_units(PRESETS["gpt2"]), stage, 8)
    assert value_of(app) == {"none": "1.99 GB", "zero1": "1.30 GB"}.get(stage, "249 MB")
    by_stage = {}
    for row in rows(app):
        if row.get("exact"):
            by_stage.setdefault(row["step"], {})[row["category"]] = row["exact"]
    assert list(by_stage) == ["not sharded", "ZeRO 1", "ZeRO 2", "ZeRO 3"]
    shown = by_stage[list(by_stage)[sharding.STAGES.index(stage)]]
    assert shown["parameters"] == dealt.fullest.parameter_bytes
    assert shown["optimizer state"] == dealt.fullest.optimizer_state_bytes


@pytest.mark.parametrize(
    ("key", "value"),
    [("mem_devices", 64), ("mem_dtype", "bf16"), ("mem_optimizer", "sgd"), ("mem_sharded", "qwen3-8b")],
)
def test_sharding_follows_each_control(key, value):
    app = at_section("sharding")
    before, drawn = value_of(app), charts(app)
    choose(app, key, value)
    assert value_of(app) != before
    assert charts(app) != drawn


def test_the_device_is_a_line_in_the_chart():
    app = at_section("sharding", mem_device="NVIDIA H100 SXM5 80GB")
    assert [row["device"] for row in rows(app) if row.get("capacity")] == ["NVIDIA H100 SXM5 80GB"]
    assert "memory of the NVIDIA H100 SXM5 80GB" in text_of(app)


def test_one_device_shards_nothing():
    app = at_section("sharding", mem_devices=1, mem_sharded="gpt2")
    assert value_of(app) == "1.99 GB"
    assert re.search(r"\*\*0 B\*\* sent in a step", text_of(app))
