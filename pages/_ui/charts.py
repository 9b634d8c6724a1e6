"""Charts: built with Altair in one theme, cached as specifications, shown through one function.

Predicted is hollow, measured is solid, the named parts of a difference are tints, what is unexplained is grey. Every
chart has units on its axes and a text alternative; the toolbar that appears over it saves a PNG, or the data as CSV.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from core import napkin, units
from core.words import _
from pages._ui import inputs

if TYPE_CHECKING:
    from core.claims import Comparison, Measurement

CLAIM = "#0072B2"
UNEXPLAINED = "#8A9099"
# Okabe and Ito's palette, safe for colour-blind readers; yellow is left out, it vanishes on white.
PART_COLORS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5BA6")
# parameters, gradients, optimizer state, activations (or a master copy, where no activations are shown)
MEMORY_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
INK = {"light": "#1b1f24", "dark": "#e8eaed"}
LECTURE_SCALE = 1.3


def show(build: Callable[..., Any], *values: Any, alt_text: str) -> None:
    """Show the chart that ``build(*values)`` makes. ``values`` are hashable: the specification is made once for them."""
    scale = LECTURE_SCALE if inputs.lecture_mode() else 1.0
    ink = INK["dark" if st.context.theme.type == "dark" else "light"]
    st.vega_lite_chart(spec=_spec(build, values, scale, ink), width="stretch", alt=alt_text)


@functools.lru_cache(maxsize=512)
def _spec(build: Callable[..., Any], values: tuple[Any, ...], scale: float, ink: str) -> dict[str, Any]:
    size = round(13 * scale)
    chart = build(*values)
    chart = chart.configure_axis(
        labelFontSize=size, titleFontSize=size, titleFontWeight="normal", labelLimit=260, grid=True
    )
    chart = (
        chart.configure_text(fontSize=size, color=ink)
        .configure_view(strokeWidth=0)
        .configure_legend(labelFontSize=size, titleFontSize=size)
    )
    spec: dict[str, Any] = chart.properties(autosize={"type": "fit-x", "contains": "padding"}).to_dict()
    return spec


def part_color(index: int) -> str:
    """The tint of the part at that place of a comparison."""
    return PART_COLORS[index % len(PART_COLORS)]


def scaled_unit(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit to write, so that an axis has short numbers.

    >>> scaled_unit(0.0004, "s"), scaled_unit(6e10, "FLOP/s")
    ((1e-06, 'µs'), (1000000000.0, 'GFLOP/s'))
    """
    text = units.quantity(abs(largest) or 1.0, unit)
    name = text.rsplit(" ", 1)[-1] if " " in text else unit
    return units.parse_quantity(f"1 {name}", unit) if name else 1.0, name


def difference(comparison: Comparison) -> Any:
    """From predicted to measured: a bar for each, and between them each named part where it adds to the last."""
    import altair as alt
    import pandas as pd

    predicted, measured = comparison.prediction.value, comparison.measurement.value
    assert predicted is not None
    divide, unit = scaled_unit(max(predicted, measured), comparison.prediction.unit)
    rows = [
        (_("predicted"), 0.0, predicted, "transparent", CLAIM, units.quantity(predicted, comparison.prediction.unit))
    ]
    level = predicted
    steps = [(part.name, part.value, part_color(index)) for index, part in enumerate(comparison.parts)]
    steps.append((_("unexplained"), comparison.unexplained or 0.0, UNEXPLAINED))
    for name, value, color in steps:
        sign = "+" if value >= 0 else "−"
        rows.append(
            (
                name,
                level,
                level + value,
                color,
                color,
                f"{sign} {units.quantity(abs(value), comparison.prediction.unit)}",
            )
        )
        level += value
    rows.append((_("measured"), 0.0, measured, CLAIM, CLAIM, comparison.measurement.text))
    data = pd.DataFrame(rows, columns=["name", "from", "to", "fill", "stroke", "label"])
    data["from"] /= divide
    data["to"] /= divide
    data["end"] = data[["from", "to"]].max(axis=1)
    low, high = data["from"].min(), data["end"].max()
    room = 0.15 * (high - low)  # for the labels behind the bars
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False))
    )
    x = alt.X(
        "from:Q",
        title=f"{comparison.prediction.quantity} ({unit})",
        scale=alt.Scale(domain=[min(0.0, low), high + room], nice=False),
    )
    bars = base.mark_bar(strokeWidth=2, cornerRadius=2).encode(
        x=x, x2="to:Q", fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None),
        tooltip=[alt.Tooltip("name:N", title=_("part")), alt.Tooltip("label:N", title=comparison.prediction.quantity)],
    )  # fmt: skip
    labels = base.mark_text(align="left", dx=6).encode(x="end:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(26))


def trial_times(warm: Measurement, lecture: Measurement) -> Any:
    """Every trial in the order it ran: five cold calls of the lecture's method, then the warm ones; log time."""
    import altair as alt
    import pandas as pd

    names = (_("the lecture's five"), _("warm"))
    divide, unit = scaled_unit(warm.value, "s")
    kept = warm.samples[:: max(1, len(warm.samples) // 400)]
    data = pd.DataFrame(
        [(index + 1, value / divide, names[0]) for index, value in enumerate(lecture.samples)]
        + [(len(lecture.samples) + 1 + index, value / divide, names[1]) for index, value in enumerate(kept)],
        columns=["trial", "time", "method"],
    )
    lines = pd.DataFrame(
        [(lecture.value / divide, _("mean of five: {time}").format(time=lecture.text), names[0]),
         (warm.value / divide, _("warm median: {time}").format(time=warm.text), names[1])],
        columns=["time", "label", "method"],
    )  # fmt: skip
    color = alt.Color("method:N", scale=alt.Scale(domain=names, range=["#D55E00", CLAIM]), legend=None)
    y = alt.Y(
        "time:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        title=_("time of one call ({unit}, log)").format(unit=unit),
    )
    points = alt.Chart(data).mark_point(filled=True, size=36, opacity=0.7).encode(
        x=alt.X("trial:Q", title=_("trial, in the order they ran (a sample of the warm ones)"), axis=alt.Axis(format="d")), y=y, color=color,
        shape=alt.Shape("method:N", scale=alt.Scale(domain=names, range=["diamond", "circle"]), legend=None),
        tooltip=["method:N", "trial:Q", alt.Tooltip("time:Q", title=unit, format=".4g")],
    )  # fmt: skip
    rules = alt.Chart(lines).mark_rule(strokeDash=[6, 4], strokeWidth=2).encode(y="time:Q", color=color)
    labels = (
        alt.Chart(lines)
        .mark_text(align="right", dy=-9, fontWeight="bold")
        .encode(y="time:Q", x=alt.value("width"), text="label:N", color=color)
    )
    return alt.layer(points, rules, labels).properties(height=260)


def rates(rows: tuple[tuple[str, float, float | None], ...]) -> Any:
    """Achieved FLOP/s per dtype (solid) inside its peak (hollow), on a log axis: factors matter."""
    import altair as alt
    import pandas as pd

    largest = max(max(rate, peak or 0.0) for _name, rate, peak in rows)
    divide, unit = scaled_unit(largest, "FLOP/s")
    label = [
        units.si(rate, "FLOP/s") + (f" · MFU {rate / peak:.0%}" if peak else _(" · peak unknown"))
        for _name, rate, peak in rows
    ]
    data = pd.DataFrame(rows, columns=["dtype", "rate", "peak"]).assign(label=label)
    data["low"] = min(min(rate, peak or rate) for _name, rate, peak in rows) / 4 / divide
    data["rate"] /= divide
    data["peak"] = data["peak"].astype(float) / divide
    data["end"] = data[["rate", "peak"]].max(axis=1)
    y = alt.Y("dtype:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False))
    scale = alt.Scale(type="log", nice=False, padding=10)
    base = alt.Chart(data).encode(y=y)
    solid = base.mark_bar(color=CLAIM, height=18).encode(
        x=alt.X("low:Q", scale=scale, title=f"{unit} ({_('log')})"), x2="rate:Q"
    )
    hollow = base.mark_bar(fill="transparent", stroke=CLAIM, strokeWidth=2, height=28).encode(x="low:Q", x2="peak:Q")
    text = base.mark_text(align="left", dx=8, fontWeight="bold").encode(x="end:Q", text="label:N")
    return alt.layer(hollow, solid, text).properties(height=alt.Step(44))


def landmarks(rows: tuple[tuple[str, float, str], ...]) -> Any:
    """FLOPs of trainings and of the chosen cluster, on one log axis. ``rows``: name, FLOPs, "known" or "predicted"."""
    import altair as alt
    import pandas as pd

    data = pd.DataFrame(rows, columns=["name", "flops", "kind"])
    data["label"] = [units.si(value, "FLOP") for value in data["flops"]]
    data["low"] = 10.0 ** (len(str(int(data["flops"].min()))) - 3)
    data["fill"] = ["transparent" if kind == "predicted" else UNEXPLAINED for kind in data["kind"]]
    data["stroke"] = [CLAIM if kind == "predicted" else UNEXPLAINED for kind in data["kind"]]
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False))
    )
    axis = alt.Axis(format=".0e", tickCount=6)
    bars = base.mark_bar(strokeWidth=2, height=20).encode(
        x=alt.X("low:Q", scale=alt.Scale(type="log", padding=40), title=_("FLOPs (log)"), axis=axis), x2="flops:Q",
        fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None),
        tooltip=["name:N", alt.Tooltip("flops:Q", format=".4e", title="FLOPs")],
    )  # fmt: skip
    text = base.mark_text(align="left", dx=6).encode(x="flops:Q", text="label:N")
    return alt.layer(bars, text).properties(height=alt.Step(34))


def days_by_devices(num_params: float, num_tokens: float, devices: int, peak: float, mfu: float) -> Any:
    """Days to train against the number of devices, log-log: the chosen MFU and two others, the choice marked."""
    import altair as alt
    import pandas as pd

    counts = [round(devices * 2.0**step) for step in range(-4, 5) if devices * 2.0**step >= 1]
    shares = sorted({mfu, 0.3, 0.6} if mfu not in (0.3, 0.6) else {0.3, 0.45, 0.6})
    rows = [
        (f"MFU {share:g}", share == mfu, count, napkin.training_days(num_params, num_tokens, count, peak, share))
        for share in shares
        for count in counts
    ]
    data = pd.DataFrame(rows, columns=["mfu", "chosen", "devices", "days"])
    here = data[data["chosen"] & (data["devices"] == devices)]
    x = alt.X("devices:Q", scale=alt.Scale(type="log", base=2), title=_("devices (log)"), axis=alt.Axis(format=",d"))
    y = alt.Y(
        "days:Q", scale=alt.Scale(type="log"), title=_("days to train (log)"), axis=alt.Axis(format=",~g", tickCount=5)
    )
    color = alt.condition("datum.chosen", alt.value(CLAIM), alt.value(UNEXPLAINED))
    lines = alt.Chart(data).mark_line(strokeWidth=2.5).encode(x=x, y=y, detail="mfu:N", color=color)
    ends = (
        alt.Chart(data[data["devices"] == counts[-1]])
        .mark_text(align="left", dx=6)
        .encode(x=x, y=y, text="mfu:N", color=color)
    )
    point = alt.Chart(here).mark_point(size=140, strokeWidth=3, color=CLAIM, fill="white").encode(
        x=x, y=y, tooltip=["mfu:N", "devices:Q", alt.Tooltip("days:Q", format=".5g")]
    )  # fmt: skip
    return alt.layer(lines, ends, point).properties(height=250)


def recipe_bytes(rows: tuple[tuple[str, str, float], ...], chosen: str) -> Any:
    """Bytes per parameter of each recipe, stacked; the chosen recipe in full colour."""
    import altair as alt
    import pandas as pd

    data = pd.DataFrame(rows, columns=["recipe", "part", "bytes"])
    data["opacity"] = [1.0 if recipe == chosen else 0.45 for recipe in data["recipe"]]
    parts = list(dict.fromkeys(data["part"]))
    data["order"] = data["part"].map(parts.index)
    totals = data.groupby("recipe", sort=False, as_index=False)["bytes"].sum()
    totals["label"] = [f"{value:g} B" for value in totals["bytes"]]
    y = alt.Y("recipe:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False, labelLimit=300))
    color = alt.Color(
        "part:N", scale=alt.Scale(domain=parts, range=list(MEMORY_COLORS)), legend=alt.Legend(title=None, orient="top")
    )
    bars = alt.Chart(data).mark_bar(height=26).encode(
        y=y, x=alt.X("bytes:Q", title=_("bytes per parameter")), color=color, order="order:Q",
        opacity=alt.Opacity("opacity:Q", scale=None), tooltip=["recipe:N", "part:N", "bytes:Q"],
    )  # fmt: skip
    labels = alt.Chart(totals).mark_text(align="left", dx=6, fontWeight="bold").encode(y=y, x="bytes:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(42))


def alternative(comparison: Comparison) -> str:
    """The chart of a difference in words, for those who cannot see it."""
    parts = [f"{part.name} {units.quantity(part.value, comparison.prediction.unit)}" for part in comparison.parts]
    unexplained = comparison.unexplained
    if unexplained is not None:
        parts.append(f"{_('unexplained')} {units.quantity(unexplained, comparison.prediction.unit)}")
    message = _("{quantity}: predicted {predicted}, measured {measured}; the difference is {parts}")
    return message.format(
        quantity=comparison.prediction.quantity,
        predicted=comparison.prediction.text,
        measured=comparison.measurement.text,
        parts=", ".join(parts),
    )


def table(rows: Sequence[dict[str, Any]], alt_text: str) -> None:
    """A table; its toolbar saves it as CSV."""
    st.dataframe(list(rows), hide_index=True, width="stretch", alt=alt_text)
