"""Charts of Training and Low precision: curves against the step, counts, shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow

from core.words import _
from pages._ui.charts import CLAIM, INK, PART_COLORS, canvas, names_axis, show

COLORS = (CLAIM, *PART_COLORS)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3], [10, 4])
Points = Sequence[tuple[float, float]]
LOG_FLOOR = 1e-30


def losses(lines: Mapping[str, Points], log: bool, num_steps: int, alt_text: str) -> None:
    """Losses of runs against the step: the first is the one that is spoken of, thick."""
    curves(lines, _("step"), _("loss") if not log else _("loss (log)"), log, alt_text, height=125, last=num_steps)


def curves(
    lines: Mapping[str, Points], x_title: str, y_title: str, log: bool, alt_text: str, *,
    height: int = 200, last: float | None = None, log_x: bool = False, narrow: bool = False,
) -> None:  # fmt: skip
    """Named lines, each with its own colour and dashes. What an axis cannot show is left out.

    A ``narrow`` chart has its legend in one column.
    """
    end = math.inf if last is None else last
    columns: dict[str, list[Any]] = {"x": [], "y": [], "series": [], "end": []}
    for name, points in lines.items():
        kept = [(x, y) for x, y in points if math.isfinite(y) and x <= end and (not log or y > LOG_FLOOR)]
        if kept:
            x_of, y_of = zip(*kept, strict=True)
            columns["x"] += x_of
            columns["y"] += y_of
            columns["series"] += [name] * len(kept)
            columns["end"] += [""] * (len(kept) - 1) + [name]
    high = last if last is not None else max(columns["x"], default=1.0)
    floats = {axis: pyarrow.array(columns[axis], pyarrow.float64()) for axis in ("x", "y")}
    rows = pyarrow.table({**columns, **floats})
    names = tuple(lines)
    show(_draw_curves, rows, names, x_title, y_title, log, log_x, height, narrow, alt_text=alt_text, high=max(high, 1))


def _draw_curves(
    names: tuple[str, ...], x_title: str, y_title: str, log: bool, log_x: bool, height: int, narrow: bool
) -> Any:
    import altair as alt

    x_scale = alt.Scale(type="log", nice=False) if log_x else alt.Scale(
        domainMin=0, domainMax=alt.ExprRef("high"), nice=False
    )  # fmt: skip
    y_scale = alt.Scale(type="log", nice=False, padding=6) if log else alt.Scale(zero=False)
    axis = alt.Axis(format=".0e", tickCount=5) if log else alt.Axis(tickCount=5)
    columns = 1 if narrow else 6
    shown = (
        alt.Legend(title=None, orient="top", columns=columns, labelLimit=300, symbolType="stroke", symbolSize=300)
        if len(names) > 1
        else None
    )
    base = canvas().encode(
        x=alt.X("x:Q", title=x_title, scale=x_scale, axis=alt.Axis(tickCount=6)),
        y=alt.Y("y:Q", title=y_title, scale=y_scale, axis=axis),
        color=alt.Color("series:N", legend=shown, sort=None, scale=alt.Scale(
            domain=list(names), range=[COLORS[at % len(COLORS)] for at in range(len(names))])),
        strokeDash=alt.StrokeDash("series:N", legend=shown, sort=None, scale=alt.Scale(
            domain=list(names), range=[DASHES[at % len(DASHES)] for at in range(len(names))])),
        tooltip=[alt.Tooltip("series:N", title=_("run")), alt.Tooltip("x:Q", title=x_title),
                 alt.Tooltip("y:Q", title=y_title, format=".6g")],
    )  # fmt: skip
    lines = base.mark_line(strokeWidth=2)
    points = base.transform_filter("datum.end != ''").mark_point(filled=True, size=40)
    return alt.layer(lines, points).properties(height=height)


def counts(by_window: Sequence[int], expected: float) -> None:
    """How often each window was drawn; a window that never was is marked by its label."""
    rows = pyarrow.table({
        "window": range(len(by_window)), "count": by_window, "expected": [expected] * len(by_window),
        "label": ["" if count else _("never") for count in by_window],
    })  # fmt: skip
    never = [index for index, count in enumerate(by_window) if not count]
    alt = _("{n} windows, never drawn: {never}").format(n=len(by_window), never=never[:20] or _("none"))
    show(_draw_counts, rows, alt_text=alt)


def _draw_counts() -> Any:
    import altair as alt

    x = alt.X("window:O", title=_("window starts at token"), axis=alt.Axis(labelAngle=0, labelOverlap=True))
    y_title = _("times drawn")
    bars = canvas().mark_bar(color=CLAIM).encode(
        x=x, y=alt.Y("count:Q", title=y_title), tooltip=["window:O", "count:Q"]
    )  # fmt: skip
    rule = canvas().mark_rule(color=INK, strokeDash=[6, 4]).encode(y=alt.Y("expected:Q", title=y_title))
    text = canvas().mark_text(dy=-6, color=PART_COLORS[4]).encode(x=x, y=alt.value(95), text="label:N")
    return alt.layer(bars, rule, text).properties(height=105)


def bars(values: Mapping[str, float], title: str, labels: Mapping[str, str], *, log: bool = False) -> None:
    """A bar for each name, with its value in words beside it."""
    rows = [{"name": name, "value": value, "label": labels[name]} for name, value in values.items()]
    high = 1.25 * max([*values.values(), 1e-9])
    words = "; ".join(f"{name}: {labels[name]}" for name in values)
    show(_draw_bars, rows, title, log, alt_text=words, high=high)


def _draw_bars(title: str, log: bool) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False)
    base = canvas().encode(
        y=alt.Y("name:N", sort=None, title=None, axis=names_axis()),
        tooltip=["name:N", alt.Tooltip("label:N", title=title)],
    )
    drawn = base.mark_bar(color=CLAIM).encode(x=alt.X("value:Q", title=title, scale=scale))
    text = base.mark_text(align="left", dx=5).encode(x="value:Q", text="label:N")
    return alt.layer(drawn, text).properties(height=alt.Step(22))


def loss_against_bytes(points: Sequence[tuple[str, float, float]]) -> None:
    """A trained model's loss against its bytes, a point for each format."""
    rows = [{"name": name, "bytes": size / 1e3, "loss": loss} for name, size, loss in points]
    words = "; ".join(f"{row['name']}: {row['bytes']:.3g} kB, {row['loss']:.4g}" for row in rows)
    show(_draw_against_bytes, rows, alt_text=words)


def _draw_against_bytes() -> Any:
    import altair as alt

    base = canvas().encode(
        x=alt.X("bytes:Q", title=_("bytes of all parameters (kB, log)"), scale=alt.Scale(type="log", padding=30)),
        y=alt.Y("loss:Q", title=_("loss on other batches"), scale=alt.Scale(zero=False, padding=14)),
        tooltip=["name:N", alt.Tooltip("bytes:Q", format=".4g"), alt.Tooltip("loss:Q", format=".6g")],
    )
    points = base.mark_point(filled=True, size=90, color=CLAIM)
    return alt.layer(points, base.mark_text(dy=-12).encode(text="name:N")).properties(height=220)
