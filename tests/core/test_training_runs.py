"""Runs in jobs: pause, step, another learning rate, resume, stop, reset; what survives the agent; disk and ids."""

import csv
import io
import math
import os
import signal
import sys

import psutil
import pytest

from core import jobs, training
from core.jobs import backend as jobs_backend
from core.training import TrainConfig
from core.training import records as training_records
from core.training import run as training_run
from core.training import runs as training_runs

CONFIG = TrainConfig(num_steps=40, lr=1e-4, optimizer="momentum", schedule="cosine")
LONG = CONFIG.replace(num_steps=100_000, lr=1e-6)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPKIN_RUNS_DIR", str(tmp_path / "runs"))


def wait_until(run_id, condition):
    """The run once the condition holds; its job's changes wake us."""
    while not condition(info := training.find_run(run_id)):
        assert info.active, info
        now = jobs.status(info.job_id)
        jobs.wait(info.job_id, 0.2, now.version)
    return info


def settled(run_id):
    return wait_until(run_id, lambda info: not info.active)


@pytest.fixture(autouse=True)
def _nothing_left_running(_own_folder):
    yield
    for info in training.list_runs():
        if info.active:
            jobs.cancel(info.job_id)


def losses(run_id):
    return [record.loss for record in training.read_records(run_id)]


def test_a_run_from_start_to_end():
    run_id = training.start(CONFIG, checkpoint_every=15)
    info = settled(run_id)
    assert (info.state, info.num_records, info.checkpoint_step, info.message) == ("done", 40, 40, "")
    assert info.config == CONFIG
    assert losses(run_id) == [record.loss for record in training.train(CONFIG)]
    assert [r.step for r in training.read_records(run_id, after=35)] == [35, 36, 37, 38, 39]
    assert [one.id for one in training.list_runs()] == [run_id]
    with pytest.raises(ValueError, match="done all of its 40 steps"):
        training.resume(run_id)
    with pytest.raises(ValueError, match="does not train: it is done"):
        training.control(run_id, "pause")


def test_pause_step_another_rate_resume_and_stop():
    config = CONFIG.replace(num_steps=2000)
    run_id = training.start(config, delay_seconds=0.02, checkpoint_every=1000)
    wait_until(run_id, lambda info: info.num_records >= 3)
    training.control(run_id, "pause")
    paused = settled(run_id)
    count = paused.num_records
    assert (paused.state, paused.checkpoint_step) == ("paused", count)
    training.resume(run_id, steps=1)
    assert settled(run_id).num_records == count + 1
    training.control(run_id, "lr", 5e-5)
    training.resume(run_id, steps=2)
    assert settled(run_id).num_records == count + 3
    trainer = training.Trainer(config)
    expected = [trainer.advance() for _step in range(count + 1)]
    trainer.change_lr(5e-5)
    expected += [trainer.advance() for _step in range(2)]
    seen = training.read_records(run_id)
    assert [(r.loss, r.lr) for r in seen] == [(r.loss, r.lr) for r in expected]
    training.resume(run_id)
    wait_until(run_id, lambda info: info.num_records >= count + 4)
    training.control(run_id, "stop")
    assert settled(run_id).state == "stopped"


def test_a_rate_changed_while_it_runs_is_in_the_checkpoint():
    run_id = training.start(LONG, checkpoint_every=100_000)
    wait_until(run_id, lambda info: info.num_records >= 5)
    training.control(run_id, "lr", 2e-6)
    changed = wait_until(run_id, lambda info: info.num_records > (info.checkpoint_step or 10**9) + 3)
    jobs.cancel(changed.job_id)
    info = settled(run_id)
    assert info.state == "interrupted"
    before = training.read_records(run_id)
    first = next(r.step for r in before if r.lr > 1.5e-6)
    assert first == changed.checkpoint_step
    training.resume(run_id, steps=3)
    assert settled(run_id).state == "paused"
    after = training.read_records(run_id)
    assert len(after) == len(before) + 3
    assert [(r.loss, r.lr) for r in after[: len(before)]] == [(r.loss, r.lr) for r in before]


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_killing_the_agent_loses_nothing_that_was_checkpointed():
    """As the app dies: the agent and the job with it. Another app finds the run and goes on."""
    run_id = training.start(LONG, checkpoint_every=20)
    info = wait_until(run_id, lambda info: info.checkpoint_step is not None and info.num_records > 50)
    agent = jobs_backend.get_backend()._agent.process
    os.kill(agent.pid, signal.SIGKILL)
    agent.wait()
    info = settled(run_id)
    assert info.state == "interrupted"
    kept = losses(run_id)
    assert len(kept) >= info.checkpoint_step > 0
    training.resume(run_id, steps=5)
    assert settled(run_id).state == "paused"
    again = losses(run_id)
    assert again[: len(kept)] == kept
    assert len(again) == len(kept) + 5


def test_reset_starts_over():
    run_id = training.start(LONG)
    wait_until(run_id, lambda info: info.num_records >= 3)
    with pytest.raises(ValueError, match="trains already"):
        training.resume(run_id)
    with pytest.raises(ValueError, match="stop it before"):
        training.delete_run(run_id)
    training.reset(run_id)
    info = training.find_run(run_id)
    assert (info.state, info.num_records, info.checkpoint_step, info.last) == ("paused", 0, None, None)
    training.resume(run_id, steps=2)
    settled(run_id)
    assert losses(run_id) == [r.loss for r, _two in zip(training.train(LONG), range(2), strict=False)]
    training.delete_run(run_id)
    assert training.list_runs() == ()


def test_what_fails_says_why():
    config = TrainConfig(task="text", corpus=training.store_text("to be, or not to be"), dim=16)
    run_id = training.start(config)
    info = settled(run_id)
    assert info.state == "failed"
    assert "needs at least 65 tokens; there are 19" in info.message
    with pytest.raises(ValueError, match="no longer kept"):  # at once, without a job
        training.start(config.replace(corpus="text-" + "0" * 16))


def new_run(config=CONFIG, **state):
    return training_runs.new_folder(config, training_runs.RunState("paused", **state))


def here(run_id, **limits):
    return training.train_in_folder(str(training_runs.run_folder(run_id)), **limits)


def test_a_job_s_time_limit_pauses_a_run():
    run_id = new_run()
    assert here(run_id, max_seconds=0.0) == "paused"
    assert "time limit" in training.find_run(run_id).message
    assert here(run_id) == "done"


def test_one_process_at_a_time():
    parent = os.getppid()
    run_id = new_run(owner=(parent, psutil.Process(parent).create_time()))
    with pytest.raises(ValueError, match="another process already"):
        here(run_id)


def test_a_torn_record_and_late_records_are_written_again():
    run_id = new_run(checkpoint_every=10)
    assert here(run_id, steps=10) == "paused"
    path = training_runs.run_folder(run_id) / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines(keepends=True)[-1] + b'{"step": 11, "lo')
    assert len(training.read_records(run_id)) == 11
    assert here(run_id) == "done"
    records = training.read_records(run_id)
    assert [r.step for r in records] == list(range(40))
    assert [r.loss for r in records] == [r.loss for r in training.train(CONFIG)]


def test_records_that_are_missing_are_not_made_up():
    run_id = new_run(checkpoint_every=10)
    here(run_id, steps=10)
    path = training_runs.run_folder(run_id) / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    with pytest.raises(ValueError, match="holds 4 steps, and its checkpoint is of step 10"):
        here(run_id)


def test_records_as_lines_and_as_a_table():
    values = [0.1 + 0.2, math.nan, math.inf, 5e-324]
    made = [training.StepRecord(i, v, 1.0, 1e-3, 0.1, 10.0, 1e6, None, 5) for i, v in enumerate(values)]
    back = [training_records.from_line(training_records.to_line(one)) for one in made]
    assert [one.loss.hex() for one in back] == [v.hex() for v in values]
    rows = list(csv.DictReader(io.StringIO(training.to_csv(made))))
    assert [float(row["loss"]).hex() for row in rows] == [v.hex() for v in values]
    assert rows[0]["mfu"] == ""
    with pytest.raises(ValueError):
        training_records.from_line(b'{"loss": 1}')


@pytest.mark.parametrize("run_id", ["..", "../x", "", None, "20240101-000000-zzzzzzzz", "20240101-000000-00000000", 3])
def test_no_id_leads_elsewhere(run_id):
    with pytest.raises(ValueError, match="there is no run"):
        training.find_run(run_id)


@pytest.mark.parametrize(
    ("command", "value", "words"),
    [("explode", None, "command must be one of"), ("lr", -1.0, "lr must be"), ("lr", None, "lr must be")],
)
def test_commands_that_are_refused(command, value, words):
    run_id = new_run()
    with pytest.raises(ValueError, match=words):
        training.control(run_id, command, value)
    assert list((training_runs.run_folder(run_id) / "commands").iterdir()) == []


@pytest.mark.parametrize(("every", "delay"), [(0, 0.0), (10, -1.0), (10, math.nan), (10, 60.0)])
def test_starts_that_are_refused(every, delay):
    with pytest.raises(ValueError, match="must be"):
        training.start(CONFIG, checkpoint_every=every, delay_seconds=delay)
    assert training.list_runs() == ()


def test_disk_is_bounded(monkeypatch):
    monkeypatch.setattr(training_runs, "MAX_RUNS", 3)
    ids = []
    for second in range(5):
        monkeypatch.setattr(training_runs.time, "strftime", lambda _format, s=second: f"20240101-00000{s}")
        ids.append(new_run())
    assert [info.id for info in training.list_runs()] == ids[:1:-1]
    monkeypatch.setattr(training_runs, "MAX_RUNS_BYTES", 10**6)
    (training_runs.run_folder(ids[3]) / "checkpoint.pt").write_bytes(b"0" * 990_000)
    monkeypatch.setattr(training_runs.time, "strftime", lambda _format: "20240102-000000")
    latest = new_run()
    assert [info.id for info in training.list_runs()] == [latest, ids[4]]
    with pytest.raises(ValueError, match="of disk, and"):
        training.start(TrainConfig(dim=4096, num_layers=50))


def test_a_checkpoint_takes_what_was_predicted():
    for optimizer in ("sgd", "momentum", "adamw"):
        config = CONFIG.replace(optimizer=optimizer, dim=64)
        trainer = training.Trainer(config)
        trainer.advance()
        measured = trainer.save(io.BytesIO())
        assert training_runs.checkpoint_bytes(config) == pytest.approx(measured, rel=0.2)


def test_a_folder_that_cannot_be_read_is_passed_over():
    good, bad = new_run(), new_run()
    (training_runs.runs_folder() / bad / "state.json").write_text("{")
    assert [info.id for info in training.list_runs()] == [good]


def test_where_a_run_waits():
    assert training_run.queue_of(TrainConfig()) == "training"
    assert training_run.queue_of(TrainConfig(device="cuda:1")) == "cuda:1"
