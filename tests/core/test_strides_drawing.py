"""What is drawn of a tensor, suggested arguments, typed numbers, and the places of new tensors."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core import strides
from core.strides import Layout, parse_chain
from core.strides.operation import ELEMENTWISE


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
@example(1_493_598_434)  # a view that goes on the strides of an elementwise result, and on none before it
def test_every_place_has_its_value_its_origin_and_its_index(seed):
    shape, operations = strides.random_chain(random.Random(seed))
    steps = [one for one in strides.predict_chain(Layout.contiguous(shape), operations) if one.after]
    drawn = strides.draw(shape, operations, len(steps))
    ran = strides.run_chain(shape, [one.operation for one in steps])
    tensor = ran[-1].tensor if ran else strides.base_tensor(shape)
    assert drawn.layout == strides.layout_of(tensor)
    assert len(drawn.places) == drawn.layout.storage_size
    reached = set(drawn.layout.addresses())
    changes_values = any(one.operation.name in (*ELEMENTWISE, "triu") for one in steps)
    for at, place in enumerate(drawn.places):
        assert (place.index is not None) == (at in reached)
        if place.index is not None:
            assert drawn.layout.address(place.index) == at
            value = tensor[place.index].item()
            assert place.value == value or value != value  # a NaN is itself alone
        if not changes_values:
            assert place.value == place.origin


def test_origins_follow_elements_through_copies_and_stop_at_zeros():
    drawn = strides.draw((2, 3), parse_chain("x.transpose(0, 1).pow(2).flip(0).contiguous()"), 4)
    by_index = {place.index: place.origin for place in drawn.places}
    assert by_index == {(0, 0): 2, (0, 1): 5, (1, 0): 1, (1, 1): 4, (2, 0): 0, (2, 1): 3}
    assert [place.origin for place in strides.draw((2, 2), parse_chain("x.triu()"), 1).places] == [0, 1, None, 3]
    assert strides.draw((2, 2), (), 0).places[3] == strides.Place(3.0, 3, (1, 1))


def test_what_is_too_large_to_draw_is_refused():
    with pytest.raises(ValueError, match="at most 4,096 elements are drawn; this chain has one of 5,000"):
        strides.draw((5000,), (), 0)
    with pytest.raises(ValueError, match="one of 1,000,000"):
        strides.draw((1,), parse_chain("x.expand(1000000)"), 1)


@given(st.lists(st.integers(0, 20), max_size=6).map(tuple))
def test_what_is_shown_of_a_shape_is_a_part_of_it(shape):
    shown = strides.shown_shape(shape)
    assert all(0 <= one <= size for one, size in zip(shown, shape, strict=True))
    parts = 1
    for size in shown[:-2]:
        parts *= size
    assert parts <= 8
    assert max(shown[-2:], default=0) <= 12


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), max_size=5).map(tuple), st.sampled_from(strides.NAMES))
def test_a_suggestion_can_be_read_and_mostly_run(shape, name):
    layout = Layout.contiguous(shape)
    operation = strides.parse_operation(name, strides.suggest(name, layout))
    step = strides.predict(layout, operation)
    if len(shape) >= 2 and 0 not in shape:
        assert step.kind != "error", step.reason
    assert strides.compare_chain(shape, [operation]) is None


@pytest.mark.parametrize(
    ("text", "values"), [("1, 4, 9", (1, 4, 9)), ("−2.5", (-2.5,)), (" .5,1. ", (0.5, 1)), ("1e3", (1000,))]
)
def test_typed_values_are_read(text, values):
    assert strides.parse_values(text) == values


@pytest.mark.parametrize("text", ["", "a", "1,,2", "nan", "inf", "1e999", "0x1", "1_0", "٣", "1 2", "1" * 400])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="received"):
        strides.parse_values(text)


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.data())
@settings(deadline=None, max_examples=60)
def test_the_place_of_an_element_is_where_torch_keeps_it(shape, data):
    index = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    comparison = strides.compare_place(shape, index)
    assert comparison.prediction.value == comparison.measurement.value == int(strides.base_tensor(shape)[index])


def test_a_flip_costs_a_copy():
    assert strides.compare_flip(12).measurement.value == 48
    with pytest.raises(ValueError, match="n must be a whole number from 1 to 64"):
        strides.compare_flip(0)
