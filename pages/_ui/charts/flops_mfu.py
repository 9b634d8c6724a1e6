"""Charts of the page FLOPs & MFU, its first half: scale, time and utilization."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core import units
from core.words import _
from pages._ui.charts import CLAIM, UNEXPLAINED, canvas, names_axis, scaled_unit, show

if TYPE_CHECKING:
    from core.claims import Measurement
    from core.flops import MatmulRun, Peak

LECTURE_COLOR = "#D55E00"
FAR_APART = 20  # beyond this factor a linear axis hides the small one


def landmarks(known: Mapping[str, float], predicted: Mapping[str, float]) -> None:
    """FLOPs of trainings, and of the chosen cluster (hollow), on one log axis."""
    low = 10.0 ** math.floor(math.log10(min([*known.values(), *predicted.values()])) - 1)
    rows: list[dict[str, Any]] = [
        {"name": name, "flops": value, "low": low, "label": units.si(value, "FLOP"),
         "fill": "transparent" if name in predicted else UNEXPLAINED,
         "stroke": CLAIM if name in predicted else UNEXPLAINED}
        for name, value in {**known, **predicted}.items()
    ]  # fmt: skip
    alt_text = "; ".join(f"{row['name']}: {row['label']}" for row in rows)
    show(_draw_landmarks, rows, alt_text=alt_text, low=low, high=max(row["flops"] for row in rows) * 20)


def _draw_landmarks() -> Any:
    import altair as alt

    base = canvas().encode(y=alt.Y("name:N", sort=None, title=None, axis=names_axis()))
    axis = alt.Axis(format=".0e", tickCount=6)
    scale = alt.Scale(type="log", domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"), nice=False)
    x = alt.X("low:Q", scale=scale, title=_("FLOPs (log)"), axis=axis)
    bars = base.mark_bar(strokeWidth=2, height=20).encode(
        x=x, x2="flops:Q", fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None),
        tooltip=["name:N", alt.Tooltip("flops:Q", format=".4e", title="FLOPs")],
    )  # fmt: skip
    text = base.mark_text(align="left", dx=6).encode(x="flops:Q", text="label:N")
    return alt.layer(bars, text).properties(height=alt.Step(34))


def rates(runs: Mapping[str, MatmulRun], peaks: Mapping[str, Peak]) -> None:
    """Achieved FLOP/s per dtype (solid) inside its peak (hollow); on a log axis where factors matter."""
    reached = [run.flop_per_sec for run in runs.values()]
    promised = [peak.flop_per_sec for peak in peaks.values() if peak.flop_per_sec is not None]
    divide, unit = scaled_unit(max(reached + promised), "FLOP/s")
    far_apart = max(reached + promised) > FAR_APART * min(reached + promised)
    low = 10.0 ** math.floor(math.log10(min(reached + promised) / divide) - 0.3) if far_apart else 0.0
    high = max(reached + promised) / divide
    high *= 4 if far_apart else 1.35  # room for the labels
    rows = []
    for dtype, run in runs.items():
        peak = peaks[dtype].flop_per_sec
        share = f"MFU {run.flop_per_sec / peak:.0%}" if peak else _("peak unknown")
        label = f"{units.si(run.flop_per_sec, 'FLOP/s')} · {share}"
        row = {"dtype": dtype, "low": low, "rate": run.flop_per_sec / divide, "peak": peak and peak / divide}
        rows.append({**row, "end": max(run.flop_per_sec, peak or 0.0) / divide, "label": label})
    alt_text = "; ".join(f"{row['dtype']}: {row['label']}" for row in rows)
    show(_draw_rates, rows, unit, far_apart, alt_text=alt_text, low=low, high=high)


def _draw_rates(unit: str, log: bool) -> Any:
    import altair as alt

    low, high = alt.ExprRef("low"), alt.ExprRef("high")
    scale = alt.Scale(type="log" if log else "linear", domainMin=low, domainMax=high, nice=False)
    base = canvas().encode(y=alt.Y("dtype:N", sort=None, title=None, axis=names_axis()))
    x = alt.X("low:Q", scale=scale, title=_("{unit} (log)").format(unit=unit) if log else unit)
    solid = base.mark_bar(color=CLAIM, height=18).encode(x=x, x2="rate:Q")
    hollow = base.mark_bar(fill="transparent", stroke=CLAIM, strokeWidth=2, height=28).encode(x=x, x2="peak:Q")
    text = base.mark_text(align="left", dx=8, fontWeight="bold").encode(x="end:Q", text="label:N")
    return alt.layer(hollow, solid, text).properties(height=alt.Step(44))


def trial_times(warm: Measurement, lecture: Measurement) -> None:
    """Every trial in the order it ran: five cold calls of the lecture's method, then the warm ones; log time."""
    divide, unit = scaled_unit(warm.value, "s")
    kept = warm.samples[:: max(1, len(warm.samples) // 400)]
    trials = [(value, _("the lecture's five"), LECTURE_COLOR, "diamond") for value in lecture.samples]
    trials += [(value, _("warm"), CLAIM, "circle") for value in kept]
    rows: list[dict[str, Any]] = [
        {"trial": index, "time": value / divide, "method": method, "color": color, "shape": shape}
        for index, (value, method, color, shape) in enumerate(trials, 1)
    ]
    for one, label, color in (
        (lecture, _("mean of five: {time}"), LECTURE_COLOR),
        (warm, _("warm median: {time}"), CLAIM),
    ):
        rows.append({"level": one.value / divide, "label": label.format(time=one.text), "color": color})
    text = _("five cold calls, mean {mean}; warm median {median}")
    show(_draw_trials, rows, unit, alt_text=text.format(mean=lecture.text, median=warm.text))


def _draw_trials(unit: str) -> Any:
    import altair as alt

    title = _("time of one call ({unit}, log)").format(unit=unit)
    scale = alt.Scale(type="log", nice=False, padding=12)
    color = alt.Color("color:N", scale=None)
    points = canvas().transform_filter("isValid(datum.trial)").mark_point(filled=True, size=36, opacity=0.7).encode(
        x=alt.X("trial:Q", title=_("trial, in order (a sample of the warm ones)"), axis=alt.Axis(format="d")),
        y=alt.Y("time:Q", scale=scale, title=title), color=color, shape=alt.Shape("shape:N", scale=None),
        tooltip=["method:N", "trial:Q", alt.Tooltip("time:Q", title=unit, format=".4g")],
    )  # fmt: skip
    levels = canvas().transform_filter("isValid(datum.level)")
    y = alt.Y("level:Q", scale=scale, title=title)
    rules = levels.mark_rule(strokeDash=[6, 4], strokeWidth=2).encode(y=y, color=color)
    labels = levels.mark_text(align="right", dy=-9, fontWeight="bold")
    labels = labels.encode(y=y, x=alt.value("width"), text="label:N", color=color)
    return alt.layer(points, rules, labels).properties(height=260)
