"""Charts of Initialization."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
import streamlit as st

from core import models, units
from core.claims import Comparison
from core.models import SCHEMES, GainRun
from core.models.picture import Kind, ModelListing, WeightBin, predict_rms
from core.words import _
from pages._ui.charts import CLAIM, INK, PART_COLORS, canvas, names_axis, show

NAMES = [one.name for one in SCHEMES.values()]
COLORS = ["#D55E00", CLAIM, "#009E73", "#7A5BA6", "#E69F00", "#56B4E9", "#CC79A7"]
SHAPES = ["circle", "square", "triangle-up", "triangle-down", "diamond", "cross", "triangle-right"]
SHORT = {"standard_normal": _("standard normal"), "one_over_sqrt": "1/√d", "xavier_normal": "Xavier",
         "xavier_uniform": "Xavier", "kaiming": "Kaiming", "truncated": "±3σ", "lecture_truncated": "±3"}  # fmt: skip
CLOSE = 0.05  # of the height of a chart: lines that end nearer than that have one label
TABLE_HEIGHT, ROW_HEIGHT = 160, 35
TITLE_PADDING = 4
POWERS = tuple(4**power for power in range(2, 8))


def _by_scheme() -> dict[str, Any]:
    """A colour and a shape for each scheme; the labels at the lines' ends name them."""
    import altair as alt

    return {
        "color": alt.Color("scheme:N", legend=None, scale=alt.Scale(domain=NAMES, range=COLORS)),
        "shape": alt.Shape("scheme:N", legend=None, scale=alt.Scale(domain=NAMES, range=SHAPES)),
    }


def _end_labels(
    ends: Mapping[str, tuple[float, float]], span: float, notes: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """A label for each line at its end, (x, y); lines that end together on the log axis share one, the lowest below."""
    groups: list[dict[str, Any]] = []
    for scheme, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        if not groups or groups[-1]["x"] != x or math.log(y / groups[-1]["low"]) > CLOSE * span:
            groups.append({"x": x, "low": y, "names": {}})
        groups[-1]["names"][list(SCHEMES).index(scheme)] = SHORT[scheme] + (notes or {}).get(scheme, "")
        groups[-1]["high"] = y
    return [
        {
            "x": group["x"],
            "at": group["high"] if place or len(groups) == 1 else group["low"],
            "label": " · ".join(dict.fromkeys(name for _place, name in sorted(group["names"].items()))),
            "below": place == 0 and len(groups) > 1,
        }
        for place, group in enumerate(groups)
    ]


def _labels(x: Any, y: Any, align: str) -> list[Any]:
    """Each above its line, the lowest below it."""
    labelled = canvas().transform_filter("isValid(datum.label)")
    return [
        labelled.transform_filter(f"{'' if below else '!'}datum.below")
        .mark_text(align=align, dx=-2 if align == "right" else 2, dy=12 if below else -10)
        .encode(x=x, y=y, text="label:N")
        for below in (False, True)
    ]


def output_stds(
    points: Mapping[str, Sequence[Comparison]], dims: Sequence[int], chosen: str, dim: int, one: Comparison, k: int
) -> None:
    """Std of the output against input_dim: a dashed line predicted and points measured for each scheme."""
    rows: list[dict[str, Any]] = []
    ends: dict[str, tuple[float, float]] = {}
    across = sorted({*POWERS, 2**15, max(1, dim)})
    for scheme, comparisons in points.items():
        name = SCHEMES[scheme].name
        predicted = [_predicted_std(scheme, d, k) for d in across]
        rows += [{"scheme": name, "d": d, "predicted": value} for d, value in zip(across, predicted, strict=True)]
        measured = zip(dims, comparisons, strict=True)
        rows += [{"scheme": name, "d": d, "measured": one.measurement.value} for d, one in measured]
        ends[scheme] = (across[-1], predicted[-1])
    rows.append({"scheme": SCHEMES[chosen].name, "d": dim, "here": one.measurement.value})
    values = [value for row in rows for key, value in row.items() if key in ("predicted", "measured", "here")]
    low, high = min(values), max(values)
    rows += [{"d": one["x"], **one} for one in _end_labels(ends, math.log(high / low))]
    words = "; ".join(
        f"{SCHEMES[scheme].name}: {', '.join(units.significant(one.measurement.value) for one in comparisons)}"
        for scheme, comparisons in points.items()
    )
    alt_text = _("std of the output at input_dim {dims}: {words}").format(dims=", ".join(map(str, dims)), words=words)
    show(_draw_output_stds, rows, alt_text=alt_text, low=low / 2, high=high * 2.5)


@functools.lru_cache(maxsize=4096)
def _predicted_std(scheme: str, d: int, k: int) -> float:
    return models.predict_output_std(scheme, d, k).value or 1.0


def _draw_output_stds() -> Any:
    import altair as alt

    across = alt.Axis(values=[*POWERS], format=",d", titlePadding=TITLE_PADDING)
    limits = alt.Scale(type="log", nice=False, padding=8)
    x = alt.X("d:Q", title=_("input_dim (log); dashed: predicted"), axis=across, scale=limits)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(format="~g", values=[0.1, 1, 10, 100])

    def on(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=_("std of the output (log)"), scale=scale, axis=axis)

    def tip(field: str) -> list[Any]:
        return ["scheme:N", alt.Tooltip("d:Q", title="input_dim", format=","), alt.Tooltip(f"{field}:Q", format=".6g")]

    look = _by_scheme()
    lines = canvas().transform_filter("isValid(datum.predicted)").mark_line(strokeDash=[6, 4], strokeWidth=1.5)
    lines = lines.encode(x=x, y=on("predicted"), color=look["color"], tooltip=tip("predicted"))
    points = canvas().transform_filter("isValid(datum.measured)").mark_point(filled=True, size=45, opacity=0.9)
    points = points.encode(x=x, y=on("measured"), **look, tooltip=tip("measured"))
    here = canvas().transform_filter("isValid(datum.here)").mark_point(filled=True, size=170, opacity=1, stroke=INK)
    here = here.encode(x=x, y=on("here"), **look, tooltip=tip("here"))
    return alt.layer(lines, points, here, *_labels(x, on("at"), "right")).properties(height=180)


def histogram(by_bound: Mapping[str, Sequence[WeightBin]], chosen: str) -> None:
    """The share of the weights in each bin on a log axis: predicted hollow, drawn solid, a colour for each bound."""
    rows: list[dict[str, Any]] = []
    for name, bins in by_bound.items():
        for one in bins:
            row = {"bound": name, "at": (one.low + one.high) / 2, "bin": f"{one.low:g}σ … {one.high:g}σ",
                   "low": one.low, "high": one.high, "chosen": name == chosen}  # fmt: skip
            rows += [{**row, "predicted": one.predicted}] if one.predicted > LEAST_SHARE else []
            rows += [{**row, "measured": one.measured}] if one.measured else []
    words = "; ".join(
        _("{bound}: weights drawn from {low}σ to {high}σ").format(
            bound=name, low=min(one.low for one in bins if one.measured),
            high=max(one.high for one in bins if one.measured),
        )
        for name, bins in by_bound.items()
    )  # fmt: skip
    show(_draw_histogram, rows, tuple(by_bound), alt_text=words)


LEAST_SHARE = 1e-6


def _draw_histogram(bounds: tuple[str, ...]) -> Any:
    import altair as alt

    x = alt.X("low:Q", title=_("weight in σ; hollow: predicted, solid: drawn"), scale=alt.Scale(domain=[-6, 6]),
              axis=alt.Axis(values=list(range(-6, 7)), format="d", titlePadding=TITLE_PADDING))  # fmt: skip
    scale = alt.Scale(type="log", domain=[LEAST_SHARE, 1], nice=False)
    axis = alt.Axis(format="~%", values=[1e-6, 1e-4, 1e-2, 1])
    color = alt.Color("bound:N", scale=alt.Scale(domain=list(bounds), range=[PART_COLORS[4], CLAIM]),
                      legend=alt.Legend(title=None, orient="top-right"))  # fmt: skip

    def on(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=_("share of the weights (log)"), scale=scale, axis=axis)

    def tip(field: str) -> list[Any]:
        return ["bound:N", "bin:N", alt.Tooltip(f"{field}:Q", format=".3%")]

    hollow = canvas().transform_filter("isValid(datum.predicted) && datum.chosen")
    hollow = hollow.mark_bar(filled=False, strokeWidth=1.5)
    hollow = hollow.encode(x=x, x2="high:Q", y=on("predicted"), y2=alt.datum(LEAST_SHARE), color=color,
                           tooltip=tip("predicted"))  # fmt: skip
    solid = canvas().transform_filter("isValid(datum.measured)").mark_point(filled=True, opacity=1)
    solid = solid.encode(
        x=alt.X("at:Q"), y=on("measured"), color=color, tooltip=tip("measured"),
        size=alt.Size("bound:N", legend=None, scale=alt.Scale(domain=list(bounds), range=[110, 35])),
    )  # fmt: skip
    return alt.layer(hollow, solid).properties(height=155)


def through_depth(runs: Sequence[GainRun], dim: int, num_layers: int, relu: bool, of: str) -> None:
    """Root mean square at every layer on a log axis: predicted dashed for each scheme, measured solid."""
    rows, alt_text, low, high = _plot_depth(tuple(runs), dim, num_layers, relu, of)
    show(_draw_depth, rows, of, alt_text=alt_text, low=low, high=high, last=num_layers)


@functools.lru_cache(maxsize=256)
def _plot_depth(
    runs: tuple[GainRun, ...], dim: int, num_layers: int, relu: bool, of: str
) -> tuple[pyarrow.Table, str, float, float]:
    """The rows, what they say, and the limits of the axis."""
    predicted: dict[str, list[Any]] = {"scheme": [], "layer": [], "predicted": []}
    measured: dict[str, list[Any]] = {"scheme": [], "layer": [], "measured": []}
    ends: dict[str, tuple[float, float]] = {}
    beyond: dict[str, str] = {}
    by_scheme = {one.scheme: one for one in runs}
    for scheme, described in SCHEMES.items():
        run = by_scheme.get(scheme)
        layers, values = _predicted(scheme, dim, num_layers, relu, of, run)
        _add(predicted, described.name, layers, values)
        ends[scheme] = (layers[-1], values[-1]) if of == "activations" else (layers[0], values[0])
        if run is not None:
            found = enumerate(run.activation_rms if of == "activations" else run.gradient_rms)
            points = [(layer, value) for layer, value in found if 0 < value < math.inf]
            _add(measured, described.name, [layer for layer, _v in points], [value for _l, value in points])
        left = None if run is None else run.overflow_at
        if of == "activations" and left is not None:
            beyond[scheme] = _(", beyond fp32 at layer {layer}").format(layer=left)
    every = predicted["predicted"] + measured["measured"]
    low, high = min(every), max(every)
    span = math.log(high / low) or 1.0
    labels = [{"layer": one["x"], **one} for one in _end_labels(ends, span, beyond)]
    tables = [pyarrow.table(predicted), *([pyarrow.table(measured)] if measured["layer"] else [])]
    rows = pyarrow.concat_tables([*tables, pyarrow.Table.from_pylist(labels)], promote_options="default")
    words = "; ".join(f"{SCHEMES[scheme].name}: {units.significant(end)}" for scheme, (_x, end) in ends.items())
    alt_text = _("predicted root mean square of {of} at the far end: {words}").format(of=of, words=words)
    margin = math.exp(0.14 * span)
    return rows.combine_chunks(), alt_text, low / margin, high * margin


def _add(columns: dict[str, list[Any]], *values: Any) -> None:
    """Rows of one scheme: its name, the layers, and a value at each."""
    name, layers, at_each = values
    for column, entries in zip(columns.values(), ([name] * len(layers), layers, at_each), strict=True):
        column += entries


def _predicted(
    scheme: str, dim: int, num_layers: int, relu: bool, of: str, run: GainRun | None
) -> tuple[Sequence[int], Sequence[float]]:
    """The layers, and the value at each; a gradient begins where the run ended."""
    rms = _predicted_rms(scheme, dim, num_layers, relu)
    if of == "activations":
        return range(len(rms)), rms
    last = num_layers if run is None else len(run.gradient_rms) - 1
    rms = rms[: last + 1]
    return range(last + 1 - len(rms), last + 1), rms[::-1]


_predicted_rms = functools.lru_cache(maxsize=1024)(predict_rms)  # both charts ask for it


def _draw_depth(of: str) -> Any:
    import altair as alt

    forward, back = _("layer; dashed: predicted"), _("layer, from the right; dashed: predicted")
    limits = alt.Scale(domainMin=0, domainMax=alt.ExprRef("last"), nice=False, padding=6)
    axis = alt.Axis(titlePadding=TITLE_PADDING)
    x = alt.X("layer:Q", title=forward if of == "activations" else back, scale=limits, axis=axis)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    name = _("RMS of activations (log)") if of == "activations" else _("RMS of gradients (log)")

    def on(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=name, scale=scale, axis=alt.Axis(format=".0e", tickCount=6))

    def tip(field: str) -> list[Any]:
        return ["scheme:N", "layer:Q", alt.Tooltip(f"{field}:Q", format=".4g")]

    look = _by_scheme()
    lines = canvas().transform_filter("isValid(datum.predicted)").mark_line(strokeDash=[6, 4], strokeWidth=1.5)
    lines = lines.encode(x=x, y=on("predicted"), color=look["color"], tooltip=tip("predicted"))
    points = canvas().transform_filter("isValid(datum.measured)").mark_point(filled=True, size=28, opacity=0.9)
    points = points.encode(x=x, y=on("measured"), **look, tooltip=tip("measured"))
    labels = _labels(x, on("at"), "right" if of == "activations" else "left")
    return alt.layer(lines, points, *labels).properties(height=143)


def kinds(listed: Sequence[Kind]) -> None:
    """Where the parameters are: a bar for each kind, its share written out."""
    total = sum(one.numel for one in listed)
    rows = [
        {"kind": one.name, "share": one.numel / total, "numel": one.numel, "tensors": one.tensors,
         "label": f"{units.count(one.numel)} · {units.significant(100 * one.numel / total)}%"}
        for one in listed
    ]  # fmt: skip
    words = "; ".join(f"{row['kind']}: {row['label']}" for row in rows)
    show(_draw_kinds, rows, len(rows), alt_text=_("parameters by kind: {words}").format(words=words))


def _draw_kinds(count: int) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[0, 1.3])
    axis = alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], titlePadding=TITLE_PADDING)
    base = canvas().encode(
        x=alt.X("share:Q", title=_("share of the parameters"), scale=scale, axis=axis),
        y=alt.Y("kind:N", sort=None, title=None, axis=names_axis()),
        tooltip=["kind:N", alt.Tooltip("numel:Q", title=_("parameters"), format=","), "tensors:Q"],
    )
    labels = base.mark_text(align="left", dx=5).encode(text="label:N")
    return alt.layer(base.mark_bar(color=CLAIM), labels).properties(height=20 * count)


def tensors(listing: ModelListing) -> None:
    """Every parameter of the model: name, shape, entries."""
    listed = listing.parameters
    columns = {
        _("parameter"): [one.name for one in listed],
        _("shape"): [str(one.shape) for one in listed],
        _("entries"): [one.numel for one in listed],
    }
    alt_text = _("the {n:,} parameter tensors of the model").format(n=len(listed))
    height = min(TABLE_HEIGHT, ROW_HEIGHT * (len(listed) + 1) + 3)
    numbers = {_("entries"): st.column_config.NumberColumn(format="localized")}
    st.dataframe(
        pyarrow.table(columns), hide_index=True, width="stretch", height=height, alt=alt_text, column_config=numbers
    )
