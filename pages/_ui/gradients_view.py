"""Controls, cards and tables that the sections of Gradients share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from core import gradients, jobs, units
from core.gradients.compare import vector
from core.gradients.semantics import MAX_BACKWARDS
from core.words import _
from pages._ui import cards, inputs, jobs_view, machine, tables
from pages._ui.scripts import gradients as scripts

Vector = tuple[float, ...]
LECTURE_VECTORS = {"grad_x1": 1.0, "grad_x2": 2.0, "grad_x3": 3.0,
                   "grad_w1": 1.0, "grad_w2": 1.0, "grad_w3": 1.0, "grad_y": 5.0}  # fmt: skip
LECTURE_NETWORK = {"grad_b": 1024, "grad_d": 256, "grad_k": 64, "grad_layers": 1}
PRESETS = {
    _("lecture"): LECTURE_NETWORK,
    _("four layers"): {"grad_b": 256, "grad_d": 256, "grad_k": 64, "grad_layers": 4},
    _("one row"): {"grad_b": 1, "grad_d": 256, "grad_k": 64, "grad_layers": 1},
}


# ½(x·w − y)²


def vectors() -> tuple[Vector, Vector, float]:
    """x, w and y of the quadratic, shared by the sections of this page; the lecture's at first."""
    most = gradients.MAX_MAGNITUDE
    values = []
    for key, default in LECTURE_VECTORS.items():
        label = key.removeprefix("grad_").translate(str.maketrans("123", "₁₂₃"))
        values.append(inputs.real_number(label, key, default, -most, most, step=1.0, format="%g", width=100))
    return tuple(values[:3]), tuple(values[3:6]), values[6]


def graph_table(graph: gradients.Graph) -> None:
    """Every tensor: whether it is a leaf, what its .grad is, the same by hand, and why."""
    by_hand = {edge.source: edge.predicted for edge in graph.backward} | {"loss": (1.0,)}
    head = (_("tensor"), _("is_leaf"), _("requires_grad"), _("gradient by hand"), ".grad", _("why"))
    rows = [
        (node.name, str(node.is_leaf), str(node.requires_grad), vector(by_hand[node.name]), vector(node.grad), node.why)
        for node in graph.nodes
    ]
    tables.show(head, rows, _("which tensors have a .grad, and why"), sentences=True)


# Finite differences


# Accumulation and the other traces


@dataclass(frozen=True)
class Watched:
    """A trace, the values it ran with, and, where w.grad is a sum in the end, of how many gradients; and its script."""

    trace: gradients.Trace
    x: Vector
    w: Vector
    y: float
    summed: int | None = None
    script: str = ""


def watch() -> Watched:
    """The controls of a trace, and the trace that ran."""
    adding, clearing = _("no zero_grad()"), "zero_grad()"
    others: dict[str, Callable[..., gradients.Trace]] = {
        "retain_grad()": gradients.retain_grad,
        _("second backward()"): gradients.second_backward,
        "detach()": gradients.detach,
        "no_grad()": gradients.no_grad,
    }
    chosen = inputs.choice(_("Watch"), "grad_trace", [adding, clearing, *others], label_visibility="collapsed")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        x, w, y = vectors()
        if chosen == adding:
            times = inputs.whole_number(_("Backward passes"), "grad_times", 3, 1, MAX_BACKWARDS, width=150)
            script = scripts.accumulated_gradients(x, w, y, times)
            return Watched(_traced(gradients.accumulation, x, w, y, times), x, w, y, times, script)
        if chosen == clearing:
            to_none = inputs.switch("set_to_none", "grad_set_to_none", default=True)
            script = scripts.cleared_gradients(x, w, y, to_none)
            return Watched(_traced(gradients.zero_grad, to_none, x, w, y), x, w, y, 1, script)
    return Watched(_traced(others[chosen], x, w, y), x, w, y)


@functools.lru_cache(maxsize=128)
def _traced(function: Callable[..., gradients.Trace], *values: object) -> gradients.Trace:
    return function(*values)


def trace_table(trace: gradients.Trace) -> None:
    """Each step: what was done, what each name held after it, and what torch said where it refused."""
    head = ("", _("done"), *trace.columns, _("torch says"))
    rows = []
    for number, step in enumerate(trace.steps):
        held = {one.name: one.value for one in step.held}
        cells = [_held(held[name]) if name in held else "" for name in trace.columns]
        rows.append((str(number), step.action, *cells, step.error))
    if not any(step.error for step in trace.steps):
        head, rows = head[:-1], [row[:-1] for row in rows]
    tables.show(head, rows, trace.question, sentences=any(step.error for step in trace.steps))


def _held(value: object) -> str:
    return vector(value) if isinstance(value, tuple) else str(value)


# The two-layer network, and deeper ones


def network() -> tuple[int, int, int, int, bool]:
    """B, D, K, hidden layers, and whether x requires a gradient, shared by the sections of this page."""
    most = gradients.MAX_DIM
    fields = {"grad_b": ("B", most), "grad_d": ("D", most), "grad_k": ("K", most)}
    fields["grad_layers"] = (_("Hidden layers"), gradients.MAX_LAYERS)
    sizes = []
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for key, (label, high) in fields.items():
            sizes.append(inputs.whole_number(label, key, LECTURE_NETWORK[key], 1, high, width=150))
        inputs.presets(PRESETS)
        wanted = inputs.switch(_("x requires a gradient"), "grad_input")
    return sizes[0], sizes[1], sizes[2], sizes[3], wanted


def backward_in_words(forward: int, ratio: float, *, as_chosen: bool) -> str:
    """Backward beside forward, and whether the code below runs with the chosen sizes."""
    message = escape(_("Forward is {forward} FLOPs, so what autograd runs is {ratio} forward."))
    text = message.format(forward=f"<b>{forward:,}</b>", ratio=f"<b>{ratio:.4g}×</b>")
    note = _("The code below has one hidden layer and runs while you type: here with the lecture's sizes.")
    told = "" if as_chosen else f' <span class="np-quiet">{escape(note)}</span>'
    return cards.in_words(text + told)


def matmul_table(matmuls: Sequence[gradients.BackwardMatmul], width: int) -> None:
    """Every multiplication of backward: shapes, count, whether autograd runs it, and why."""
    rows = [
        (one.formula, f"{_shape(one.shapes[0])} @ {_shape(one.shapes[1])}", f"{one.flops:,}",
         _("runs") if one.runs else _("skipped"), one.why)
        for one in matmuls
    ]  # fmt: skip
    head = (_("multiplication"), _("shapes"), _("FLOPs"), "", _("why"))
    tables.show(head, rows, _("the matrix multiplications of the backward pass"), sentences=True, width=width)


def _shape(shape: tuple[int, int]) -> str:
    return f"({shape[0]:,}, {shape[1]:,})"


def measured_network() -> tuple[gradients.ForwardBackwardRun | None, str]:
    """The controls of the timing, its button, and the run made with these very settings; and its script."""
    b, d, k, layers, wanted = network()
    cores = machine.cores()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        threads = inputs.whole_number(_("Threads"), "grad_threads", cores, 1, cores, width=140)
        run = jobs_view.button_and_progress(
            "grad_timed", _("Measure"), gradients.measure_forward_backward, b, d, k, layers, wanted,
            check=lambda: gradients.check_forward_backward(b, d, k, layers, wanted),
            threads=threads, on_progress=jobs.report,
        )  # fmt: skip
    script = scripts.backward_time(b, d, k, layers, wanted, threads)
    if run is not None and run.settings == (b, d, k, layers, wanted, threads):
        return run, script
    if run is not None:
        st.caption(_("The settings have changed since the last measurement: measure again."))
    ratio = float(gradients.backward_ratio(d, k, wanted, layers))
    message = _(
        "Press Measure: forward is timed, and backward predicted from it by its FLOPs, {ratio} times forward's. "
        "It takes about ten seconds."
    )
    st.info(message.format(ratio=units.significant(ratio)))
    return None, script


def time_in_words(run: gradients.ForwardBackwardRun) -> str:
    """The ratio of FLOPs beside the ratio of times, and what a whole step takes."""
    message = _(
        "Backward has **{flops}** forward's FLOPs and took **{times}** forward's time. A whole step, with its graph "
        "built and freed, took {step}: {surplus} {more} than the two."
    )
    surplus = run.step_surplus_seconds
    return message.format(
        flops=units.factor(run.flop_ratio), times=units.factor(run.time_ratio), step=run.step.text,
        surplus=units.seconds(abs(surplus)), more=_("more") if surplus >= 0 else _("less"),
    )  # fmt: skip


LABELS_COUNT = cards.Labels(
    predicted=_("The lecture's count"), measured=_("torch's own count"), ratio=_("torch's count over the lecture's")
)
