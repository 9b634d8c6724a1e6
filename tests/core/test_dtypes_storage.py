"""Bytes, storages, devices and new tensors, against torch; the lecture's numbers; the lessons."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import dtypes, jobs, lesson
from core.lessons import dtypes as lessons


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=4), st.sampled_from(dtypes.STORED))
def test_bytes_are_those_of_torchs_storage(shape, dtype):
    comparison = dtypes.compare_tensor_bytes(tuple(shape), dtype)
    assert comparison.measurement.value == comparison.prediction.value
    name = dtypes.FORMATS[dtype].torch_name
    if name:
        assert comparison.prediction.value == torch.zeros(shape, dtype=getattr(torch, name)).untyped_storage().nbytes()
    else:
        assert comparison.prediction.value == math.ceil(math.prod(shape) / 2)


def test_the_lectures_bytes():
    assert dtypes.tensor_bytes((4, 8)) == 128
    matrix = dtypes.compare_tensor_bytes((49152, 12288), "fp32")
    assert matrix.measurement.value == 2415919104
    assert matrix.measurement.conditions.device == "meta"  # nothing was allocated
    units = dtypes.in_every_unit(2415919104)
    assert (units["MiB"], units["GiB"], units["GB"]) == ("2,304", "2.25", "2.416")
    assert dtypes.in_every_unit(0)["GiB"] == "0"
    assert dtypes.in_every_unit(128)["MiB"] == "0.000122"


@pytest.mark.parametrize(
    "text", ["", " ", "4,-1", "4.5", "four", "٣", "4,,8", "1e9", "4;8", "4" * 81, "(((4)))", "4 8", "²"]
)
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match="is not a shape; write whole numbers"):
        dtypes.parse_shape(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("1,1,1,1,1,1,1,1,1", "the number of dimensions must be a whole number from 0 to 8"),
     ("9999999999999", "a dimension must be a whole number from 0"),
     ("1099511627776, 1099511627776", "at most 2.62 elements")],
)  # fmt: skip
def test_shapes_that_are_too_large_are_refused(text, wrong):
    with pytest.raises(ValueError, match=wrong):
        dtypes.parse_shape(text)


def test_shapes_with_nothing_or_one_thing_in_them():
    assert dtypes.compare_tensor_bytes((), "bf16").measurement.value == 2
    assert dtypes.compare_tensor_bytes((0, 4), "fp32").measurement.value == 0
    assert dtypes.parse_shape("4,") == (4,)
    assert dtypes.parse_shape("1_000 x 2") == (1000, 2)


def test_a_views_claim_is_not_its_storage():
    claims = {one.code: one for one in dtypes.view_claims()}
    assert (claims["x[0, :10]"].claimed_bytes, claims["x[0, :10]"].storage_bytes) == (40, 4_000_000)
    expanded = claims["torch.zeros(1).expand(1000, 1000)"]
    assert (expanded.claimed_bytes, expanded.storage_bytes) == (4_000_000, 4)
    for one in claims.values():
        comparison = dtypes.compare_claim(one)
        assert comparison.unexplained == 0
        assert comparison.ratio == one.storage_bytes / one.claimed_bytes


def test_the_lectures_two_matrices():
    done = dtypes.measure_device_memory((32, 32), "fp32", 2)
    comparison = dtypes.compare_device_memory(done)
    assert comparison.prediction.value == comparison.measurement.value == 8192
    assert dtypes.allocated_bytes((32, 32), "fp32", 2) == 8192
    assert dtypes.allocated_bytes((4, 8), "fp32", 2) == 1024
    assert dtypes.measure_device_memory((3, 3), "e2m1", 3).storage_bytes == 15
    with pytest.raises(ValueError, match="these tensors take 4.50 GiB"):
        dtypes.measure_device_memory((49152, 12288))


def test_what_a_gpus_allocator_rounds_up_is_a_part():
    done = dtypes.DeviceMemory((4, 8), "fp32", 2, "cuda:0", 256, 5120, 6144, "2.13", "a GPU")
    comparison = dtypes.compare_device_memory(done)
    assert comparison.measurement.value == 1024
    assert [(part.name, part.value) for part in comparison.parts] == [("rounding to 512 B", 768)]
    assert comparison.unexplained == 0


def test_moving_a_tensor_in_a_job():
    (*_updates, run) = jobs.run(dtypes.measure_move, 2**16, threads=1, min_seconds=0.02, timeout=60)
    assert run.settings == (2**16, "cpu")
    comparison = dtypes.compare_move(run, 1e10)
    assert comparison.prediction.value == 2 * 2**16 / 1e10
    assert comparison.measurement is run.whole
    assert [part.name for part in comparison.parts] == ["call overhead", "new memory", "interruptions"]
    with pytest.raises(ValueError, match="the bytes to move must be a whole number from 1"):
        dtypes.measure_move(2**40)


def test_a_move_to_a_gpu_is_predicted_by_its_own_large_copy():
    run = dtypes.measure_move(4096, threads=1, min_seconds=0.005)
    fields = {**run.__dict__, "device": "cuda:0", "pinned": run.into_place, "bytes_per_sec": 2e10}
    comparison = dtypes.compare_move(dtypes.MoveRun(**fields))
    assert comparison.prediction.value == 4096 / 2e10
    assert [part.name for part in comparison.parts] == ["call overhead", "new memory", "not pinned", "interruptions"]


@pytest.mark.parametrize(("way", "mean", "deviation"), [("zeros", 0, 0), ("ones", 1, 0), ("randn", 0, 1)])
def test_new_tensors(way, mean, deviation):
    one = dtypes.create(way, 256, 256)
    assert one.shape == (256, 256)
    assert (one.mean, one.deviation) == (pytest.approx(mean, abs=0.02), pytest.approx(deviation, abs=0.02))
    assert (len(one.corner), len(one.corner[0])) == (4, 8)
    prediction, comparison = dtypes.compare_created(one)
    assert comparison.measurement.value == pytest.approx(prediction.value, abs=0.02)


@pytest.mark.parametrize("cut", [0.5, 1.0, 2.0, 3.0])
def test_a_truncated_normal_distribution(cut):
    one = dtypes.create("trunc_normal_", 512, 512, cut)
    assert -cut <= one.low < one.high <= cut
    grid = np.linspace(-cut, cut, 200_001)
    density = np.exp(-(grid**2) / 2)
    assert dtypes.truncated_deviation(cut) == pytest.approx(
        math.sqrt((grid**2 * density).sum() / density.sum()), rel=1e-4
    )
    _prediction, comparison = dtypes.compare_created(one, cut)
    assert comparison.ratio == pytest.approx(1, abs=0.01)


def test_nothing_is_predicted_of_empty():
    one = dtypes.create("empty", 64, 64)
    prediction, comparison = dtypes.compare_created(one)
    assert prediction.value is None
    assert comparison is None
    assert 0 <= one.left_behind <= 1
    assert "uninitialised memory" in prediction.unknown


def test_what_empty_finds_of_others_is_not_shown(monkeypatch):
    found = torch.tensor([[math.pi, 0.0, 42.0, math.inf]])
    monkeypatch.setattr(torch, "empty", lambda *shape, **kind: found)
    one = dtypes.create("empty", 1, 4)
    assert one.corner[0][:2] == (pytest.approx(math.pi), 0.0)
    assert all(math.isnan(value) for value in one.corner[0][2:])
    assert (one.low, one.high, one.left_behind) == (0.0, pytest.approx(math.pi), 0.25)


def test_created_tensors_are_the_same_every_time_but_for_empty():
    for way in dtypes.CREATED:
        if way != "empty":
            assert dtypes.create(way, 3, 5) == dtypes.create(way, 3, 5)
    assert dtypes.create("randn", seed=1) != dtypes.create("randn", seed=2)
    for arguments, wrong in (
        (("arange",), "the way must be one of"),
        (("ones", 0), "rows must be"),
        (("ones", 4, 10**9), "columns must be"),
        (("ones", 4, 4, math.nan), "the cut must be"),
    ):
        with pytest.raises(ValueError, match=wrong):
            dtypes.create(*arguments)


@pytest.mark.parametrize("value", [1e-8, 0.1, 65520.0, 1e5, -3.0])
def test_the_lesson_of_small_numbers(value):
    result = lesson.run(lessons.small_numbers, value=value).result.tolist()
    assert result == [float(dtypes.round_to(value, name)) for name in ("fp32", "bf16", "fp16")]


@pytest.mark.parametrize(
    ("shape", "dtype"), [((4, 8), "fp32"), ((49152, 12288), "fp32"), ((), "bf16"), ((3, 0), "int64")]
)
def test_the_lesson_of_bytes(shape, dtype):
    name = dtypes.FORMATS[dtype].torch_name
    assert lesson.run(lessons.tensor_memory, shape=shape, dtype=name).result == dtypes.tensor_bytes(shape, dtype)


def test_a_lesson_shows_no_memory_that_was_not_filled(monkeypatch):
    """What torch.empty finds may be another visitor's: here it finds 31337, which nothing that is shown may say."""
    monkeypatch.setattr(torch, "empty", lambda *shape: torch.full(shape, 31337.0))
    run = lesson.run(lessons.new_tensors, rows=2, columns=3)
    shown = [value.text for step in run.steps for value in step.values if value.name == "values_RC"]
    assert shown
    assert not any(lesson.describe(31337.0) in text for text in shown)


def test_the_lessons_of_new_tensors_and_of_two_matrices():
    assert lesson.run(lessons.new_tensors, rows=3, columns=5).result.shape == (3, 5)
    assert lesson.run(lessons.two_matrices, rows=32, columns=32, count=2).result == 8192


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_memory_and_moves_on_a_gpu():
    arguments = {"device": "cuda:0", "timeout": 120}
    for shape, taken in (((32, 32), 8192), ((4, 8), 1024)):
        (*_updates, done) = jobs.run(dtypes.measure_device_memory, shape, "fp32", 2, "cuda:0", **arguments)
        comparison = dtypes.compare_device_memory(done)
        assert comparison.measurement.value == taken
        assert comparison.unexplained == 0
    (*_updates, run) = jobs.run(dtypes.measure_move, 2**24, "cuda:0", **arguments)
    assert 0.2 < dtypes.compare_move(run).ratio < 50


@pytest.mark.parametrize("dtype", dtypes.STORED)
def test_the_largest_tensors_are_measured_or_refused(dtype):
    bits = dtypes.FORMATS[dtype].item_bits
    most = (2**63 - 1) * 8 // bits >> 40
    for shape in [(2**40, min(most, 2**22)), (0, 2**40, 2**22), (2**40, 0, 2**22)]:
        comparison = dtypes.compare_tensor_bytes(shape, dtype)
        assert comparison.measurement.value == comparison.prediction.value
    with pytest.raises(ValueError, match=r"at most 2\^62 elements"):
        dtypes.compare_tensor_bytes((0, 2**40, 2**40), dtype)
    if bits >= 16:
        with pytest.raises(ValueError, match=r"fewer than 2\^63 bytes"):
            dtypes.compare_tensor_bytes((2**40, 2**22), dtype)
