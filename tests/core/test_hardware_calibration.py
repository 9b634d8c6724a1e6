"""Calibration: its sums with given seconds, and one short real run."""

from __future__ import annotations

import pickle

import pytest
import torch

from core.hardware import calibration as module
from core.hardware import native
from core.hardware.calibration import Task, calibrate

SLOW = native.cpu_with(set(), native._X86)
FAST = native.cpu_with({"avx512_bf16"}, native._X86)


@pytest.fixture(scope="module")
def short():
    seen: list[tuple[float, str]] = []
    result = calibrate(dtypes=("float32", "bf16"), window_seconds=0.002, on_progress=lambda f, m: seen.append((f, m)))
    return result, seen


def test_a_real_run(short):
    c, _ = short
    assert c.device == "cpu"
    assert c.threads >= 1
    assert c.torch_version == torch.__version__
    assert [ceiling.dtype for ceiling in c.ceilings] == ["fp32", "bf16"]
    for ceiling in c.ceilings:
        assert ceiling.flop_per_sec > 1e6
        assert dict(zip(ceiling.sizes, ceiling.rates, strict=True))[ceiling.size] == ceiling.flop_per_sec
        assert (
            ceiling.rates[-1]
            <= ceiling.flop_per_sec_at(10**6)
            <= max(ceiling.flop_per_sec, 2 / ceiling.call_overhead_seconds)
        )
        assert 1e-8 < ceiling.call_overhead_seconds < 1
        assert ceiling.why
    assert c.bytes_per_sec > 1e6
    assert c.busy_fraction is None or 0 <= c.busy_fraction <= 1
    assert c.date.endswith("+00:00")


def test_what_was_not_calibrated_is_unknown(short):
    c, _ = short
    assert c.peak_flop_per_sec("fp16") is c.call_overhead_seconds("fp16") is c.ridge_flop_per_byte("fp16") is None
    assert c.ridge_flop_per_byte(torch.float32) == c.peak_flop_per_sec("fp32") / c.bytes_per_sec


def test_progress_rises_from_none_to_done(short):
    _, seen = short
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert (seen[0][0], seen[-1]) == (0.0, (1.0, "done"))
    assert "memory bandwidth" in {message for _, message in seen}


def test_it_survives_the_way_back_from_a_job(short):
    assert pickle.loads(pickle.dumps(short[0])) == short[0]
    assert pickle.loads(pickle.dumps(calibrate)) is calibrate


def test_the_least_of_all_passes_counts(monkeypatch):
    seconds = iter([5.0, 7.0, 3.0, 9.0, 4.0, 6.0, 8.0, 8.0])
    monkeypatch.setattr(module, "_window", lambda *a: next(seconds))
    tasks = [Task("fp32", 256, lambda: None), Task("memory bandwidth", 0, lambda: None)]
    best: dict[tuple[str, int], float] = {}
    module._improve(best, tasks, "cpu", 1, 0.1, None, 0)
    assert best == {("fp32", 256): 3.0, ("memory bandwidth", 0): 6.0}


@pytest.mark.parametrize(("busy", "rounds", "kept"), [([0.0], 1, 0.0), ([0.5, 0.1], 2, 0.1), ([0.2, 0.4], 2, 0.2)])
def test_a_busy_round_is_measured_again_once(monkeypatch, busy, rounds, kept):
    shares, seen = iter(busy), []
    monkeypatch.setattr(module, "MAX_ROUNDS", 2)
    monkeypatch.setattr(module, "busy_fraction", lambda before, after: next(shares))
    monkeypatch.setattr(module, "_window", lambda *a: 1e-3)
    result = calibrate(dtypes=("fp32",), on_progress=lambda f, m: seen.append((f, m)))
    assert result.busy_fraction == kept
    assert sum(message.startswith("memory bandwidth") for _, message in seen) == rounds * module.PASSES
    assert [f for f, _ in seen] == sorted(f for f, _ in seen)
    assert any("again" in message for _, message in seen) == (rounds == 2)


def test_a_matmul_that_would_take_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr(module, "_window", lambda *a: 0.1)
    tasks = [Task("fp32", n, lambda: None) for n in (1, 256, 512)]
    best: dict[tuple[str, int], float] = {}
    module._improve(best, tasks, "cpu", 1, 0.1, None, 0)
    assert set(best) == {("fp32", 1), ("fp32", 256)}  # 512³ would take eight times 0.1 s
    ceiling = module._ceiling("fp32", (256, 512), best, SLOW)
    assert (ceiling.sizes, ceiling.size) == ((256,), 256)
    assert ceiling.flop_per_sec == 2 * 256**3 / 0.1


def test_steady_figures_get_a_quarter_of_the_time(monkeypatch):
    given = {}
    monkeypatch.setattr(module, "_window", lambda call, device, threads, seconds: given.setdefault(call, seconds))
    steady, other = (lambda: 1), (lambda: 2)
    module._improve({}, [Task("bf16", 128, steady, is_steady=True), Task("fp32", 256, other)], "cpu", 1, 0.5, None, 0)
    assert given == {steady: 0.125, other: 0.5}


@pytest.mark.parametrize(
    ("device", "threads", "is_native", "sizes"),
    [
        ("cpu", 2, True, module.CPU_SIZES),
        ("cpu", 2, False, module.SMALL_SIZES),
        ("cpu", 64, None, module.SMALL_SIZES),
        ("cpu", 64, True, module.MANY_CORES_SIZES),
        ("mps", 8, True, (128, 512, 2048, 4096)),  # 8192² leaves too little of 8 GB
    ],
)
def test_sizes_follow_what_the_hardware_computes(device, threads, is_native, sizes):
    assert module._sizes(device, threads, is_native) == sizes


@pytest.mark.parametrize(("cache", "expected"), [(2**20, 2**26), (2**25, 2**27), (2**30, 2**28), (None, 2**28)])
def test_the_array_is_well_above_the_cache_and_bounded(monkeypatch, cache, expected):
    monkeypatch.setattr(module, "last_cache_bytes", lambda: cache)
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: type("M", (), {"available": 2**40}))
    assert module._array_bytes("cpu") == expected


def test_the_array_leaves_memory_to_others(monkeypatch):
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: type("M", (), {"available": 2**26 + 5}))
    assert module._array_bytes("cpu") == 2**23


@pytest.mark.parametrize(("dtypes", "word"), [(("fp8",), "fp8"), (("colour",), "colour"), (("int8",), "int8")])
def test_a_dtype_that_cannot_be_calibrated_is_named(dtypes, word):
    with pytest.raises(ValueError, match=word):
        calibrate(dtypes=dtypes)


def test_a_dtype_asked_twice_is_measured_once():
    assert module._checked(("fp32", "float32", "bf16")) == ("fp32", "bf16")


def test_native_dtypes_decide_the_sizes_of_each_dtype():
    assert module._sizes("cpu", 2, FAST.has("bf16")) == module.CPU_SIZES
    assert module._sizes("cpu", 2, SLOW.has("bf16")) == module.SMALL_SIZES
