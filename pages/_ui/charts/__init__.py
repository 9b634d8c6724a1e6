"""Charts: drawn with Altair in one theme, cached by their structure, shown through one function.

Predicted is hollow, measured is solid, the named parts of a difference are tints, what is unexplained is grey. Every
chart has units on its axes and a text alternative; the toolbar that appears over it saves a PNG, or the data as CSV.

Making a chart with Altair takes 50 to 150 ms, a new value about one: so a chart is drawn once for each structure
(``draw(*structure)``, with no data in it), and its rows are put in at every run. What follows the data stays out of
the drawing: the browser then moves the bars and lines that are there, and would else take the whole chart away and
make it anew. So the limits of an axis are data too (``alt.ExprRef("high")`` in the drawing, ``high=...`` when it is
shown), and a chart's figures in words are text behind it, for those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st
from streamlit.dataframe_util import convert_anything_to_arrow_bytes

from core import units
from core.words import _
from pages._ui import inputs, markup, redraw

if TYPE_CHECKING:
    from pyarrow import Table
    from streamlit.proto.Element_pb2 import Element

    from core.claims import Comparison

Row = Mapping[str, Any]
Width = int | Literal["stretch"]

CLAIM = "#0072B2"
UNEXPLAINED = "#8A9099"
# Okabe and Ito's palette, safe for colour-blind readers; yellow is left out, it vanishes on white.
PART_COLORS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5BA6")
# parameters, gradients, optimizer state, activations (or a master copy, where no activations are shown)
MEMORY_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
INK = "#6f7a88"  # text on charts: the server does not know the theme, and this reads on white and on black alike
LECTURE_SCALE = 1.3
LECTURE_ROW_PX = 18  # the least that a row of larger type takes
_NO_FIELD = "_"
_drawn: dict[Any, Element] = {}  # by structure


def show(
    draw: Callable[..., Any],
    rows: Sequence[Row] | Table,
    *structure: Any,
    alt_text: str,
    width: Width = "stretch",
    **limits: float,
) -> None:
    """Show the chart that ``draw(*structure)`` makes of the rows; see the module's text for ``limits``.

    ``alt_text`` says its figures in words; ``width`` is in px. Where there are thousands of rows, give them as an Arrow
    table: a dict for each takes 2 µs a cell.
    """
    _show(draw, rows, structure, limits, _("a chart; what it shows follows as text"), width)
    markup.with_the_next(f'<p class="np-spoken">{escape(alt_text)}</p>')


def _show(
    draw: Callable[..., Any],
    rows: Sequence[Row] | Table,
    structure: tuple[Any, ...],
    limits: Mapping[str, float],
    label: str,
    width: Width = "stretch",
) -> None:
    scale = LECTURE_SCALE if inputs.lecture_mode() else 1.0
    tables = {"rows": _columns(rows), **({"limits": _columns([limits])} if limits else {})}
    names = tuple(limits)

    def put_in(element: Element) -> None:
        for dataset in element.vega_lite_chart.datasets:
            dataset.data.data = convert_anything_to_arrow_bytes(tables[dataset.name])

    def draw_anew() -> None:
        spec = {**_spec(draw, structure, scale, names), "datasets": tables}
        st.vega_lite_chart(spec=spec, width=width, alt=label)

    redraw.draw_with(_drawn, (draw, structure, scale, names, label, width), put_in, draw_anew)


def _columns(rows: Sequence[Row] | Table) -> Any:
    """The rows as an Arrow table, which Streamlit passes on as it is; by way of pandas it would take 2 to 3 ms."""
    import pyarrow

    if isinstance(rows, pyarrow.Table):
        return rows
    # All columns in one go: a list for each takes twice the time.
    return pyarrow.Table.from_struct_array(pyarrow.array(rows)) if rows else pyarrow.table({})


def _spec(
    draw: Callable[..., Any], structure: tuple[Any, ...], scale: float, limits: tuple[str, ...]
) -> dict[str, Any]:
    # Altair looks pandas up among the loaded modules, and would find it half loaded by the warming thread: wait for it.
    import pandas  # noqa: F401

    size = round(13 * scale)
    chart = draw(*structure)
    chart = chart.configure_axis(
        labelFontSize=size, titleFontSize=size, titleFontWeight="normal", labelLimit=260, grid=True
    )
    chart = chart.configure_text(fontSize=size, color=INK).configure_view(strokeWidth=0)
    chart = chart.configure_legend(labelFontSize=size, titleFontSize=size)
    spec: dict[str, Any] = chart.properties(autosize={"type": "fit-x", "contains": "padding"}).to_dict()
    if limits:
        # Vega-Lite leaves out a table that nothing refers to: so every row looks for itself in it, and finds nothing.
        table = {"data": {"name": "limits"}, "key": limits[0], "fields": [limits[0]]}
        spec["transform"] = [{"lookup": _NO_FIELD, "from": table, "as": [_NO_FIELD]}, *spec.get("transform", [])]
        values = [{"name": name, "expr": f"data('limits')[0].{name}"} for name in limits]
        spec["params"] = [*spec.get("params", []), *values]
    return spec


def part_color(index: int) -> str:
    """The tint of the part at that place of a comparison."""
    return PART_COLORS[index % len(PART_COLORS)]


def canvas() -> Any:
    """A chart of the rows that ``show`` puts in."""
    import altair as alt

    return alt.Chart(alt.NamedData(name="rows"))


def names_axis() -> Any:
    """The axis of a bar chart's names: no ticks, no line."""
    import altair as alt

    return alt.Axis(ticks=False, domain=False, grid=False, labelLimit=300)


def row_px(usual: float) -> float:
    """The height of a row of names: with the type where *Lecture* enlarges that."""
    return max(LECTURE_SCALE * usual, LECTURE_ROW_PX) if inputs.lecture_mode() else usual


def scaled_unit(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit to write, so that an axis has short numbers.

    >>> scaled_unit(0.0004, "s"), scaled_unit(6e10, "FLOP/s")
    ((1e-06, 'µs'), (1000000000.0, 'GFLOP/s'))
    """
    text = units.quantity(abs(largest) or 1.0, unit)
    name = text.rsplit(" ", 1)[-1] if " " in text else unit
    return units.parse_quantity(f"1 {name}", unit) if name else 1.0, name


def show_difference(comparison: Comparison, first: str = "", last: str = "") -> None:
    """From predicted to measured: a bar for each, and between them each named part where it adds to the last.

    ``first`` and ``last`` are what those two are called, where that is not their name.
    """
    predicted, measured = comparison.prediction.value, comparison.measurement.value
    assert predicted is not None
    unit = comparison.prediction.unit
    divide, shown_unit = scaled_unit(max(predicted, measured), unit)
    bars = [(first or _("predicted"), 0.0, predicted, "transparent", CLAIM, units.quantity(predicted, unit))]
    level = predicted
    steps = [(part.name, part.value, part_color(index)) for index, part in enumerate(comparison.parts)]
    steps.append((_("unexplained"), comparison.unexplained or 0.0, UNEXPLAINED))
    for name, value, color in steps:
        sign = "+" if value >= 0 else "−"
        bars.append((name, level, level + value, color, color, f"{sign} {units.quantity(abs(value), unit)}"))
        level += value
    bars.append((last or _("measured"), 0.0, measured, CLAIM, CLAIM, comparison.measurement.text))
    rows: list[dict[str, Any]] = [
        {"name": name, "from": low / divide, "to": high / divide, "end": max(low, high) / divide, "fill": fill,
         "stroke": stroke, "label": label, "order": order}
        for order, (name, low, high, fill, stroke, label) in enumerate(bars)
    ]  # fmt: skip
    low, high = min(0.0, *(min(row["from"], row["to"]) for row in rows)), max(row["end"] for row in rows)
    title = f"{comparison.prediction.quantity} ({shown_unit})"
    label = _("a chart from predicted to measured; its figures are under “Why, in words”")
    # Room for the labels behind the bars.
    _show(_draw_difference, rows, (title,), {"low": low, "high": high + 0.15 * (high - low)}, label)


def _draw_difference(title: str) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    # By their place and not as they come: the browser keeps the names that were there before.
    order = alt.EncodingSortField("order", op="min")
    base = canvas().encode(y=alt.Y("name:N", sort=order, title=None, axis=names_axis()))
    bars = base.mark_bar(strokeWidth=2, cornerRadius=2).encode(
        x=alt.X("from:Q", title=title, scale=scale, axis=alt.Axis(tickCount=8)), x2="to:Q",
        fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None),
        tooltip=[alt.Tooltip("name:N", title=_("part")), alt.Tooltip("label:N", title=title)],
    )  # fmt: skip
    labels = base.mark_text(align="left", dx=6).encode(x="end:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(26))


def table(rows: Sequence[Row], alt_text: str) -> None:
    """A table; its toolbar saves it as CSV."""
    st.dataframe(_columns(rows), hide_index=True, width="stretch", alt=alt_text)
