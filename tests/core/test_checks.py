"""Numbers that are refused, however large, in a sentence."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.checks import positive_number, whole_number


def short(value):
    return f"{value.bit_length()} bits" if isinstance(value, int) else repr(value)


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**5000, math.nan, math.inf, True, "3", None, 2.5, 0, 11], ids=short
)
def test_what_is_not_a_whole_number_in_bounds_is_refused_in_words(value):
    with pytest.raises(ValueError, match="B must be a whole number from 1 to 10; received ") as refused:
        whole_number("B", value, 1, 10)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("value", [10**400, 10**5000, -1, 0, math.nan, math.inf, True, "3", None], ids=short)
def test_what_is_not_a_positive_number_is_refused_in_words(value):
    with pytest.raises(ValueError, match="MFU must be a number above 0; received "):
        positive_number("MFU", value)


@given(st.integers(1, 10))
def test_whole_numbers_come_back_as_they_are(value):
    assert whole_number("B", value, 1, 10) == whole_number("B", float(value), 1, 10) == value


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_positive_numbers_come_back_as_they_are(value):
    assert positive_number("x", value) == value
