"""Training: a run from start to end on the page, each control's effect, and what every section says."""

import math

import numpy as np
import pytest

from core import jobs, training
from core.training import BUGS, CHANGES, TrainConfig, data, sweeps
from pages._ui import training_hunt, training_more, training_rates
from tests.pages.helpers import choose, open_page, press, rows, said, text_of, value_of


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPKIN_RUNS_DIR", str(tmp_path / "runs"))


def at_section(section, **values):
    app = choose(open_page("training"), "training_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def finish(app, key):
    now = jobs.status(app.session_state[key])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    assert now.state == "done", now.error
    app.run()


def settle(app):
    """Wait until the run of the address does not train, and show it."""
    run_id = app.session_state["train_run"]
    while (info := training.find_run(run_id)).active:
        now = jobs.status(info.job_id)
        jobs.wait(info.job_id, 0.2, now.version)
    app.run()
    return info


def line(app, index=0, series="run"):
    return {int(row["x"]): row["y"] for row in rows(app, index) if row["series"] == series}


def short(**values):
    return at_section("run", train_pace_regression="full", train_steps_regression=30, **values)


def test_a_run_from_start_to_its_last_step():
    app = short()
    assert "press Start" in text_of(app)
    press(app, "train_start")
    info = settle(app)
    assert info.state == "done"
    expected = [record.loss for record in training.train(info.config)]
    assert line(app) == dict(enumerate(expected))
    assert f'title="{expected[-1]!r} "' in " ".join(one.proto.body for one in app.get("html"))
    text = text_of(app)
    assert "done: 30 of 30 steps" in text
    assert "1,240" in text
    assert "4.74 kB" in text
    assert "4.77 kB" in text
    shown = " ".join(one.proto.body for one in app.get("html"))
    assert "inputs +16 B (targets y" in shown
    assert "10.6 kFLOP  10.6 kFLOP  1.00×" in " ".join(text.split("\n")).replace("   ", "  ")
    choose(app, "train_lr_regression", 0.002)
    assert "the run below has other settings" in text_of(app)


def test_pause_step_other_rate_resume():
    app = at_section("run", train_pace_regression="steps", train_steps_regression=25)
    press(app, "train_start")
    press(app, "train_pause")
    assert settle(app).state == "paused"
    press(app, "train_reset")
    press(app, "train_step")
    assert settle(app).num_records == 1
    choose(app, "train_lr_regression", 1e-5)
    press(app, "train_lr")
    press(app, "train_step")
    assert settle(app).num_records == 2
    records = training.read_records(app.session_state["train_run"])
    assert [record.lr for record in records] == [0.001, 1e-5]
    press(app, "train_resume")
    press(app, "train_stop")
    assert settle(app).state == "stopped"
    assert [one.key for one in app.button if one.key.startswith("train_") and "section" not in one.key] == [
        "train_resume", "train_step", "train_start", "train_reset"
    ]  # fmt: skip


def test_killed_and_resumed_the_curve_goes_on_as_if_nothing_had_happened():
    app = at_section("run", train_pace_regression="slow", train_steps_regression=60)
    press(app, "train_start")
    run_id = app.session_state["train_run"]
    while (info := training.find_run(run_id)).num_records < 25:
        jobs.wait(info.job_id, 0.2, jobs.status(info.job_id).version)
    press(app, "train_kill")
    info = settle(app)
    assert (info.state, info.checkpoint_step) == ("interrupted", 20)
    assert "killed" in text_of(app)
    press(app, "train_resume")
    assert settle(app).state == "done"
    assert line(app) == dict(enumerate(record.loss for record in training.train(info.config)))


def test_the_page_finds_its_run_and_lays_earlier_ones_over_it():
    first = training.start(TrainConfig(num_steps=12))
    second = training.start(TrainConfig(num_steps=12, lr=0.002))
    for run_id in (first, second):
        while training.find_run(run_id).active:
            info = training.find_run(run_id)
            jobs.wait(info.job_id, 0.2, jobs.status(info.job_id).version)
    app = open_page("training", train_run=second)
    assert "done: 12 of 12 steps" in text_of(app)
    assert line(app, series="#1") == dict(enumerate(r.loss for r in training.read_records(first)))
    assert "sgd · lr 0.002 · B 4 · D 16×2 · seed 0" in text_of(app)
    choose(app, "train_earlier", False)
    assert not line(app, series="#1")
    assert line(app)
    gone = open_page("training", train_run="20200101-000000-00000000")
    assert "there is no run" in gone.info[0].value


def test_each_setting_is_asked_of_the_run():
    app = at_section("run")
    for key, value, field in [
        ("train_size_regression", "DeepNetwork D=16, 3 layers", "model"), ("train_opt_regression", "adam", "optimizer"),
        ("train_lr_regression", 0.5, "lr"), ("train_batch_regression", 8, "batch_size"), ("train_seed", 3, "seed"),
        ("train_schedule", "cosine", "schedule"), ("train_precision", "bf16", "precision"),
        ("train_clip", 1.0, "max_grad_norm"), ("train_steps_regression", 7, "num_steps"),
    ]:  # fmt: skip
        choose(app, key, value)
        assert getattr(app.session_state["_train_settings"], field) != getattr(TrainConfig(num_steps=200), field)
    press(app, "train_start")
    assert settle(app).config == app.session_state["_train_settings"]


def test_the_smallest_transformer_and_what_it_writes():
    app = at_section("run", train_task="text", train_steps_text=3, train_batch_text=2, train_context=8)
    press(app, "train_start")
    info = settle(app)
    assert (info.config.task, info.config.context_length, info.state) == ("text", 8, "done")
    table = text_of(app)
    assert "5.55 nats" in table
    assert "memory of a step" in table
    predicted = training.predict_step_memory(info.config).peak_bytes
    assert sum(training.read_counted(info.id).live_bytes.values()) == predicted
    assert f'title="{predicted!r} B' in " ".join(one.proto.body for one in app.get("html"))
    choose(app, "sample_count", 5)
    press(app, "sample_job_start")
    finish(app, "sample_job")
    assert any(one.value.startswith("def ") for one in app.code)


def test_a_diverged_run_says_so():
    app = short(train_lr_regression=1.0)
    press(app, "train_start")
    settle(app)
    assert "the run diverged" in text_of(app)
    assert all(math.isfinite(row["y"]) for row in rows(app, 0))


def test_a_loop_has_its_bug():
    app = at_section("hunt", hunt_loop="C")
    press(app, "hunt_job_start")
    finish(app, "hunt_job")
    bug = BUGS[training_hunt._SECRET[2]]
    for named in (bug, BUGS[0]):
        choose(app, "hunt_answer", named)
        assert bool(app.success) == (named == bug)
        assert bool(app.warning) == (named != bug)
    choose(app, "hunt_shown", True)
    assert training_hunt.EXPLAINED[bug] in app.success[0].value
    choose(app, "hunt_loop", "D")
    assert not app.get("vega_lite_chart")
    assert sorted(training_hunt._SECRET) == list(range(len(BUGS)))
    assert set(training_hunt.EXPLAINED) == set(BUGS)


def test_every_window_is_drawn_unless_randint_stops_short():
    app = at_section("data", data_batches=200)
    counts = {row["window"]: row["count"] for row in rows(app)}
    assert sum(counts.values()) == 400
    assert set(counts) == set(range(15))
    assert all(counts.values())
    assert value_of(app, "measured") == "15"
    choose(app, "data_short", True)
    assert [row["window"] for row in rows(app) if not row["count"]] == [14]
    assert value_of(app, "measured") == "14"


@pytest.mark.parametrize(
    ("key", "value"),
    [("data_text", "abcdefghijkl"), ("data_batch", 3), ("data_context", 5), ("data_batches", 7), ("data_seed", 1)],
)
def test_each_control_of_data(key, value):
    app = at_section("data")
    before = rows(app)
    choose(app, key, value)
    assert rows(app) != before
    assert not app.error


def test_a_text_too_short_is_refused_in_words():
    app = at_section("data", data_text="abc")
    assert "needs at least 5 tokens" in said(app.warning[0])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_steps_that_differ_are_those_predicted(change, optimizer):
    config = TrainConfig(optimizer=optimizer, lr=0.01 if optimizer == "adam" else 0.001, num_steps=training_more.STEPS)
    predicted = training_more.predict_differences(config, change).value
    twice = training.repeat_run(config, change)
    if predicted is not None:
        assert sum(a.hex() != b.hex() for a, b in zip(twice.first, twice.second, strict=True)) == predicted


def test_seeds_on_the_page():
    app = at_section("seeds", seeds_change="resumed without the data position")
    press(app, "seeds_job_start")
    finish(app, "seeds_job")
    assert value_of(app) == value_of(app, "measured") == "20"
    assert "They part at step **20**" in text_of(app)
    choose(app, "seeds_change", "another seed")
    assert "press Run twice" in text_of(app)


def test_the_mean_of_the_cosine():
    app = at_section("schedule", cosine_warmup=10, cosine_total=50)
    assert value_of(app, "ratio") == "1.00×"
    drawn = [row["y"] for row in rows(app)]
    assert drawn == [training.cosine_lr(step, 0.001, 0.0001, 10, 50) for step in range(50)]
    choose(app, "cosine_min", 0.01)
    assert "min_lr must be at most max_lr" in said(app.warning[0])
    choose(app, "cosine_min", 0.0)
    choose(app, "cosine_warmup", 49)
    assert "the rise must end before the last step" in said(app.warning[0])
    choose(app, "cosine_warmup", 0)
    assert value_of(app) == "0.000500"


def test_a_sweep_says_who_diverged():
    app = at_section("sweep", sweep_steps=40)
    press(app, "sweep_job_start")
    finish(app, "sweep_job")
    config = TrainConfig(num_steps=40)
    expected = {one.value: one.final_loss for one in sweeps.sweep(config, "lr", training_rates._LRS["regression"])}
    shown = {row["x"]: row["y"] for row in rows(app)}
    assert shown == {value: loss for value, loss in expected.items() if math.isfinite(loss)}
    gone = ", ".join(f"{value:g}" for value, loss in expected.items() if not math.isfinite(loss))
    assert gone
    assert f"Diverged, so not on the chart: {gone}." in text_of(app)
    assert value_of(app, "measured") == f"{min(shown, key=shown.get):.5f}"
    choose(app, "sweep_setting", "batch_size")
    assert "press Sweep" in text_of(app)


def test_a_checkpoint_is_weighed():
    app = short()
    press(app, "train_start")
    settle(app)
    choose(app, "training_section", "checkpoints")
    assert value_of(app).endswith("kB")
    assert 0.9 < float(value_of(app, "ratio").rstrip("×")) < 1.1


def test_a_text_of_one_s_own_is_trained_on_and_resumed():
    app = at_section("run", train_task="text", train_corpus="a text of yours", train_steps_text=6, train_context=8)
    assert "the text is empty" in said(app.warning[0])
    choose(app, "train_batch_text", 2)
    app.text_area(key="train_text").set_value("short").run()
    assert "needs at least 9 tokens" in said(app.warning[0])
    press(app, "train_start")
    assert "train_run" not in app.session_state or not app.session_state["train_run"]
    own = "the cat sat on the mat. " * 20
    app.text_area(key="train_text").set_value(own).run()
    assert not app.warning
    choose(app, "train_pace_text", "2 steps/s")
    press(app, "train_start")
    press(app, "train_pause")
    info = settle(app)
    assert info.config.corpus == training.text_name(own)
    data.corpus_path(info.config.corpus).unlink()  # out of the cache: the run has its own
    press(app, "train_resume")
    press(app, "train_reset")
    press(app, "train_step")
    info = settle(app)
    assert "own text" in text_of(app)
    expected = next(training.train(info.config, data=np.frombuffer(own.encode(), dtype=np.uint8)))
    assert info.last.loss == expected.loss


def test_a_binary_file_is_refused_in_words():
    app = at_section("run", train_task="text", train_corpus="a text of yours")
    app.file_uploader(key="train_text_file").set_value(("x.txt", b"PK\0\0" * 99, "text/plain")).run()
    assert "this is no text in UTF-8: 198 of its first 396 bytes are 0" in said(app.warning[0])


def test_a_vocabulary_that_is_learned():
    pytest.importorskip("tokenizers")
    app = at_section("run", train_task="text", train_corpus="a text of yours", train_vocab="512: BPE")
    for key, value in (("train_steps_text", 2), ("train_batch_text", 2), ("train_context", 4)):
        choose(app, key, value)
    app.text_area(key="train_text").set_value("the cat sat on the mat. " * 40).run()
    press(app, "train_start")
    info = settle(app)
    assert (info.state, info.config.vocab_size) == ("done", 512)
    text = text_of(app)
    assert "6.24 nats" in text  # log 512
    length = training.bytes_per_token(info.config.corpus, 512, training.runs.run_folder(info.id))
    assert length > 2
    assert f"{training.bits_per_byte(info.last.loss, length):.3g}" in text


def test_without_the_library_a_vocabulary_is_bytes(monkeypatch):
    monkeypatch.setattr(training, "bpe_is_available", lambda: False)
    app = at_section("run", train_task="text")
    assert app.selectbox(key="train_vocab").options == ["256: bytes"]
    assert any("tokenizers package" in one.value for one in app.caption)


def test_batch_sizes_on_text_after_the_same_tokens_and_steps():
    app = at_section("sweep", sweep_setting="batch_size", sweep_task="text", sweep_steps=10)
    press(app, "sweep_job_start")
    finish(app, "sweep_job")
    names = {row["series"] for row in rows(app)}
    assert names == {"same tokens", "same 2 steps"}
    assert {row["x"] for row in rows(app)} == {2, 4, 8, 16, 32, 64}
    assert "tokens/s" in text_of(app)
    choose(app, "sweep_task", "regression")
    assert "press Sweep" in text_of(app)


def test_a_batch_in_parts_and_undivided():
    app = at_section("update")
    assert value_of(app, "ratio") == "1.00×"
    assert "roundings" in text_of(app)
    choose(app, "update_undivided", True)
    assert float(value_of(app)) == pytest.approx(4 * 231.49, rel=1e-3)
    assert value_of(app, "ratio") == "1.00×"
    for key, value in (("update_parts", "8"), ("update_batch", "64"), ("update_seed", 1),
                       ("update_model", "Cruncher D=64, 4 layers")):  # fmt: skip
        before = value_of(app)
        choose(app, key, value)
        assert value_of(app) != before


def test_clipping_saves_a_run():
    app = at_section("update", update_view="clipped")
    assert value_of(app) == value_of(app, "measured") == "50.0"
    norms = {(row["series"], row["x"]): row["y"] for row in rows(app, 0)}
    assert all(norms["after", x] <= 50.001 for _name, x in norms)
    assert "97 of 100 steps" in text_of(app)
    assert "the same bits in 100 of them all" in text_of(app)
    ends = {row["series"]: row["x"] for row in rows(app, 1) if row["end"]}
    assert ends["clipped"] == 99
    assert ends["not clipped"] < 60
    for key, value in (("update_limit", 1e6), ("update_optimizer", "adam"), ("update_lr", 0.1), ("update_steps", 50)):
        before = rows(app, 1)
        choose(app, key, value)
        assert rows(app, 1) != before


def test_the_command_for_several_devices_has_run_s_settings():
    app = at_section("run", train_lr_regression=0.002, train_opt_regression="adam")
    choose(app, "training_section", "devices")
    for key, value in (("devices_n", 8), ("devices_machines", 2), ("devices_how", "fsdp")):
        choose(app, key, value)
    command = app.code[-1].value
    assert "--nnodes 2" in command
    assert "--nproc-per-node 8" in command
    assert "--optimizer adam --lr 0.002" in command
    assert "batch_size must be a multiple of processes" in said(app.warning[0])
    choose(app, "devices_n", 2)
    assert "the page runs 2 processes" in said(app.warning[0])
    assert app.button(key="devices_job_start").disabled


def test_a_link_to_devices_brings_its_settings_along():
    app = open_page("training", training_section="Devices", train_lr_regression="0.002")
    assert "--lr 0.002" in app.code[-1].value


def test_two_processes_send_what_was_predicted_and_have_one_curve():
    app = at_section("run", train_steps_regression=6)
    choose(app, "training_section", "devices")
    press(app, "devices_job_start")
    finish(app, "devices_job")
    assert value_of(app) == "2.11 kB"
    assert 1 < float(value_of(app, "ratio").rstrip("×")) < 1.8  # headers, and the loss
    one, two = ([row["y"] for row in rows(app) if row["series"] == name] for name in ("1 process", "DDP, 2 processes"))
    assert one == [record.loss for record in training.train(TrainConfig(num_steps=6))]
    assert two == pytest.approx(one, rel=1e-3)
    assert "step time, 2 processes" in text_of(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("training"), "predict_first", True)
    for section in ("run", "data", "seeds", "update", "schedule", "sweep", "checkpoints", "devices"):
        choose(app, "training_section", section)
        assert not any("np-box np-" in element.proto.body for element in app.get("html"))
        assert not app.get("vega_lite_chart")
    choose(app, "training_section", "data")
    choose(app, "np_guess_windows", "15")
    assert "You guessed 15" in text_of(app)
