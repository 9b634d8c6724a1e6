"""Charts of the page Napkin."""

from __future__ import annotations

from typing import Any

from core import napkin
from core.words import _
from pages._ui.charts import CLAIM, MEMORY_COLORS, UNEXPLAINED


def days_by_devices(num_params: float, num_tokens: float, devices: int, peak: float, mfu: float) -> Any:
    """Days to train against the number of devices, log-log: the chosen MFU and two others, the choice marked."""
    import altair as alt
    import pandas as pd

    counts = [round(devices * 2.0**step) for step in range(-4, 5) if devices * 2.0**step >= 1]
    shares = sorted({mfu, 0.3, 0.6} if mfu not in (0.3, 0.6) else {0.3, 0.45, 0.6})
    rows = [
        (f"MFU {share:g}", share == mfu, count, napkin.training_days(num_params, num_tokens, count, peak, share))
        for share in shares
        for count in counts
    ]
    data = pd.DataFrame(rows, columns=["mfu", "chosen", "devices", "days"])
    here = data[data["chosen"] & (data["devices"] == devices)]
    x = alt.X("devices:Q", scale=alt.Scale(type="log", base=2), title=_("devices (log)"), axis=alt.Axis(format=",d"))
    y = alt.Y(
        "days:Q", scale=alt.Scale(type="log"), title=_("days to train (log)"), axis=alt.Axis(format=",~g", tickCount=5)
    )
    color = alt.condition("datum.chosen", alt.value(CLAIM), alt.value(UNEXPLAINED))
    lines = alt.Chart(data).mark_line(strokeWidth=2.5).encode(x=x, y=y, detail="mfu:N", color=color)
    ends = (
        alt.Chart(data[data["devices"] == counts[-1]])
        .mark_text(align="left", dx=6)
        .encode(x=x, y=y, text="mfu:N", color=color)
    )
    point = alt.Chart(here).mark_point(size=140, strokeWidth=3, color=CLAIM, fill="white").encode(
        x=x, y=y, tooltip=["mfu:N", "devices:Q", alt.Tooltip("days:Q", format=".5g")]
    )  # fmt: skip
    return alt.layer(lines, ends, point).properties(height=250)


def recipe_bytes(rows: tuple[tuple[str, str, float], ...], chosen: str) -> Any:
    """Bytes per parameter of each recipe, stacked; the chosen recipe in full colour."""
    import altair as alt
    import pandas as pd

    data = pd.DataFrame(rows, columns=["recipe", "part", "bytes"])
    data["opacity"] = [1.0 if recipe == chosen else 0.45 for recipe in data["recipe"]]
    parts = list(dict.fromkeys(data["part"]))
    data["order"] = data["part"].map(parts.index)
    totals = data.groupby("recipe", sort=False, as_index=False)["bytes"].sum()
    totals["label"] = [f"{value:g} B" for value in totals["bytes"]]
    y = alt.Y("recipe:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=False, labelLimit=300))
    color = alt.Color(
        "part:N", scale=alt.Scale(domain=parts, range=list(MEMORY_COLORS)), legend=alt.Legend(title=None, orient="top")
    )
    bars = alt.Chart(data).mark_bar(height=26).encode(
        y=y, x=alt.X("bytes:Q", title=_("bytes per parameter")), color=color, order="order:Q",
        opacity=alt.Opacity("opacity:Q", scale=None), tooltip=["recipe:N", "part:N", "bytes:Q"],
    )  # fmt: skip
    labels = alt.Chart(totals).mark_text(align="left", dx=6, fontWeight="bold").encode(y=y, x="bytes:Q", text="label:N")
    return alt.layer(bars, labels).properties(height=alt.Step(42))


def gpu_hours(points: tuple[tuple[str, float, float, float, bool, bool], ...]) -> Any:
    """Reported against predicted GPU-hours, log-log, with the line on which they agree; doubtful rows are crosses."""
    import altair as alt
    import pandas as pd

    columns = ["model", "predicted", "reported", "mfu", "doubtful", "chosen"]
    data = pd.DataFrame(points, columns=columns)
    low, high = data[["predicted", "reported"]].min().min() / 2, data[["predicted", "reported"]].max().max() * 2
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(format="~s", tickCount=6)
    x = alt.X("predicted:Q", scale=scale, title=_("predicted GPU-hours (log)"), axis=axis)
    y = alt.Y("reported:Q", scale=scale, title=_("reported GPU-hours (log)"), axis=axis)
    agree = pd.DataFrame({"predicted": [low, high], "reported": [low, high]})
    line = alt.Chart(agree).mark_line(strokeDash=[5, 4], color=UNEXPLAINED).encode(x=x, y=y)
    marks = alt.Chart(data).mark_point(filled=True, opacity=0.9).encode(
        x=x, y=y,
        shape=alt.condition("datum.doubtful", alt.value("cross"), alt.value("circle")),
        size=alt.condition("datum.chosen", alt.value(260), alt.value(70)),
        color=alt.condition("datum.chosen", alt.value(CLAIM), alt.value(UNEXPLAINED)),
        tooltip=["model:N", alt.Tooltip("predicted:Q", format=",.3s"), alt.Tooltip("reported:Q", format=",.3s"),
                 alt.Tooltip("mfu:Q", format=".1%", title=_("implied MFU"))],
    )  # fmt: skip
    names = (
        alt.Chart(data[data["chosen"]])
        .mark_text(align="right", dx=-12, fontWeight="bold")
        .encode(x=x, y=y, text="model:N")
    )
    return alt.layer(line, marks, names).properties(height=290)
