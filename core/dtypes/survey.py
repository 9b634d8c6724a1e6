"""One number in every format, with its error, and beside it what the libraries' own casts make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.casts import LibraryCast, torch_cast
from core.dtypes.codec import Decoded, round_to, spacing
from core.dtypes.exact import Exact, power_of_two, read, scientific_text
from core.dtypes.formats import FLOATS, Format, find, two_to
from core.words import _

_NONE = Fraction(0)


@dataclass(frozen=True)
class Rounded:
    """A value in one format: what it becomes and how far off that is.

    ``decoded`` is None where the format has no code for it (NaN in a format without one). ``error`` is what it became
    minus the value; ``error_ulps`` is its size in the format's spacing at the value, ``relative_error`` its size over
    the value's (infinite where it is beyond fp64). They are None where there is no number on one of the two sides, the
    relative error also for 0.
    """

    fmt: Format
    decoded: Decoded | None
    error: Fraction | None
    error_ulps: Fraction | None
    relative_error: float | None
    note: str = ""


def survey(value: object, formats: Iterable[Format | str] = FLOATS) -> tuple[Rounded, ...]:
    """What becomes of a value in each format.

    >>> for one in survey("1e-8", ["bf16", "fp16", "e4m3fn"]):
    ...     ulps = float(one.error_ulps)
    ...     print(one.fmt.name, float(one.decoded), f"{ulps:.3f} ULP", f"{one.relative_error:.4f}", one.note)
    bf16 1.0011717677116394e-08 0.201 ULP 0.0012 rounded
    fp16 0.0 0.168 ULP 1.0000 underflows to 0
    e4m3fn 0.0 0.000 ULP 1.0000 underflows to 0
    """
    return _survey(read(value), tuple(find(one) if isinstance(one, str) else one for one in formats))


@lru_cache(maxsize=64)
def _survey(exact: Exact, formats: tuple[Format, ...]) -> tuple[Rounded, ...]:
    return tuple(_rounded(exact, one) for one in formats)


def _rounded(exact: Exact, fmt: Format) -> Rounded:
    if exact.kind == "nan" and fmt.nan_code is None:
        return Rounded(fmt, None, None, None, None, _("has no NaN"))
    decoded = round_to(exact, fmt)
    note = _note(exact, decoded)
    if exact.value is None or decoded.value is None:
        return Rounded(fmt, decoded, None, None, None, note)
    if decoded.value == exact.value:
        return Rounded(fmt, decoded, _NONE, _NONE, 0.0 if exact.magnitude else None, note)
    error = decoded.value - exact.value
    size, ulp = abs(error), spacing(exact, fmt)
    assert ulp is not None
    relative = _over(size, exact.magnitude) if exact.magnitude else None
    return Rounded(fmt, decoded, error, size / ulp, relative, note)


def _over(size: Fraction, whole: Fraction) -> float:
    """The quotient; infinite where it is beyond fp64."""
    try:
        return (size.numerator * whole.denominator) / (size.denominator * whole.numerator)
    except OverflowError:
        return math.inf


def _note(exact: Exact, decoded: Decoded) -> str:
    if exact.kind == "nan":
        return _("NaN stays NaN")
    if decoded.kind == "nan":
        return _("has no sign") if exact.negative and not decoded.fmt.signed else _("overflows to NaN")
    if decoded.kind == "inf":
        return _("infinite") if exact.kind == "inf" else _("overflows to infinity")
    if exact.kind in ("inf", "huge"):
        return _("saturates")
    assert decoded.value is not None
    if exact.kind == "tiny":
        return _("underflows to 0") if not decoded.value else _("has no smaller number")
    if decoded.value == exact.value:
        return _("exact")
    assert exact.value is not None
    if decoded.fmt.integer:
        if decoded.value != math.trunc(exact.value):
            return _("saturates")
        return _("cut toward 0") if decoded.value else _("cut to 0")
    magnitude = decoded.code & ~decoded.fmt.sign_mask
    if magnitude == decoded.fmt.max_code and decoded.fmt.is_beyond(exact.magnitude):
        return _("saturates")
    if not decoded.value:
        return _("underflows to 0")
    return _("has no smaller number") if not magnitude and exact.magnitude < decoded.value else _("rounded")


def compare_cast(value: object, fmt: Format | str) -> tuple[Prediction, Comparison | None, str]:
    """Our exact rounding beside torch's cast; without a comparison where there is no ratio, and then why, in words.

    The parts of a difference: a number typed as decimal text or a fraction becomes fp64 before torch sees it, and torch
    casts fp64 to a narrower format by way of fp32, so the number is rounded up to three times.

    >>> prediction, comparison, _why = compare_cast("1.0004882813", "fp16")
    >>> prediction.value, comparison.measurement.value, [(part.name, part.value) for part in comparison.parts]
    (1.0009765625, 1.0, [('rounded to fp32 on the way', -0.0009765625)])
    """
    return _compare_cast(read(value), find(fmt) if isinstance(fmt, str) else fmt)


@lru_cache(maxsize=64)
def _compare_cast(exact: Exact, fmt: Format) -> tuple[Prediction, Comparison | None, str]:
    quantity = _("value in {name}").format(name=fmt.label)
    if exact.kind == "nan" and fmt.nan_code is None:
        unknown = _("{name} has no NaN: every code is a number").format(name=fmt.label)
        return Prediction(quantity, None, "", unknown, unknown=unknown), None, ""
    ours = round_to(exact, fmt)
    prediction = Prediction(
        quantity, _figure(ours), "", in_words(ours), source=_("exact rounding to nearest, ties to even")
    )
    cast = torch_cast(exact, fmt)
    if cast is None:
        return prediction, None, _("torch has no {name}: there is nothing to measure").format(name=fmt.label)
    theirs = float(cast.decoded)
    if not (math.isfinite(float(ours)) and math.isfinite(theirs) and float(ours)):
        same = float(ours) == theirs or (math.isnan(theirs) and math.isnan(float(ours)))
        message = _("torch {version} gives {value} too") if same else _("torch {version} gives {value}")
        return prediction, None, message.format(version=cast.version, value=_plain(theirs))
    conditions = Conditions("cpu", _("torch's cast from fp64"), fmt.label, 1, 0, 1, torch_version=cast.version)
    measurement = Measurement(quantity, (_figure(cast.decoded),), "", conditions)
    roundings = _integer_roundings if fmt.integer else _roundings
    return prediction, Comparison(prediction, measurement, roundings(exact, fmt, cast)), ""


def _figure(one: Decoded) -> float:
    """The number; an integer as it is, as fp64 does not have those of int64."""
    return int(one.value) if one.fmt.integer and one.value is not None else float(one)


def _integer_roundings(exact: Exact, fmt: Format, theirs: LibraryCast) -> tuple[Term, ...]:
    double = float(exact)
    once, twice = _figure(round_to(exact, fmt)), _figure(round_to(double, fmt))
    within = math.isfinite(double) and math.trunc(double) == twice
    steps = (
        Term(_("rounded to fp64 first"), twice - once, _("the text is not an fp64 number")),
        Term(
            _("beyond the range"),
            0 if within else _figure(theirs.decoded) - twice,
            _("what a cast gives there C leaves open; ours saturates, as quantisers do"),
        ),
    )
    return tuple(step for step in steps if step.value)


def _roundings(exact: Exact, fmt: Format, _theirs: LibraryCast) -> tuple[Term, ...]:
    """The steps by which torch comes to its answer, where they change it."""
    double = float(exact)
    once, twice = float(round_to(exact, fmt)), float(round_to(double, fmt))
    single = float(round_to(double, "fp32"))
    thrice = float(round_to(single, fmt)) if fmt.bits < 32 else twice
    steps = (
        Term(_("rounded to fp64 first"), twice - once, _("the text is not an fp64 number")),
        Term(_("rounded to fp32 on the way"), thrice - twice, _("torch casts fp64 to narrow formats through fp32")),
    )
    return tuple(step for step in steps if step.value)


def compare_relative_error(value: object, fmt: Format | str) -> tuple[Prediction, Comparison | None, str]:
    """The largest relative error that rounding to nearest can make, half of ε, beside that of torch's cast of a value.

    The part that makes the difference: where the number falls between its neighbours, or that it lies outside of the
    normal range, where the rule does not hold. Without a comparison for infinities, NaNs, 0 and formats not in torch.

    >>> prediction, comparison, _why = compare_relative_error("0.1", "fp16")
    >>> f"{prediction.value:.3e} {comparison.measurement.value:.3e}", comparison.parts[0].name
    ('4.883e-04 2.441e-04', 'nearer than half a spacing')
    """
    return _compare_relative_error(read(value), find(fmt) if isinstance(fmt, str) else fmt)


@lru_cache(maxsize=64)
def _compare_relative_error(exact: Exact, fmt: Format) -> tuple[Prediction, Comparison | None, str]:
    quantity = _("relative error in {name}").format(name=fmt.label)
    if fmt.integer:
        unknown = _("an integer's error is absolute, less than 1: relative to a small number it may be anything")
        return Prediction(quantity, None, "", unknown, unknown=unknown), None, ""
    worst = fmt.half_epsilon
    has_one = fmt.min_exponent <= 0 <= fmt.max_exponent  # or its spacing above 1 is another one, or there is none
    formula = _("at most ε/2 = {power} in the normal range") if has_one else _("at most {power} in the normal range")
    formula = formula.format(power=power_of_two(-fmt.mantissa_bits - 1))
    prediction = Prediction(quantity, worst, "", formula, source=_("rounding to nearest"))
    cast = torch_cast(exact, fmt)
    if cast is None:
        return prediction, None, _("torch has no {name}: there is nothing to measure").format(name=fmt.label)
    if exact.value is None or not exact.value or cast.decoded.value is None:
        return (
            prediction,
            None,
            _("torch gives {value}: there is no relative error").format(value=_plain(float(cast.decoded))),
        )
    measured = _over(abs(cast.decoded.value - exact.value), exact.magnitude)
    if math.isinf(measured):
        return (
            prediction,
            None,
            _("torch gives {value}: an error beyond fp64").format(value=_plain(float(cast.decoded))),
        )
    name = _("nearer than half a spacing")
    if exact.magnitude < two_to(fmt.min_exponent):
        name = _("below the normal range")
    elif fmt.is_beyond(exact.magnitude):
        name = _("beyond the largest number")
    elif measured > worst:
        name = _("rounded more than once")
    conditions = Conditions("cpu", _("torch's cast from fp64"), fmt.label, 1, 0, 1, torch_version=cast.version)
    parts = (Term(name, measured - worst, _("the rule holds for the worst number of the normal range")),)
    return prediction, Comparison(prediction, Measurement(quantity, (measured,), "", conditions), parts), ""


def in_words(one: Decoded) -> str:
    """Sign, exponent and significand of a number, or what it is instead.

    >>> in_words(round_to(-6.5, "fp16")), in_words(round_to(0, "bf16")), in_words(round_to("inf", "fp16"))
    ('− 2² × 1.625', '0', '∞')
    """
    sign = "− " if one.sign else ""
    if one.kind == "nan":
        return "NaN"
    if one.kind == "inf":
        return f"{sign}∞"
    if one.kind == "zero":
        return f"{sign}0"
    if one.fmt.integer:
        return f"{sign}{one.significand}"
    return f"{sign}{power_of_two(one.exponent)} × {_plain(float(one.significand))}"


def _plain(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if 1e-4 <= abs(number) < 1e15 or not number:
        return f"{number:.17g}"
    return scientific_text(Fraction(number), 6)
