"""Charts of the page FLOPs & MFU, its second half: sweeps and rooflines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.flops import MatmulRun, Roof, RooflineRun, Sweep
from core.words import _
from pages._ui.charts import CLAIM, UNEXPLAINED, canvas, show

DTYPE_COLORS = {"fp32": "#0072B2", "bf16": "#D55E00", "fp16": "#009E73", "fp64": "#CC79A7", "tf32": "#E69F00"}


def sweep(done: Sweep, kind: str, roofs: Mapping[str, Roof]) -> None:
    """Achieved FLOP/s against size or shape, by dtype, with the quartiles; dashed, what the roof allows; log-log."""
    last = {run.dtype: run for run in done.runs}
    rows = [
        {
            "x": run.b if kind == "squares" else run.d,
            "dtype": run.dtype,
            "rate": run.flop_per_sec / 1e9,
            "low": run.flops / run.time.quartiles[1] / 1e9,
            "high": run.flops / run.time.quartiles[0] / 1e9,
            "roof": run.flops / roofs[run.dtype].seconds(run.flops, run.matrix_bytes) / 1e9,
            "color": DTYPE_COLORS[run.dtype],
            "shape": f"{run.b:,} × {run.d:,} × {run.k:,}",
            "name": run.dtype if run is last[run.dtype] else "",
        }
        for run in sorted(done.runs, key=lambda run: run.b if kind == "squares" else run.d)
    ]
    title = _("rows of the square (log)") if kind == "squares" else _("inner dimension D (log); B = K, equal work")
    show(_draw_sweep, rows, title, alt_text=_alternative(done.runs))


def _draw_sweep(title: str) -> Any:
    import altair as alt

    x = alt.X(
        "x:Q", scale=alt.Scale(type="log", base=2, padding=24, nice=False), title=title, axis=alt.Axis(format=",d")
    )
    y = alt.Y("rate:Q", scale=alt.Scale(type="log"), title=_("GFLOP/s (log)"), axis=alt.Axis(format="~g", tickCount=6))
    color = alt.Color("color:N", scale=None)
    base = canvas().encode(x=x, color=color, detail="dtype:N")
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=_("GFLOP/s (log)")), y2="high:Q", fill=color)
    roof = base.mark_line(strokeDash=[5, 4], strokeWidth=1.5).encode(y="roof:Q")
    line = base.mark_line(strokeWidth=2.5, point=True).encode(
        y=y, tooltip=["dtype:N", "shape:N", alt.Tooltip("rate:Q", format=".3g", title="GFLOP/s"),
                      alt.Tooltip("roof:Q", format=".3g", title=_("roof, GFLOP/s"))],
    )  # fmt: skip
    names = base.mark_text(align="left", dx=8, fontWeight="bold").encode(y=y, text="name:N")
    return alt.layer(band, roof, line, names).properties(height=290)


def _alternative(runs: Sequence[MatmulRun]) -> str:
    return "; ".join(f"{run.dtype} {run.b}×{run.d}×{run.k}: {run.flop_per_sec / 1e9:.3g} GFLOP/s" for run in runs)


def roofline(roofs: Sequence[Roof], runs: Sequence[RooflineRun], chosen: str, intensity: float) -> None:
    """Roofs as lines, measured operations as points, and the chosen one's prediction as a hollow point; log-log."""
    lowest, highest = 0.05, 4096.0
    rows: list[dict[str, Any]] = []
    for index, roof in enumerate(roofs):
        for place, x in enumerate((lowest, roof.ridge_flop_per_byte, highest)):
            name = roof.name if place == 2 else ""
            color = CLAIM if index == 0 else UNEXPLAINED
            rows.append(
                {"roof": roof.name, "x": x, "y": roof.attainable_flop_per_sec(x) / 1e9, "color": color, "name": name}
            )
    for run in runs:
        is_chosen = run.operation == chosen
        rows.append({"operation": run.operation, "x": run.flop_per_byte, "y": run.flop_per_sec / 1e9,
                     "color": CLAIM if is_chosen else UNEXPLAINED, "name": run.operation})  # fmt: skip
    rows.append(
        {"predicted": chosen, "x": intensity, "y": roofs[0].attainable_flop_per_sec(intensity) / 1e9, "color": CLAIM}
    )
    alt_text = "; ".join(
        f"{run.operation}: {run.flop_per_byte:.3g} FLOP/byte, {run.flop_per_sec / 1e9:.3g} GFLOP/s" for run in runs
    )
    show(_draw_roofline, rows, alt_text=alt_text or _("rooflines"))


def _draw_roofline() -> Any:
    import altair as alt

    axis = alt.Axis(format="~g", tickCount=6)
    title = _("arithmetic intensity, FLOP/byte (log)")
    x = alt.X("x:Q", scale=alt.Scale(type="log", nice=False), title=title, axis=axis)
    y = alt.Y("y:Q", scale=alt.Scale(type="log"), title=_("GFLOP/s (log)"), axis=alt.Axis(format="~s", tickCount=6))
    color = alt.Color("color:N", scale=None)
    base = canvas().encode(x=x, y=y, color=color)
    roofs = base.transform_filter("isValid(datum.roof)")
    lines = roofs.mark_line(strokeWidth=2.5).encode(detail="roof:N")
    names = roofs.mark_text(align="right", dy=-9).encode(text="name:N")
    operations = base.transform_filter("isValid(datum.operation)")
    points = operations.mark_point(filled=True, size=110, opacity=1).encode(
        tooltip=["operation:N", alt.Tooltip("x:Q", format=".3g", title="FLOP/byte"),
                 alt.Tooltip("y:Q", format=".3g", title="GFLOP/s")],
    )  # fmt: skip
    labels = operations.mark_text(align="left", dx=9, dy=9).encode(text="name:N")
    hollow = base.transform_filter("isValid(datum.predicted)").mark_point(filled=False, size=240, strokeWidth=2.5)
    return alt.layer(lines, names, hollow, points, labels).properties(height=300)
