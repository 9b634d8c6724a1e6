"""Charts of the page Napkin."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from core import napkin
from core.napkin import PublishedRun, Recipe
from core.words import _
from pages._ui.charts import CLAIM, MEMORY_COLORS, UNEXPLAINED, canvas, names_axis, show

if TYPE_CHECKING:  # imported where it is used: the start page's words do not wait for it
    from pyarrow import Table


def days_by_devices(num_params: float, num_tokens: float, devices: int, peak: float, mfu: float) -> None:
    """Days to train against the number of devices, log-log: the chosen MFU, half and twice of it, the choice marked."""
    around = [devices * 2.0**step for step in range(-4, 5)]
    counts = [round(count) for count in around if 1 <= count <= napkin.MAX_DEVICES]
    shares = sorted({mfu / 2, mfu, min(1.0, 2 * mfu)})
    rows = [
        {
            "mfu": f"MFU {share:g}",
            "devices": count,
            "days": napkin.training_days(num_params, num_tokens, count, peak, share),
            "color": CLAIM if share == mfu else UNEXPLAINED,
            "here": share == mfu and count == devices,
            "last": count == counts[-1],
        }
        for share in shares
        for count in counts
    ]
    show(_draw_days, rows, alt_text=_("days to train against the number of devices, at three fractions of the peak"))


def _draw_days() -> Any:
    import altair as alt

    x = alt.X("devices:Q", scale=alt.Scale(type="log", base=2), title=_("devices (log)"), axis=alt.Axis(format=",d"))
    axis = alt.Axis(format=",~g", tickCount=5)
    y = alt.Y("days:Q", scale=alt.Scale(type="log"), title=_("days to train (log)"), axis=axis)
    color = alt.Color("color:N", scale=None)
    base = canvas().encode(x=x, y=y)
    lines = base.mark_line(strokeWidth=2.5).encode(detail="mfu:N", color=color)
    ends = base.transform_filter("datum.last").mark_text(align="left", dx=6).encode(text="mfu:N", color=color)
    point = base.transform_filter("datum.here").mark_point(size=140, strokeWidth=3, color=CLAIM, fill="white")
    point = point.encode(tooltip=["mfu:N", "devices:Q", alt.Tooltip("days:Q", format=".5g")])
    return alt.layer(lines, ends, point).properties(height=195)


def recipe_bytes(recipes: Sequence[Recipe], chosen: str) -> None:
    """Bytes per parameter of each recipe, stacked; the chosen recipe in full colour."""
    rows, parts = _recipe_rows(tuple(recipes), chosen)
    alt_text = "; ".join(f"{recipe.name}: {recipe.bytes_per_param:g} B" for recipe in recipes)
    show(_draw_recipes, rows, parts, alt_text=alt_text)


@functools.lru_cache(maxsize=8)
def _recipe_rows(recipes: tuple[Recipe, ...], chosen: str) -> tuple[Table, tuple[str, ...]]:
    """The chart's rows, and the names of the parts."""
    import pyarrow

    rows = []
    for recipe in recipes:
        parts = napkin.recipe_parts(recipe)
        for order, part in enumerate(parts):
            total = f"{recipe.bytes_per_param:g} B" if order == len(parts) - 1 else ""
            row = {"recipe": recipe.name, "part": part.name, "bytes": part.value, "order": order, "total": total}
            rows.append({**row, "opacity": 1.0 if recipe.name == chosen else 0.45, "end": recipe.bytes_per_param})
    return pyarrow.Table.from_pylist(rows), tuple(dict.fromkeys(str(row["part"]) for row in rows))


def _draw_recipes(parts: tuple[str, ...]) -> Any:
    import altair as alt

    legend = alt.Legend(title=None, orient="top")
    color = alt.Color("part:N", scale=alt.Scale(domain=parts, range=list(MEMORY_COLORS)), legend=legend)
    base = canvas().encode(y=alt.Y("recipe:N", sort=None, title=None, axis=names_axis()))
    bars = base.mark_bar(height=26).encode(
        x=alt.X("bytes:Q", title=_("bytes per parameter")), color=color, order="order:Q",
        opacity=alt.Opacity("opacity:Q", scale=None), tooltip=["recipe:N", "part:N", "bytes:Q"],
    )  # fmt: skip
    labels = base.mark_text(align="left", dx=6, fontWeight="bold").encode(x="end:Q", text="total:N")
    return alt.layer(bars, labels).properties(height=alt.Step(42))


@functools.cache
def published() -> Table:
    """All rows of the published trainings, as columns."""
    import pyarrow

    rows = napkin.published_table()
    return pyarrow.table({name: [row[name] for row in rows] for name in rows[0]})


def gpu_hours(runs: Sequence[PublishedRun], mfu: float, chosen: PublishedRun) -> None:
    """Reported against predicted GPU-hours, log-log, with the line on which they agree; doubtful rows are crosses."""
    hours = [run.predicted_gpu_hours(mfu) for run in runs]
    rows: list[dict[str, Any]] = [
        {
            "agree": False,
            "model": run.model,
            "predicted": predicted,
            "reported": run.gpu_hours,
            "mfu": run.implied_mfu,
            "shape": "cross" if run.is_doubtful else "circle",
            "size": 260 if run is chosen else 70,
            "color": CLAIM if run is chosen else UNEXPLAINED,
            "name": run.model if run is chosen else "",
        }
        for run, predicted in zip(runs, hours, strict=True)
    ]
    values = [*hours, *(run.gpu_hours or 1.0 for run in runs)]
    low, high = min(values) / 2, max(values) * 2
    rows += [{"agree": True, "predicted": end, "reported": end} for end in (low, high)]
    alt_text = _("reported GPU-hours against predicted ones, log-log")
    show(_draw_hours, rows, alt_text=alt_text, low=low, high=high)


def _draw_hours() -> Any:
    import altair as alt

    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(format="~s", tickCount=6)
    base = canvas().encode(
        x=alt.X("predicted:Q", scale=scale, title=_("predicted GPU-hours (log)"), axis=axis),
        y=alt.Y("reported:Q", scale=scale, title=_("reported GPU-hours (log)"), axis=axis),
    )
    color = alt.Color("color:N", scale=None)
    agree = base.transform_filter("datum.agree").mark_line(strokeDash=[5, 4], color=UNEXPLAINED)
    base = base.transform_filter("!datum.agree")
    marks = base.mark_point(filled=True, opacity=0.9).encode(
        shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None), color=color,
        tooltip=["model:N", alt.Tooltip("predicted:Q", format=",.3s"), alt.Tooltip("reported:Q", format=",.3s"),
                 alt.Tooltip("mfu:Q", format=".1%", title=_("implied MFU"))],
    )  # fmt: skip
    names = base.mark_text(align="right", dx=-12, fontWeight="bold").encode(text="name:N", color=color)
    return alt.layer(agree, marks, names).properties(height=215)
