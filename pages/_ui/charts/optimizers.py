"""Charts of Optimizers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from core import units
from core.claims import Comparison
from core.optimizers import OPTIMIZERS, Surface, Trajectory
from core.optimizers.contours import contours
from core.optimizers.surfaces import Point
from core.words import _
from pages._ui.charts import CLAIM, INK, MEMORY_COLORS, UNEXPLAINED, canvas, names_axis, show

NAMES = [kind.class_name for kind in OPTIMIZERS.values()]
COLORS = ["#D55E00", CLAIM, "#009E73", "#7A5BA6", "#E69F00", "#56B4E9", "#CC79A7", "#A6761D"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"]
TITLE_PADDING = 4
PADDING = {"bottom": 4}  # Streamlit leaves 20 pixels below a chart that says nothing
FIRST_SIZES = [150, 40, 110, 60, 70, 25]  # those that go together lie on each other
LEAST_LOSS = 1e-12  # what lies lower is drawn there


def _looks(names: Sequence[str], legend: Any) -> dict[str, Any]:
    """A colour and a shape for each optimizer, the same on every chart."""
    import altair as alt

    places = [NAMES.index(name) for name in names]
    colors, shapes = [COLORS[place] for place in places], [SHAPES[place] for place in places]
    return {
        "color": alt.Color("optimizer:N", legend=legend, scale=alt.Scale(domain=list(names), range=colors)),
        "shape": alt.Shape("optimizer:N", legend=legend, scale=alt.Scale(domain=list(names), range=shapes)),
    }


def surface(where: Surface, condition: float, went: Mapping[str, Trajectory], step: int) -> None:
    """The surface's contour lines, and on it where each optimizer has been; replayed by a slider in the browser."""
    lasts = [min(step, one.num_steps) for one in went.values()]
    parts = list(zip(went.values(), lasts, strict=True))
    xy = np.concatenate([one.points[: last + 1] for one, last in parts])
    paths = _by_step(went, lasts) | {"x": xy[:, 0], "y": xy[:, 1]}
    paths["loss"] = np.concatenate([one.losses[: last + 1] for one, last in parts])
    paths["end"] = np.repeat(np.array(lasts, np.int16), [last + 1 for last in lasts])
    tables = [_background(where.name, condition, where.minima), pyarrow.table(paths)]
    rows = pyarrow.concat_tables(tables, promote_options="default").combine_chunks()
    ends = [(name, one.points[min(step, one.num_steps)]) for name, one in went.items()]
    words = "; ".join(f"{name}: ({x:.3g}, {y:.3g})" for name, (x, y) in ends)
    alt_text = _("where each optimizer is on {formula}: {words}").format(formula=where.formula, words=words)
    limits: dict[str, Any] = {
        "x0": where.x_range[0],
        "x1": where.x_range[1],
        "y0": where.y_range[0],
        "y1": where.y_range[1],
    }
    most = max(one.num_steps for one in went.values())
    # Of few values, so that another κ or another rate is not another drawing.
    formula, frames = where.formula.replace(f"{condition:g}·y", "κ·y"), -(-most // 100) * 100
    show(_draw_surface, rows, formula, tuple(went), frames, alt_text=alt_text, **limits)


@functools.lru_cache(maxsize=64)
def _background(name: str, condition: float, minima: tuple[Point, ...]) -> pyarrow.Table:
    """Contour lines, which have an end, and minima, which have none."""
    lines = contours(name, condition)
    ends = {"x2": lines.x2, "y2": lines.y2, "loss": lines.level}
    stars = {"x": [x for x, _y in minima], "y": [y for _x, y in minima]}
    parts = [pyarrow.table({"x": lines.x, "y": lines.y} | ends), pyarrow.table(stars)]
    return pyarrow.concat_tables(parts, promote_options="default")


def _by_step(went: Mapping[str, Trajectory], lasts: Sequence[int]) -> dict[str, Any]:
    """A row for every step of every optimizer up to its last: whose, which, and whether it is the last."""
    counts = [last + 1 for last in lasts]
    names = pyarrow.DictionaryArray.from_arrays(np.repeat(range(len(counts)), counts), list(went))
    steps = np.concatenate([np.arange(count, dtype=np.int16) for count in counts])
    return {"optimizer": names.dictionary_decode(), "step": steps, "last": steps == np.repeat(lasts, counts)}


def _draw_surface(formula: str, names: tuple[str, ...], steps: int) -> Any:
    import altair as alt

    def at(channel: Any, field: str, title: str) -> Any:
        axis = alt.Axis(grid=False, tickCount=6, titlePadding=TITLE_PADDING)
        low, high = ("x0", "x1") if channel is alt.X else ("y0", "y1")
        scale = alt.Scale(domainMin=alt.ExprRef(low), domainMax=alt.ExprRef(high), nice=False)
        return channel(f"{field}:Q", title=title, scale=scale, axis=axis)

    title = _("x; contour lines of {formula}").format(formula=formula)
    lines = canvas().transform_filter("isValid(datum.x2)").mark_rule(color=INK, strokeWidth=0.7, opacity=0.6)
    lines = lines.encode(
        x=at(alt.X, "x", title), y=at(alt.Y, "y", "y"), x2="x2:Q", y2="y2:Q",
        tooltip=[alt.Tooltip("loss:Q", title=_("loss"), format=".3g")],
    )  # fmt: skip
    minima = (
        canvas()
        .transform_filter("!isValid(datum.x2) && !isValid(datum.step)")
        .mark_text(text="★", fontSize=17, color=INK)
    )
    minima = minima.encode(x=at(alt.X, "x", title), y=at(alt.Y, "y", "y"))
    look = _looks(names, alt.Legend(title=None, orient="right", symbolOpacity=1, rowPadding=0))
    # Vega-Lite's timer works in charts without layers alone; a slider replays in the browser, without a rerun
    replay = alt.binding_range(min=0, max=steps, step=1, name=_("Replay, in the browser: "))
    frame = alt.param(name="frame", value=steps, bind=replay)
    base = (
        canvas()
        .transform_filter("isValid(datum.step) && datum.step <= frame")
        .encode(x=at(alt.X, "x", title), y=at(alt.Y, "y", "y"))
    )
    paths = base.mark_line(clip=True, strokeWidth=1.5, opacity=0.8).encode(color=look["color"], order="step:Q")
    tip = ["optimizer:N", "step:Q", alt.Tooltip("x:Q", format=".4g"), alt.Tooltip("y:Q", format=".4g"),
           alt.Tooltip("loss:Q", format=".4g")]  # fmt: skip
    points = base.mark_point(clip=True, filled=True, opacity=1).encode(
        **look, tooltip=tip, size=alt.condition("datum.step == min(frame, datum.end)", alt.value(110), alt.value(14))
    )
    return alt.layer(lines, minima, paths, points).add_params(frame).properties(height=140, padding=PADDING)


def losses(where: Surface, went: Mapping[str, Trajectory], step: int) -> None:
    """Loss above the minimum against the step, up to the one shown."""
    minimum = min(where.loss(*one) for one in where.minima)
    above = {name: np.maximum(LEAST_LOSS, np.array(one.losses) - minimum) for name, one in went.items()}
    lasts = [min(step, len(values) - 1) for values in above.values()]
    shown = [values[: last + 1] for values, last in zip(above.values(), lasts, strict=True)]
    rows = pyarrow.table(_by_step(went, lasts) | {"loss": np.concatenate(shown)})
    every = [*above.values()]
    words = "; ".join(f"{name}: {units.significant(float(one[-1]))}" for name, one in zip(above, shown, strict=True))
    alt_text = _("loss above the minimum after {n:,} steps: {words}").format(n=step, words=words)
    last = max(len(values) for values in above.values()) - 1
    lowest, highest = min(one.min() for one in every), max(one.max() for one in every)
    high = min(highest, 1e4 * max(one[0] for one in every))
    limits: dict[str, Any] = {"low": float(lowest) / 2, "high": 2 * float(high), "steps": max(1, last)}
    show(_draw_losses, rows, tuple(went), alt_text=alt_text, **limits)


def _draw_losses(names: tuple[str, ...]) -> Any:
    import altair as alt

    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(format=".0e", tickCount=4)
    steps = alt.Scale(domainMin=0, domainMax=alt.ExprRef("steps"), nice=False)
    look = _looks(names, None)
    base = canvas().encode(
        x=alt.X("step:Q", title=_("step"), scale=steps, axis=alt.Axis(titlePadding=TITLE_PADDING)),
        y=alt.Y("loss:Q", title=_("loss − minimum (log)"), scale=scale, axis=axis),
    )  # fmt: skip
    tip = ["optimizer:N", "step:Q", alt.Tooltip("loss:Q", format=".4g")]
    lines = base.mark_line(clip=True, strokeWidth=1.8).encode(color=look["color"], tooltip=tip)
    ends = base.transform_filter(alt.datum.last).mark_point(clip=True, filled=True, size=90, opacity=1)
    return alt.layer(lines, ends.encode(**look, tooltip=tip)).properties(height=110, padding=PADDING)


@dataclass(frozen=True)
class FirstSteps:
    """What the chart of first steps shows at one learning rate, whatever gradient is chosen on it."""

    names: tuple[str, ...]
    rows: pyarrow.Table
    alt_text: str


def plot_first_steps(every: Sequence[tuple[str, float, Comparison]], lr: float) -> FirstSteps:
    """The rows of the chart, and what it says, of an optimizer's name, a gradient, and the step for each."""
    rows: list[dict[str, Any]] = []
    for name, size, one in every:
        assert one.prediction.value is not None
        predicted, measured = abs(one.prediction.value), abs(one.measurement.value)
        rows.append({"optimizer": name, "g": size, "predicted": predicted, "measured": measured})
    words = "; ".join(f"{row['optimizer']}, g = {row['g']:g}: {units.significant(row['measured'])}" for row in rows)
    names = tuple(dict.fromkeys(row["optimizer"] for row in rows))
    alt_text = _("first steps at lr {lr:g}: {words}").format(lr=lr, words=words)
    return FirstSteps(names, pyarrow.Table.from_pylist(rows), alt_text)


def first_steps(of: FirstSteps, gradient: float) -> None:
    """How far the first step goes against the gradient's size: predicted dashed, taken solid."""
    chosen = pyarrow.table({"chosen": [gradient] if gradient else []})
    rows = pyarrow.concat_tables([of.rows, chosen], promote_options="default").combine_chunks()
    show(_draw_first_steps, rows, of.names, alt_text=of.alt_text)


def _draw_first_steps(names: tuple[str, ...]) -> Any:
    import altair as alt

    def power(values: range) -> Any:
        return alt.Axis(format=".0e", values=[10.0**one for one in values])

    g_scale = alt.Scale(type="log", domain=[1e-12, 1e6], nice=False)
    x = alt.X("g:Q", title=_("size of the gradient |g| (log)"), scale=g_scale, axis=power(range(-12, 7, 2)))

    def on(field: str) -> Any:
        title = _("how far the first step goes (log)")
        return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(type="log", nice=False), axis=power(range(-14, 9, 4)))

    look = _looks(names, alt.Legend(title=None, orient="right", symbolOpacity=1, rowPadding=0))
    tip = ["optimizer:N", alt.Tooltip("g:Q", format=".3g"), alt.Tooltip("predicted:Q", format=".6g"),
           alt.Tooltip("measured:Q", format=".6g")]  # fmt: skip
    base = canvas().transform_filter("isValid(datum.g)").encode(x=x)
    lines = base.mark_line(strokeDash=[6, 4], strokeWidth=1.5).encode(
        y=on("predicted"), color=look["color"], tooltip=tip
    )
    points = base.mark_point(filled=True, opacity=1).encode(
        y=on("measured"), **look, tooltip=tip,
        size=alt.Size("optimizer:N", legend=None, scale=alt.Scale(domain=list(names), range=FIRST_SIZES)),
    )  # fmt: skip
    chosen = canvas().transform_filter("isValid(datum.chosen)").mark_rule(color=INK, strokeDash=[3, 3])
    chosen = chosen.encode(x=alt.X("chosen:Q", scale=g_scale))
    return alt.layer(lines, points, chosen).properties(height=185, padding=PADDING)


def state_bytes(every: Mapping[str, Comparison], parameter_bytes: int) -> None:
    """What each optimizer keeps: predicted hollow, measured solid, the parameters themselves as a line."""
    rows: list[dict[str, Any]] = []
    for name, one in every.items():
        measured, predicted = one.measurement.value, one.prediction.value
        assert predicted is not None
        label = f"{units.si_bytes(measured)} · {units.factor(measured / parameter_bytes)}"
        rows.append({"optimizer": OPTIMIZERS[name].class_name, "predicted": predicted / parameter_bytes,
                     "measured": measured / parameter_bytes, "bytes": measured, "label": label, "one": 1})  # fmt: skip
    words = "; ".join(f"{row['optimizer']}: {row['label']}" for row in rows)
    alt_text = _("optimizer state, and how many times the parameters it is: {words}").format(words=words)
    high = 1.25 * max(1.0, *(row["measured"] for row in rows))
    show(_draw_state, rows, len(rows), alt_text=alt_text, high=high)


def _draw_state(count: int) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False)
    title = _("state / parameters; hollow: predicted, solid: kept after a step")
    base = canvas().encode(y=alt.Y("optimizer:N", sort=None, title=None, axis=names_axis()))
    tip = ["optimizer:N", alt.Tooltip("bytes:Q", title=_("bytes"), format=",")]
    solid = base.mark_bar(color=MEMORY_COLORS[2], height=11).encode(
        x=alt.X("measured:Q", title=title, scale=scale, axis=alt.Axis(tickCount=8)), tooltip=tip
    )
    hollow = base.mark_bar(filled=False, stroke=CLAIM, strokeWidth=2, height=17).encode(x="predicted:Q", tooltip=tip)
    labels = base.mark_text(align="left", dx=6).encode(x="measured:Q", text="label:N")
    one = canvas().mark_rule(color=UNEXPLAINED, strokeDash=[6, 4]).encode(x="one:Q")
    return alt.layer(one, hollow, solid, labels).properties(height=24 * count)
