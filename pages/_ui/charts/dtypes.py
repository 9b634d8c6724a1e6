"""Charts of Number formats."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyarrow

from core import units
from core.dtypes import KINDS, Accumulation, BlockError, Exact, Format, NumberLine, Shares, power_of_two, survey
from core.words import _
from pages._ui.charts import CLAIM, INK, PART_COLORS, canvas, names_axis, row_px, show

# What becomes of a number: lost, kept with fewer bits, kept, too large.
KIND_COLORS = {"zero": "#D55E00", "subnormal": "#E69F00", "normal": CLAIM, "overflow": "#7A5BA6"}
KIND_NAMES = {"zero": _("zero"), "subnormal": _("subnormal"), "normal": _("normal"), "overflow": _("overflow")}
SMALLEST_ERROR = 1e-17
# A power of two as an axis label, in raised digits.
POWER_LABEL = "toString(datum.value)"
for _plain, _raised in zip("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True):
    POWER_LABEL = f"replace({POWER_LABEL}, regexp('{_plain}', 'g'), '{_raised}')"
POWER_LABEL = f"'2' + {POWER_LABEL}"


def relative_errors(number: Exact, formats: tuple[Format, ...], width_px: int) -> None:
    """The relative error in each format, solid, and the worst that rounding can do in its normal range, hollow."""
    rows, words = _relative_error_rows(number, formats)
    alt_text = _("relative error in each format: {w}").format(w=words)
    show(_draw_relative_errors, rows, row_px(19) * len(formats), alt_text=alt_text, width=width_px)


# Said beforehand: pyarrow would look through the values to find out.
_ERRORS = pyarrow.schema({"format": "string", "error": "float64", "kind": "string", "label": "string"})


@functools.lru_cache(maxsize=64)
def _relative_error_rows(number: Exact, formats: tuple[Format, ...]) -> tuple[pyarrow.Table, str]:
    """The points, and the errors in words."""
    points, words = [], []
    for one in survey(number, formats):
        label = one.fmt.label
        if not one.fmt.integer:
            points.append((label, one.fmt.half_epsilon, "worst", _("at most ε/2")))
        if one.relative_error and math.isfinite(one.relative_error):
            points.append((label, max(one.relative_error, SMALLEST_ERROR), "actual", one.note))
        error = _("none") if one.relative_error is None else units.significant(one.relative_error)
        words.append(f"{label}: {error}")
    return pyarrow.table([*zip(*points, strict=True)], schema=_ERRORS), "; ".join(words)


def _draw_relative_errors(height: float) -> Any:
    import altair as alt

    ticks = [10.0**power for power in range(-16, 1, 2)]
    base = canvas().encode(
        y=alt.Y("format:N", sort=None, title=None, axis=names_axis()),
        x=alt.X("error:Q", title=_("relative error (log); hollow: the most that rounding makes"),
                axis=alt.Axis(values=ticks, format=".0e", labelOverlap="parity"),
                scale=alt.Scale(type="log", domainMax=1.5, nice=False, padding=8)),
        tooltip=["format:N", "label:N", alt.Tooltip("error:Q", format=".3e")],
    )  # fmt: skip
    worst = base.transform_filter(alt.datum.kind == "worst").mark_point(size=80, strokeWidth=1.5, color=CLAIM)
    actual = base.transform_filter(alt.datum.kind == "actual").mark_point(
        size=60, filled=True, color=CLAIM, opacity=1, clip=True
    )
    return alt.layer(worst, actual).properties(height=height)


def number_lines(lines: tuple[NumberLine, ...], number: float | None) -> None:
    """Where the positive numbers of each format lie: normal range, subnormal range, and every number of the narrow."""
    rows, words = _number_line_rows(lines, number)
    low, high = min(line.first for line in lines), max(line.last for line in lines)
    if number is not None:
        low, high = min(low, math.log2(number)), max(high, math.log2(number))
    show(
        _draw_number_lines,
        rows,
        row_px(12.5) * len(lines),
        number is not None,
        alt_text=words,
        low=low - 2,
        high=high + 2,
    )


@functools.lru_cache(maxsize=64)
def _number_line_rows(lines: tuple[NumberLine, ...], number: float | None) -> tuple[pyarrow.Table, str]:
    """A row for each range and each mark, some 900, and the ranges in words."""
    rows: list[dict[str, Any]] = []
    for line in lines:
        name = line.fmt.label
        ends = f"{_power(line.first)} … {_power(line.last)}"
        rows.append({"format": name, "low": line.first_normal, "high": line.last, "kind": "normal", "label": ends})
        if line.first < line.first_normal:
            rows.append(
                {"format": name, "low": line.first, "high": line.first_normal, "kind": "subnormal", "label": ends}
            )
        if line.fmt.bits <= 8:  # each of its numbers
            for row in rows[-2:]:
                row["kind"] += " range" if row["format"] == name else ""
            rows += [
                {"format": name, "low": mark, "label": _power(mark, 6),
                 "kind": "normal mark" if mark >= line.first_normal else "subnormal mark"}
                for mark in line.marks
            ]  # fmt: skip
    if number is not None:
        rows.append({"low": math.log2(number), "kind": "number", "label": f"{number:g}"})
    words = "; ".join(f"{line.fmt.label}: {_power(line.first)} to {_power(line.last)}" for line in lines)
    return pyarrow.Table.from_struct_array(pyarrow.array(rows)), words


def _power(log2: float, digits: int = 4) -> str:
    """The power of two in decimal. The logarithm of fp64's largest number rounds to 1024, which a float cannot hold.

    >>> _power(-24), _power(1024)
    ('5.96e-08', '1.798e+308')
    """
    if log2 < 1024:
        return f"{2.0**log2:.{digits}g}"
    tens, rest = divmod(log2 * math.log10(2), 1)
    return f"{10**rest:.{digits}g}e{tens:+.0f}"


def _draw_number_lines(height: float, with_number: bool) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(labelExpr=POWER_LABEL, tickCount=12)
    x = alt.X("low:Q", title=_("positive numbers (log)"), scale=scale, axis=axis)
    names = alt.Axis(
        ticks=False, domain=False, grid=False, labelLimit=300, labelOverlap=False, labelFlush=False, labelBound=False
    )
    y = alt.Y("format:N", sort=None, title=None, axis=names)
    kinds = ["normal", "subnormal"]
    scale_of_kinds = alt.Scale(domain=kinds, range=[CLAIM, "#E69F00"])
    color = alt.Color("of:N", title=None, legend=alt.Legend(orient="top"), scale=scale_of_kinds)
    base = canvas().transform_filter("isValid(datum.format)").transform_calculate(of="split(datum.kind, ' ')[0]")
    tooltip = ["format:N", "of:N", alt.Tooltip("label:N", title=_("number, or from … to"))]
    bars = base.transform_filter("isValid(datum.high)").mark_bar(height=10)
    faint = alt.condition("indexof(datum.kind, 'range') >= 0", alt.value(0.25), alt.value(1))
    marks = base.transform_filter("indexof(datum.kind, 'mark') >= 0").mark_tick(height=10, thickness=1.3, opacity=1)
    layers = [
        bars.encode(x=x, x2="high:Q", y=y, color=color, opacity=faint, tooltip=tooltip),
        marks.encode(x=x, y=y, color=color, tooltip=tooltip),
    ]
    if with_number:
        number = canvas().transform_filter(alt.datum.kind == "number")
        layers.append(number.mark_rule(color=INK, strokeDash=[5, 4]).encode(x=x))
        layers.append(number.mark_text(align="left", dx=5).encode(x=x, y=alt.value(-4), text="label:N"))
    return alt.layer(*layers).properties(height=height)


def accumulation(one: Accumulation) -> None:
    """The weight after each update: without rounding, to nearest, and stochastically."""
    weights = (one.exact, one.nearest, one.stochastic_mean, one.one_run)
    words = "; ".join(
        f"{name}: {units.significant(line[-1])}" for name, line in zip(_roundings(), weights, strict=True)
    )
    rows = _accumulation_rows(one.steps, weights, (one.stochastic_low, one.stochastic_high))
    show(_draw_accumulation, rows, alt_text=_("the weight in the end: {words}").format(words=words))


@functools.lru_cache(maxsize=64)
def _accumulation_rows(
    steps: tuple[int, ...], lines: tuple[tuple[float, ...], ...], band: tuple[tuple[float, ...], ...]
) -> pyarrow.Table:
    """The points of each line, and then the band's; a chart cannot show what is not finite."""
    count = len(steps)
    points = np.full((3, (len(lines) + 1) * count), np.nan)
    points[0, :-count] = np.ravel(lines)
    points[1:, -count:] = band
    weight, low, high = (pyarrow.array(column, mask=~np.isfinite(column)) for column in points)
    step, name = _steps_and_names(steps)
    return pyarrow.table({"step": step, "weight": weight, "low": low, "high": high, "name": name})


@functools.lru_cache(maxsize=64)
def _steps_and_names(steps: tuple[int, ...]) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Of the points of every line, and of the band, which has no name: the same for every update."""
    names = [name for name in _roundings() for _step in steps]
    return pyarrow.array(np.tile(steps, len(_roundings()) + 1)), pyarrow.array([*names, *[None] * len(steps)])


def _roundings() -> tuple[str, ...]:
    return _("exact sum"), _("nearest"), _("stochastic, mean"), _("one run")


def _draw_accumulation() -> Any:
    import altair as alt

    names = list(_roundings())
    color = alt.Color("name:N", legend=alt.Legend(title=None, orient="top", columns=4),
                      scale=alt.Scale(domain=names, range=[INK, "#D55E00", CLAIM, "#56B4E9"]))  # fmt: skip
    dash = alt.StrokeDash("name:N", legend=None, scale=alt.Scale(domain=names, range=[[6, 4], [1, 0], [1, 0], [2, 2]]))
    scale = alt.Scale(zero=False)
    x = alt.X("step:Q", title=_("updates"))
    y = alt.Y("weight:Q", title=_("weight"), scale=scale)
    band = canvas().transform_filter("isValid(datum.low)").mark_area(color="#56B4E9", opacity=0.25)
    lines = canvas().transform_filter("isValid(datum.name)").mark_line(strokeWidth=2)
    return alt.layer(
        band.encode(x=x, y=alt.Y("low:Q", title=_("weight"), scale=scale), y2="high:Q"),
        lines.encode(x=x, y=y, color=color, strokeDash=dash, tooltip=["name:N", "step:Q", "weight:Q"]),
    ).properties(height=132)


def gradients(bars: tuple[tuple[int, str, float], ...], name: str) -> None:
    """The scaled gradients by powers of two, coloured by what becomes of them."""
    rows, words = _gradient_rows(bars)
    alt_text = _("scaled gradients in {name}: {words}").format(name=name, words=words)
    show(_draw_gradients, rows, alt_text=alt_text)


@functools.lru_cache(maxsize=64)
def _gradient_rows(bars: tuple[tuple[int, str, float], ...]) -> tuple[pyarrow.Table, str]:
    """A bar for each, and the shares in words."""
    powers, kinds, shares = zip(*bars, strict=True)
    names = {power: power_of_two(power) for power in range(powers[0], powers[-1] + 2)}
    rows = pyarrow.table({
        "power": [power + 0.5 for power in powers],
        "share": shares,
        "kind": [KIND_NAMES[kind] for kind in kinds],
        "range": [f"{names[power]} … {names[power + 1]}" for power in powers],
    })  # fmt: skip
    totals = {kind: sum(share for _power, one, share in bars if one == kind) for kind in KINDS}
    return rows, "; ".join(f"{KIND_NAMES[kind]} {share:.1%}" for kind, share in totals.items())


def _draw_gradients() -> Any:
    import altair as alt

    names = [KIND_NAMES[kind] for kind in KINDS]
    color = alt.Color("kind:N", legend=alt.Legend(title=None, orient="top"),
                      scale=alt.Scale(domain=names, range=[KIND_COLORS[kind] for kind in KINDS]))  # fmt: skip
    axis = alt.Axis(labelExpr=POWER_LABEL, tickCount=10, format="d")
    bars = canvas().mark_bar(width=9).encode(
        x=alt.X("power:Q", title=_("size of a gradient after scaling (log)"), axis=axis),
        y=alt.Y("share:Q", title=_("share of the gradients"), axis=alt.Axis(format=".0%"), stack=True),
        color=color, tooltip=["range:N", "kind:N", alt.Tooltip("share:Q", format=".2%")],
    )  # fmt: skip
    return bars.properties(height=116)


def scales(curve: tuple[Shares, ...], measured: Shares) -> None:
    """The predicted share that becomes 0 and that overflows at each scale (lines); torch's cast at this one (dots)."""
    rows, alt_text = _scale_rows(curve, measured)
    show(_draw_scales, rows, alt_text=alt_text)


@functools.lru_cache(maxsize=64)
def _scale_rows(curve: tuple[Shares, ...], measured: Shares) -> tuple[pyarrow.Table, str]:
    """For each of the two shares the line's points, then the dot; and the best scale in words."""
    scale = [*(one.scale_log2 for one in curve), measured.scale_log2]
    none = [None] * len(curve)
    rows = pyarrow.table({
        "scale": 2 * scale,
        "share": [*(one.zero for one in curve), None, *(one.overflow for one in curve), None],
        "kind": len(scale) * [KIND_NAMES["zero"]] + len(scale) * [KIND_NAMES["overflow"]],
        "measured": [*none, measured.zero, *none, measured.overflow],
    })  # fmt: skip
    best = min(curve, key=lambda one: one.zero + one.overflow)
    alt_text = _("fewest are lost at {scale}: {share:.2%}")
    return rows, alt_text.format(scale=power_of_two(best.scale_log2), share=best.zero + best.overflow)


def _draw_scales() -> Any:
    import altair as alt

    kinds = ("zero", "overflow")
    color = alt.Color("kind:N", legend=alt.Legend(title=None, orient="top"),
                      scale=alt.Scale(domain=[KIND_NAMES[kind] for kind in kinds],
                                      range=[KIND_COLORS[kind] for kind in kinds]))  # fmt: skip
    x = alt.X("scale:Q", title=_("scale (log)"), axis=alt.Axis(labelExpr=POWER_LABEL, tickCount=8))
    share = alt.Axis(format=".0%")
    lines = canvas().transform_filter("isValid(datum.share)").mark_line(strokeDash=[6, 4], strokeWidth=2)
    dots = canvas().transform_filter("isValid(datum.measured)").mark_point(filled=True, size=90, opacity=1)
    return alt.layer(
        lines.encode(x=x, y=alt.Y("share:Q", title=_("share lost"), axis=share), color=color),
        dots.encode(x=x, y=alt.Y("measured:Q", title=_("share lost"), axis=share), color=color,
                    tooltip=["kind:N", "scale:Q", alt.Tooltip("measured:Q", format=".3%")]),
    ).properties(height=116)  # fmt: skip


def block_errors(one: BlockError) -> None:
    """The errors of a block format on a tensor, in the tensor's standard deviations."""
    rows = [{"low": low, "high": high, "share": share} for low, high, share in one.histogram]
    alt_text = _("errors of {name}: relative RMS {rms}").format(name=one.name, rms=units.significant(one.relative_rms))
    show(_draw_block_errors, rows, alt_text=alt_text)


def _draw_block_errors() -> Any:
    import altair as alt

    tooltip = [
        alt.Tooltip("low:Q", format=".3f"),
        alt.Tooltip("high:Q", format=".3f"),
        alt.Tooltip("share:Q", format=".2%"),
    ]
    bars = canvas().mark_bar(color=PART_COLORS[3], stroke=CLAIM, strokeWidth=0.5).encode(
        x=alt.X("low:Q", bin="binned", title=_("error / standard deviation")), x2="high:Q",
        y=alt.Y("share:Q", title=_("share of the values"), axis=alt.Axis(format=".0%")), tooltip=tooltip,
    )  # fmt: skip
    return bars.properties(height=148)
