"""Charts of Optimizer memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow

from core import units
from core.claims import Comparison
from core.memory import result
from core.memory.config import StepConfig
from core.memory.fits import Checkpointing, PeakLine
from core.memory.predict import predict_step
from core.memory.result import Moment
from core.memory.step_memory import NAMES, StepMemory
from core.words import _
from pages._ui.charts import CLAIM, INK, MEMORY_COLORS, canvas, names_axis, scaled_unit, show

COLORS = [*MEMORY_COLORS, "#56B4E9", "#7A5BA6", "#D55E00"]
# From the floor up: what is always there first.
STACKED = {
    key: NAMES[key] for key in sorted(NAMES, key=lambda one: (one != result.PARAMETER, one != result.OPTIMIZER_STATE))
}
PADDING = {"bottom": 0}  # Streamlit leaves 20 pixels below a chart that says nothing
TITLE_PADDING = 4
NARROW = 0.08  # of the moments: too few to write over
PHASES = {
    _("forward"): (result.EMBEDDING, result.FORWARD, result.HEAD),
    _("backward"): (
        result.LOSS_BACKWARD, result.HEAD_BACKWARD, result.BACKWARD, result.RECOMPUTATION, result.END_OF_BACKWARD,
    ),
    _("optimizer"): (result.OPTIMIZER,),
}  # fmt: skip


def _color(legend: Any) -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(NAMES.values()), range=COLORS)
    return alt.Color("category:N", legend=legend, scale=scale)


def timeline(step: StepMemory, measured: StepMemory | None) -> None:
    """A step from left to right: live bytes by category, predicted; the measured totals as points; the peak marked."""
    predicted = measured is None and step.conditions is None and isinstance(step.config, StepConfig)
    rows, unit, text, high = _plot_predicted(step.config) if predicted else _plot_timeline(step, measured)
    show(_draw_timeline, rows, unit, alt_text=text, high=high, last=len(step.moments) - 0.5)


@functools.lru_cache(maxsize=256)
def _plot_predicted(config: StepConfig) -> tuple[pyarrow.Table, str, str, float]:
    return _plot_timeline(predict_step(config), None)


def _plot_timeline(step: StepMemory, measured: StepMemory | None) -> tuple[pyarrow.Table, str, str, float]:
    """The rows, the unit of their bytes, what they say, and how high the chart is."""
    moments = step.moments
    peak = moments.index(step.peak)
    highest = max(step.peak_bytes, measured.peak_bytes if measured else 0)
    divide, unit = scaled_unit(highest, "B")
    held = [one for moment in moments for one in (moment.highest, moment.end)]
    areas = {
        "at": [half / 2 for half in range(len(held))] * len(STACKED),
        "category": [name for name in STACKED.values() for _one in held],
        "bytes": [one.get(key, 0) / divide for key in STACKED for one in held],
        "order": [order for order in range(len(STACKED)) for _one in held],
    }
    befores = (None, *moments)
    hover = [_hover(index, one, befores[index], step.name(one)) for index, one in enumerate(moments)]
    metered = measured.moments if measured else ()
    points = [{"measured_at": index, "measured": one.highest_bytes / divide} for index, one in enumerate(metered)]
    text = _("peak: {moment}, {bytes}").format(moment=step.peak_moment, bytes=units.si_bytes(step.peak_bytes))
    early = peak < len(moments) / 4
    marks = [{"peak_at": peak, "peak": step.peak_bytes / divide, "label": text, "early": early}]
    parts = [pyarrow.Table.from_pylist(one) for one in (hover, points, marks, _phases(moments)) if one]
    rows = pyarrow.concat_tables([pyarrow.table(areas), *parts], promote_options="default").combine_chunks()
    return rows, unit, text, 1.5 * highest / divide


def _hover(index: int, moment: Moment, before: Moment | None, name: str) -> dict[str, Any]:
    """What a pointer over a moment reads: its name, the bytes there, and what it leaves more or less."""
    change = moment.end_bytes - (before.end_bytes if before is not None else 0)
    row: dict[str, Any] = {"low": index - 0.25, "top": index + 0.75, "name": name}
    row |= {name: _written(moment.highest.get(key, 0)) for key, name in NAMES.items()}
    row |= {"total": f"{moment.highest_bytes:,} B"}
    row |= {"change": "" if before is None else ("+ " if change >= 0 else "− ") + _written(abs(change))}
    return row


_written = functools.lru_cache(maxsize=4096)(units.si_bytes)  # most of what a step holds, it holds for many moments


def _phases(moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """Where the names of the phases stand, each over the middle of its first stretch."""
    phases = [next(name for name, kinds in PHASES.items() if moment.kind in kinds) for moment in moments]
    found: list[dict[str, Any]] = []
    start = 0
    for index in range(1, len(phases) + 1):
        if index == len(phases) or phases[index] != phases[start]:
            narrow = index - start < NARROW * len(phases)
            middle = start - 0.25 if narrow else (start + index - 1) / 2
            found.append(
                {"phase_at": middle, "phase": phases[start], "begins": start - 0.25, "from": start, "narrow": narrow}
            )
            start = index
    return found


def _draw_timeline(unit: str) -> Any:
    import altair as alt

    limits = alt.Scale(domainMin=-0.3, domainMax=alt.ExprRef("last"), nice=False)
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False)
    hidden = alt.Axis(labels=False, ticks=False, grid=False, titlePadding=TITLE_PADDING)
    title = _("the moments of one step, in order; point at one")

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", title=title, scale=limits, axis=hidden)

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=_("live ({unit})").format(unit=unit), scale=scale)

    legend = alt.Legend(title=None, orient="right", rowPadding=0)
    areas = canvas().transform_filter("isValid(datum.category)").mark_area(opacity=0.75, line=False)
    areas = areas.encode(x=x("at"), y=y("bytes").stack("zero"), color=_color(legend), order="order:O")
    tip = [alt.Tooltip("name:N", title=_("moment")), alt.Tooltip("total:N", title=_("live at most"))]
    tip += [alt.Tooltip(f"{name}:N") for name in NAMES.values()]
    tip += [alt.Tooltip("change:N", title=_("it leaves"))]
    hover = canvas().transform_filter("isValid(datum.low)").mark_rect(opacity=0)
    hover = hover.encode(x=x("low"), x2="top:Q", tooltip=tip)
    begins = canvas().transform_filter("datum.from > 0").mark_rule(color=INK, strokeWidth=0.7)
    begins = begins.encode(x=x("begins"))
    phases = [
        canvas()
        .transform_filter(f"isValid(datum.phase_at) && {'' if narrow else '!'}datum.narrow")
        .mark_text(baseline="top", dy=2, align="right" if narrow else "center", dx=-4 if narrow else 0)
        .encode(x=x("phase_at"), y=alt.value(0), text="phase:N")
        for narrow in (True, False)
    ]
    peak = canvas().transform_filter("isValid(datum.peak_at)")
    rule = peak.mark_rule(color=CLAIM, strokeDash=[5, 3], strokeWidth=2).encode(x=x("peak_at"))
    ring = peak.mark_point(size=130, color=CLAIM, strokeWidth=2.5).encode(x=x("peak_at"), y=y("peak"))
    labels = [
        peak.transform_filter(f"{'' if early else '!'}datum.early")
        .mark_text(align="left" if early else "right", dx=10 if early else -10, dy=-9, fontWeight="bold")
        .encode(x=x("peak_at"), y=y("peak"), text="label:N")
        for early in (True, False)
    ]
    points = canvas().transform_filter("isValid(datum.measured)").mark_point(filled=True, size=26, color=CLAIM)
    points = points.encode(x=x("measured_at"), y=y("measured"))
    return alt.layer(areas, begins, *phases, rule, ring, points, *labels, hover).properties(height=120, padding=PADDING)


def held(bars: Mapping[str, StepMemory], capacity: tuple[int, str] | None = None) -> None:
    """Bytes at the peak by category, a bar for each step; where the memory of a device of that name ends."""
    totals = {name: step.peak_bytes for name, step in bars.items()}
    divide, unit = scaled_unit(max([*totals.values(), *([capacity[0]] if capacity else [])]), "B")
    rows: list[dict[str, Any]] = []
    for name, step in bars.items():
        parts, moment = step.peak.highest, step.peak_moment
        rows += [
            {"step": name, "category": shown, "bytes": parts.get(key, 0) / divide, "order": order,
             "moment": moment, "exact": parts.get(key, 0)}
            for order, (key, shown) in enumerate(STACKED.items()) if parts.get(key)
        ]  # fmt: skip
        rows.append({"step": name, "end": totals[name] / divide, "label": units.si_bytes(totals[name])})
    alt_text = "; ".join(f"{name}: {units.si_bytes(total)}" for name, total in totals.items())
    alt_text = _("bytes at the peak: {words}").format(words=alt_text)
    if capacity is not None:
        rows.append({"capacity": capacity[0] / divide, "device": capacity[1]})
        alt_text += f"; {capacity[1]}: {units.si_bytes(capacity[0])}"
    high = 1.18 * max([*totals.values(), *([capacity[0]] if capacity else [])]) / divide
    present = tuple(name for key, name in NAMES.items() if any(step.peak.highest.get(key) for step in bars.values()))
    show(_draw_held, rows, unit, len(bars), present, alt_text=alt_text, high=high)


def _draw_held(unit: str, count: int, present: tuple[str, ...]) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False)
    axis = alt.Axis(tickCount=8, titlePadding=TITLE_PADDING)
    names = names_axis()
    names.labelOverlap = False
    y = alt.Y("step:N", sort=None, title=None, axis=names)
    x = alt.X("bytes:Q", title=_("held at the peak ({unit})").format(unit=unit), scale=scale, axis=axis)
    tip = [alt.Tooltip("category:N"), alt.Tooltip("exact:Q", title=_("bytes"), format=","), "moment:N"]
    legend = alt.Legend(title=None, orient="right", rowPadding=0, values=list(present))
    bars = canvas().transform_filter("isValid(datum.category)").mark_bar(height=14)
    bars = bars.encode(x=x.stack("zero"), y=y, color=_color(legend), order="order:O", tooltip=tip)
    ends = canvas().transform_filter("isValid(datum.end)").mark_text(align="left", dx=6)
    ends = ends.encode(x=alt.X("end:Q", scale=scale), y=y, text="label:N")
    line = canvas().transform_filter("isValid(datum.capacity)")
    rule = line.mark_rule(color="#D55E00", strokeWidth=2.5, strokeDash=[6, 3])
    rule = rule.encode(x=alt.X("capacity:Q", scale=scale), tooltip="device:N")
    named = line.mark_text(align="right", baseline="bottom", dy=-3, color="#D55E00")
    named = named.encode(x=alt.X("capacity:Q", scale=scale), y=alt.value(0), text="device:N")
    return alt.layer(bars, ends, rule, named).properties(height=20 * count, padding=PADDING)


def by_batch(line: PeakLine, largest: int, capacity_bytes: int, device: str) -> None:
    """The peak against the batch, a·B + b; the device's memory, and the largest batch that stays below it."""
    divide, unit = scaled_unit(capacity_bytes, "B")
    per_sequence, constant = line.bytes_per_sequence, line.constant_bytes
    last = max(4, round(1.7 * largest))
    marks = sorted({1, *(round(last * part / 12) for part in range(1, 13)), max(1, largest)})
    rows: list[dict[str, Any]] = [
        {"batch": batch, "peak": (per_sequence * batch + constant) / divide, "fits": batch <= largest,
         "label": f"B = {batch:,}" if batch == largest else ""}
        for batch in marks
    ]  # fmt: skip
    rows.append({"constant": constant / divide, "name": _("b")})
    rows.append({"capacity": capacity_bytes / divide, "name": device})
    alt_text = _("peak against the batch: {a} a sequence and {b}; {device} holds {batch:,}").format(
        a=units.si_bytes(per_sequence), b=units.si_bytes(constant), device=device, batch=largest
    )
    show(_draw_by_batch, rows, unit, alt_text=alt_text, last=last)


def _draw_by_batch(unit: str) -> Any:
    import altair as alt

    axis = alt.Axis(titlePadding=TITLE_PADDING, format=",d", tickMinStep=1, tickCount=10)
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("last"), nice=False)
    x = alt.X("batch:Q", title=_("batch B; hollow: fits, crossed: does not"), scale=scale, axis=axis)
    title = _("peak ({unit})").format(unit=unit)
    y = alt.Y("peak:Q", title=title, scale=alt.Scale(domainMin=0, nice=False))
    base = canvas().transform_filter("isValid(datum.batch)").encode(x=x, y=y)
    tip = [alt.Tooltip("batch:Q", format=","), alt.Tooltip("peak:Q", title=title, format=".4g")]
    line = base.mark_line(color=CLAIM, strokeDash=[6, 4])
    fits = base.transform_filter("datum.fits").mark_point(size=70, color=CLAIM, strokeWidth=2).encode(tooltip=tip)
    not_fits = base.transform_filter("!datum.fits").mark_point(shape="cross", angle=45, size=80, color="#D55E00")
    labels = base.mark_text(align="left", dx=9, dy=9, fontWeight="bold").encode(text="label:N")
    rules = []
    for field, color in (("capacity", "#D55E00"), ("constant", INK)):
        at = canvas().transform_filter(f"isValid(datum.{field})").encode(y=alt.Y(f"{field}:Q", title=title))
        rules.append(at.mark_rule(color=color, strokeWidth=2, strokeDash=[6, 3]))
        named = at.mark_text(align="left", baseline="bottom", dx=6, dy=-3, color=color)
        rules.append(named.encode(x=alt.value(0), text="name:N"))
    return alt.layer(*rules, line, fits, not_fits.encode(tooltip=tip), labels).properties(height=110, padding=PADDING)


def by_checkpoint(choices: Sequence[Checkpointing], num_layers: int, chosen: int | None) -> None:
    """The peak for every k, and without checkpoints; the best ringed, the square root of the depth marked."""
    every = {one.every: one for one in choices if one.every is not None}
    without = next(one for one in choices if one.every is None)
    best = min(every, key=lambda k: every[k].peak_bytes)
    divide, unit = scaled_unit(max(one.peak_bytes for one in choices), "B")
    rows: list[dict[str, Any]] = [
        {"k": k, "peak": one.peak_bytes / divide, "best": k == best, "chosen": k == chosen, "exact": one.peak_bytes,
         "kept": one.activation_bytes,
         "label": _("k = {k}: {peak}").format(k=k, peak=units.si_bytes(one.peak_bytes)) if k == best else ""}
        for k, one in every.items()
    ]  # fmt: skip
    rows.append({"root": num_layers**0.5, "name": f"√{num_layers}"})
    rows.append({"without": without.peak_bytes / divide, "name": _("no checkpoints")})
    words = "; ".join(f"k = {k}: {units.si_bytes(one.peak_bytes)}" for k, one in every.items())
    alt_text = _("peak by checkpointing every k: {words}; without {without}").format(
        words=words, without=units.si_bytes(without.peak_bytes)
    )
    show(_draw_by_checkpoint, rows, unit, alt_text=alt_text)


def _draw_by_checkpoint(unit: str) -> Any:
    import altair as alt

    axis = alt.Axis(titlePadding=TITLE_PADDING, format=",d")
    scale = alt.Scale(type="log", nice=False, padding=12)
    x = alt.X("k:Q", title=_("blocks between checkpoints k (log)"), scale=scale, axis=axis)
    title = _("peak ({unit})").format(unit=unit)
    y = alt.Y("peak:Q", title=title, scale=alt.Scale(domainMin=0, nice=False))
    tip = [alt.Tooltip("k:Q"), alt.Tooltip("exact:Q", title=_("bytes"), format=","),
           alt.Tooltip("kept:Q", title=_("kept for backward"), format=",")]  # fmt: skip
    base = canvas().transform_filter("isValid(datum.k)").encode(x=x, y=y, tooltip=tip)
    line = base.mark_line(color=CLAIM, strokeDash=[6, 4])
    points = base.mark_point(size=60, color=CLAIM, strokeWidth=2)
    best = base.transform_filter("datum.best").mark_point(size=260, color="#009E73", strokeWidth=2.5)
    chosen = base.transform_filter("datum.chosen").mark_point(size=60, color=CLAIM, filled=True)
    labels = base.mark_text(dy=18, fontWeight="bold").encode(text="label:N")
    root = canvas().transform_filter("isValid(datum.root)").encode(x=alt.X("root:Q", scale=scale))
    rule = root.mark_rule(color=INK, strokeDash=[3, 3])
    name = root.mark_text(baseline="top", align="left", dx=5).encode(y=alt.value(0), text="name:N")
    without = canvas().transform_filter("isValid(datum.without)").encode(y=alt.Y("without:Q", title=title))
    level = without.mark_rule(color="#D55E00", strokeWidth=2, strokeDash=[6, 3])
    said = without.mark_text(align="right", baseline="bottom", dx=-4, dy=-3, color="#D55E00")
    said = said.encode(x=alt.value("width"), text="name:N")
    return alt.layer(level, said, rule, name, line, points, chosen, best, labels).properties(height=98, padding=PADDING)


def rules(rows_of: Sequence[tuple[str, float, float]], both: Comparison) -> None:
    """Each rule of thumb hollow beside the exact bytes of what it speaks of, solid, with the factor between them."""
    assert both.prediction.value is not None
    rows_of = [*rows_of, (_("both, against the peak"), both.prediction.value, both.measurement.value)]
    divide, unit = scaled_unit(max(max(rule, exact) for _name, rule, exact in rows_of), "B")
    rows: list[dict[str, Any]] = [
        {"rule": name, "napkin": rule / divide, "exact": exact / divide, "end": max(rule, exact) / divide,
         "label": f"{units.si_bytes(rule)} · {units.factor(rule / exact)}", "bytes": exact}
        for name, rule, exact in rows_of
    ]  # fmt: skip
    words = "; ".join(f"{row['rule']}: {row['label']}" for row in rows)
    alt_text = _("rules of thumb, and how many times the exact bytes they are: {words}").format(words=words)
    show(_draw_rules, rows, unit, len(rows), alt_text=alt_text, high=1.3 * max(row["end"] for row in rows))


def _draw_rules(unit: str, count: int) -> Any:
    import altair as alt

    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("high"), nice=False)
    title = _("bytes ({unit}); hollow: the rule, solid: exactly").format(unit=unit)
    x = alt.X("exact:Q", title=title, scale=scale, axis=alt.Axis(tickCount=8, titlePadding=TITLE_PADDING))
    base = canvas().encode(y=alt.Y("rule:N", sort=None, title=None, axis=names_axis()))
    tip = [alt.Tooltip("rule:N"), alt.Tooltip("bytes:Q", title=_("exactly"), format=","), alt.Tooltip("label:N")]
    solid = base.mark_bar(color=CLAIM, height=11).encode(x=x, tooltip=tip)
    hollow = base.mark_bar(filled=False, stroke=CLAIM, strokeWidth=2, height=19).encode(x="napkin:Q", tooltip=tip)
    labels = base.mark_text(align="left", dx=6).encode(x="end:Q", text="label:N")
    return alt.layer(hollow, solid, labels).properties(height=30 * count, padding=PADDING)
