"""Writing through views, bytes, elementwise results, negative strides, and the cost measured."""

import math
import pickle
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import strides
from core.claims import Conditions, Measurement
from core.hardware import Calibration
from core.strides import parse_chain
from core.strides.cost import CostRun


def test_writing_100_into_x_shows_in_every_view_of_the_lecture():
    for text in ("x[0]", "x.view(3, 2)", "x.transpose(1, 0)"):
        write = strides.write_through((2, 3), parse_chain(text), 0, (0, 0))
        assert write.value == 100
        x, other = write.tensors
        assert x.changed == {(0, 0)}
        assert len(other.changed) == 1
        assert other.values[0] == 100
        assert other.predicted == other.changed
    x, column = strides.write_through((2, 3), parse_chain("x[:, 1]"), 0, (0, 0)).tensors
    assert x.changed == {(0, 0)}
    assert column.changed == set()  # in the same storage, elsewhere


def test_a_write_through_an_expanded_view_shows_many_times_and_one_into_a_copy_nowhere_else():
    write = strides.write_through((1, 3), parse_chain("x.expand(4, 3).contiguous()"), 1, (2, 1))
    assert [len(one.changed) for one in write.tensors] == [1, 4, 0]
    assert [one.shares_storage for one in write.tensors] == [True, True, False]
    write = strides.write_through((1, 3), parse_chain("x.expand(4, 3).contiguous()"), 2, (2, 1))
    assert [len(one.changed) for one in write.tensors] == [0, 0, 1]
    comparison = strides.compare_write(strides.write_through((1, 3), parse_chain("x.expand(4, 3)"), 0, (0, 1)))
    assert (comparison.prediction.formula, comparison.prediction.value, comparison.ratio) == ("1 + 4", 5, 1)


def test_what_holds_100_already_is_written_101():
    assert strides.write_through((101,), (), 0, (100,)).value == 101


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_what_a_write_changes_is_told_by_addresses_alone(seed):
    generator = random.Random(seed)
    shape, operations = strides.random_chain(generator)
    steps = [one for one in strides.predict_chain(strides.Layout.contiguous(shape), operations) if one.after]
    layouts = [strides.Layout.contiguous(shape), *(one.after for one in steps)]
    number = generator.randrange(len(layouts))
    if not layouts[number].numel:
        return
    index = tuple(generator.randrange(size) for size in layouts[number].shape)
    write = strides.write_through(shape, operations, number, index, -5.0)
    assert index in write.tensors[number].changed
    for one in write.tensors:
        assert one.predicted == one.changed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((2, 3), "x", 1, (0, 0)), "tensor 1 does not exist: the chain has 1"),
        (((2, 3), "x", -1, (0, 0)), "tensor -1 does not exist"),
        (((2, 3), "x", 0, (2, 0)), r"index\[0\] must be a whole number from 0 to 1; received 2"),
        (((2, 3), "x", 0, (0,)), "must have 2 numbers"),
        (((0, 3), "x", 0, (0, 0)), r"a tensor of shape \(0, 3\) has no elements to point at"),
        (((5000,), "x", 0, (0,)), "at most 4,096 elements; this chain has one of 5,000"),
        (((1,), "x.expand(9999999)", 0, (0,)), "at most 4,096 elements"),
    ],
)
def test_a_write_that_cannot_be_is_refused(arguments, words):
    shape, text, step, index = arguments
    with pytest.raises(ValueError, match=words):
        strides.write_through(shape, parse_chain(text), step, index)


@pytest.mark.parametrize(
    ("shape", "text", "logical", "storage", "parts"),
    [
        ((1_000_000,), "x[:10]", 40, 4_000_000, {"storage that it does not reach": 3_999_960}),
        ((1, 1000), "x.expand(1000, 1000)", 4_000_000, 4000, {"the same place again": -3_996_000}),
        ((1000, 1000), "x[:, 0]", 4000, 4_000_000, {"storage that it does not reach": 3_996_000}),
        ((100,), "x.unfold(0, 10, 1)", 91 * 40, 400, {"the same place again": 400 - 91 * 40}),
        ((1_000_000,), "x[:10].clone()", 40, 40, {}),
        ((10,), "x[::2].expand(3, 5)", 60, 40, {"storage that it does not reach": 20, "the same place again": -40}),
        ((), "x", 4, 4, {}),
        ((0, 3), "x", 0, 0, {}),
    ],
)
def test_logical_bytes_against_storage_bytes(shape, text, logical, storage, parts):
    comparison = strides.compare_bytes(shape, parse_chain(text))
    assert (comparison.prediction.value, comparison.measurement.value) == (logical, storage)
    assert {part.name: part.value for part in comparison.parts} == parts
    if comparison.unexplained is not None:
        assert comparison.unexplained == 0


def test_the_storage_of_a_slice_outlives_the_tensor():
    x = torch.zeros(1_000_000)
    part = x[:10]
    del x
    assert (part.nbytes, part.untyped_storage().nbytes(), part.clone().untyped_storage().nbytes()) == (
        40,
        4_000_000,
        40,
    )


def test_bytes_of_a_chain_that_fails_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"torch refuses view\(6\): dimensions 0"):
        strides.compare_bytes((2, 3), parse_chain("x.transpose(0, 1).view(6)"))


def test_the_lecture_s_elementwise_operations():
    ran = strides.apply_elementwise()
    values = {one.expression: one.values for one in ran.applied}
    assert values["x.pow(2)"] == (1, 16, 81)
    assert values["x.sqrt()"] == (1, 2, 3)
    assert values["x.rsqrt()"] == pytest.approx((1, 1 / 2, 1 / 3))
    assert values["x + x"] == values["x * 2"] == values["x / 0.5"] == (2, 8, 18)
    *new, in_place = ran.applied
    pointers = {one.storage_pointer for one in new}
    assert len(pointers) == len(new) == 6
    assert ran.storage_pointer not in pointers
    assert in_place.storage_pointer == ran.storage_pointer
    comparison = strides.compare_elementwise(ran)
    assert comparison.prediction.value == comparison.measurement.value == 6 * 3 * 4


@pytest.mark.parametrize("values", [(), (1,) * 9, (math.nan,), (math.inf,), ("1",), (True,), (2e6,)])
def test_values_that_are_none_are_refused(values):
    with pytest.raises(ValueError, match="received"):
        strides.apply_elementwise(values)


def test_triu():
    assert strides.triu_mask(3).rows == ((1, 1, 1), (0, 1, 1), (0, 0, 1))
    for n, diagonal in ((1, 0), (3, 0), (8, 1), (5, -2), (4, 9), (64, -64)):
        comparison = strides.compare_mask(strides.triu_mask(n, diagonal))
        assert comparison.prediction.value == comparison.measurement.value
    assert strides.compare_mask(strides.triu_mask(64)).prediction.formula == "64 + 63 + 62 + 61 + … + 1"
    with pytest.raises(ValueError, match="n must be a whole number from 1 to 64"):
        strides.triu_mask(65)


def test_negative_strides():
    tried = strides.negative_strides(5)
    assert tried.numpy_strides == (-1,)
    assert tried.slice_error == "step must be greater than zero"
    assert "negative" in tried.from_numpy_error
    assert (tried.flip_strides, tried.flip_allocated_bytes) == ((1,), 20)


CONDITIONS = Conditions("cpu", "a processor", "fp32", threads=1, warmup=3, trials=3, busy_fraction=0.0)
CALIBRATION = Calibration("cpu", "a processor", 1, "2", "today", 0.0, (), 1e9, 2**28, last_cache_bytes=2**10)


def measured(*samples, conditions=CONDITIONS):
    return Measurement("time", samples, "s", conditions)


def made_up_run(**changes):
    times = {
        "rows": measured(3e-3, 4e-3, 5e-3), "columns": measured(4e-3), "stepped": measured(3e-3),
        "copy": measured(9e-3), "transposed": measured(20e-3), "view": measured(1e-6),
    }  # fmt: skip
    run = {"n": 1024, "times": times, "kept_copy": measured(8e-3), "kept_transposed": measured(17e-3)}
    return CostRun(**(run | {"tiny": dict.fromkeys(times, 1e-6)} | changes))


def test_predicted_is_bytes_over_bandwidth():
    assert strides.predict_cost("rows", 1024, 1e9).value == pytest.approx(1024**2 * 4 / 1e9)
    assert strides.predict_cost("transposed", 1024, 1e9).value == pytest.approx(2 * 1024**2 * 4 / 1e9)
    assert strides.predict_cost("view", 1024, 1e9).value == 0


def test_the_parts_of_a_difference_are_measured_pieces():
    def parts(name):
        return {part.name: part.value for part in strides.compare_cost(made_up_run(), name, CALIBRATION).parts}

    assert parts("rows") == pytest.approx({"call overhead": 1e-6, "interruptions": 1e-3})
    assert parts("stepped") == pytest.approx({"call overhead": 1e-6, "cache lines": 15 / 16 * 1024**2 * 4 / 1e9})
    assert parts("copy") == pytest.approx({"call overhead": 1e-6, "new memory": 1e-3})
    assert parts("transposed") == pytest.approx({"call overhead": 1e-6, "new memory": 3e-3, "strided reads": 9e-3})
    assert strides.compare_cost(made_up_run(), "view", CALIBRATION).ratio is None


def test_a_busy_machine_and_a_small_matrix_are_said():
    busy = Conditions("cpu", "a processor", "fp32", threads=1, warmup=3, trials=1, busy_fraction=0.5)
    times = made_up_run().times | {"rows": measured(1.0, conditions=busy)}
    small = Calibration("cpu", "a processor", 1, "2", "today", 0.0, (), 1e9, 2**28, last_cache_bytes=2**30)
    first, second = strides.compare_cost(made_up_run(times=times), "rows", small).warnings
    assert "50% of the processor" in first
    assert "4.00 MiB) fits into the last cache (1.00 GiB)" in second
    assert strides.compare_cost(made_up_run(), "rows", CALIBRATION).warnings == ()


def test_a_real_run():
    told = []
    run = strides.measure_cost(32, threads=1, window_seconds=0.002, on_progress=lambda *report: told.append(report))
    assert run.settings == (32, 1)
    assert set(run.times) == set(strides.CASES)
    for one in (*run.times.values(), run.kept_copy, run.kept_transposed):
        assert one.minimum > 0
        assert one.conditions.threads == 1
    assert pickle.loads(pickle.dumps(run)) == run
    fractions = [fraction for fraction, _message in told]
    assert fractions == sorted(fractions)
    assert told[4][1] == "x.t().contiguous()"


@pytest.mark.parametrize(
    ("n", "words"), [(0, "n must be a whole number"), (100, "a multiple of 16"), (2**15, "from 16")]
)
def test_an_n_that_does_not_fit_is_refused(n, words, monkeypatch):
    monkeypatch.setattr(torch, "rand", None)
    with pytest.raises(ValueError, match=words):
        strides.measure_cost(n)


def test_the_limit_is_in_bytes(monkeypatch):
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", str(3 * 64**2 * 4))
    assert strides.check_cost(64) == 64
    with pytest.raises(ValueError, match=r"three matrices of 80 × 80 take .* the limit here is 48\.0 KiB"):
        strides.check_cost(80)


def test_every_case_moves_what_it_says():
    x = torch.rand(32, 32)
    for name, case in strides.CASES.items():
        result = case.run(x)
        shares = strides.shares_storage(x, result)
        written = 0 if shares or result.numel() <= 32 else result.nbytes
        read = {"stepped": x[:, ::16].numel() * 4, "view": 0}.get(name, x.nbytes)
        assert strides.moved_bytes(name, 32) == read + written
