"""Charts: built with Altair in one theme, cached as specifications, shown through one function.

Predicted is hollow, measured is solid, the named parts of a difference are tints, what is unexplained is grey. Every
chart has units on its axes and a text alternative; the toolbar that appears over it saves a PNG, or the data as CSV.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from core import units
from core.words import _
from pages._ui import inputs

if TYPE_CHECKING:
    from core.claims import Comparison

CLAIM = "#0072B2"
UNEXPLAINED = "#8A9099"
# Okabe and Ito's palette, safe for colour-blind readers; yellow is left out, it vanishes on white.
PART_COLORS = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5BA6")
# parameters, gradients, optimizer state, activations (or a master copy, where no activations are shown)
MEMORY_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
INK = "#6f7a88"  # text on charts: the server does not know the theme, and this reads on white and on black alike
LECTURE_SCALE = 1.3


def show(build: Callable[..., Any], *values: Any, alt_text: str) -> None:
    """Show the chart that ``build(*values)`` makes. The values are hashable; its specification is made once."""
    scale = LECTURE_SCALE if inputs.lecture_mode() else 1.0
    st.vega_lite_chart(spec=_spec(build, values, scale), width="stretch", alt=alt_text)


@functools.lru_cache(maxsize=512)
def _spec(build: Callable[..., Any], values: tuple[Any, ...], scale: float) -> dict[str, Any]:
    size = round(13 * scale)
    chart = build(*values)
    chart = chart.configure_axis(
        labelFontSize=size, titleFontSize=size, titleFontWeight="normal", labelLimit=260, grid=True
    )
    chart = (
        chart.configure_text(fontSize=size, color=INK)
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
