"""Numbers as text, and text as numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import units


@given(st.floats(1e-300, 1e300))
def test_three_significant_digits_round_trip_to_half_a_percent(value):
    text = units.significant(value).replace(",", "")
    if "×" in text:
        mantissa, power = text.split(" × 10")
        normal = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        back = float(f"{mantissa}e{normal}")
    else:
        back = float(text)
    assert back == pytest.approx(value, rel=0.00501)


@given(st.floats(1e-3, 1e27))
def test_what_si_writes_can_be_read_again(value):
    assert units.parse_quantity(units.si(value, "FLOP"), "FLOP") == pytest.approx(value, rel=0.00501)


@given(st.floats(1e-9, 1e9))
def test_what_seconds_writes_can_be_read_again(value):
    assert units.parse_quantity(units.seconds(value), "s") == pytest.approx(value, rel=0.00501)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4e9, "999 GFLOP"),
        (999.9e9, "1.00 TFLOP"),
        (0, "0 FLOP"),
        (4.7876e21, "4.79 ZFLOP"),
        (3.3e28, "33,000 YFLOP"),
    ],
)
def test_si_prefixes_change_where_rounding_does(value, text):
    assert units.si(value, "FLOP") == text


def test_decimal_and_binary_bytes_are_never_mixed_up():
    matrix = 49152 * 12288 * 4  # LECTURE §4.2: GPT-3's feed-forward matrix in fp32
    assert units.si_bytes(matrix) == "2.42 GB"
    assert units.binary_bytes(matrix) == "2.25 GiB"
    assert units.parse_quantity("2.25 GiB", "B") == matrix


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "1e999",
        "nan",
        "inf",
        "--3",
        "3 m",
        "٣",
        "３",
        "1" * 100,
        "0x10",
        "__import__('os')",
        "5 parsecs",
        "1 B/s",
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write for example 400 µs"):
        units.parse_quantity(text, "s")


@given(st.text(max_size=70), st.sampled_from(["s", "B", "FLOP", "FLOP/s", "parameters", ""]))
def test_any_text_gives_a_finite_number_or_a_sentence(text, unit):
    try:
        assert math.isfinite(units.parse_quantity(text, unit))
    except ValueError as error:
        assert "is not a quantity" in str(error)


def test_small_figures_keep_their_digits():
    assert units.quantity(27.8318, "GPU-hours") == "27.8 GPU-hours"
    assert units.quantity(768, "GPU-hours") == "768 GPU-hours"
    assert units.quantity(0.0042, "$") == "0.00420 $"
    assert units.quantity(2.5, "$") == "2.50 $"
