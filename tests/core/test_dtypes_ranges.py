"""Thresholds against brute force and torch's casts, finfo, updates and loss scaling against torch."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core import dtypes

IN_TORCH = [name for name in dtypes.FLOATS if dtypes.FORMATS[name].torch_name]
NARROW = [name for name in dtypes.FLOATS if dtypes.FORMATS[name].bits <= 16]


@pytest.mark.parametrize("name", NARROW)
def test_thresholds_are_those_of_all_numbers(name):
    fmt, limit = dtypes.FORMATS[name], dtypes.thresholds(name)
    positive = [dtypes.decode(code, fmt) for code in range(fmt.max_code + 1)]
    values = [one.value for one in positive if one.value]
    assert limit.largest == max(values)
    assert limit.smallest_normal == min(one.value for one in positive if one.kind == "normal")
    subnormal = [one.value for one in positive if one.kind == "subnormal"]
    assert limit.smallest_subnormal == (min(subnormal) if subnormal else None)
    assert limit.epsilon == min(value - 1 for value in values if value > 1)
    others = (dtypes.decode(code, fmt) for code in range(fmt.max_code + 1, 2**fmt.bits))
    assert limit.count == len({one.value for one in (*positive, *others)} - {None})


@pytest.mark.parametrize("name", dtypes.FLOATS)
def test_a_number_just_beyond_a_threshold_behaves_otherwise(name):
    limit, bit = dtypes.thresholds(name), Fraction(1, 2**200)
    at, above, below = (dtypes.encode(limit.overflows_from * (1 + step), name) for step in (0, bit, -bit))
    top = limit.fmt.max_code
    assert below == top
    if limit.overflow != "saturate":
        assert above != top
        assert (at != top) == limit.overflow_includes_it
    if limit.rounds_to_zero is not None:
        assert dtypes.encode(limit.rounds_to_zero, name) == 0
        assert dtypes.encode(limit.rounds_to_zero * (1 + bit), name) == 1


def test_the_lectures_thresholds():
    fp16, bf16, fp32 = (dtypes.thresholds(name) for name in ("fp16", "bf16", "fp32"))
    assert fp16.rounds_to_zero == Fraction(1, 2**25)
    assert fp16.smallest_subnormal == Fraction(1, 2**24)
    assert (fp16.overflows_from, fp16.overflow_includes_it) == (65520, True)
    assert f"{float(bf16.largest):.4e} {float(fp32.largest):.4e}" == "3.3895e+38 3.4028e+38"
    assert dtypes.thresholds("e4m3fn").largest == 448
    assert dtypes.thresholds("e5m2").largest == 57344
    halves = torch.tensor([2.0**-25, 2.0**-25 * (1 + 2.0**-20), 65519.996, 65520.0]).half().tolist()
    assert halves == [0.0, 2.0**-24, 65504.0, math.inf]


@pytest.mark.parametrize("name", ["e3m2", "e2m3", "e2m1"])
def test_thresholds_are_ml_dtypes_finfo(name):
    theirs, ours = ml_dtypes.finfo(f"float{dtypes.FORMATS[name].bits}_{name}fn"), dtypes.thresholds(name)
    assert float(theirs.max) == ours.largest
    assert float(theirs.smallest_normal) == ours.smallest_normal
    assert float(theirs.smallest_subnormal) == ours.smallest_subnormal
    assert float(theirs.eps) == ours.epsilon


def test_finfo_is_wrong_once():
    rows = dtypes.beside_finfo()
    assert len(rows) == 3 * len(IN_TORCH)
    assert [(row.fmt.name, row.field, row.ours, row.torchs) for row in rows if not row.agrees] == [
        ("e5m2fnuz", "eps", 0.25, 0.125)
    ]
    after = torch.tensor([1.0, 1.125, 1.2, 1.25]).to(torch.float8_e5m2fnuz).float()
    assert after.tolist() == [1.0, 1.0, 1.25, 1.25]  # nothing between 1 and 1.25


def test_an_integer_has_no_thresholds():
    with pytest.raises(ValueError, match="int8 is an integer"):
        dtypes.thresholds("int8")


@pytest.mark.parametrize("name", [*NARROW, "fp64"])
def test_number_lines(name):
    (line,) = dtypes.number_lines([name])
    limit = dtypes.thresholds(name)
    assert line.first_normal == math.log2(limit.smallest_normal)
    assert line.last == pytest.approx(math.log2(limit.largest))
    assert list(line.marks) == sorted(line.marks)
    if line.fmt.bits <= 8:
        assert len(line.marks) == line.fmt.max_code + (name == "e8m0fnu")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=30),
       st.sampled_from([name for name in dtypes.FLOATS if name not in ("fp64", "e8m0fnu")]))  # fmt: skip
def test_arrays_round_as_single_numbers_do(values, name):
    rounded = dtypes.round_array(values, name)
    for value, ours in zip(values, rounded.tolist(), strict=True):
        exact = float(dtypes.round_to(value, name))
        assert ours == exact or math.isnan(ours) == math.isnan(exact) is True


@pytest.mark.parametrize("name", ["fp64", "e8m0fnu", "int8"])
def test_arrays_of_other_formats_are_refused(name):
    with pytest.raises(ValueError, match="up to 24 significant bits"):
        dtypes.round_array([1.0], name)


def test_stochastic_rounding_takes_a_neighbour_with_the_probability_of_its_nearness():
    uniform = (np.arange(1000) + 0.5) / 1000
    rounded = dtypes.round_array(np.full(1000, 1.3), "e2m1", uniform)
    assert sorted(set(rounded.tolist())) == [1.0, 1.5]
    assert np.mean(rounded == 1.5) == pytest.approx(0.6, abs=0.001)
    assert set(dtypes.round_array(np.full(1000, 1.5), "e2m1", uniform).tolist()) == {1.5}
    assert set(dtypes.round_array(np.full(1000, -1.3), "e2m1", uniform).tolist()) == {-1.5, -1.0}


@pytest.mark.parametrize("name", dtypes.UPDATED)
def test_the_smallest_update_that_changes_one(name):
    comparison = dtypes.compare_smallest_update(name)
    assert comparison.measurement.value == comparison.prediction.value
    ours = dtypes.smallest_update(name)
    before = dtypes.decode(ours.added.code - 1, name)
    assert dtypes.round_to(1 + ours.added.value, name).value > 1
    assert dtypes.round_to(1 + before.value, name).value == 1
    assert dtypes.round_to(1 - ours.subtracted.value, name).value < 1
    assert ours.tie == dtypes.FORMATS[name].epsilon / 2


@pytest.mark.parametrize("name", dtypes.UPDATED)
@pytest.mark.parametrize("update", [1e-4, 1e-3, 0.004, 0.3])
def test_a_thousand_updates_by_torch(name, update):
    comparison = dtypes.compare_accumulated(name, update)
    kind = getattr(torch, dtypes.FORMATS[name].torch_name)
    weight = torch.ones((), dtype=torch.float32).to(kind)
    for _step in range(1000):
        weight = (weight.float() + torch.tensor(update)).to(kind)
    assert comparison.measurement.value == weight.double().item()
    assert abs(comparison.unexplained) < 1e-12
    assert comparison.prediction.value == 1 + 1000 * float(np.float32(update))


def test_nearest_rounding_gets_stuck_and_stochastic_rounding_does_not():
    for name, stuck in (("bf16", 0), ("fp16", 0), ("e4m3fn", 0), ("fp32", None)):
        one = dtypes.accumulate(name, 1e-4)
        assert one.stuck_at == stuck
        assert one.nearest[-1] == (pytest.approx(1.1, abs=1e-3) if stuck is None else 1.0)
        deviation = (one.stochastic_high[-1] - one.stochastic_low[-1]) / 3.3
        assert abs(one.stochastic_mean[-1] - 1.1) <= 5 * deviation / math.sqrt(one.runs) + 1e-6
    assert dtypes.accumulate("bf16", 1e-4, seed=1) != dtypes.accumulate("bf16", 1e-4, seed=2)
    assert (
        dtypes.accumulate("fp16", 1e-3, 10).nearest[-1]
        == dtypes.compare_accumulated("fp16", 1e-3, 10).measurement.value
    )


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(dtypes.UPDATED), st.floats(-5, 0), st.integers(1, 300), st.integers(1, 5))
@example("e4m3fn", 0.0, 1500, 3)  # beyond its largest number
def test_stochastic_runs_are_those_of_rounding_sum_by_sum(name, power, steps, runs):
    one = dtypes.accumulate(name, 10**power, steps, runs)
    uniform = np.random.default_rng(0).random((steps + 1, runs))
    weights = [np.ones(runs)]
    for drawn in uniform[:steps]:
        weights.append(dtypes.round_array(weights[-1] + one.update, name, drawn))
    expected = np.array(weights)[list(one.steps)]
    np.testing.assert_array_equal(one.one_run, expected[:, 0])
    np.testing.assert_array_equal(one.stochastic_mean, expected.mean(axis=1))


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [(("fp64", 1e-4), "a format must be one of fp32, bf16"), (("bf16", 0), "an update must be a number above 0"),
     (("bf16", 2.0), "at most 1"), (("bf16", math.nan), "an update"), (("bf16", 1e-60), "smallest number"),
     (("bf16", 1e-4, 10**9), "updates must be a whole number from 1 to 2,000"),
     (("bf16", 1e-4, 10, 10**9), "runs must be")],
)  # fmt: skip
def test_updates_out_of_range_are_refused(arguments, wrong):
    with pytest.raises(ValueError, match=wrong):
        dtypes.accumulate(*arguments)


@pytest.mark.parametrize("name", dtypes.SCALED)
@pytest.mark.parametrize("scale", [0, 12, 24, 40])
def test_predicted_shares_are_those_of_the_cast(name, scale):
    predicted, measured = (f(name, -20, 5, scale) for f in (dtypes.predict_shares, dtypes.measure_shares))
    for kind in dtypes.KINDS:
        p = getattr(predicted, kind)
        assert getattr(measured, kind) == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 20_000) + 1e-9)
    assert sum(getattr(predicted, kind) for kind in dtypes.KINDS) == pytest.approx(1)
    bars = dtypes.histogram(name, -20, 5, scale)
    for kind in dtypes.KINDS:
        share = sum(share for _power, one, share in bars if one == kind)
        assert share == pytest.approx(getattr(measured, kind), abs=1e-9)


def test_loss_scaling_saves_small_gradients_until_large_ones_overflow():
    curve = dtypes.scale_curve("fp16", -20, 5)
    assert [one.scale_log2 for one in curve] == list(range(dtypes.MAX_SCALE_LOG2 + 1))
    assert all(a.zero >= b.zero for a, b in itertools.pairwise(curve))
    assert all(a.overflow <= b.overflow for a, b in itertools.pairwise(curve))
    assert curve[0].zero == pytest.approx(0.1587, abs=1e-4)  # one standard deviation below the middle
    with pytest.raises(ValueError, match="the scale, a power of 2, must be a whole number from 0 to 40"):
        dtypes.predict_shares("fp16", -20, 5, 41)
