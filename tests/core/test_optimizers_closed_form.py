"""The closed form on a quadratic against the steps that optimizers take; contour lines against their formula."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.optimizers import surface, trajectory
from core.optimizers.closed_form import MOMENTUM, compare_loss, largest_stable_lr, predict_loss
from core.optimizers.contours import SHARES, contours

SURFACES = ("quadratic", "rosenbrock", "saddle", "beale")


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(MOMENTUM)),
    st.floats(1e-3, 1.0),
    st.floats(1.0, 100.0),
    st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
    st.integers(0, 60),
)
def test_the_closed_form_is_where_the_steps_lead(optimizer, lr, condition, start, steps):
    went = trajectory("quadratic", optimizer, lr, start, 60, condition=condition)
    comparison = compare_loss(went, steps, condition)
    if comparison is None:
        assert went.diverged_at is not None
        assert steps >= went.diverged_at
        return
    # Rounding grows with the numbers that were passed through, not with the loss that is left.
    scale = max(went.losses[: steps + 1])
    assert comparison.measurement.value == pytest.approx(comparison.prediction.value, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize("optimizer", MOMENTUM)
@pytest.mark.parametrize("condition", [1.0, 10.0, 300.0])
def test_an_optimizer_converges_below_its_limit_and_diverges_above_it(optimizer, condition):
    limit = largest_stable_lr(optimizer, condition)
    below, above = (predict_loss("quadratic", optimizer, lr, (0, 1), 2000, condition).value
                    for lr in (0.98 * limit, 1.02 * limit))  # fmt: skip
    assert below < 1e-3 < 1e3 < above


def test_what_has_no_closed_form_is_unknown_and_what_is_no_start_is_refused():
    assert "Adam on this surface" in predict_loss("quadratic", "adam", 0.1, (1, 1), 5).unknown
    assert predict_loss("beale", "sgd", 0.1, (1, 1), 5).value is None
    assert predict_loss("quadratic", "sgd", 50.0, (1, 1), 2000, 1e6).value == math.inf
    with pytest.raises(ValueError, match="a start is two numbers"):
        predict_loss("quadratic", "sgd", 0.1, (1, 2e6), 5)
    with pytest.raises(ValueError, match="steps must be a whole number"):
        predict_loss("quadratic", "sgd", 0.1, (1, 1), -1)


@pytest.mark.parametrize("name", SURFACES)
def test_contour_lines_lie_on_their_level(name):
    on = surface(name)
    lines = contours(name, columns=200, rows=150)
    levels = sorted({one.level for one in lines})
    assert len(levels) == len(SHARES)
    for one in lines:
        place = levels.index(one.level)
        below = levels[place - 1] if place else one.level - (levels[1] - levels[0])
        above = levels[place + 1] if place + 1 < len(levels) else math.inf
        for x, y in ((one.x, one.y), (one.x2, one.y2)):  # nearer to their level than to the lines beside it
            assert (below + one.level) / 2 < on.loss(x, y) < (one.level + above) / 2
            assert on.x_range[0] <= x <= on.x_range[1]
            assert on.y_range[0] <= y <= on.y_range[1]


def test_a_contour_line_is_closed_or_ends_at_the_window():
    on = surface("saddle")
    ends = {}
    for one in contours("saddle"):
        for x, y in ((one.x, one.y), (one.x2, one.y2)):
            key = one.level, round(x, 9), round(y, 9)
            ends[key] = ends.get(key, 0) + 1
    edges = {*on.x_range, *on.y_range}
    loose = [key for key, times in ends.items() if times == 1]
    assert loose
    assert all({key[1], key[2]} & edges for key in loose)


def test_a_grid_that_is_too_fine_is_refused():
    with pytest.raises(ValueError, match="columns must be a whole number from 2 to 512; received 513"):
        contours("beale", columns=513)
