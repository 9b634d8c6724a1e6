"""What the sections of Number formats say in tables: a number's bits in words, and formats side by side."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction
from html import escape

from core import dtypes, units
from core.dtypes import Decoded
from core.words import _
from pages._ui import markup, tables

SHOWN_DIGITS = 60
SHOWN_RESULT = 24
FP64_POWER = 300  # of ten: a little less than the largest number of fp64
FP64_POWER_OF_TWO = 990  # surely within 10^±300


def facts(typed: dtypes.Typed) -> None:
    """What the bits mean, with numbers; the class; the spacing; how far off the number is that was typed."""
    assert typed.decoded is not None
    markup.show(_facts(typed.exact, typed.decoded))


@functools.lru_cache(maxsize=64)
def _facts(number: dtypes.Exact, one: Decoded) -> str:
    fmt = one.fmt
    rows = [(_("means"), *_meaning(one))]
    if one.value is not None:
        rows.append((_("exactly"), *_exactly(one)))
    kinds = {"zero": _("zero"), "subnormal": _("subnormal"), "normal": _("normal"), "inf": _("infinity"), "nan": "NaN"}
    rows.append((_("class"), f"{kinds[one.kind]}, {_('code')} 0x{one.code:0{(fmt.bits + 3) // 4}x}", one.bits))
    ulp = dtypes.spacing(dtypes.exact_of(one), fmt)
    if ulp is not None:
        text = f"{dtypes.power_text(ulp)} = {units.significant(float(ulp))}"
        rows.append((_("spacing (ULP)"), text, dtypes.scientific_text(ulp)))
    (rounded,) = dtypes.survey(number, (fmt,))
    if rounded.error is not None and rounded.error_ulps is not None:
        off = _("{ulps} ULP, relative {relative}").format(
            ulps=_figure(rounded.error_ulps), relative=_relative(number, rounded)
        )
        rows.append((_("off by"), f"{off} ({rounded.note})", dtypes.fraction_text(rounded.error)))
    body = "".join(
        f'<tr><td>{escape(name)}</td><td style="overflow-wrap:anywhere" title="{escape(exact)}">'
        f"{escape(text)}</td></tr>"
        for name, text, exact in rows
    )
    return f'<table class="np-why">{body}</table>'


def _meaning(one: Decoded) -> tuple[str, str]:
    """(-1)^sign × 2^exponent × significand, with the numbers put in."""
    if one.kind in ("inf", "nan") or one.fmt.integer:
        return dtypes.in_words(one), ""
    hidden = 1 if one.kind == "normal" else 0
    m = one.fmt.mantissa_bits
    significand = f"({hidden} + {one.mantissa:,} / {1 << m:,})" if m else str(hidden)
    sign = f"(−1){'¹' if one.sign else '⁰'} × " if one.fmt.signed else ""
    exact = _exactly(one)[1]
    value = f"= {exact}" if len(exact) <= SHOWN_RESULT else f"≈ {units.significant(float(one), 7)}"
    return f"{sign}{dtypes.power_of_two(one.exponent)} × {significand} {value}", dtypes.in_words(one)


def _exactly(one: Decoded) -> tuple[str, str]:
    value = one.value
    assert value is not None
    exact = dtypes.decimal_text(value) if not value or abs(value) >= 1e-9 else dtypes.scientific_text(value)
    if one.sign and not value:
        exact = "-0"
    return exact if len(exact) <= SHOWN_DIGITS else exact[:SHOWN_DIGITS] + "…", exact


def _relative(number: dtypes.Exact, one: dtypes.Rounded) -> str:
    if one.error is None or one.relative_error is None:
        return "—"
    if not one.error or 10.0**-FP64_POWER < one.relative_error < 10.0**FP64_POWER:
        return units.significant(one.relative_error)
    return _figure(abs(one.error) / number.magnitude)


def _figure(value: Fraction) -> str:
    """Three significant digits, of numbers beyond fp64 too: a number far outside a format is off by any factor."""
    if not value or abs(value.numerator.bit_length() - value.denominator.bit_length()) < FP64_POWER_OF_TWO:
        return units.significant(float(value))
    mantissa, _e, power = dtypes.scientific_text(value, 3).partition("e")
    if abs(int(power or "0")) < FP64_POWER:
        return units.significant(float(value))
    return f"{mantissa} × {dtypes.power_of_ten(int(power))}"


def survey_table(number: dtypes.Exact, formats: tuple[dtypes.Format, ...]) -> None:
    """What each format makes of the number, how far off, and what ml_dtypes makes of it where that differs."""
    head = (_("format"), _("becomes"), _("off, ULP"), _("relative"), "")
    tables.show(head, _survey_rows(number, formats), _("the number in each format"), dense=True)


@functools.lru_cache(maxsize=64)
def _survey_rows(number: dtypes.Exact, formats: tuple[dtypes.Format, ...]) -> list[list[tables.Cell]]:
    rows: list[list[tables.Cell]] = []
    differ = dtypes.casts_that_differ(number, formats)
    for one in dtypes.survey(number, formats):
        value = "—" if one.decoded is None else _shown(one.decoded.code, one.fmt)
        ulps = "—" if one.error_ulps is None else _figure(one.error_ulps)
        note = one.note + _in_other_libraries(differ.get(one.fmt.name, ()))
        rows.append([one.fmt.label, value, ulps, _relative(number, one), note])
    return rows


def _in_other_libraries(casts: tuple[dtypes.LibraryCast, ...]) -> str:
    """torch's and ml_dtypes' casts where they disagree, with their versions."""
    if not casts:
        return ""
    told = "; ".join(f"{cast.library} {cast.version}: {_short(cast.decoded)}" for cast in casts)
    return f" ({told})"


@functools.lru_cache(maxsize=4096)  # the next number of a wide format is the same one in most narrow formats
def _shown(code: int, fmt: dtypes.Format) -> tuple[str, str]:
    """The number of that code, and with every digit."""
    one = dtypes.decode(code, fmt)
    return _short(one), "" if one.value is None else dtypes.scientific_text(one.value)


def _short(one: Decoded) -> str:
    if one.value is None or not one.value:
        return dtypes.in_words(one).replace(" ", "")
    number = float(one)
    if 1e-4 <= abs(number) < 1e6:
        return f"{number:,.6g}".replace("-", "−")
    return units.significant(number, 5)


def threshold_table(listed: Sequence[dtypes.Thresholds]) -> None:
    """The thresholds of each format; exact on hover."""
    overflow = {"infinity": "∞", "nan": "NaN", "saturate": _("saturates")}
    rows = []
    for one in listed:
        values = (one.rounds_to_zero, one.smallest_subnormal, one.smallest_normal, one.epsilon, one.largest)
        shown = [("—", "") if value is None else (_power(value), dtypes.scientific_text(value)) for value in values]
        edge = f"{_power(one.overflows_from)} → {overflow[one.overflow]}"
        sign = "≥ " if one.overflow_includes_it else "> "
        rows.append([(one.fmt.label, ""), *shown, (sign + edge, dtypes.scientific_text(one.overflows_from))])
    head = (_("format"), _("rounds to 0, ≤"), _("smallest subnormal"), _("smallest normal"), _("ε, above 1"),
            _("largest"), _("overflows"))  # fmt: skip
    tables.show(head, rows, _("thresholds of each format"), dense=True)


def _power(value: Fraction) -> str:
    text = dtypes.power_text(value)
    return (
        text
        if text.startswith("2") and len(text) > 1 and not text[1:].isascii()
        else units.significant(float(value), 5)
    )


def finfo_table(rows: Sequence[dtypes.FinfoRow]) -> None:
    """torch.finfo beside what follows from the bits; the one that is wrong is marked."""
    by_format: dict[str, list[dtypes.FinfoRow]] = {}
    for row in rows:
        by_format.setdefault(row.fmt.label, []).append(row)
    lines, marked = [], None
    for index, (label, fields) in enumerate(by_format.items()):
        cells_of_row = [(label, "")]
        for row in fields:
            text = units.significant(row.torchs, 5)
            if not row.agrees:
                text, marked = _("{torchs}, in truth {ours}").format(torchs=text, ours=f"{row.ours:g}"), index
            cells_of_row.append((text, f"{row.ours!r}"))
        lines.append(cells_of_row)
    head = (_("format"), "torch.finfo(…).eps", ".max", ".smallest_normal")
    tables.show(head, lines, _("torch.finfo beside the format's bits"), marked=marked, dense=True)


def updates(done: dtypes.Accumulation, width_px: int) -> None:
    """The smallest update that changes 1, predicted and by torch; under it, where nearest rounding stops."""
    told = f'<p class="np-legend">{escape(why_stuck(done))}</p>'
    markup.show(_smallest_updates() + told, width=width_px)


@functools.cache
def _smallest_updates() -> str:
    rows = []
    for one in map(dtypes.compare_smallest_update, dtypes.UPDATED):
        values = (one.prediction.value or 0.0, one.measurement.value)
        shown = "".join(f'<td title="{value!r}">{units.significant(value)}</td>' for value in values)
        rows.append(f"<tr><td>{escape(one.measurement.conditions.dtype)}</td>{shown}</tr>")
    head = "".join(f"<th>{name}</th>" for name in (_("weight 1 in"), _("smallest update"), _("by torch")))
    return f'<table class="np-why np-wide np-dense"><tr>{head}</tr>{"".join(rows)}</table>'


def why_stuck(done: dtypes.Accumulation) -> str:
    """Where rounding to nearest stops, in words."""
    mean = units.significant(done.stochastic_mean[-1])
    if done.stuck_at == 0:
        message = _(
            "In {name} nearest rounding is stuck from the start; {runs} stochastic runs end at {mean} on average."
        )
        return message.format(name=done.fmt.label, runs=done.runs, mean=mean)
    if done.stuck_at is None:
        message = _("In {name} nearest rounding moves at every step; {runs} stochastic runs end at {mean} on average.")
        return message.format(name=done.fmt.label, runs=done.runs, mean=mean)
    message = _(
        "In {name} nearest rounding is stuck after {n:,} updates; {runs} stochastic runs end at {mean} on average."
    )
    return message.format(name=done.fmt.label, n=done.stuck_at, runs=done.runs, mean=mean)


def block_table(errors: Sequence[dtypes.BlockError], chosen: str) -> None:
    """Every block format on the same tensor: bytes and errors."""
    rows = []
    for one in errors:
        per_value = dtypes.BLOCK_FORMATS[one.name].bits_per_value
        rows.append([
            (one.name, dtypes.BLOCK_FORMATS[one.name].rule), (f"{per_value:g}", ""),
            (f"{per_value / 8:.3g}", f"{one.stored_bytes:,} B"),
            (units.significant(one.relative_rms), repr(one.relative_rms)),
            (f"{one.zero_share:.1%}", ""), (f"{one.clipped_share:.1%}", ""),
        ])  # fmt: skip
    head = (_("format"), _("bits a value"), _("bytes a value"), _("relative RMS"), _("became 0"), _("clipped"))
    marked = [one.name for one in errors].index(chosen)
    tables.show(head, rows, _("block formats on this tensor"), marked=marked, dense=True)
