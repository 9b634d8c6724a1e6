"""Optimizer memory: each control's effect, the lecture's values, each refusal, and a measured step from end to end."""

import dataclasses
import importlib.util
import re

import pytest

from core import jobs, memory, units
from core.memory.config import StepConfig
from core.memory.cruncher import measure_cruncher
from core.memory.fits import largest_batch
from core.memory.predict import predict_step
from pages._ui import machine
from pages._ui.memory_view import accelerators
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of


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


SMALL = {"mem_model": "own", "mem_num_layers": 2, "mem_d_model": 16, "mem_num_heads": 2, "mem_d_ff": 32,
         "mem_vocab_size": 50, "mem_batch": 2, "mem_length": 8}  # fmt: skip


def test_a_step_is_predicted_with_its_timeline_and_peak():
    app = at_section("step")
    step = predict_step(StepConfig("gpt2", batch_size=4))
    assert value_of(app) == "6.41 GB"
    assert "press Measure" in text_of(app)
    marked = [row for row in rows(app) if row.get("peak_at") is not None]
    assert [row["label"] for row in marked] == ["peak: loss backward, 6.41 GB"]
    assert step.moments[int(marked[0]["peak_at"])] == step.peak
    hovered = [row for row in rows(app) if row.get("low") is not None]
    assert [row["name"] for row in hovered] == [step.name(one) for one in step.moments]
    assert [row["total"] for row in hovered] == [f"{one.highest_bytes:,} B" for one in step.moments]
    assert [row["phase"] for row in rows(app) if row.get("phase")] == ["forward", "backward", "optimizer"]


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [("mem_model", "gpt2-medium", {"model": "gpt2-medium"}), ("mem_optimizer", "sgd", {"optimizer": "sgd"}),
     ("mem_precision", "autocast", {"precision": "autocast"}), ("mem_batch", 2, {"batch_size": 2}),
     ("mem_length", 100, {"seq_len": 100}), ("mem_attention", "eager", {"attention": "eager"}),
     ("mem_every", 3, {"checkpointing": 3}), ("mem_micro", 2, {"accumulation_steps": 2}),
     ("mem_stage", "zero3", {"sharding": "zero3", "num_devices": 8}),
     ("mem_house", "huggingface", {"implementation": "huggingface"})],
)  # fmt: skip
def test_each_control_of_the_step_changes_it(key, value, field):
    app = at_section("step", **{key: value})
    config = StepConfig(**{"model": "gpt2", "batch_size": 4, "seq_len": 1024} | field)
    assert value_of(app) == units.si_bytes(predict_step(config).peak_bytes)
    hovered = [row["total"] for row in rows(app) if row.get("low") is not None]
    assert hovered == [f"{one.highest_bytes:,} B" for one in predict_step(config).moments]


def test_a_preset_sets_the_step():
    app = at_section("step")
    press(app, "np_preset_step_GPT-2 XL")
    config = StepConfig("gpt2-xl", batch_size=1, seq_len=1024, attention="eager")
    assert value_of(app) == units.si_bytes(predict_step(config).peak_bytes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mem_length": 2048}, "seq_len must be a whole number from 1 to 1,024; received 2048"),
        ({**SMALL, "mem_num_heads": 3}, "num_heads"),
        ({**SMALL, "mem_d_model": 10**6, "mem_d_ff": 10**6, "mem_num_layers": 1000}, "parameters"),
        ({"mem_every": 13}, "checkpointing must be a whole number from 1 to 12; received 13"),
        ({"mem_model": "llama2-70b", "mem_batch": 2**20, "mem_length": 2**24}, "too large"),
    ],
)
def test_what_cannot_be_a_step_is_refused_in_words(values, message):
    app = at_section("step", **values)
    assert message in said(app.warning[0]).replace("\\", "")
    assert not app.get("vega_lite_chart")
    assert "This section failed" not in text_of(app)


def run_to_its_end(app, key):
    """Press the button that starts a job, and wait for its end."""
    press(app, f"{key}_start")
    now = jobs.status(app.session_state[key])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    app.run()
    assert now.state == "done", now.error


@pytest.mark.parametrize("house", ["napkin", "huggingface"])
def test_a_measured_step_from_end_to_end(house):
    app = at_section("step", **SMALL, mem_house=house)
    predicted = value_of(app)
    run_to_its_end(app, "mem_measured")
    assert figures(app) == (predicted, predicted, "1.00×")
    assert "they agree" in text_of(app)
    drawn = [row["measured"] for row in rows(app) if row.get("measured") is not None]
    exact = [float(row["total"].replace(",", "").removesuffix(" B")) for row in rows(app) if row.get("low") is not None]
    assert len(drawn) == len(exact)
    assert drawn == pytest.approx([size * drawn[0] / exact[0] for size in exact])
    choose(app, "mem_batch", 3)
    assert "The settings have changed" in text_of(app)
    assert not [row for row in rows(app) if row.get("measured") is not None]


def paste(app, source):
    app.text_area(key="mem_config").set_value(source)
    app.run()
    assert not app.exception, app.exception[0].message
    return app


GPT2 = '{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}'
NEOX = """{"model_type": "gpt_neox", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 64, "vocab_size": 101, "max_position_embeddings": 32}"""


@pytest.mark.parametrize("section", ["step", "fits", "sharding", "checkpoints", "rules"])
def test_a_pasted_config_is_the_preset_of_the_same_shape(section):
    app = at_section(section)
    preset, drawn = value_of(app), rows(app)
    choose(app, "mem_model", "file")
    assert "paste a model's file" in said(app.warning[0])
    paste(app, GPT2)
    assert value_of(app) == preset
    assert rows(app) == drawn
    assert "gpt2: 124 M parameters, L 12, D 768" in text_of(app)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("not JSON", "this is not a config.json"),
        ("[1, 2]", "a config.json holds an object with a model_type"),
        (GPT2.replace('"n_head": 12', '"n_head": 7'), "d_model must be a multiple of num_heads"),
        (GPT2.replace("768", '"wide"'), "n_embd must be a whole number"),
        (NEOX.replace("32,", '"wide",', 1), "hidden_size must be a whole number"),
        (GPT2.replace("768", "3000000"), "parameters"),
        (GPT2.replace("}", ', "auto_map": {"AutoModel": "evil.Model"}}'), "auto_map is not supported"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "nested too deeply"),
    ],
)
def test_a_wrong_file_is_refused_in_words_and_stays(source, message):
    app = paste(at_section("step", mem_model="file"), source)
    assert message in said(app.warning[0])
    assert app.text_area(key="mem_config").value == source
    assert not app.get("vega_lite_chart")
    paste(app, GPT2)
    assert value_of(app) == "6.41 GB"


def test_another_architecture_is_measured_and_not_predicted():
    app = paste(at_section("step", mem_model="file", mem_length=16), NEOX)
    assert value_of(app) == "unknown"
    assert "no napkin for gpt_neox" in text_of(app)
    assert not app.get("vega_lite_chart")
    run_to_its_end(app, "mem_measured")
    step = memory.measure_huggingface_config(NEOX, 4, 16)
    assert value_of(app) == "unknown"
    assert value_of(app, "measured") == units.si_bytes(step.peak_bytes)
    assert [row["name"] for row in rows(app) if row.get("low") is not None] == [step.name(one) for one in step.moments]
    choose(app, "mem_length", 17)
    assert "The settings have changed" in text_of(app)
    choose(app, "optimizer_memory_section", "fits")
    assert "There is no napkin for gpt_neox here" in said(app.warning[0])


def test_without_transformers_the_page_says_how_to_get_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == "transformers" else found(name))
    app = at_section("step", mem_house="huggingface")
    assert app.button(key="mem_measured_start").disabled
    assert "pip install transformers" in said(app.warning[0])
    assert value_of(app) == "8.22 GB"
    choose(app, "mem_house", "napkin")
    assert not app.button(key="mem_measured_start").disabled


def test_a_gpu_is_offered_where_there_is_one(monkeypatch):
    assert not any(one.key == "mem_where" for one in at_section("step").get("button_group"))
    cpu = machine.devices()[0]
    monkeypatch.setattr(machine, "devices", lambda: (cpu, dataclasses.replace(cpu, id="cuda:0", name="a GPU")))
    asked = []
    monkeypatch.setattr(jobs, "submit", lambda *args, **how: asked.append((args, how)) or "none")
    app = at_section("step", mem_where="cuda:0")
    press(app, "mem_measured_start")
    (function, config, where), how = asked[0]
    assert (function, config, where) == (memory.measure_step, StepConfig("gpt2", batch_size=4), "cuda:0")
    assert how["device"] == "cuda:0"


def test_every_stage_is_run_on_two_processes():
    app = at_section("sharding", **SMALL, mem_stage="zero3", mem_view="here")
    assert "This very model fits here." in text_of(app)
    predicted = value_of(app)
    run_to_its_end(app, "mem_sharded")
    assert figures(app) == (predicted, predicted, "1.00×")
    assert "no reduce-scatter in gloo" in text_of(app)
    choose(app, "mem_stage", "none")
    assert value_of(app, "measured") != predicted
    choose(app, "mem_optimizer", "sgd")
    assert "The settings have changed" in text_of(app)
    choose(app, "mem_model", "llama2-70b")
    assert "Llama 2 70B does not fit twice here: a model like it" in text_of(app)
    choose(app, "mem_optimizer", "muon")
    assert "optimizer must be one of" in said(app.warning[0])


def test_a_sharded_step_is_not_measured_here():
    app = at_section("step", mem_stage="zero2")
    assert app.button(key="mem_measured_start").disabled
    assert "this meter sees one: choose “not sharded”" in said(app.warning[0])
    assert value_of(app) == units.si_bytes(
        predict_step(StepConfig("gpt2", batch_size=4, sharding="zero2", num_devices=8)).peak_bytes
    )


def test_every_stage_of_sharding_is_a_bar():
    app = at_section("sharding", mem_stage="zero3", mem_devices=4)
    found = {}
    for row in rows(app):
        if row.get("exact"):
            found.setdefault(row["step"], {})[row["category"]] = row["exact"]
    for name, stage in (("not sharded", None), ("ZeRO 1", "zero1"), ("ZeRO 2", "zero2"), ("ZeRO 3", "zero3")):
        config = StepConfig("gpt2", batch_size=4, sharding=stage, num_devices=4 if stage else 1)
        assert sum(found[name].values()) == predict_step(config).peak_bytes
    assert "sent in a step" in text_of(app)
    before = charts(app)
    choose(app, "mem_devices", 64)
    assert charts(app) != before


def test_what_fits_and_what_one_more_sequence_does():
    app = at_section("fits")
    config = StepConfig("gpt2", batch_size=4)
    batch = largest_batch(config, 80 * 10**9)
    assert value_of(app) == f"{batch} sequences"
    assert predict_step(config.change(batch_size=batch)).peak_bytes <= 80 * 10**9
    assert predict_step(config.change(batch_size=batch + 1)).peak_bytes > 80 * 10**9
    assert "**Fits**: 6.41 GB at its peak (loss backward), of 80.0 GB." in text_of(app)
    assert {row["label"] for row in rows(app) if row.get("end")} >= {"6.41 GB"}
    choose(app, "mem_batch", batch + 1)
    assert "**Does not fit**" in text_of(app)
    larger = max(accelerators().values(), key=lambda one: one.memory_bytes)
    choose(app, "mem_device", larger.name)
    assert "**Fits**" in text_of(app)
    assert [row["device"] for row in rows(app) if row.get("capacity")] == [larger.name]


def test_where_not_even_one_sequence_fits():
    app = at_section("fits", mem_model="llama3-70b")
    assert value_of(app) == "0 sequences"
    assert "not even one sequence" in text_of(app)
    choose(app, "mem_stage", "zero3")
    choose(app, "mem_devices", 256)
    choose(app, "mem_every", 1)
    assert value_of(app) != "0 sequences"


def test_the_assignment_s_exercise():
    app = at_section("exercise")
    config = StepConfig("gpt2-xl", attention="eager")
    batch = largest_batch(config, 80 * 10**9)
    assert value_of(app) == f"{batch} sequences"
    assert "(16 bytes a parameter: 24.9 GB)" in text_of(app)
    assert "**5,115 days**" in text_of(app)
    marks = [(row["batch"], row["fits"]) for row in rows(app) if row.get("batch") is not None]
    assert {batch for batch, fit in marks if fit} == {one for one, _fit in marks if one <= batch}
    for key, value in (("xl_model", "cs336-xl"), ("xl_precision", "bf16"), ("xl_attention", "sdpa"),
                       ("xl_checkpoint", True)):  # fmt: skip
        before = text_of(app)
        choose(app, key, value)
        assert text_of(app) != before
    assert "**6,584 days**" in text_of(app)


def test_checkpoints_have_a_best_distance():
    app = at_section("checkpoints", mem_batch=32)
    config = StepConfig("gpt2", batch_size=32)
    drawn = {row["k"]: row["exact"] for row in rows(app) if row.get("k") is not None}
    for every, size in drawn.items():
        assert predict_step(config.change(checkpointing=int(every))).peak_bytes == size
    assert value_of(app) == units.si_bytes(min(drawn.values()))
    assert [row["name"] for row in rows(app) if row.get("root")] == ["√12"]
    assert "The second forward is" in text_of(app)


def test_rules_of_thumb_beside_the_exact_step():
    app = at_section("rules")
    assert figures(app)[1] == "6.41 GB"
    shown = {row["rule"]: (row["napkin"], row["exact"]) for row in rows(app)}
    assert list(shown) == ["16 bytes a parameter", "L · (34·s·b·h + 5·a·b·s²)", "both, against the peak"]
    assert "+ 0 B what no part above accounts for" in re.sub(r"\s+", " ", text_of(app))
    choose(app, "mem_attention", "eager")
    changed = {row["rule"]: (row["napkin"], row["exact"]) for row in rows(app)}
    assert changed["16 bytes a parameter"] != shown["L · (34·s·b·h + 5·a·b·s²)"]
    assert changed["L · (34·s·b·h + 5·a·b·s²)"] != shown["L · (34·s·b·h + 5·a·b·s²)"]


def test_predict_first_hides_every_answer():
    app = choose(open_page("optimizer_memory"), "predict_first", True)
    for section in ("step", "fits", "exercise", "sharding", "checkpoints", "rules", "cruncher"):
        choose(app, "optimizer_memory_section", section)
        assert not any("np-box np-" in element.proto.body for element in app.get("html"))
        assert not app.get("vega_lite_chart")
        for hidden in ("sent in a step", "**Fits**", "days**", "The second forward"):
            assert hidden not in text_of(app)
    choose(app, "np_guess_mem_bytes", "544 B")
    assert "You guessed 544 B" in text_of(app)
