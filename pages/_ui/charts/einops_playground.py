"""Charts of the einops page."""

from __future__ import annotations

from typing import Any

from core.named_dims import Contraction
from core.words import _
from pages._ui.charts import CLAIM, canvas, names_axis, show


def orders(one: Contraction) -> None:
    """FLOPs of one loop over every axis, of the products as written, and of the order that is taken (solid)."""
    counts = {
        _("one loop over every axis"): one.naive_flops,
        _("two at a time, as written"): one.in_written_order_flops,
        _("the order taken"): one.flops,
    }
    rows: list[dict[str, Any]] = [
        {"order": name, "flops": max(1, flops), "label": f"{flops:,}", "taken": flops == one.flops and place == 2}
        for place, (name, flops) in enumerate(counts.items())
    ]
    words = "; ".join(f"{name}: {flops:,} FLOPs" for name, flops in counts.items())
    high = 4.0 * max(row["flops"] for row in rows)
    show(_draw_orders, rows, alt_text=words, low=min(row["flops"] for row in rows) / 2, high=high)


def _draw_orders() -> Any:
    import altair as alt

    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    base = canvas().encode(
        x=alt.X("flops:Q", title=_("FLOPs (log)"), scale=scale, axis=alt.Axis(format="~s", tickCount=5)),
        y=alt.Y("order:N", sort=None, title=None, axis=names_axis()),
        tooltip=["order:N", alt.Tooltip("label:N", title=_("FLOPs"))],
    )
    hollow = base.transform_filter("!datum.taken").mark_point(color=CLAIM, size=120, strokeWidth=2)
    solid = base.transform_filter("datum.taken").mark_point(color=CLAIM, size=120, filled=True, opacity=1)
    labels = base.mark_text(align="left", dx=10).encode(text="label:N")
    return alt.layer(hollow, solid, labels).properties(height=alt.Step(24))
