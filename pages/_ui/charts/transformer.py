"""Charts of the page Transformer FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from core import units
from core.flops import Component
from core.flops.transformer import ContextShares
from core.words import _
from pages._ui.charts import CLAIM, canvas, names_axis, scaled_unit, show

COMPONENT_COLORS = {
    "qkv": "#0072B2",
    "scores": "#D55E00",
    "weighted_sum": "#E69F00",
    "output": "#56B4E9",
    "feed_forward": "#009E73",
    "head": "#CC79A7",
}


def components(parts: Sequence[Component]) -> None:
    """FLOPs of each component, forward and backward stacked, with its share."""
    total = sum(part.total_flops for part in parts)
    divide, unit = scaled_unit(max(part.total_flops for part in parts), "FLOP")
    rows: list[dict[str, Any]] = []
    for part in parts:
        label = f"{units.si(part.total_flops, 'FLOP')} · {part.total_flops / total:.1%}"
        for order, (name, value) in enumerate(
            ((_("forward"), part.forward_flops), (_("backward"), part.backward_flops))
        ):
            row = {"name": part.name, "pass": name, "order": order, "flops": value / divide, "formula": part.formula}
            last = {"end": part.total_flops / divide, "label": label if order else ""}
            rows.append({**row, **last, "color": COMPONENT_COLORS[part.key], "opacity": 0.55 if order else 1.0})
    high = 1.25 * max(row["end"] for row in rows)
    alt_text = "; ".join(f"{part.name}: {units.si(part.total_flops, 'FLOP')}" for part in parts)
    show(_draw_components, rows, unit, alt_text=alt_text, high=high)


def _draw_components(unit: str) -> Any:
    import altair as alt

    base = canvas().encode(y=alt.Y("name:N", sort=None, title=None, axis=names_axis()))
    title = _("{unit}: forward in full colour, backward behind it").format(unit=unit)
    x = alt.X("flops:Q", title=title, scale=alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False))
    bars = base.mark_bar(height=22).encode(
        x=x, color=alt.Color("color:N", scale=None), opacity=alt.Opacity("opacity:Q", scale=None), order="order:Q",
        tooltip=["name:N", "pass:N", alt.Tooltip("flops:Q", title=unit, format=".4g"), "formula:N"],
    )  # fmt: skip
    labels = base.mark_text(align="left", dx=6, fontWeight="bold").encode(x="end:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(34))


def context(shares: Sequence[ContextShares], chosen: int) -> None:
    """The share of each component against the context length, stacked; the chosen length marked."""
    names = {
        "qkv": _("q, k and v"),
        "scores": _("scores"),
        "weighted_sum": _("weighted sum"),
        "output": _("output"),
        "feed_forward": _("feed-forward"),
        "head": _("head"),
    }
    order = ("scores", "weighted_sum", "qkv", "output", "feed_forward", "head")
    # By columns: six rows a length as dicts take three times as long.
    rows = pyarrow.table(
        {
            "length": numpy.repeat([one.seq_len for one in shares], len(order)),
            "name": [names[key] for key in order] * len(shares),
            "share": numpy.array([one.shares[key] for one in shares for key in order]),
            "order": numpy.tile(numpy.arange(len(order)), len(shares)),
            "chosen": numpy.full(len(order) * len(shares), chosen),
        }
    )
    colors = tuple((names[key], COMPONENT_COLORS[key]) for key in order)
    alt_text = "; ".join(f"T = {one.seq_len:,}: {one.attention:.0%}" for one in shares)
    show(
        _draw_context,
        rows,
        colors,
        alt_text=_("share of attention by context length: {shares}").format(shares=alt_text),
    )


def _draw_context(colors: tuple[tuple[str, str], ...]) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[name for name, _color in colors], range=[color for _name, color in colors])
    x = alt.X("length:Q", scale=alt.Scale(type="log", base=2, nice=False), title=_("context length T (log)"),
              axis=alt.Axis(format=",d"))  # fmt: skip
    areas = canvas().mark_area().encode(
        x=x, y=alt.Y("share:Q", stack="normalize", title=_("share of all FLOPs"), axis=alt.Axis(format="%")),
        color=alt.Color("name:N", scale=scale, legend=alt.Legend(title=None, orient="right")), order="order:Q",
        tooltip=["length:Q", "name:N", alt.Tooltip("share:Q", format=".1%")],
    )  # fmt: skip
    here = canvas().mark_rule(color=CLAIM, strokeWidth=2, strokeDash=[5, 4]).encode(x="chosen:Q")
    return alt.layer(areas, here).properties(height=160)
