"""Codes, exact numbers, neighbours, and one number in every format: brute force in Fractions, torch, properties."""

import itertools
import math
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import dtypes

SMALL = [name for name in dtypes.FLOATS if dtypes.FORMATS[name].bits <= 8]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Formats of one's own with few enough codes to try them all.
FREE = st.builds(
    lambda e, m, specials, shift: dtypes.custom(e, m, 2 ** (e - 1) + shift, specials),
    st.integers(2, 4), st.integers(1, 4), st.sampled_from(dtypes.SPECIALS), st.integers(-9, 9),
)  # fmt: skip


def finite(fmt):
    """Every finite number of a format, with its code, -0 left out."""
    numbers = [dtypes.decode(code, fmt) for code in range(2**fmt.bits)]
    return [one for one in numbers if one.value is not None and not (one.kind == "zero" and one.sign)]


@settings(max_examples=60, deadline=None)
@given(FREE, st.fractions(-600, 600, max_denominator=10**6))
def test_rounding_is_the_nearest_of_all_numbers_and_of_two_the_even(fmt, value):
    limit = dtypes.thresholds(fmt)
    beyond = abs(value) > limit.overflows_from or (abs(value) == limit.overflows_from and limit.overflow_includes_it)
    code = dtypes.encode(value, fmt)
    if beyond:
        kinds = {"infinity": "inf", "nan": "nan"}
        one = dtypes.decode(code, fmt)
        assert one.kind == kinds.get(fmt.overflow, one.kind)
        assert one.value is None or abs(one.value) == limit.largest
        return
    numbers = finite(fmt)
    distance = min(abs(one.value - value) for one in numbers)
    nearest = [one for one in numbers if abs(one.value - value) == distance]
    best = nearest[0] if len(nearest) == 1 else next(one for one in nearest if one.code % 2 == 0)
    assert dtypes.decode(code, fmt).value == best.value


@settings(max_examples=60, deadline=None)
@given(FREE)
def test_codes_grow_with_their_numbers_and_neighbours_are_next(fmt):
    numbers = sorted(finite(fmt), key=lambda one: one.value)
    assert len({one.value for one in numbers}) == len(numbers) == dtypes.thresholds(fmt).count
    for low, high in itertools.pairwise(numbers):
        assert dtypes.neighbour(low.code, fmt, +1) == high.code
        assert dtypes.neighbour(high.code, fmt, -1) == low.code
    top = dtypes.neighbour(numbers[-1].code, fmt, +1)
    assert (top is None) == (fmt.infinity_code is None)
    assert top is None or dtypes.decode(top, fmt).kind == "inf"
    assert dtypes.neighbour(fmt.infinity_code or fmt.max_code, fmt, +1) is None


@settings(max_examples=200, deadline=None)
@given(FINITE, st.sampled_from(["fp64", "fp32", "fp16"]))
def test_neighbours_are_numpys_nextafter(value, name):
    kind = getattr(torch, dtypes.FORMATS[name].torch_name)
    here = torch.tensor(value, dtype=torch.float64).to(kind)
    code = dtypes.encode(float(here.double()), name)
    for step in (1, -1):
        moved = dtypes.neighbour(code, name, step)
        with np.errstate(over="ignore"):
            after = np.nextafter(here.numpy(), np.array(step * math.inf, here.numpy().dtype))
        if moved is not None:
            assert float(dtypes.decode(moved, name)) == float(after)


def test_every_bf16_number_has_its_neighbours():
    codes = np.arange(0x7F80, dtype=np.uint16)
    assert [dtypes.neighbour(int(code), "bf16", +1) for code in codes] == (codes + 1).tolist()
    assert [dtypes.neighbour(int(code) | 0x8000, "bf16", +1) for code in codes[1:]] == [
        0x8000 | (int(code) - 1) if code > 1 else 0 for code in codes[1:]
    ]


@pytest.mark.parametrize("name", SMALL)
def test_bits_fields_and_the_formula_of_every_narrow_code(name):
    fmt = dtypes.FORMATS[name]
    for code in range(2**fmt.bits):
        one = dtypes.decode(code, fmt)
        assert "".join(one.fields) == one.bits == f"{code:0{fmt.bits}b}"
        assert [len(field) for field in one.fields] == [int(fmt.signed), fmt.exponent_bits, fmt.mantissa_bits]
        if one.value is not None:
            assert one.value == (-1) ** one.sign * Fraction(2) ** one.exponent * one.significand
            assert (1 <= one.significand < 2) == (one.kind == "normal")
        for position in range(fmt.bits):
            flipped = dtypes.flip(code, fmt, position)
            assert bin(flipped ^ code).count("1") == 1
            assert dtypes.flip(flipped, fmt, position) == code


def test_the_lectures_formats():
    widths = {"fp32": (1, 8, 23), "fp16": (1, 5, 10), "bf16": (1, 8, 7), "e4m3fn": (1, 4, 3), "e5m2": (1, 5, 2)}
    for name, (sign, exponent, mantissa) in widths.items():
        fmt = dtypes.FORMATS[name]
        assert (int(fmt.signed), fmt.exponent_bits, fmt.mantissa_bits) == (sign, exponent, mantissa)
    assert [float(dtypes.decode(code, "e2m1")) for code in range(16)] == [
        0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6,
    ]  # fmt: skip


def test_the_lectures_small_number():
    assert dtypes.round_to("1e-8", "fp16").kind == "zero"
    bf16 = dtypes.round_to("1e-8", "bf16")
    assert dtypes.scientific_text(bf16.value) == "1.001171767711639404296875e-8"
    assert dtypes.decimal_text(bf16.value) == "0.00000001001171767711639404296875"
    assert float(bf16) == torch.tensor(1e-8).bfloat16().double().item()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)), ("-1/3", Fraction(-1, 3)), ("1e-8", Fraction(1, 10**8)), ("0x1.8p3", 12),
        ("0x.8P-1", Fraction(1, 4)), ("2^-25", Fraction(1, 2**25)), ("1.5*2^3", 12), ("3 × 10^-2", Fraction(3, 100)),
        ("−2", -2), (" 1_000.5 ", Fraction(2001, 2)), (".5", Fraction(1, 2)), ("5.", 5), ("1e+3", 1000), ("+7", 7),
        ("0.1/0.3", Fraction(1, 3)), ("-2^-3", Fraction(-1, 8)), ("2**10", 1024),
    ],
)  # fmt: skip
def test_text_is_read_exactly(text, value):
    assert dtypes.read(text).value == value


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False))
def test_a_float_and_its_texts_are_the_same_number(value):
    code = dtypes.encode(value, "fp64")
    assert code == struct.unpack("<Q", struct.pack("<d", value))[0]
    assert float(dtypes.decode(code, "fp64")) == value
    for text in (repr(value), value.hex() if math.isfinite(value) else str(value)):
        assert dtypes.encode(text, "fp64") == code
    if math.isfinite(value) and value:
        exact = dtypes.decode(code, "fp64").value
        for text in (dtypes.decimal_text(exact), dtypes.scientific_text(exact)):
            assert dtypes.read(text).value == exact


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "e5", "1e", "0x", "0x1F", "0x1.8", "1/2/3", "nan/2", "٣", "１", "1,5", "abc", "1e5e5", "--1",
     "1 +1j", "__import__('os')", "2^1e9", "½", "0b101", "inf/inf", "\x00", "1\n2x"],
)  # fmt: skip
def test_what_is_no_number_is_refused_in_words(text):
    with pytest.raises(ValueError, match="is not a number; write for example 0.1"):
        dtypes.read(text)


@pytest.mark.parametrize("value", [True, None, [1], 1j, b"1", object()])
def test_other_kinds_of_things_are_refused(value):
    with pytest.raises(ValueError, match="is not a number"):
        dtypes.encode(value, "fp16")


def test_long_text_is_refused_by_its_length():
    with pytest.raises(ValueError, match="1,200 characters at most; received 200,000"):
        dtypes.read("1" * 200_000)
    assert dtypes.encode("0." + "0" * 1000 + "1", "fp64") == 0
    assert dtypes.encode("1" * 1200, "fp64") == dtypes.encode(math.inf, "fp64")


@pytest.mark.parametrize("exponent", ["999999999", "9" * 1000, "1" + "0" * 500])
def test_huge_exponents_are_answered_at_once(exponent):
    for name in dtypes.FLOATS:
        assert dtypes.encode(f"1e{exponent}", name) == dtypes.encode(Fraction(2**3000), name)
        assert dtypes.encode(f"1e-{exponent}", name) == dtypes.encode(Fraction(1, 2**5000), name)
        assert dtypes.encode(f"0x1p{exponent}", name) == dtypes.encode(Fraction(2**3000), name)
    assert dtypes.encode(f"-2^-{exponent}", "fp16") == 0x8000
    assert dtypes.encode(f"0e{exponent}", "fp16") == 0
    assert [one.note for one in dtypes.survey(f"1e{exponent}", ["fp32", "e4m3fn", "e4m3fnuz", "int8"])] == [
        "overflows to infinity", "saturates", "overflows to NaN", "saturates",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "notes"),
    [
        ("-200", {"int8": "saturates", "uint8": "saturates", "fp16": "exact"}),
        ("-128.5", {"int8": "cut toward 0", "fp16": "exact"}),
        ("-127.5", {"int8": "cut toward 0"}),
        ("127.5", {"int8": "cut toward 0", "uint8": "cut toward 0"}),
        ("128", {"int8": "saturates", "uint8": "exact"}),
        ("-0.5", {"int8": "cut to 0", "uint8": "cut to 0"}),
        ("-1000", {"e4m3fn": "saturates", "e5m2": "rounded", "e4m3fnuz": "overflows to NaN"}),
        ("2^-200", {"e8m0fnu": "has no smaller number", "fp32": "underflows to 0"}),
        ("2^-127", {"e8m0fnu": "exact"}),
        ("3*2^-127", {"e8m0fnu": "rounded"}),
    ],
)
def test_what_a_format_does_to_a_number_is_named(value, notes):
    assert {one.fmt.name: one.note for one in dtypes.survey(value, list(notes))} == notes


@pytest.mark.parametrize("name", dtypes.FLOATS)
def test_minus_zero_infinities_and_nan(name):
    fmt = dtypes.FORMATS[name]
    minus = dtypes.decode(dtypes.encode("-0", fmt), fmt)
    assert minus.value == (2**-127 if name == "e8m0fnu" else 0)
    assert bool(minus.sign) == (fmt.signed and fmt.specials != "fnuz")
    for text, sign in (("inf", 0), ("-inf", 1)):
        one = dtypes.round_to(text, fmt)
        assert one.kind == ("inf" if fmt.infinity_code is not None else "nan" if fmt.overflow == "nan" else "normal")
        assert one.kind == "nan" or one.sign == sign
    if fmt.nan_code is not None:
        assert dtypes.round_to("nan", fmt).kind == "nan"
        assert math.isnan(float(dtypes.round_to(math.nan, fmt)))


def test_the_overflow_rule_can_be_chosen_where_the_format_allows_it():
    assert dtypes.round_to(500, "e4m3fn").value == 448
    assert dtypes.round_to(500, "e4m3fn", "nan").kind == "nan"
    assert dtypes.round_to(464, "e4m3fn", "nan").value == 448  # a tie, and 448 is even
    assert dtypes.round_to(1e6, "e5m2", "saturate").value == 57344
    with pytest.raises(ValueError, match="e2m1 has no infinity; choose saturate"):
        dtypes.encode(7, "e2m1", "infinity")
    with pytest.raises(ValueError, match="overflow must be one of"):
        dtypes.encode(7, "e2m1", "wrap")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [((0, 3), "exponent bits must be a whole number from 1"), ((12, 3), "exponent bits"), ((4, 53), "mantissa bits"),
     ((4, 3, 5000), "the bias"), ((4, 0), "need at least 2 exponent bits and 1 mantissa bit"),
     ((4, 3, None, "none"), "special values must be one of")],
)  # fmt: skip
def test_a_format_that_cannot_be_is_refused(arguments, wrong):
    with pytest.raises(ValueError, match=wrong):
        dtypes.custom(*arguments)


def test_a_format_of_ones_own_stays_within_fp64():
    same = dtypes.custom(11, 52)
    assert [dtypes.encode(value, same) == dtypes.encode(value, "fp64") for value in (0.1, 1e308, 5e-324)] == [True] * 3
    for arguments in ((11, 52, 1024), (11, 52, 1022), (11, 3, None, "finite"), (4, 3, 1100), (4, 3, -1020)):
        with pytest.raises(ValueError, match="must lie within fp64"):
            dtypes.custom(*arguments)


@pytest.mark.parametrize("name", [*SMALL, "int8", "fp16"])
def test_every_code_has_a_short_text_that_is_read_as_it(name):
    fmt = dtypes.FORMATS[name]
    for code in range(0, 2**fmt.bits, 1 if fmt.bits <= 8 else 37):
        one = dtypes.decode(code, fmt)
        text = dtypes.shortest_text(one)
        again = dtypes.typed(text, fmt)
        assert again.decoded.code == code, text
        assert len(text) <= max(22, fmt.bits + 2)
        assert dtypes.typed(f"0b{one.bits}", fmt) == dtypes.Typed(f"0b{one.bits}", dtypes.exact_of(one), one, True)
        assert dtypes.typed(hex(code), fmt).decoded.code == code


def test_the_shortest_text_is_that_of_numpy():
    for value in (0.1, 1e-8, 65504, 1 / 3, 5e-324, 1.7976931348623157e308):
        for name, kind in (("fp64", np.float64), ("fp32", np.float32)):
            one = dtypes.round_to(value, name)
            if one.kind != "inf" and one.value:
                assert float(dtypes.shortest_text(one)) == float(str(kind(value)))


@pytest.mark.parametrize(("text", "wrong"), [("0b10101", "fp4 e2m1 has 4 bits; received 5"), ("0x1F", "received 5"),
                                             ("0b", "is not a number"), ("0b2", "is not a number"),
                                             ("0b_", "is not a number")])  # fmt: skip
def test_bits_that_are_too_many_are_refused(text, wrong):
    with pytest.raises(ValueError, match=wrong):
        dtypes.typed(text, "e2m1")


@pytest.mark.parametrize("name", [name for name in dtypes.FLOATS if dtypes.FORMATS[name].torch_name])
@pytest.mark.parametrize("which", dtypes.THRESHOLDS)
def test_each_threshold_is_torchs(name, which):
    prediction, comparison, why = dtypes.compare_threshold(name, which)
    if comparison is None:
        assert prediction.value is None or why
        assert name in ("e8m0fnu", "fp64") or (name, which) == ("e4m3fn", "overflows")
        return
    wrong = (name, which) == ("e5m2fnuz", "ε")
    assert (comparison.measurement.value == prediction.value) != wrong
    assert comparison.unexplained == 0


def test_the_worst_relative_error_is_half_of_epsilon():
    for value, name, part in (("0.1", "fp16", "nearer than half a spacing"), ("1e-8", "fp16", "below the normal range"),
                              ("1e6", "e4m3fn", "beyond the largest number")):  # fmt: skip
        prediction, comparison, _why = dtypes.compare_relative_error(value, name)
        assert prediction.value == float(dtypes.FORMATS[name].epsilon / 2)
        assert [one.name for one in comparison.parts] == [part]
        (ours,) = dtypes.survey(value, [name])
        assert comparison.measurement.value == pytest.approx(ours.relative_error)
    for value in ("0", "nan", "inf", "1e999999999"):
        assert dtypes.compare_relative_error(value, "fp16")[1] is None


@settings(max_examples=100, deadline=None)
@given(FINITE.filter(bool), st.sampled_from(dtypes.FLOATS))
def test_the_error_is_within_half_a_unit_in_the_last_place(value, name):
    (one,) = dtypes.survey(value, [name])
    if one.error is None or abs(Fraction(value)) > one.fmt.max_value or name == "e8m0fnu":
        return
    assert one.error_ulps <= Fraction(1, 2)
    assert one.relative_error == float(abs(one.error) / abs(Fraction(value)))
    ulp = dtypes.spacing(value, name)
    if one.fmt.max_value > abs(one.decoded.value) >= abs(Fraction(value)) and one.decoded.kind == "normal":
        above = dtypes.decode(dtypes.neighbour(one.decoded.code, name, 1 if value > 0 else -1), name)
        assert above.value is None or abs(above.value - one.decoded.value) in (ulp, 2 * ulp)


@pytest.mark.parametrize(
    "value", ["0.1", "1e-8", "1/3", "-448.5", "65520", "1e5", "nan", "-inf", "-0", "2^-149", "1e30", "464.1"]
)
@pytest.mark.parametrize("name", [name for name in dtypes.FLOATS if dtypes.FORMATS[name].torch_name])
def test_the_card_says_what_torch_says(value, name):
    prediction, comparison, why = dtypes.compare_cast(value, name)
    torchs = torch.tensor([float(dtypes.read(value))], dtype=torch.float64).to(
        getattr(torch, dtypes.FORMATS[name].torch_name)
    ).double().item()  # fmt: skip
    if comparison is not None:
        assert comparison.measurement.value == torchs
        assert comparison.unexplained == 0
    else:
        assert why.startswith("torch ")
        negative = name == "e8m0fnu" and value == "-448.5"  # torch drops the sign
        assert why.endswith(" too") != negative
        assert prediction.value == torchs or math.isnan(prediction.value)


def test_rounding_twice_is_named():
    _prediction, comparison, _why = dtypes.compare_cast("1.0004882813", "fp16")
    assert [(part.name, part.value) for part in comparison.parts] == [("rounded to fp32 on the way", -(2.0**-10))]
    assert comparison.unexplained == 0
    _prediction, comparison, _why = dtypes.compare_cast("1.000488281250000000001", "fp16")
    assert [part.name for part in comparison.parts] == ["rounded to fp64 first"]


def test_the_libraries_disagree_about_overflow():
    casts = {one.library: one for one in dtypes.library_casts(1000, "e4m3fn")}
    assert casts["torch"].decoded.value == 448
    assert casts["torch"].version == torch.__version__
    assert casts["ml_dtypes"].decoded.kind == "nan"
    assert dtypes.torch_cast(1, "e2m1") is None
    assert [one.library for one in dtypes.library_casts(5, "e2m1")] == ["ml_dtypes"]


@pytest.mark.parametrize("name", dtypes.FLOATS)
def test_casts_that_differ_are_those_whose_codes_differ(name):
    differ = 0
    for text in ("0", "-0", "0.1", "1e-8", "nan", "inf", "-inf", "1000", "-448.1", "464", "465", "65520", "57344.1",
                 "1e39", "-1e-50", "1.0004882813", "2^-10", "0.87501"):  # fmt: skip
        casts = dtypes.library_casts(text, name)
        codes = {one.decoded.code for one in casts}
        wanted = len(casts) == 2 and len(codes) == 2 and any(one.decoded.kind != "nan" for one in casts)
        assert dtypes.casts_that_differ(text, [name]) == ({name: casts} if wanted else {}), text
        assert dtypes.casts_that_differ(text, dtypes.FLOATS).get(name) == (casts if wanted else None)
        differ += wanted
    assert bool(differ) == (name in ("e4m3fn", "e8m0fnu"))


def test_an_integer_out_of_range_is_named_and_has_no_worst_relative_error():
    for value, name in (("300", "int8"), ("-1", "uint8"), ("1e10", "int32")):
        _prediction, comparison, _why = dtypes.compare_cast(value, name)
        if comparison is not None:
            assert [part.name for part in comparison.parts] == ["beyond the range"]
            assert comparison.unexplained == 0
    assert dtypes.compare_cast("-2.7", "int8")[1].parts == ()
    prediction, comparison, _why = dtypes.compare_relative_error("2.7", "int8")
    assert prediction.value is None
    assert comparison is None


def test_integers_are_cut_toward_zero():
    values = [0.5, -0.5, 2.7, -2.7, 100.99, -128.0]
    ours = [int(dtypes.round_to(value, "int8").value) for value in values]
    assert ours == torch.tensor(values).to(torch.int8).tolist()
    assert dtypes.round_to(300, "int8").value == 127
    assert dtypes.round_to(-1, "uint8").value == 0
    with pytest.raises(ValueError, match="no NaN"):
        dtypes.encode("nan", "int8")


@pytest.mark.parametrize("code", [-1, 2**16, 1.5, "1", True])
def test_a_code_out_of_range_is_refused(code):
    with pytest.raises(ValueError, match="a code of fp16 must be a whole number from 0 to 65,535"):
        dtypes.decode(code, "fp16")


def test_bits_and_rounding_need_no_torch():
    script = "import sys; from core import dtypes; dtypes.survey('0.1'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("text", ["2**(3", "2^3)", "(2^3)", "2^()", "10^(-3"])
def test_half_a_pair_of_parentheses_is_no_number(text):
    with pytest.raises(ValueError, match="is not a number"):
        dtypes.read(text)
    assert dtypes.read("2**(3)").value == dtypes.read("2^3").value == 8


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1e2500/3", "beyond every format"), ("1/1e2500", "beyond every format"), ("1e2500*2^3", "beyond every format"),
        ("1/0", "divides by 0"), ("-0/0", "divides by 0"), ("1e999999999/0", "beyond every format"),
    ],
)  # fmt: skip
def test_a_fraction_that_cannot_be_says_why(text, why):
    with pytest.raises(ValueError, match=why):
        dtypes.read(text)


@pytest.mark.parametrize("text", ["2^-6000", "1e400", "-1e400", "1e-400", "1e999/3", "1/1" + "0" * 1000])
@pytest.mark.parametrize("name", [*dtypes.FLOATS, *dtypes.INTEGERS])
def test_errors_of_numbers_beyond_fp64_are_exact_or_infinite(text, name):
    (one,) = dtypes.survey(text, [name])
    exact = dtypes.read(text).value
    if one.error is None:
        assert one.relative_error is None
    else:
        relative = abs(one.error / exact)
        assert one.relative_error == (math.inf if relative > 10**309 else pytest.approx(float(relative)))
    _prediction, comparison, why = dtypes.compare_relative_error(text, name)
    assert comparison is not None or why or name in dtypes.INTEGERS


def test_minus_zero_after_zero_keeps_its_sign_in_torch_s_cast():
    """Equal numbers, and not the same: what is kept of one must not be given for the other."""
    for value in (0.0, -0.0, 0.0):
        code = torch.tensor([value], dtype=torch.float16).view(torch.int16).item() & 0xFFFF
        assert dtypes.torch_cast(value, "fp16").decoded.code == code


@pytest.mark.parametrize("name", ["e2m3", "int8", "uint8", "int16", "int32", "int64"])
def test_the_text_of_the_ends_is_their_number_and_not_one_beyond_that_saturates(name):
    fmt = dtypes.find(name)
    for code in {fmt.max_code, fmt.max_code | fmt.sign_mask, fmt.sign_mask}:
        one = dtypes.decode(code, fmt)
        if one.value:
            assert Fraction(dtypes.shortest_text(one)) == one.value


@pytest.mark.parametrize(
    ("value", "name", "note", "cause"),
    [
        ("65510", "fp16", "rounded", "nearer than half a spacing"),  # torch: 65504; infinity comes from 65520 on
        ("65519.99", "fp16", "rounded", "nearer than half a spacing"),
        ("60000", "e5m2", "rounded", "nearer than half a spacing"),
        ("464", "e4m3fn", "rounded", "nearer than half a spacing"),
        ("464.01", "e4m3fn", "saturates", "beyond the largest number"),
    ],
)
def test_only_what_is_beyond_half_a_spacing_is_beyond_the_largest_number(value, name, note, cause):
    (one,) = dtypes.survey(value, [name])
    _prediction, comparison, _why = dtypes.compare_relative_error(value, name)
    assert (one.note, comparison.parts[0].name) == (note, cause)


@pytest.mark.parametrize(
    ("value", "torchs", "parts"),
    [
        ("9007199254740993", 2**53, {"rounded to fp64 first": -1}),
        (str(2**63 - 1), -(2**63), {"beyond the range": -(2**64) + 1}),  # as fp64 it is 2**63
        (str(2**63), -(2**63), {"beyond the range": -(2**64) + 1}),
        ("300", 300, {}),
        ("-300.9", -300, {}),
    ],
)
def test_integers_that_fp64_has_not_are_compared_exactly(value, torchs, parts):
    _prediction, comparison, _why = dtypes.compare_cast(value, "int64")
    assert comparison.measurement.value == torchs == int(torch.tensor(float(value), dtype=torch.float64).long())
    assert {part.name: part.value for part in comparison.parts} == parts
    assert not comparison.unexplained


@pytest.mark.parametrize(
    ("fmt", "formula"),
    [
        ("fp64", "2¹⁰²³ · (2 − 2⁻⁵²)"),
        ("fp32", "2¹²⁷ · (2 − 2⁻²³)"),
        ("fp16", "2¹⁵ · (2 − 2⁻¹⁰)"),
        ("e4m3fn", "2⁸ · 1.75"),
    ],
)
def test_the_formula_of_the_largest_number_is_that_number(fmt, formula):
    prediction = dtypes.compare_threshold(fmt, "largest")[0]
    assert prediction.formula == formula
    power, _, significand = formula.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")).partition(" · ")
    if significand.startswith("("):
        significand = 2 - Fraction(2) ** int(significand.strip("()").split("- 2")[1])
    assert Fraction(2) ** int(power[1:]) * Fraction(significand) == dtypes.FORMATS[fmt].max_value


def test_a_format_of_ones_own_far_from_one():
    low = dtypes.custom(4, 3, -5)  # its smallest normal number is 64
    assert dtypes.compare_threshold(low, "ε")[0].formula == "1 is below the normal range, where the spacing is 2³"
    prediction = dtypes.compare_relative_error("1000", low)[0]
    assert (prediction.value, prediction.formula) == (2**-4, "at most 2⁻⁴ in the normal range")
    worst = max(float(dtypes.survey(str(n), [low])[0].relative_error) for n in range(64, 1024))
    assert 2**-5 < worst <= 2**-4
    high = dtypes.custom(4, 3, 100)
    assert dtypes.compare_threshold(high, "ε")[0].value is None
    assert dtypes.thresholds(high).epsilon is None


@pytest.mark.parametrize("bias", [-900, -5, 0, 20, 1000])
def test_a_format_without_a_number_is_refused(bias):
    with pytest.raises(ValueError, match="needs a number besides 0; with 1 exponent and 0 mantissa bits it has none"):
        dtypes.custom(1, 0, bias, "fn")


def test_a_stochastic_sum_beyond_the_largest_number():
    comparison = dtypes.compare_stochastic(dtypes.accumulate("e4m3fn", 1.0, 1000))
    assert (comparison.prediction.value, comparison.measurement.value) == (1001, 448)
    assert [(part.name, part.value) for part in comparison.parts] == [("the largest number", -553)]
    assert "right on average" not in comparison.prediction.formula


@pytest.mark.parametrize("name", ["fp16", "bf16", "e4m3fn", "e5m2", "e2m1", "e8m0fnu"])
def test_a_steps_text_is_that_very_number(name):
    fmt = dtypes.FORMATS[name]
    for code in range(0, 1 << fmt.bits, 7 if fmt.bits > 8 else 1):
        one = dtypes.decode(code, fmt)
        text = dtypes.exact_text(one)
        assert dtypes.typed(text, fmt).decoded.code == code or one.kind == "nan"
        if one.value and min(len(dtypes.decimal_text(one.value)), len(dtypes.scientific_text(one.value))) <= 24:
            assert dtypes.read(text).value == one.value


def test_marks_of_a_wide_format_lie_between_its_ends():
    (line,) = dtypes.number_lines([dtypes.custom(5, 10, 100)])
    assert line.first <= min(line.marks)
    assert max(line.marks) <= line.last
