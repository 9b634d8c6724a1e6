"""Determinism and checkpoints: equal to the bit, whole or not at all, and no file from elsewhere does harm."""

import contextlib
import io
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from core import jobs, training
from core.training import TrainConfig, Trainer
from core.training import runs as training_runs
from core.training.inspection import FORMAT_KEY

ROOT = Path(__file__).resolve().parents[2]
TEXT = TrainConfig(
    task="text", num_layers=2, dim=16, num_heads=2, context_length=8, batch_size=8, num_steps=8, optimizer="adamw",
    lr=0.01, max_grad_norm=1.0, schedule="cosine", warmup_steps=2,
)  # fmt: skip
DATA = np.random.default_rng(0).integers(0, 256, 500)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_seeds_give_every_generator_again():
    def draw():
        return torch.rand(3).tolist(), np.random.rand(3).tolist(), [random.random() for _ in range(3)]

    training.seed_everything(5)
    first = draw()
    training.seed_everything(5)
    assert draw() == first
    state = training.rng_state()
    second = draw()
    training.set_rng_state(state)
    assert draw() == second != first


def test_the_switches_are_switched_back():
    with training.deterministic():
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("config", [TrainConfig(num_steps=8, optimizer="adam", lr=0.03), TEXT])
@pytest.mark.parametrize("change", training.CHANGES)
def test_what_leaves_every_bit_and_what_does_not(config, change):
    repeat = training.repeat_run(config, change, data=DATA)
    assert len(repeat.first) == len(repeat.second) == 8
    differs_from = {
        "nothing": None, "stopped and resumed": None, "resumed without the data position": 4,
        "resumed without the optimizer": 5, "data drawn without a seed": 0, "another seed": 0,
    }  # fmt: skip
    if change in differs_from:
        assert repeat.first_difference == differs_from[change]
        assert repeat.equal == (repeat.first == repeat.second)
        assert (repeat.largest_difference == 0) == repeat.equal
    else:  # the same sum in another order: at most rounding
        np.testing.assert_allclose(repeat.first, repeat.second, rtol=1e-3)


@pytest.mark.parametrize("optimizer", ["momentum", "adagrad", "rmsprop", "adam", "adafactor", "muon"])
@pytest.mark.parametrize("implementation", ["napkin", "torch"])
def test_every_optimizer_is_resumed_to_the_bit(optimizer, implementation):
    config = TEXT.replace(optimizer=optimizer, implementation=implementation, num_steps=6)
    assert training.repeat_run(config, "stopped and resumed", data=DATA).equal


@pytest.mark.parametrize("precision", ["bf16 autocast", "fp16 scaled", "bf16"])
def test_every_precision_is_resumed_to_the_bit(precision):
    config = TEXT.replace(precision=precision, num_steps=6, num_accumulation_steps=2)
    assert training.repeat_run(config, "stopped and resumed", data=DATA).equal


def test_the_file_holds_everything(tmp_path):
    trainer = Trainer(TEXT.replace(precision="fp16 scaled"), data=DATA)
    trainer.advance()
    trainer.change_lr(0.003)
    size = trainer.save(tmp_path / "c.pt")
    assert size == (tmp_path / "c.pt").stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]
    info = training.inspect_checkpoint(tmp_path / "c.pt")
    assert (info.step, info.config, info.file_bytes) == (1, trainer.config, size)
    assert info.model == tuple((name, tuple(p.shape)) for name, p in trainer.model.state_dict().items())
    assert info.parts == ("optimizers", "scheduler", "scaler", "data", "rng")
    expected = sum(p.numel() * 4 * 3 + 4 for p in trainer.parameters)  # and a step for each
    generators = 2 * trainer.batches.generator.get_state().numel() + 624 * 8
    assert info.tensor_bytes == expected + generators
    plain = torch.load(tmp_path / "c.pt", weights_only=True)
    assert plain["scheduler"] == {"max_lr": 0.003}
    other = Trainer(trainer.config, data=DATA)
    other.load(tmp_path / "c.pt")
    assert (other.step, other.schedule.max_lr, other.batches.drawn) == (1, 0.003, 1)


def test_a_notebook_s_own_objects():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    file = io.BytesIO()
    training.save_checkpoint(file, step=1, model=model, optimizer=optimizer, scheduler=scheduler)
    other = nn.Linear(3, 1)
    again = torch.optim.Adam(other.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(again, 2)
    loaded = training.load_checkpoint(file, model=other, optimizer=again, scheduler=schedule)
    assert (loaded.step, loaded.config) == (1, None)
    assert torch.equal(other.weight, model.weight)
    assert torch.equal(again.state[other.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])
    assert schedule.last_epoch == 1


def test_a_slice_does_not_save_what_it_is_a_slice_of():
    class Slice(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("few", torch.zeros(10**6)[:3])

    assert training.save_checkpoint(io.BytesIO(), step=0, model=Slice()) < 50_000


# What a file from elsewhere may be


def saved(tmp_path, name="c.pt"):
    trainer = Trainer(TEXT, data=DATA)
    trainer.advance()
    trainer.save(tmp_path / name)
    return tmp_path / name


def rewritten(path, change, compression=zipfile.ZIP_STORED):
    """The archive with its entries changed, checksums right."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def pickled(path, content):
    """A checkpoint's archive whose description is any pickle."""

    def change(entries):
        entries[next(name for name in entries if name.endswith("/data.pkl"))] = content

    return rewritten(path, change)


def refuses(path, words):
    with pytest.raises(training.CheckpointError, match=words):
        training.inspect_checkpoint(path)
    with pytest.raises(training.CheckpointError, match=words):
        training.load_checkpoint(path, model=Trainer(TEXT, data=DATA).model)


def test_every_truncation_is_refused(tmp_path):
    path = saved(tmp_path)
    content = path.read_bytes()
    for length in [0, 1, 100, len(content) // 2, len(content) - 1000, len(content) - 1]:
        path.write_bytes(content[:length])
        refuses(path, "truncated or damaged")


def test_every_flipped_bit_of_a_tensor_is_noticed(tmp_path):
    path = saved(tmp_path)
    with zipfile.ZipFile(path) as archive:
        entry = next(e for e in archive.infolist() if e.filename.endswith("/data/0"))
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 300] ^= 1
    path.write_bytes(content)
    refuses(path, "damaged.*CRC")


def test_no_damage_gets_past_the_inspection_as_another_error(tmp_path):
    path = saved(tmp_path)
    content = path.read_bytes()
    chance = random.Random(3)
    for _trial in range(60):
        damaged = bytearray(content)
        for _byte in range(chance.choice([1, 3, 30])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            training.inspect_checkpoint(io.BytesIO(bytes(damaged)))
        except training.CheckpointError as error:
            assert str(error)


class Opens:
    """What a hostile pickle does: it calls a function when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_code_is_never_run(tmp_path, protocol):
    trap = tmp_path / "made"
    pickle.loads(pickle.dumps(Opens(trap), protocol))
    assert trap.exists()  # the trap works
    trap.rmdir()
    refuses(pickled(saved(tmp_path), pickle.dumps(Opens(trap), protocol)), r"carries code or objects \(posix.mkdir\)")
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Opens(trap), protocol))
    refuses(tmp_path / "old.pt", "no checkpoint")
    assert not trap.exists()


@pytest.mark.parametrize(
    "name", [b"cbuiltins\neval\n", b"ctorch\nload\n", b"ctorch._utils\n_rebuild_tensor\n", b"ccore\njobs\n"]
)
def test_no_other_word_is_known(tmp_path, name):
    refuses(pickled(saved(tmp_path), b"\x80\x02" + name + b"."), "carries code or objects")


def claim(count, shape, stride, key="0", kind=b"FloatStorage", offset=0):
    """A description by hand: one model tensor over a storage that says it has ``count`` numbers."""

    def number(n):
        return pickle.dumps(n, 2)[2:-1]

    def row(numbers):
        return b"(" + b"".join(map(number, numbers)) + b"t"

    storage = b"(" + pickle.dumps("storage", 2)[2:-1] + b"ctorch\n" + kind + b"\n" + pickle.dumps(key, 2)[2:-1]
    storage += pickle.dumps("cpu", 2)[2:-1] + number(count) + b"tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + row(shape) + row(stride)
    tensor += b"\x89ccollections\nOrderedDict\n)RtR"
    items = [
        (FORMAT_KEY, number(1)),
        ("step", number(3)),
        ("model", b"}(" + pickle.dumps("w", 2)[2:-1] + tensor + b"u"),
    ]
    body = b"".join(pickle.dumps(key, 2)[2:-1] + value for key, value in items)
    return b"\x80\x02}(" + body + b"u."


def first_count(path):
    with zipfile.ZipFile(path) as archive:
        return next(e.file_size for e in archive.infolist() if e.filename.endswith("/data/0")) // 4


def test_a_claim_by_hand_is_read(tmp_path):
    path = saved(tmp_path)
    count = first_count(path)
    info = training.inspect_checkpoint(pickled(path, claim(count, (count,), (1,))))
    assert (info.step, info.model, info.tensor_bytes) == (3, (("w", (count,)),), 4 * count)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 16 * 10**9}, r"describes numbers of 64\.0 GB where it holds"),
        ({"shape": (16 * 10**9,), "stride": (0,)}, r"a tensor of 64\.0 GB over"),
        ({"shape": (2**30, 16), "stride": (0, 1)}, "a tensor of"),
        ({"stride": (2,)}, "a tensor of"),
        ({"offset": 1}, "a tensor of"),
        ({"offset": -1}, "in a way that no checkpoint does"),
        ({"stride": (-1,)}, "in a way that no checkpoint does"),
        ({"shape": (2**70,)}, "in a way that no checkpoint does"),
        ({"shape": (1,) * 50, "stride": (1,) * 50}, "in a way that no checkpoint does"),
        ({"key": "../../etc/passwd"}, "where it holds"),
        ({"kind": b"DoubleStorage"}, "where it holds"),
        ({"kind": b"UntypedStorage"}, "carries code or objects"),
    ],
)
def test_claims_beyond_the_bytes_that_are_there(tmp_path, change, words):
    path = saved(tmp_path)
    count = first_count(path)
    refuses(pickled(path, claim(**({"count": count, "shape": (count,), "stride": (1,)} | change))), words)


def test_a_zip_bomb(tmp_path):
    path = saved(tmp_path)
    rewritten(path, lambda entries: entries.update({"archive/data/0": b"\0" * 2**24}), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**20
    refuses(path, "never compressed")


def test_entries_that_overlap(tmp_path):
    """A directory whose entries all point at the same bytes claims more than the file has."""
    path = tmp_path / "overlap.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10_000)
        entry = archive.infolist()[0]
        for number in range(500):
            twin = zipfile.ZipInfo(f"archive/data/{number}")
            twin.file_size = twin.compress_size = entry.file_size
            twin.CRC, twin.header_offset = entry.CRC, entry.header_offset
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    refuses(path, r"claims to hold 5\.01 MB and has")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "no checkpoint of a run"),
        ({"weights": torch.zeros(3)}, "no checkpoint of a run"),
        ({FORMAT_KEY: 2, "step": 1, "model": {}}, "is of format 2"),
        ({FORMAT_KEY: 1, "step": -1, "model": {}}, "names no step"),
        ({FORMAT_KEY: 1, "step": 1, "model": {"w": 3}}, "not made of named tensors"),
        ({FORMAT_KEY: 1, "step": 1, "model": {}, "config": '{"lr": -1}'}, "lr must be"),
    ],
)
def test_torch_files_of_something_else(tmp_path, content, words):
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=words):
        training.inspect_checkpoint(tmp_path / "x.pt")


def test_other_archives_and_other_models(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    refuses(tmp_path / "a.zip", "another program's")
    trainer = Trainer(TEXT.replace(dim=32), data=DATA)
    before = [p.clone() for p in trainer.parameters]
    with pytest.raises(training.CheckpointError, match=r"another model: .* has shape \(.*\) in it, and \(.*\) here"):
        trainer.load(saved(tmp_path))
    assert all(map(torch.equal, before, trainer.parameters))
    with pytest.raises(training.CheckpointError, match="optimizer is another one"):
        Trainer(TEXT.replace(optimizer="sgd"), data=DATA).load(saved(tmp_path))


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "large.pt").open("wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(training.CheckpointError, match=r"2\.15 GB at most; this file has 3\.22 GB"):
        training.inspect_checkpoint(tmp_path / "large.pt")


def test_an_inspection_in_a_job_with_a_memory_limit(tmp_path):
    path = saved(tmp_path)
    *_updates, info = jobs.run(training.inspect_checkpoint, str(path), memory_limit_bytes=2**28, timeout=60)
    assert info.step == 1
    pickled(path, claim(16 * 10**9, (16 * 10**9,), (1,)))
    with pytest.raises(ValueError, match=r"64\.0 GB"):
        list(jobs.run(training.inspect_checkpoint, str(path), memory_limit_bytes=2**28, timeout=60))


# Killed


def trained_elsewhere(folder, kill_after=None):
    """Train a run's folder in a process; kill it with SIGKILL once it has that many records. Its records, whole."""
    program = (
        "import sys, torch; torch.set_num_threads(1); from core.training import train_in_folder as t; t(sys.argv[1])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    records = folder / "records.jsonl"
    if kill_after is not None:
        while process.poll() is None and not (records.exists() and records.read_bytes().count(b"\n") >= kill_after):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return [json.loads(line) for line in records.read_bytes().split(b"\n")[:-1]]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_killed_at_a_random_step_and_resumed_the_losses_are_the_same_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPKIN_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("NAPKIN_CACHE_DIR", str(tmp_path / "cache"))
    name = training.store_text(bytes((32 + DATA % 95).tolist()) * 4)
    config = TEXT.replace(corpus=name, num_steps=150)
    expected = [record.loss for record in training.train(config)]
    state = training_runs.RunState("queued", checkpoint_every=7)
    run_id = training_runs.new_folder(config, state)
    folder = tmp_path / "runs" / run_id
    seen = trained_elsewhere(folder, kill_after=random.Random().randrange(10, 120))
    assert len(seen) < 150
    assert [record["loss"] for record in seen] == expected[: len(seen)]
    info = training.find_run(run_id)
    assert info.state == "interrupted"
    assert info.checkpoint_step is None or info.checkpoint_step <= len(seen)
    assert training.inspect_checkpoint(folder / "checkpoint.pt").step >= len(seen) - 7 - 1
    resumed = trained_elsewhere(folder)
    assert [record["step"] for record in resumed] == list(range(150))
    assert [record["loss"] for record in resumed] == expected
    assert training.find_run(run_id).state == "done"
    assert not list(folder.glob(".checkpoint*.part"))
