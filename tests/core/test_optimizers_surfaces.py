"""Optimizers on surfaces: closed forms on the quadratic, gradients against autograd, the first-step facts."""

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import optimizers
from core.optimizers import compare_first_step, surface, trajectory

COORDINATE = st.floats(-3, 3)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(optimizers.SURFACES), COORDINATE, COORDINATE, st.floats(1, 1000))
def test_gradients_are_autograds(name, x, y, condition):
    where = surface(name, condition)
    point = torch.tensor([x, y], dtype=torch.float64, requires_grad=True)
    loss = where.loss(point[0], point[1])
    loss.backward()
    assert loss.item() == pytest.approx(where.loss(x, y), rel=1e-12, abs=1e-12)
    assert where.gradient(x, y) == pytest.approx(tuple(point.grad.tolist()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", optimizers.SURFACES)
def test_minima_are_minima(name):
    where = surface(name)
    for x, y in where.minima:
        assert where.gradient(x, y) == pytest.approx((0, 0), abs=1e-12)
        around = [where.loss(x + dx, y + dy) for dx in (-1e-3, 0, 1e-3) for dy in (-1e-3, 0, 1e-3)]
        assert min(around) == where.loss(x, y)
    grid = numpy.meshgrid(numpy.linspace(*where.x_range, 81), numpy.linspace(*where.y_range, 81))
    assert where.loss(*grid).min() >= min(where.loss(*one) for one in where.minima) - 1e-12
    for (low, high), at in zip((where.x_range, where.y_range), where.start, strict=True):
        assert low <= at <= high


@settings(max_examples=40, deadline=None)
@given(st.floats(0.001, 0.3), st.floats(1, 20), COORDINATE, COORDINATE)
def test_sgd_on_the_quadratic_is_a_geometric_series(lr, condition, x, y):
    path = trajectory("quadratic", "sgd", lr, (x, y), 50, condition=condition)
    for step, point in enumerate(path.points):
        expected = ((1 - lr) ** step * x, (1 - lr * condition) ** step * y)
        assert point == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert path.diverged_at is None or lr * condition > 2


@settings(max_examples=30, deadline=None)
@given(st.floats(0.001, 0.15), st.floats(0, 0.95), st.floats(1, 10))
def test_momentum_on_the_quadratic_is_a_power_of_a_matrix(lr, momentum, condition):
    path = trajectory("quadratic", "momentum", lr, (2.0, -1.0), 40, condition=condition, momentum=momentum)
    for axis, curvature in ((0, 1.0), (1, condition)):
        step = numpy.array([[momentum, curvature], [-lr * momentum, 1 - lr * curvature]])  # of (v, x)
        state = numpy.array([0.0, path.points[0][axis]])
        for point in path.points:
            assert point[axis] == pytest.approx(state[1], rel=1e-9, abs=1e-9)
            state = step @ state


def test_adagrad_on_the_quadratic_ignores_the_condition_number():
    """Every coordinate is scaled by its own past: κ cancels, but for ε."""
    paths = [trajectory("quadratic", "adagrad", 0.5, (2.0, 2.0), 30, condition=k).points for k in (1, 100)]
    for one, other in zip(*paths, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
        assert one[0] == pytest.approx(one[1], rel=1e-6)


def test_losses_and_norms_belong_to_the_points():
    path = trajectory("rosenbrock", "adam", 0.05, steps=60)
    where = surface("rosenbrock")
    assert path.num_steps == 60
    assert path.losses == tuple(where.loss(*point) for point in path.points)
    assert path.gradient_norms == tuple(math.hypot(*where.gradient(*point)) for point in path.points)
    assert path.points[0] == where.start
    assert path.steps_to(path.losses[0]) == 0
    assert path.steps_to(-1.0) is None


@pytest.mark.parametrize("name", optimizers.OPTIMIZERS)
def test_every_optimizer_goes_downhill(name):
    path = trajectory("quadratic", name, 0.05, steps=200)
    assert path.diverged_at is None
    assert path.losses[-1] < 0.8 * path.losses[0]
    assert trajectory("quadratic", name, 0.05, steps=200) == path  # nothing is left to chance


def test_momentum_finds_the_minimum_of_rosenbrock():
    assert trajectory("rosenbrock", "momentum", 1e-3, steps=1000).points[-1] == pytest.approx((1, 1), abs=1e-2)


def test_sgd_on_the_saddle_waits_and_leaves():
    path = trajectory("saddle", "sgd", 0.1, steps=300)
    assert abs(path.points[20][1]) < 0.01
    assert path.points[-1] == pytest.approx((0, 1), abs=1e-3)


def test_divergence_is_flagged_and_stays_finite():
    path = trajectory("quadratic", "sgd", 0.25, (0.0, 1.0), 200, condition=10)
    assert path.diverged_at == 35  # 1.5³⁵ is the first power above a million
    assert path.num_steps == 34
    assert all(math.isfinite(one) for one in (*path.losses, *path.gradient_norms))
    assert len(path.losses) == len(path.points) == len(path.gradient_norms)
    wild = trajectory("rosenbrock", "sgd", 1.0, steps=2000)
    assert wild.diverged_at is not None
    assert all(math.isfinite(one) for one in wild.losses)
    assert trajectory("beale", "momentum", 1e300, steps=5).diverged_at == 1


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 1e5), st.booleans(), st.floats(1e-3, 10))
def test_first_steps(size, negative, lr):
    gradient, sign = (-size, -1) if negative else (size, 1)
    assert compare_first_step("sgd", gradient, lr).measurement.value == pytest.approx(-lr * gradient)
    assert compare_first_step("momentum", gradient, lr).measurement.value == pytest.approx(-lr * gradient)
    for name in ("adagrad", "adam", "adamw"):
        assert compare_first_step(name, gradient, lr).measurement.value == pytest.approx(-lr * sign, rel=1e-4)
    assert compare_first_step("rmsprop", gradient, lr).measurement.value == pytest.approx(-10 * lr * sign, rel=1e-3)
    for name in optimizers.FIRST_STEPS:
        comparison = compare_first_step(name, gradient, lr)
        assert comparison.unexplained == pytest.approx(0, abs=1e-12 * abs(comparison.prediction.value))


def test_a_gradient_of_zero_moves_nothing():
    for name in optimizers.FIRST_STEPS:
        comparison = compare_first_step(name, 0.0, 0.1)
        assert comparison.prediction.value == comparison.measurement.value == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bowl", "sgd", 0.1), "surface must be one of quadratic, rosenbrock, saddle, beale; received 'bowl'"),
        (("quadratic", "lion", 0.1), "optimizer must be one of"),
        (("quadratic", "sgd", -1), "lr must be a number of at least 0"),
        (("quadratic", "sgd", 0.1, (1, 2), 0), "steps must be a whole number from 1 to 2,000; received 0"),
        (("quadratic", "sgd", 0.1, (1, 2), 10**9), "received 1000000000"),
        (("quadratic", "sgd", 0.1, (1,)), "a start is two numbers"),
        (("quadratic", "sgd", 0.1, (1, float("nan"))), "a start is two numbers"),
        (("quadratic", "sgd", 0.1, (1, 1e7)), "a start is two numbers"),
        (("quadratic", "sgd", 0.1, (1, 10**400)), "a start is two numbers"),
        (("quadratic", "sgd", 0.1, "12"), "a start is two numbers"),
        (("quadratic", "sgd", 0.1, (1, "2")), "a start is two numbers"),
    ],
)
def test_wrong_input_is_refused_in_words(arguments, message):
    with pytest.raises(ValueError) as refused:
        trajectory(*arguments)
    assert message in str(refused.value)


def test_a_wrong_condition_number_is_refused():
    with pytest.raises(ValueError, match="the condition number must be a number above 0"):
        trajectory("quadratic", "sgd", 0.1, condition=0)


@pytest.mark.parametrize("name", optimizers.OPTIMIZERS)
def test_a_trajectory_is_what_the_optimizer_s_own_steps_are(name):
    where = surface("rosenbrock")
    start = [where.start] if name in ("muon", "adafactor") else where.start
    p = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    algorithm = optimizers.make(name, [p], 0.002)
    went = [where.start]
    for _step in range(60):
        p.grad = torch.tensor(where.gradient(*went[-1]), dtype=torch.float64).view_as(p)
        algorithm.step()
        went.append(tuple(p.detach().flatten().tolist()))
    assert trajectory(where, name, 0.002, steps=60).points == tuple(went)
