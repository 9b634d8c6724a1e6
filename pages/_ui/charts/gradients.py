"""Charts of the page Gradients."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pyarrow

from core import units
from core.gradients import DepthRatio, DifferenceCurve, Graph, Node, Operation, Trace
from core.gradients.compare import vector
from core.words import _
from pages._ui import markup
from pages._ui.charts import CLAIM, INK, MEMORY_COLORS, canvas, names_axis, show

DTYPE_COLORS = {"fp64": CLAIM, "fp32": "#D55E00"}
GRADIENT_COLOR = MEMORY_COLORS[1]
LABELLED = (1, 2, 4, 8)  # depths whose ratio is written out; the others are read on hover
TICKS = tuple(10.0**power for power in range(-12, 1, 2))


def graph(one: Graph) -> None:
    """The graph as torch recorded it: tensors with value and .grad, operations forward, their grad_fn backward."""
    passed = {edge.source: edge.measured for edge in one.backward}
    passed["loss"] = (1.0,) if one.node("loss").requires_grad else None
    places = {"x": "1 / 1", "w": "2 / 1", "y": "3 / 3", "pred_y": "1 / 3 / span 2", "error": "1 / 5 / span 2",
              "squared": "1 / 7 / span 2", "loss": "1 / 9 / span 2"}  # fmt: skip
    cells = [_node(one.node(name), passed.get(name), place) for name, place in places.items()]
    for index, operation in enumerate(one.operations):
        cells.append(_operation(operation, f"1 / {2 * index + 2} / span 2"))
    cells.append('<div class="np-op np-from-y" style="grid-area:3 / 4">↗</div>')
    legend = _(
        "Filled: has a .grad. Solid border: requires a gradient. Dashed border: requires none. "
        "Below the arrows: the grad_fn that backward calls, where one was recorded."
    )
    label = _("computation graph; the table below says the same in words")
    body = f'<div class="np-graph" role="group" aria-label="{escape(label)}" tabindex="0">{"".join(cells)}</div>'
    markup.show(f'{body}<p class="np-legend">{escape(legend)}</p>')


def _node(node: Node, passed: tuple[float, ...] | None, place: str) -> str:
    kind = "np-kept" if node.grad is not None else "np-needs" if node.requires_grad else "np-plain"
    tag = _("leaf") if node.is_leaf else node.formula
    lost = ""
    if node.grad is None and passed is not None:
        lost = f'<div class="np-quiet">{escape(_("{grad} passed through").format(grad=vector(passed)))}</div>'
    return (
        f'<div class="np-node {kind}" style="grid-area:{place}" title="{escape(node.why)}">'
        f'<div><b>{node.name}</b> <span class="np-quiet">{escape(tag)}</span></div>'
        f"<div>= {escape(vector(node.value))}</div>"
        f'<div class="np-grad">.grad {escape(vector(node.grad))}</div>{lost}</div>'
    )


def _operation(operation: Operation, place: str) -> str:
    back = ""
    if operation.grad_fn is not None:
        back = f'<div class="np-arrow np-back"></div><div class="np-grad-fn">{escape(operation.grad_fn)}</div>'
    return (
        f'<div class="np-op" style="grid-area:{place}"><div>{escape(operation.name)}</div>'
        f'<div class="np-arrow"></div>{back}</div>'
    )


def errors(curves: Sequence[DifferenceCurve]) -> None:
    """Error against step, both on log axes: predicted dashed, measured solid, a colour for each dtype."""
    best = "; ".join(
        _("{dtype}: smallest error {error} at step {step}").format(
            dtype=curve.dtype, error=units.significant(curve.best_error), step=units.significant(curve.best_step)
        )
        for curve in curves
    )
    show(_draw_errors, _error_rows(tuple(curves)), tuple(curve.dtype for curve in curves), alt_text=best)


@functools.lru_cache(maxsize=64)
def _error_rows(curves: tuple[DifferenceCurve, ...]) -> pyarrow.Table:
    measured, predicted = _("measured"), _("predicted")
    cells: list[tuple[float, str, float, str]] = []
    for curve in curves:
        for point in curve.points:
            cells.append((point.step, curve.dtype, point.error, measured))
            cells.append((point.step, curve.dtype, point.truncation + point.rounding, predicted))
    columns = zip(*(one for one in cells if one[2]), strict=True)  # a log axis has no place for 0
    return pyarrow.table(dict(zip(("step", "dtype", "error", "kind"), columns, strict=False)))


def _draw_errors(dtypes: tuple[str, ...]) -> Any:
    import altair as alt

    powers = alt.Axis(format=".0e", tickCount=7)
    base = canvas().encode(
        x=alt.X("step:Q", title=_("step h (log)"), axis=alt.Axis(format=".0e", values=list(TICKS)),
                scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("error:Q", title=_("error (log)"), axis=powers, scale=alt.Scale(type="log", nice=False, padding=8)),
        color=alt.Color("dtype:N", legend=alt.Legend(title=None, orient="top"),
                        scale=alt.Scale(domain=list(dtypes), range=[DTYPE_COLORS[one] for one in dtypes])),
        tooltip=["dtype:N", "kind:N", alt.Tooltip("step:Q", format=".2e"), alt.Tooltip("error:Q", format=".3e")],
    )  # fmt: skip
    measured = base.transform_filter(alt.datum.kind == _("measured"))
    predicted = base.transform_filter(alt.datum.kind == _("predicted"))
    lines = measured.mark_line(strokeWidth=1.5)
    points = measured.mark_point(filled=True, size=40)
    hollow = predicted.mark_line(strokeWidth=2, strokeDash=[6, 4])
    return alt.layer(hollow, lines, points).properties(height=185)


def trace(one: Trace) -> None:
    """The entries of w.grad after each step, a bar for each entry."""
    rows: list[dict[str, Any]] = []
    for number, value in enumerate(one.values("w.grad")):
        name = f"{number} · {one.steps[number].action}"
        if not isinstance(value, tuple):
            rows.append({"step": name, "entry": 1, "value": 0.0, "end": 0.0, "label": "None"})
            continue
        rows += [
            {"step": name, "entry": index, "value": entry, "end": max(0.0, entry), "label": f"{entry:.4g}"}
            for index, entry in enumerate(value, 1)
        ]
    ends = [row["value"] for row in rows]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = 0.12 * ((high - low) or 1.0)
    words = "; ".join(f"{row['step']}, w.grad[{row['entry']}]: {row['label']}" for row in rows)
    show(_draw_trace, rows, alt_text=words, low=low, high=high + margin)


def _draw_trace() -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    base = canvas().encode(
        y=alt.Y("step:N", sort=None, title=None, axis=names_axis()), yOffset=alt.YOffset("entry:O"),
        tooltip=["step:N", "entry:O", alt.Tooltip("value:Q", title="w.grad")],
    )  # fmt: skip
    bars = base.mark_bar(color=GRADIENT_COLOR).encode(x=alt.X("value:Q", title=_("entries of w.grad"), scale=scale))
    labels = base.mark_text(align="left", dx=5).encode(x="end:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(16, **{"for": "offset"}))


def ratios(by_depth: Sequence[DepthRatio], counted: Mapping[int, float]) -> None:
    """Backward over forward FLOPs for each depth (hollow), torch's count for the chosen one (solid), the line at 2."""
    rows, words = _ratio_rows(tuple(by_depth), tuple(counted.items()))
    show(_draw_ratios, rows, alt_text=words)


@functools.lru_cache(maxsize=32)  # the number of rows cancels out: a change of B asks for the same again
def _ratio_rows(by_depth: tuple[DepthRatio, ...], counted: tuple[tuple[int, float], ...]) -> tuple[pyarrow.Table, str]:
    """The chart's rows, and its figures in words."""
    rows: list[dict[str, Any]] = [
        {
            "layers": one.num_layers,
            "ratio": one.ratio,
            "label": units.factor(one.ratio) if one.num_layers in LABELLED else "",
            "counted": None,
            "two": 2.0,
        }
        for one in by_depth
    ]
    rows += [
        {"layers": layers, "ratio": None, "label": units.factor(ratio), "counted": ratio, "two": None}
        for layers, ratio in counted
    ]
    words = "; ".join(_("{n} hidden layers: {ratio}").format(n=one.num_layers, ratio=units.factor(one.ratio))
                      for one in by_depth)  # fmt: skip
    return pyarrow.Table.from_pylist(rows), words


def _draw_ratios() -> Any:
    import altair as alt

    x = alt.X("layers:O", title=_("hidden layers"), axis=alt.Axis(labelAngle=0))
    scale = alt.Scale(domain=[0.8, 2.25], nice=False)
    title = _("backward FLOPs / forward FLOPs")
    y = alt.Y("ratio:Q", title=title, scale=scale)
    points = canvas().transform_filter("isValid(datum.ratio)")
    tooltip = [alt.Tooltip("layers:O"), alt.Tooltip("ratio:Q", format=".5f")]
    hollow = points.mark_point(color=CLAIM, size=110, strokeWidth=2).encode(x=x, y=y, tooltip=tooltip)
    labels = points.mark_text(dy=16).encode(x=x, y=y, text="label:N")
    two = points.mark_rule(color=INK, strokeDash=[6, 4]).encode(y=alt.Y("two:Q", title=title, scale=scale))
    solid = canvas().transform_filter("isValid(datum.counted)").mark_point(color=CLAIM, filled=True, size=110)
    solid = solid.encode(x=x, y=alt.Y("counted:Q", title=title, scale=scale))
    return alt.layer(two, hollow, solid, labels).properties(height=200)
