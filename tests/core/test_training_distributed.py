"""Two gloo processes: the curve of one, checkpoints from any number to any number, bytes counted, commands that run."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from core import training
from core.training import TrainConfig, Trainer
from core.training.__main__ import config_of, main, parser
from core.training.distributed import Group, ProcessesRun, arguments_of
from core.training.records import read_lines

ROOT = Path(__file__).resolve().parents[2]
TEXT = TrainConfig(
    task="text", num_layers=2, dim=16, num_heads=2, context_length=8, batch_size=8, num_steps=6, optimizer="adamw",
    lr=0.01, max_grad_norm=1.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_torchrun(command, *more):
    """Run the command that the page shows, with this Python's torch, and a few options more."""
    words = shlex.split(command)
    assert words[0] == "torchrun"
    words = [sys.executable, "-m", "torch.distributed.run", *words[1:], *map(str, more)]
    ended = subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def close(records, config):
    """The same curve as that of one process, up to the order of sums."""
    expected = [(r.loss, r.gradient_norm) for r in training.train(config)]
    np.testing.assert_allclose([(r.loss, r.gradient_norm) for r in records], expected, rtol=2e-3)
    assert [r.step for r in records] == list(range(config.num_steps))


def test_two_processes_are_one_and_send_what_was_predicted_and_one_goes_on(tmp_path):
    """With gradients that are accumulated, and travel with the last part alone."""
    config = TEXT.replace(num_accumulation_steps=2, num_steps=8)
    records, checkpoint, summary = (tmp_path / name for name in ("records.jsonl", "c.pt", "summary.json"))
    options = ["--records", str(records), "--checkpoint", str(checkpoint)]
    out = by_torchrun(training.command_for(config, 2), *options, "--summary", summary, "--until", 6)
    assert [line.split()[1] for line in out.splitlines() if line.startswith("step")] == list("012345")
    assert training.inspect_checkpoint(checkpoint).step == 6
    alone = tuple(training.train(config))[:6]
    sent = json.loads(summary.read_text())["sent_bytes"]
    run = ProcessesRun(config, 2, "ddp", read_lines(records), None if sent is None else tuple(sent), alone)
    assert len(run.records) == 6
    assert 0 <= run.largest_difference < 1e-4
    assert run.step_seconds > 0
    assert run.alone_seconds > 0

    assert main([*arguments_of(config), *options, "--quiet"]) == 0
    close(read_lines(records), config)
    assert training.inspect_checkpoint(checkpoint).step == 8

    comparison = training.compare_communication(run)
    if sent is None:
        pytest.skip("this system does not say what a process sends")
    assert comparison.prediction.value == 4 * TEXT.num_params
    assert len(run.sent_bytes) == 4
    assert 0 < comparison.unexplained < 2_000  # headers, the loss


def test_saved_by_one_sharded_on_two_and_resumed_on_one(tmp_path):
    records, checkpoint = tmp_path / "records.jsonl", tmp_path / "c.pt"
    options = ["--records", str(records), "--checkpoint", str(checkpoint), "--quiet"]
    assert main([*arguments_of(TEXT), *options, "--until", "2"]) == 0
    by_torchrun(training.command_for(TEXT, 2, "fsdp"), *options, "--until", 4)
    info = training.inspect_checkpoint(checkpoint)
    alone = Trainer(TEXT)
    assert info.step == 4
    assert info.model == tuple((name, tuple(p.shape)) for name, p in alone.model.state_dict().items())
    assert main([*arguments_of(TEXT), *options]) == 0
    close(read_lines(records), TEXT)


def test_an_error_of_a_process_is_told():
    with pytest.raises(ValueError, match="the processes ended with an error: .*no longer kept"):
        training.train_on_processes(TEXT.replace(corpus="text-" + "0" * 16), 1)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (TEXT.replace(optimizer="muon"), "muon needs whole tensors"),
        (TEXT.replace(optimizer="adafactor"), "adafactor needs whole tensors"),
        (TEXT.replace(precision="fp16 scaled"), "fp16 scaled needs whole tensors"),
    ],
)
def test_what_cannot_be_sharded(config, words):
    with pytest.raises(ValueError, match=words):
        Group("fsdp", config)
    with pytest.raises(ValueError, match="parallel must be one of"):
        Group("tensor", config)


@pytest.mark.parametrize("config", [TrainConfig(), TEXT, TEXT.replace(tied_head=False, d_ff=40, schedule="cosine")])
def test_the_command_s_settings_are_those_on_screen(config):
    words = shlex.split(training.command_for(config, 2, machines=3))
    options = words[words.index("-m") + 2 :]
    assert config_of(parser().parse_args(options)) == config
    assert words[:7] == ["torchrun", "--nnodes", "3", "--node-rank", "0", "--master-addr", "HOST"]


def test_a_command_is_quoted():
    config = TEXT.replace(precision="bf16 autocast")
    assert "--precision 'bf16 autocast'" in training.command_for(config, 1)


def test_the_command_line_alone(tmp_path, capsys):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"num_steps": 2, "lr": 0.5}))
    assert main(["--settings", str(settings), "--lr", "0.001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["0", "1"]
    assert lines[0].startswith(f"step 0  loss {next(training.train(TrainConfig())).loss:.4f}")
    text = tmp_path / "own.txt"
    text.write_text("a text of one's own " * 20)
    options = parser().parse_args(["--text-file", str(text), "--dim", "16"])
    config = config_of(options)
    assert config.task == "text"
    assert len(training.corpus_tokens(config.corpus)) == 400


@pytest.mark.parametrize("arguments", [["--lr=-1"], ["--optimizer", "x"], ["--settings", "/no/such/file"]])
def test_the_command_line_refuses_in_words(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("Error: ")


def test_predictions_of_communication():
    assert training.predict_communication(TEXT, 1).value == 0
    for processes in (2, 4, 8):
        ddp = training.predict_communication(TEXT, processes)
        assert ddp.value == 2 * (processes - 1) / processes * 4 * TEXT.num_params
        half = training.predict_communication(TEXT.replace(precision="bf16"), processes)
        assert half.value == ddp.value / 2
    with pytest.raises(ValueError, match="parallel must be one of"):
        training.predict_communication(TEXT, 2, "tensor")
