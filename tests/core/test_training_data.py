"""Tokens on disk, windows, schedules: what is drawn, what is refused, and what is read back."""

import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core import training
from core.training import data as training_data
from core.training.folders import replacing


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NAPKIN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


def test_the_lecture_s_round_trip(tmp_path):
    tokens = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], dtype=np.int32)
    assert training.write_tokens(tmp_path / "data.bin", tokens) == 10
    back = training.open_tokens(tmp_path / "data.bin")
    assert np.array_equal(back, tokens)
    assert (tmp_path / "data.bin").read_bytes() == b"".join(int(t).to_bytes(2, "little") for t in tokens)
    inputs, targets = training.get_batch(back, batch_size=2, context_length=4)
    assert inputs.shape == targets.shape == (2, 4)
    assert inputs.dtype == targets.dtype == torch.int64
    assert torch.equal(targets, inputs + 1)
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 3


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=50))
def test_every_token_survives(tmp_path_factory, tokens):
    path = tmp_path_factory.mktemp("tokens") / "t.bin"
    training.write_tokens(path, np.array(tokens))
    assert training.open_tokens(path).tolist() == tokens


def test_every_window_is_drawn_equally_often_the_last_too():
    data, windows, draws = np.arange(12), 12 - 4, 80_000
    generator = torch.Generator().manual_seed(1)
    inputs, _targets = training.get_batch(data, draws, 4, generator=generator)
    counts = Counter(inputs[:, 0].tolist())
    assert sorted(counts) == list(range(windows))
    chi_square = sum((n - draws / windows) ** 2 / (draws / windows) for n in counts.values())
    assert chi_square < 24.3  # 7 degrees of freedom, one in a thousand


def test_one_window_is_enough_and_less_is_refused():
    inputs, targets = training.get_batch(np.arange(5), 3, 4)
    assert inputs.tolist() == [[0, 1, 2, 3]] * 3
    assert targets.tolist() == [[1, 2, 3, 4]] * 3
    with pytest.raises(ValueError, match="at least 5 tokens; there are 4"):
        training.get_batch(np.arange(4), 1, 4)


@pytest.mark.parametrize(("batch", "context"), [(0, 4), (2, 0), (1.5, 4), ("2", 4), (2**20, 2**20), (True, 4)])
def test_sizes_are_refused_before_anything_is_made(batch, context, monkeypatch):
    monkeypatch.setattr(torch, "randint", None)
    with pytest.raises(ValueError, match="must be a whole number"):
        training.get_batch(np.arange(2**22), batch, context)


@pytest.mark.parametrize("tokens", [[-1], [65_536], [[1, 2]], [0.5]])
def test_what_is_no_token_is_refused(tokens, tmp_path):
    with pytest.raises(ValueError, match="token"):
        training.write_tokens(tmp_path / "x.bin", np.array(tokens))
    assert not (tmp_path / "x.bin").exists()


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_that_is_not_of_tokens(content, tmp_path):
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(ValueError, match="2 bytes for each"):
        training.open_tokens(tmp_path / "x.bin")


def test_a_generator_decides_alone():
    data = np.arange(1000)
    one = training.get_batch(data, 8, 4, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(99)
    two = training.get_batch(data, 8, 4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(one[0], two[0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_file_leaves_memory_flat(tmp_path):
    """A sparse file of 1 GB: windows all over it, and what the process holds of it stays below a hundredth."""
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(2**30)
    data = training.open_tokens(path)

    def mapped_bytes():
        text = Path("/proc/self/smaps").read_text()
        after = text[text.index(str(path)) :]
        return 1024 * int(after[after.index("\nRss:") + 5 :].split()[0])

    for _batch in range(20):
        training.get_batch(data, 64, 128)
    assert mapped_bytes() < 2**30 / 100
    np.asarray(data)[:: 2**11].sum()
    assert mapped_bytes() > 2**30 / 100  # the measurement sees what is held


def test_the_standard_library_is_there_and_always_the_same():
    text = training_data.standard_library_text(50_000)
    assert len(text) == 50_000
    assert text == training_data.standard_library_text(50_000)
    first = next(training_data.standard_library_files())
    assert text.startswith(first.read_bytes()[:100])
    names = [path.as_posix() for path in training_data.standard_library_files()]
    assert any(name.endswith("/json/decoder.py") for name in names)
    assert not any("site-packages" in name or "/test/" in name for name in names)


def test_the_corpus_is_bytes_and_is_cached(monkeypatch):
    monkeypatch.setattr(training_data, "standard_library_text", lambda: b"import this\n" * 100)
    tokens = training.corpus_tokens("stdlib")
    assert bytes(np.asarray(tokens).astype(np.uint8)) == b"import this\n" * 100
    monkeypatch.setattr(training_data, "standard_library_text", None)
    assert len(training.corpus_tokens("stdlib")) == 1200


def test_a_text_of_one_s_own():
    name = training.store_text("π is 3.14159… " * 10)
    assert bytes(np.asarray(training.corpus_tokens(name)).astype(np.uint8)).decode() == "π is 3.14159… " * 10
    assert training.store_text(("π is 3.14159… " * 10).encode()) == name
    for number in range(training_data.MAX_TEXTS + 3):
        training.store_text(f"text number {number}")
    assert len(list(training_data.cache_folder("texts").glob("text-*.bin"))) == training_data.MAX_TEXTS


@pytest.mark.parametrize("name", ["../../etc/passwd", "text-xyz", "", None, "stdlib\n", "text-" + "0" * 17, 7])
def test_a_corpus_is_never_a_path(name):
    with pytest.raises(ValueError, match="the corpus must be"):
        training.corpus_tokens(name)


def test_texts_that_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="no longer kept"):
        training.corpus_tokens("text-" + "0" * 16)
    with pytest.raises(ValueError, match="at least 2 bytes"):
        training.store_text("x")
    monkeypatch.setattr(training_data, "MAX_TEXT_BYTES", 10)
    with pytest.raises(ValueError, match=r"10\.0 B at most|10 B at most"):
        training.store_text("ππππππ")


def test_a_killed_or_failing_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def reference_cosine(step, max_lr, min_lr, warmup, total):
    """Llama's schedule by torch's own schedulers."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=max_lr)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - 1 - warmup, eta_min=min_lr)
    rise = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (s + 1) / warmup)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[warmup])
    for _step in range(step):
        optimizer.step()
        scheduler.step()
    return scheduler.get_last_lr()[0]


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize("step", [0, 1, 4, 5, 6, 10, 19])
def test_cosine_as_torch_s_own(step):
    expected = reference_cosine(step, 0.3, 0.01, 5, 20)
    assert training.cosine_lr(step, 0.3, 0.01, 5, 20) == pytest.approx(expected)


@given(st.integers(0, 50), st.integers(1, 60), st.integers(0, 120))
def test_cosine_stays_within_its_ends(warmup, total, step):
    lr = training.cosine_lr(step, 1.0, 0.1, warmup, total)
    assert 0 < lr <= 1.0
    if step >= warmup:
        assert lr >= 0.1 - 1e-12
    if step >= max(total - 1, warmup + 1):
        assert lr == pytest.approx(0.1)
    if warmup and step == warmup:
        assert lr == 1.0
    if warmup <= step:
        assert training.cosine_lr(step + 1, 1.0, 0.1, warmup, total) <= lr + 1e-12


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e6, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_clipping_is_torch_s_to_the_bit(max_norm, dtype):
    def parameters():
        generator = torch.Generator().manual_seed(5)
        made = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in ((3, 4), (7,), (2, 2, 2), (5,))]
        for p in made[:-1]:
            p.grad = torch.randn(p.shape, generator=generator).to(dtype)
        return made

    ours, theirs = parameters(), parameters()
    norm = training.clip_grad_norm(ours, max_norm)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, foreach=False)
    assert torch.equal(norm, expected)
    for p, q in zip(ours[:-1], theirs[:-1], strict=True):
        assert torch.equal(p.grad, q.grad)
    assert ours[-1].grad is None
    assert torch.equal(training.gradient_norm(theirs), training.gradient_norm(ours))


@pytest.mark.parametrize("max_norm", [0, -1.0, math.nan, -math.inf, "1"])
def test_a_norm_that_makes_no_sense(max_norm):
    with pytest.raises(ValueError, match="max_norm"):
        training.clip_grad_norm([], max_norm)
