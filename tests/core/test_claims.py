"""The spine's types: what they compute, and what they refuse."""

import math
import pickle
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.claims import Comparison, Conditions, Measurement, Prediction, Term, how_far_off, spread_sample

CONDITIONS = Conditions("cpu", "a processor", "fp32", threads=2, warmup=3, trials=5)
positive = st.floats(1e-9, 1e9)
samples = st.lists(positive, min_size=1, max_size=200)


def measured(*values: float, statistic: str = "median") -> Measurement:
    return Measurement("time", values, "s", CONDITIONS, statistic)


@given(samples)
def test_a_measurement_summarises_as_the_standard_library_does(values):
    one = measured(*values)
    assert one.minimum == min(values)
    assert one.maximum == max(values)
    assert one.median == statistics.median(values)
    assert one.mean == statistics.fmean(values)
    low, high = one.quartiles
    assert min(values) <= low <= one.median <= high <= max(values)
    assert one.interquartile_range == high - low


@pytest.mark.parametrize(("statistic", "value"), [("median", 2.0), ("mean", 4.0), ("minimum", 1.0)])
def test_the_headline_is_the_statistic_asked_for(statistic, value):
    assert measured(1.0, 2.0, 9.0, statistic=statistic).value == value


@given(positive, positive, st.lists(st.floats(-1e6, 1e6), max_size=6))
def test_parts_and_unexplained_add_up_to_the_difference(predicted, value, parts):
    terms = tuple(Term(str(index), part) for index, part in enumerate(parts))
    one = Comparison(Prediction("time", predicted, "s", "x"), measured(value), terms)
    total = math.fsum(parts) + one.unexplained
    assert total == pytest.approx(value - predicted, rel=1e-9, abs=1e-6)
    assert one.ratio == value / predicted


def test_without_a_prediction_there_is_neither_ratio_nor_difference():
    one = Comparison(Prediction("time", None, "s", "F / peak", unknown="no peak"), measured(1.0))
    assert (one.ratio, one.difference, one.unexplained, one.prediction.text) == (None, None, None, "unknown")


def test_unknown_and_value_exclude_each_other():
    with pytest.raises(AssertionError):
        Prediction("time", None, "s", "x")
    with pytest.raises(AssertionError):
        Prediction("time", 1.0, "s", "x", unknown="something")


def test_only_the_same_quantity_in_the_same_unit_is_compared():
    with pytest.raises(AssertionError):
        Comparison(Prediction("time", 1.0, "B", "x"), measured(1.0))


@given(positive, positive)
def test_how_far_off_is_symmetric_and_never_below_one(guess, truth):
    text, mirrored = how_far_off(guess, truth), how_far_off(truth, guess)
    if text == "right":
        assert max(guess / truth, truth / guess) < 1.01
        assert mirrored == "right"
    else:
        assert text.endswith("high" if guess > truth else "low")
        assert text.removesuffix("high").removesuffix("low") == mirrored.removesuffix("high").removesuffix("low")


@pytest.mark.parametrize("guess", [-1, math.nan, math.inf])
def test_a_guess_that_is_no_positive_number_is_refused(guess):
    with pytest.raises(ValueError, match="positive number"):
        how_far_off(guess, 1.0)


@given(st.lists(positive, min_size=1, max_size=300), st.integers(1, 50))
def test_a_thinned_sample_keeps_the_minimum(values, at_most):
    kept = spread_sample(values, at_most)
    assert len(kept) == min(len(values), at_most)
    assert min(kept) == min(values)
    assert set(kept) <= set(values)


def test_conditions_in_words_and_in_a_pickle():
    assert CONDITIONS.text == "a processor · fp32 · 2 threads · 3 warm-up calls · 5 trials"
    one = measured(1.0, 2.0)
    assert pickle.loads(pickle.dumps(one)) == one
