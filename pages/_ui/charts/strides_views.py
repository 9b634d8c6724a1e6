"""Tables, charts and frames of the page Strides & views."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import streamlit as st

from core import strides, units
from core.claims import Comparison
from core.hardware import Calibration
from core.strides import Layout, MatmulShapes, Ran, Step
from core.words import _
from pages._ui import markup
from pages._ui.charts import CLAIM, canvas, names_axis, scaled_unit, show, show_difference
from pages._ui.strides_cells import numbers

_BOX = "border-radius:.4rem;padding:0 .45rem;font-weight:600;border:2px solid var(--claim);"
_PREDICTED, _RAN = f"{_BOX}color:var(--claim)", f"{_BOX}background:var(--claim);color:var(--on-claim)"


def chain_table(shape: Sequence[int], steps: Sequence[Step], ran: Sequence[Ran]) -> None:
    """Every tensor of a chain: layout, our answer from strides alone, torch's by storage pointer, bytes allocated."""
    head = ("", _("shape"), _("strides"), _("offset"), _("contiguous"), _("predicted"), _("torch"), _("allocated"))
    base = Layout.contiguous(shape)
    rows = [("x", *_layout_cells(base, base.is_contiguous), "", "", units.binary_bytes(base.storage_bytes))]
    for step, one in zip(steps, ran, strict=True):
        predicted = f'<span style="{_PREDICTED}">{kind_name(step.kind)}</span>'
        truth = f'<span style="{_RAN}">{kind_name(one.kind)}</span>'
        code = step.operation.text if step.operation.name == "index" else f".{step.operation.text}"
        layout = _layout_cells(one.layout, one.contiguous) if one.layout is not None else ("", "", "", "")
        rows.append((code, *layout, predicted, truth, units.binary_bytes(one.allocated_bytes)))
    _table(head, rows, _("the tensors of the chain"), raw=(5, 6))


def kind_name(kind: str) -> str:
    """View, copy or error, in the page's language."""
    return {"view": _("view"), "copy": _("copy"), "error": _("error")}[kind]


def _layout_cells(layout: Layout, contiguous: bool) -> tuple[str, str, str, str]:
    return numbers(layout.shape), numbers(layout.strides), str(layout.offset), _("yes") if contiguous else _("no")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], label: str, raw: tuple[int, ...] = ()) -> None:
    """A table; the columns ``raw`` hold HTML of ours, all others text."""
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{cell if at in raw else escape(cell)}</td>' for at, cell in enumerate(row))}</tr>"
        for row in rows
    )
    _show_table(f"<tr>{top}</tr>{lines}", label)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], label: str, *, sentences: bool = False) -> None:
    """A table of texts; the last column may hold sentences, which are broken into lines."""
    last = ' class="np-note"' if sentences else ""
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row[:-1])}<td{last}>{escape(row[-1])}</td></tr>"
        for row in rows
    )
    _show_table(f"<tr>{top}</tr>{lines}", label)


def _show_table(body: str, label: str) -> None:
    markup.show(
        f'<div class="np-scroll" role="region" aria-label="{escape(label)}" tabindex="0">'
        f'<table class="np-why np-wide">{body}</table></div>'
    )


def verdict(step: Step, ran: Ran) -> None:
    """Why the last step is what it is, and torch's own message where it refused."""
    _sentence(f"{step.operation.text}: {kind_name(step.kind)}", step.reason, ran.error)


def backwards(tried: strides.NegativeStrides) -> None:
    """What numpy does, and torch's three answers."""
    head = ("", _("strides"), _("what happens"))
    refused = _("refused: “{message}”")
    copied = _("a copy: {bytes} B").format(bytes=tried.flip_allocated_bytes)
    rows = [
        ("numpy: x[::-1]", numbers(tried.numpy_strides), _("a view of the same storage, from its end")),
        ("torch: x[::-1]", "", refused.format(message=tried.slice_error)),
        ("torch.from_numpy(x[::-1])", "", refused.format(message=tried.from_numpy_error)),
        ("torch: x.flip(0)", numbers(tried.flip_strides), copied),
    ]
    table(head, rows, _("walking backwards"), sentences=True)


def _sentence(what: str, reason: str, said: str) -> None:
    quiet = f'<div class="np-quiet">{escape(_("torch: “{message}”").format(message=said))}</div>' if said else ""
    text = f"<b>{escape(what)}</b>. {escape(_capital(reason))}"
    markup.show(f'<div style="max-width:62rem;line-height:1.4">{text}{quiet}</div>')


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def dimensions(layout: Layout, broken: tuple[int, int] | None) -> None:
    """The dimensions side by side, those that merge in one frame; between two frames, what keeps them apart."""
    parts = []
    runs = strides.merged_runs(layout.shape, layout.strides)
    for at, run in enumerate(runs):
        if at:
            outer, inner = _pair(layout, runs, at)
            needed = layout.shape[inner] * layout.strides[inner]
            message = _("{have} ≠ {size} · {stride} = {needed}").format(
                have=layout.strides[outer], size=layout.shape[inner], stride=layout.strides[inner], needed=needed
            )
            color = "var(--warn)" if broken == (outer, inner) else "var(--quiet)"
            parts.append(f'<div style="color:{color};font-weight:600;padding:0 .3rem">{escape(message)}</div>')
        boxes = "".join(_dimension(layout, d) for d in run)
        parts.append(f'<div style="display:flex;gap:.3rem;border:2px solid var(--claim);{_ROUND}">{boxes}</div>')
    told = _("A frame holds the dimensions that merge: each outer stride is the inner size · the inner stride.")
    markup.show(
        f'<div style="display:flex;flex-wrap:wrap;gap:.5rem;align-items:center">{"".join(parts)}</div>'
        f'<p class="np-legend">{escape(told)}</p>'
    )


def _pair(layout: Layout, runs: Sequence[Sequence[int]], at: int) -> tuple[int, int]:
    """The last dimension of a frame and the first of the next, sizes of 1 left out."""
    outer = next((d for d in reversed(runs[at - 1]) if layout.shape[d] != 1), runs[at - 1][-1])
    return outer, next((d for d in runs[at] if layout.shape[d] != 1), runs[at][0])


def _dimension(layout: Layout, d: int) -> str:
    message = _("size {size}, stride {stride}").format(size=layout.shape[d], stride=layout.strides[d])
    name = _("dimension {d}").format(d=d)
    return f'<div style="padding:.2rem .6rem"><b>{escape(name)}</b><br>{escape(message)}</div>'


_ROUND = "border-radius:.5rem;font-size:.92rem;line-height:1.35"


# Cost


def costs(run: strides.CostRun, calibration: Calibration, explained: Comparison) -> None:
    """What one case's difference is made of, beside every case's time on a logarithmic axis; a view moves no byte."""
    left, right = st.columns(2)
    with left:
        show_difference(explained)
    with right:
        _all_costs(run, calibration)


def _all_costs(run: strides.CostRun, calibration: Calibration) -> None:
    """Predicted hollow, measured solid."""
    divide, unit = scaled_unit(max(one.value for one in run.times.values()), "s")
    rows: list[dict[str, Any]] = []
    words = []
    for name, time in run.times.items():
        code, predicted = strides.CASES[name].code, strides.predict_cost(name, run.n, calibration.bytes_per_sec)
        if predicted.value:
            rows.append({"code": code, "kind": _("predicted"), "time": predicted.value / divide, "label": ""})
        rows.append({"code": code, "kind": _("measured"), "time": time.value / divide, "label": time.text})
        message = _("{code}: predicted {predicted}, measured {measured}")
        words.append(message.format(code=code, predicted=predicted.text, measured=time.text))
    shown = [row["time"] for row in rows]
    show(_draw_costs, rows, unit, alt_text="; ".join(words), low=min(shown) / 2, high=8 * max(shown))


def _draw_costs(unit: str) -> Any:
    import altair as alt

    low, high = alt.ExprRef("low"), alt.ExprRef("high")
    scale = alt.Scale(type="log", nice=False, domainMin=low, domainMax=high)
    axis = alt.Axis(tickCount=5, format="~g")
    base = canvas().encode(
        x=alt.X("time:Q", title=_("time ({unit}, log)").format(unit=unit), scale=scale, axis=axis),
        y=alt.Y("code:N", sort=None, title=None, axis=names_axis()),
        tooltip=[alt.Tooltip("code:N"), alt.Tooltip("kind:N"), alt.Tooltip("time:Q", format=".4g", title=unit)],
    )
    hollow = base.transform_filter(alt.datum.kind == _("predicted")).mark_point(
        color=CLAIM, size=130, strokeWidth=2, opacity=1
    )
    measured = base.transform_filter(alt.datum.kind == _("measured"))
    solid = measured.mark_point(color=CLAIM, filled=True, size=130, opacity=1)
    labels = measured.mark_text(align="left", dx=10).encode(text="label:N")
    return alt.layer(hollow, solid, labels).properties(height=alt.Step(26))


# Matmul


def alignment(shapes: MatmulShapes) -> None:
    """Both shapes under each other, aligned on the right, and what becomes of each pair; contracted sizes stand out."""
    contracted = _PREDICTED if shapes.k_a == shapes.k_b else f"{_BOX}border-color:var(--warn);color:var(--warn)"
    k_a, k_b = (f'<span style="{contracted}">{_size(k)}</span>' for k in (shapes.k_a, shapes.k_b))
    fits = not shapes.error or shapes.k_a != shapes.k_b
    result = [_size(one.result, "✗") for one in shapes.batch]
    result += [_size(shapes.m), _size(shapes.n)] if not shapes.error else ["✗", "✗"] if fits else ["", ""]
    rows = [
        ("a", *[_size(one.a) for one in shapes.batch], _size(shapes.m), k_a),
        ("b", *[_size(one.b) for one in shapes.batch], k_b, _size(shapes.n)),
        ("a @ b", *result),
        ("", *map(_fate, shapes.batch), _("rows of a"), _("columns of b")),
    ]
    head = ["", *[_("batch")] * len(shapes.batch), _("matrix"), _("matrix")]
    # Every cell is a number or a word of ours.
    _table(head, rows, _("which dimensions broadcast, and which are contracted"), raw=tuple(range(len(head))))


def _size(size: int | None, missing: str = "·") -> str:
    return missing if size is None else str(size)


def _fate(one: strides.BatchDim) -> str:
    if not one.fits:
        return _("do not fit")
    return {"a": _("a repeats"), "b": _("b repeats"), "": _("paired")}[one.repeats]


def shape_error(shapes: MatmulShapes) -> None:
    """Why the shapes do not multiply, and torch's own message."""
    said = strides.torch_matmul_shape(shapes.a, shapes.b)[1]
    _sentence(_("error"), shapes.error, said)
