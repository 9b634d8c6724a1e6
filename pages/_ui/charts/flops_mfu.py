"""Charts of the page FLOPs & MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core import units
from core.words import _
from pages._ui.charts import CLAIM, UNEXPLAINED, scaled_unit

if TYPE_CHECKING:
    from core.claims import Measurement


def landmarks(rows: tuple[tuple[str, float, str], ...]) -> Any:
    """FLOPs of trainings and of the chosen cluster, on one log axis. ``rows``: name, FLOPs, "known" or "predicted"."""
    import altair as alt
    import pandas as pd

    data = pd.DataFrame(rows, columns=["name", "flops", "kind"])
    data["label"] = [units.si(value, "FLOP") for value in data["flops"]]
    data["low"] = 10.0 ** (len(str(int(data["flops"].min()))) - 3)
    data["fill"] = ["transparent" if kind == "predicted" else UNEXPLAINED for kind in data["kind"]]
    data["stroke"] = [CLAIM if kind == "predicted" else UNEXPLAINED for kind in data["kind"]]
    base = alt.Chart(data).encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False))
    )
    axis = alt.Axis(format=".0e", tickCount=6)
    bars = base.mark_bar(strokeWidth=2, height=20).encode(
        x=alt.X("low:Q", scale=alt.Scale(type="log", padding=40), title=_("FLOPs (log)"), axis=axis), x2="flops:Q",
        fill=alt.Fill("fill:N", scale=None), stroke=alt.Stroke("stroke:N", scale=None),
        tooltip=["name:N", alt.Tooltip("flops:Q", format=".4e", title="FLOPs")],
    )  # fmt: skip
    text = base.mark_text(align="left", dx=6).encode(x="flops:Q", text="label:N")
    return alt.layer(bars, text).properties(height=alt.Step(34))


def rates(rows: tuple[tuple[str, float, float | None], ...]) -> Any:
    """Achieved FLOP/s per dtype (solid) inside its peak (hollow), on a log axis: factors matter."""
    import altair as alt
    import pandas as pd

    largest = max(max(rate, peak or 0.0) for _name, rate, peak in rows)
    divide, unit = scaled_unit(largest, "FLOP/s")
    label = [
        units.si(rate, "FLOP/s") + (f" · MFU {rate / peak:.0%}" if peak else _(" · peak unknown"))
        for _name, rate, peak in rows
    ]
    data = pd.DataFrame(rows, columns=["dtype", "rate", "peak"]).assign(label=label)
    data["low"] = min(min(rate, peak or rate) for _name, rate, peak in rows) / 4 / divide
    data["rate"] /= divide
    data["peak"] = data["peak"].astype(float) / divide
    data["end"] = data[["rate", "peak"]].max(axis=1)
    y = alt.Y("dtype:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False))
    scale = alt.Scale(type="log", nice=False, padding=10)
    base = alt.Chart(data).encode(y=y)
    solid = base.mark_bar(color=CLAIM, height=18).encode(
        x=alt.X("low:Q", scale=scale, title=f"{unit} ({_('log')})"), x2="rate:Q"
    )
    hollow = base.mark_bar(fill="transparent", stroke=CLAIM, strokeWidth=2, height=28).encode(x="low:Q", x2="peak:Q")
    text = base.mark_text(align="left", dx=8, fontWeight="bold").encode(x="end:Q", text="label:N")
    return alt.layer(hollow, solid, text).properties(height=alt.Step(44))


def trial_times(warm: Measurement, lecture: Measurement) -> Any:
    """Every trial in the order it ran: five cold calls of the lecture's method, then the warm ones; log time."""
    import altair as alt
    import pandas as pd

    names = (_("the lecture's five"), _("warm"))
    divide, unit = scaled_unit(warm.value, "s")
    kept = warm.samples[:: max(1, len(warm.samples) // 400)]
    data = pd.DataFrame(
        [(index + 1, value / divide, names[0]) for index, value in enumerate(lecture.samples)]
        + [(len(lecture.samples) + 1 + index, value / divide, names[1]) for index, value in enumerate(kept)],
        columns=["trial", "time", "method"],
    )
    lines = pd.DataFrame(
        [(lecture.value / divide, _("mean of five: {time}").format(time=lecture.text), names[0]),
         (warm.value / divide, _("warm median: {time}").format(time=warm.text), names[1])],
        columns=["time", "label", "method"],
    )  # fmt: skip
    color = alt.Color("method:N", scale=alt.Scale(domain=names, range=["#D55E00", CLAIM]), legend=None)
    y = alt.Y(
        "time:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        title=_("time of one call ({unit}, log)").format(unit=unit),
    )
    points = alt.Chart(data).mark_point(filled=True, size=36, opacity=0.7).encode(
        x=alt.X("trial:Q", title=_("trial, in order (a sample of the warm ones)"), axis=alt.Axis(format="d")),
        y=y, color=color,
        shape=alt.Shape("method:N", scale=alt.Scale(domain=names, range=["diamond", "circle"]), legend=None),
        tooltip=["method:N", "trial:Q", alt.Tooltip("time:Q", title=unit, format=".4g")],
    )  # fmt: skip
    rules = alt.Chart(lines).mark_rule(strokeDash=[6, 4], strokeWidth=2).encode(y="time:Q", color=color)
    labels = (
        alt.Chart(lines)
        .mark_text(align="right", dy=-9, fontWeight="bold")
        .encode(y="time:Q", x=alt.value("width"), text="label:N", color=color)
    )
    return alt.layer(points, rules, labels).properties(height=260)
