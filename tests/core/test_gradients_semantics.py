"""What the autograd calls leave behind, and a gradient checked by finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import gradients

ENTRY = st.floats(0.25, 4).flatmap(lambda size: st.sampled_from((size, -size)))
PROBLEMS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(st.lists(ENTRY, min_size=n, max_size=n), st.lists(ENTRY, min_size=n, max_size=n), ENTRY)
)


def test_gradients_add_up():
    trace = gradients.accumulation(times=4)
    assert trace.values("w.grad") == (None, (1, 2, 3), (2, 4, 6), (3, 6, 9), (4, 8, 12))
    assert trace.columns == ("w.grad",)


@pytest.mark.parametrize("times", [0, 11, 1.5, "3"])
def test_a_number_of_times_that_makes_no_sense_is_refused(times):
    with pytest.raises(ValueError, match="times must be a whole number from 1 to 10"):
        gradients.accumulation(times=times)


def test_zero_grad_frees_or_fills():
    freed, filled = gradients.zero_grad(True), gradients.zero_grad(False)
    assert freed.values("w.grad") == (None, (1, 2, 3), None, (1, 2, 3))
    assert filled.values("w.grad") == (None, (1, 2, 3), (0, 0, 0), (1, 2, 3))
    assert freed.values("bytes of w.grad") == (0, 12, 0, 12)
    assert filled.values("bytes of w.grad") == (0, 12, 12, 12)
    assert "set_to_none=True" in freed.steps[2].action
    assert "set_to_none=False" in filled.steps[2].action


def test_an_optimizers_zero_grad_does_the_same():
    for set_to_none in (True, False):
        w = torch.ones(3, requires_grad=True)
        w.sum().backward()
        torch.optim.SGD([w], lr=0.1).zero_grad(set_to_none=set_to_none)
        assert (w.grad is None) == set_to_none


def test_retain_grad_keeps_what_passes_anyway():
    trace = gradients.retain_grad()
    assert trace.values("pred_y.is_leaf") == (False, False)
    assert trace.values("pred_y.grad") == (None, (1,))


def test_a_second_backward():
    trace = gradients.second_backward()
    assert [bool(step.error) for step in trace.steps] == [False, False, True, False, False]
    assert trace.values("w.grad") == (None, (1, 2, 3), (1, 2, 3), (2, 4, 6), (3, 6, 9))
    loss = (torch.ones(1, requires_grad=True) ** 2).sum()
    loss.backward()
    with pytest.raises(RuntimeError) as refused:
        loss.backward()
    assert str(refused.value).startswith(trace.steps[2].error)


def test_detach_shares_and_cuts():
    trace = gradients.detach()
    assert trace.values("same storage") == (True,)
    assert trace.values("grad_fn") == ("DotBackward0", None, None)
    assert trace.values("w.grad") == (None,)
    assert "does not require grad" in trace.steps[2].error


def test_no_grad_records_nothing():
    trace = gradients.no_grad()
    assert trace.values("requires_grad") == (True, False)
    assert trace.values("value") == ((6,), (6,))


@settings(deadline=None, max_examples=25)
@given(PROBLEMS)
def test_the_traces_hold_for_any_numbers(problem):
    x, w, y = problem
    for trace in gradients.all_traces(x, w, y):
        assert trace.question
        assert trace.answer
        assert trace.steps
    once, twice = gradients.accumulation(x, w, y, times=2).values("w.grad")[1:]
    assert twice == tuple(2 * value for value in once)


def test_the_traces_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="x has 2 and w has 1"):
        gradients.all_traces([1, 2], [1], 5)


def test_the_best_step_of_the_quartic_is_near_the_cube_root_of_eps():
    check = gradients.finite_difference_check([1, 2, 3], [1, 1, 1], 5, loss="quartic")
    for dtype, eps in (("fp64", torch.finfo(torch.float64).eps), ("fp32", torch.finfo(torch.float32).eps)):
        curve = check.curve("central", dtype)
        assert curve.rule_step == pytest.approx(eps ** (1 / 3))
        assert 1 / 3 < curve.predicted_best_step / curve.rule_step < 3
        assert 1 / 5 < curve.best_step / curve.predicted_best_step < 5
        one_sided = check.curve("forward", dtype)
        assert one_sided.rule_step == pytest.approx(eps**0.5)
        assert 1 / 10 < one_sided.best_step / one_sided.predicted_best_step < 10
        assert curve.best_error < one_sided.best_error


def test_the_parabola_has_no_truncation_error():
    curve = gradients.finite_difference_check([1, 2, 3], [1, 1, 1], 5).curve("central", "fp64")
    assert all(point.truncation == 0 for point in curve.points)
    assert curve.predicted_best_step is None
    assert curve.best_step == 1
    assert curve.best_error == 0


@settings(deadline=None, max_examples=60)
@given(PROBLEMS, st.sampled_from(("square", "quartic")))
def test_the_predicted_error_bounds_the_measured_one(problem, loss):
    x, w, y = problem
    check = gradients.finite_difference_check(x, w, y, loss=loss)
    error = sum(a * b for a, b in zip(x, w, strict=True)) - y
    scale = error if loss == "square" else error**3
    assert check.gradient == pytest.approx([scale * entry for entry in x], rel=1e-9, abs=1e-9)
    for curve in check.curves:
        for point in curve.points:
            # Above that step the next term of the truncation counts too; where e is about 0 it is all there is.
            if point.step * max(map(abs, x)) < 0.1 * abs(error):
                assert point.error <= 3 * (point.truncation + point.rounding) + 1e-300


def test_large_steps_of_the_quartic_are_off_by_the_truncation_alone():
    curve = gradients.finite_difference_check([1, 2, 3], [1, 1, 1], 5, loss="quartic").curve("central", "fp64")
    for point in curve.points:
        if point.step >= 1e-3:
            assert point.error == pytest.approx(27 * point.step**2, rel=1e-6)  # h²·e·x³ with e = 1, x = 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "cubic"}, "loss must be one of square, quartic; received 'cubic'"),
        ({"steps": []}, "from 1 to 100 step sizes"),
        ({"steps": [1e-4] * 101}, "received 101"),
        ({"steps": [0.0]}, "a step size must be a number above 0"),
        ({"steps": [2.0]}, "at most 1; received 2.0"),
        ({"steps": [math.nan]}, "a step size must be a number above 0"),
        ({"steps": ["small"]}, "a step size must be a number above 0"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        gradients.finite_difference_check([1, 2, 3], [1, 1, 1], 5, **options)


def test_no_check_overflows():
    with pytest.raises(ValueError, match="overflows fp32"):
        gradients.finite_difference_check([1e6], [1e6], 0, loss="quartic")
    for loss, size in (("square", 1e6), ("quartic", 1e4)):
        check = gradients.finite_difference_check([size] * 6, [size] * 6, -size, loss=loss)
        assert all(math.isfinite(point.error) for curve in check.curves for point in curve.points)


def test_at_the_minimum_every_gradient_is_zero():
    check = gradients.finite_difference_check([1, 2], [1, 2], 5, loss="quartic")
    assert check.gradient == (0, 0)
    assert check.curve("central", "fp64").predicted_best_step is None


def test_a_gradient_of_exactly_0_is_measured():
    x, w = (1.0, 2.0, 3.0), (1.0, 1.0, 1.0)
    explained = gradients.explain_graph(x, w, 6.0)
    prediction, comparison = gradients.compare_w_grad(explained, x, w, 6.0)
    assert (prediction.value, comparison.measurement.value, comparison.difference) == (0, 0, 0)
    prediction, comparison = gradients.compare_accumulated(gradients.accumulation(x, w, 6.0, times=2), x, w, 6.0, 2)
    assert (prediction.value, comparison.measurement.value, comparison.difference) == (0, 0, 0)
    shown = [number for edge in explained.backward for number in (*edge.upstream, *edge.predicted)]
    assert all(str(number) != "-0.0" for number in shown)


@pytest.mark.parametrize("y", [0.60001, 0.6000001, 0.6])
def test_what_fp32_rounds_in_a_sum_that_cancels_is_named(y):
    x, w = (0.1, 0.2, 0.3), (1.0, 1.0, 1.0)
    _prediction, comparison = gradients.compare_accumulated(gradients.accumulation(x, w, y, times=3), x, w, y, 3)
    assert [part.name for part in comparison.parts] == ["rounding"]
    assert comparison.unexplained == 0


@pytest.mark.parametrize(("x", "y"), [((1.0, 2.0, 3.0), 6.0), ((0.1, 0.2, 0.3), 0.6)])
@pytest.mark.parametrize("loss", ["square", "quartic"])
def test_no_best_step_is_predicted_where_the_loss_is_0(x, y, loss):
    check = gradients.finite_difference_check(x, (1.0, 1.0, 1.0), y, loss=loss)
    comparison = gradients.compare_best_step(check.curve("central", "fp64"))
    assert comparison.prediction.value is None
    assert "is not predicted" in comparison.prediction.unknown
