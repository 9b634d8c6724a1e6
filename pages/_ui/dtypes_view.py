"""Controls, bits and tables that the sections of Number formats share."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import streamlit as st

from core import dtypes
from core.dtypes import Decoded, Format
from core.words import _
from pages._ui import cells, inputs

OWN = "own"
FIRST_NUMBER = "0.1"
SIGN, EXPONENT, MANTISSA = 5, 2, 0  # places in cells.HUES
ROW_OF_BITS = 26  # fp64 has two such rows of mantissa
ROW_OF_INTEGER = 16
LINES = ("fp32", "tf32", "bf16", "fp16", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu", "e3m2", "e2m3", "e2m1")
NUMBERS = {
    _("1e-8, the lecture's"): {"dt_number": "1e-8"},
    "65520": {"dt_number": "65520"},
    "1/3": {"dt_number": "1/3"},
}
SPECIALS = {
    "ieee": _("∞ and NaN"), "fn": _("one NaN"), "fnuz": _("NaN for −0"), "finite": _("none"),
}  # fmt: skip


@functools.cache
def label_of(name: str) -> str:
    """A format's name with its width."""
    return _("a format of your own") if name == OWN else dtypes.FORMATS[name].label


# The number and its format


def choose_format(*, integers: bool = True) -> Format:
    """The format, shared by the sections; one of your own brings its own controls."""
    names = [*dtypes.FLOATS, *dtypes.INTEGERS, OWN]
    name = inputs.select(_("Format"), "dt_format", names, label_of, "fp16")
    if name == OWN:
        return _own_format()
    if not integers and dtypes.FORMATS[name].integer:
        message = _("{name} has no exponent: choose a floating-point format")
        raise ValueError(message.format(name=name))
    return dtypes.FORMATS[name]


def _own_format() -> Format:
    exponent = inputs.whole_number(_("Exponent bits"), "dt_e", 4, 1, dtypes.MAX_EXPONENT_BITS, width=130)
    mantissa = inputs.whole_number(_("Mantissa bits"), "dt_m", 3, 0, dtypes.MAX_MANTISSA_BITS, width=130)
    bias = inputs.whole_number(_("Bias"), "dt_bias", 7, -dtypes.MAX_BIAS, dtypes.MAX_BIAS, width=130)
    specials = inputs.select(_("Special values"), "dt_specials", list(SPECIALS), SPECIALS.__getitem__)
    return dtypes.custom(exponent, mantissa, bias, specials)


def number_in_a_format() -> tuple[Format, dtypes.Typed]:
    """The number that was typed, and the format it is looked at in, shared by the sections."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = inputs.text(_("Number, or bits as 0b… or 0x…"), "dt_number", FIRST_NUMBER, dtypes.MAX_CHARS, width=300)
        inputs.presets(NUMBERS)
        fmt = choose_format()
        if inputs.first_here("dt_turn"):
            inputs.button(_("◀ number below"), "dt_down", _turn, fmt, -1)
            inputs.button(_("number above ▶"), "dt_up", _turn, fmt, +1)
    return fmt, dtypes.typed(text, fmt)


def _turn(fmt: Format, step: int) -> None:
    """Go to the neighbouring number of the format."""
    try:
        here = dtypes.typed(_last_typed(), fmt).decoded
    except ValueError:
        return  # the section says what is wrong with it
    code = None if here is None else dtypes.neighbour(here.code, fmt, step)
    if code is not None:
        inputs.set_values(dt_number=dtypes.exact_text(dtypes.decode(code, fmt)))


def last_number() -> float | None:
    """The number that was typed last, for the number line; None where it has no place there."""
    try:
        value = float(dtypes.read(_last_typed()))
    except ValueError:
        return None
    return abs(value) if value and value - value == 0 else None


def _last_typed() -> str:
    return str(st.session_state.get("dt_number", FIRST_NUMBER))


def with_own(fmt: Format) -> list[Format]:
    """The formats that are listed, and the chosen one where it is none of them."""
    listed = [dtypes.FORMATS[name] for name in LINES]
    return listed if fmt in listed else [fmt, *listed]


# Bits


def bit_cells(one: Decoded) -> None:
    """The bits as cells, a colour for each field; a click turns a bit over."""
    fmt = one.fmt

    def pick(name: str) -> None:
        flipped = dtypes.flip(one.code, fmt, int(name.removeprefix("bit")))
        inputs.set_values(dt_number=dtypes.exact_text(dtypes.decode(flipped, fmt)))

    alt = _("the bits of {label}: {bits}; press one to turn it over").format(label=fmt.label, bits=" ".join(one.fields))
    cells.show("dt_bits", _bit_grids(one.code, fmt), alt, pick)


@functools.lru_cache(maxsize=64)
def _bit_grids(code: int, fmt: Format) -> list[cells.Grid]:
    one = dtypes.decode(code, fmt)
    places = iter(enumerate(one.bits))
    sign, exponent, mantissa = ([next(places) for _bit in field] for field in one.fields)
    grids = []
    if fmt.integer:
        notes = [_("worth {worth}").format(worth=_worth(fmt, place)) for place in range(fmt.bits)]
        title = _("two's complement") if fmt.signed else _("whole number")
        grids.append(_grid(title, sign + mantissa, MANTISSA, notes, width=ROW_OF_INTEGER))
    else:
        grids += [_grid(_("sign"), sign, SIGN, [_("1 is negative")])] if sign else []
        powers = range(fmt.exponent_bits - 1, -1, -1)
        notes = [_("exponent: worth {worth} in the field").format(worth=1 << power) for power in powers]
        title = _("exponent {field} − {bias}").format(field=one.exponent_field, bias=fmt.bias)
        grids.append(_grid(title, exponent, EXPONENT, notes, beside=True))
        notes = [
            _("mantissa: worth {worth}").format(worth=dtypes.power_of_two(-power))
            for power in range(1, fmt.mantissa_bits + 1)
        ]
        title = _("mantissa {mantissa:,} / {power}").format(
            mantissa=one.mantissa, power=dtypes.power_of_two(fmt.mantissa_bits)
        )
        grids += [_grid(title, mantissa, MANTISSA, notes, beside=True)] if mantissa else []
    return grids


def _worth(fmt: Format, place: int) -> str:
    worth = 1 << (fmt.bits - 1 - place)
    return f"{-worth:,}" if fmt.signed and place == 0 else f"{worth:,}"


def _grid(
    title: str,
    bits: Sequence[tuple[int, str]],
    hue: int,
    notes: Sequence[str],
    *,
    beside: bool = False,
    width: int = ROW_OF_BITS,
) -> cells.Grid:
    made = [cells.Cell(bit, f"bit{place}", hue=hue, note=note) for (place, bit), note in zip(bits, notes, strict=True)]
    rows = [made[start : start + width] for start in range(0, len(made), width)]
    return cells.Grid(title, rows, beside=beside)
