"""Controls and tables that the sections of Strides & views share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core import jobs, strides, units
from core.hardware import Calibration
from core.strides import Layout, Operation
from core.words import _
from pages._ui import inputs, jobs_view, machine, strides_cells, strides_chain
from pages._ui.charts import strides_views as charts
from pages._ui.scripts import strides_views as scripts
from pages._ui.strides_chain import Chain

Shape = tuple[int, ...]
REFUSALS = {
    _("lecture"): {"strides_view_shape": "2, 3", "strides_view_order": "1, 0", "strides_view_new": "2, 3"},
    _("untouched"): {"strides_view_shape": "2, 3", "strides_view_order": "0, 1", "strides_view_new": "3, 2"},
    _("heads"): {
        "strides_view_shape": "2, 3, 2, 4",
        "strides_view_order": "0, 2, 1, 3",
        "strides_view_new": "2, 2, 12",
    },
    _("last to front"): {"strides_view_shape": "2, 3, 4", "strides_view_order": "2, 0, 1", "strides_view_new": "4, 6"},
}
BYTES = {
    _("10 of a million"): {"strides_bytes_shape": "1000000", "strides_bytes_chain": "x[:10]"},
    _("and cloned"): {"strides_bytes_shape": "1000000", "strides_bytes_chain": "x[:10].clone()"},
    _("one column"): {"strides_bytes_shape": "1000, 1000", "strides_bytes_chain": "x[:, 0]"},
    _("expand"): {"strides_bytes_shape": "1, 1000", "strides_bytes_chain": "x.expand(1000, 1000)"},
    _("windows"): {"strides_bytes_shape": "10000", "strides_bytes_chain": "x.unfold(0, 100, 1)"},
}
MATMULS = {
    _("lecture"): {"strides_a": "16, 32", "strides_b": "32, 2"},
    _("batched"): {"strides_a": "4, 8, 16, 32", "strides_b": "32, 2"},
    _("scores"): {"strides_a": "4, 8, 16, 32", "strides_b": "4, 8, 32, 16"},
    _("both repeat"): {"strides_a": "4, 1, 16, 32", "strides_b": "8, 32, 2"},
    _("vector"): {"strides_a": "4, 16, 32", "strides_b": "32"},
    _("error"): {"strides_a": "16, 32", "strides_b": "16, 32"},
}


# Pure, and some take 10 ms
compare_bytes = functools.lru_cache(maxsize=64)(strides.compare_bytes)
compare_place = functools.lru_cache(maxsize=64)(strides.compare_place)
compare_mask = functools.lru_cache(maxsize=64)(strides.compare_mask)
compare_matmul_flops = functools.lru_cache(maxsize=64)(strides.compare_matmul_flops)
triu_mask = functools.lru_cache(maxsize=64)(strides.triu_mask)


# A new tensor


def element() -> tuple[Shape, Shape]:
    """The shape of a new tensor and one of its elements; the lecture's at first."""
    with st.container(horizontal=True):
        shape = strides.parse_shape(inputs.text(_("Shape of x"), "strides_grid", "4, 4", 60, width=250))
        index = strides.parse_index(inputs.text(_("Element"), "strides_element", "1, 2", 60, width=250))
    strides.address_of(Layout.contiguous(shape), index)  # refused here, in words
    return shape, index


def pick_element(shape: Shape) -> None:
    """The drawing of a new tensor in which a click chooses the element."""
    index = strides.parse_index(st.session_state["strides_element"])
    drawn = strides_cells.draw(shape, (), 0)

    def pick(name: str) -> None:
        found = drawn.places[int(name)].index or ()
        inputs.set_values(strides_element=", ".join(map(str, found)))

    strides_cells.tensor("strides_grid", shape, (), 0, drawn.layout.address(index), pick)


# When view refuses


def reordered() -> tuple[Chain, Shape]:
    """A tensor with its dimensions in another order, to be viewed in a new shape: the chain, and that shape."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shape = strides.parse_shape(inputs.text(_("Shape of x"), "strides_view_shape", "2, 3", 60, width=200))
        order = strides.parse_index(inputs.text(_("permute to"), "strides_view_order", "1, 0", 60, width=200))
        new = strides.parse_index(inputs.text(_("view as"), "strides_view_new", "2, 3", 60, width=200))
        inputs.presets(REFUSALS)
    made = strides_chain.run(shape, (Operation("permute", order), Operation("view", new)))
    if made.steps[0].after is None:
        raise ValueError(made.steps[0].reason)
    return made, new


# Writing


def element_to_write(made: Chain) -> strides.Write:
    """The tensor and the element to write to, and what the write did."""
    with st.container(horizontal=True):
        number = inputs.whole_number(_("Tensor (0 is x)"), "strides_to", 0, 0, strides.MAX_OPERATIONS, width=250)
        index = strides.parse_index(inputs.text(_("Element"), "strides_at", "0, 0", 60, width=250))
    return _written(made.shape, made.operations, number, tuple(index))


@functools.lru_cache(maxsize=64)
def _written(shape: Shape, operations: tuple[Operation, ...], number: int, index: tuple[int, ...]) -> strides.Write:
    """The write, once for all who ask for it: the tensors themselves are not kept."""
    return strides.write_through(shape, operations, number, index)


def pick_write(name: str) -> None:
    """A click on a cell writes there."""
    number, index = name.split(": ", 1)
    inputs.set_values(strides_to=int(number), strides_at=index)


# Bytes


def bytes_chain() -> tuple[Shape, tuple[Operation, ...], str]:
    """The shape and the chain whose bytes are counted, and the chain as text."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shape = strides.parse_shape(inputs.text(_("Shape of x"), "strides_bytes_shape", "1000000", 60, width=180))
        text = inputs.text(_("Chain"), "strides_bytes_chain", "x[:10]", strides.MAX_TEXT, width=370)
        inputs.presets(BYTES)
    operations = strides.parse_chain(text)
    return shape, operations, strides.format_chain(operations)


# Cost


@dataclass(frozen=True)
class Cost:
    """What the timing's controls say, the ceilings, and the run that was made with these very settings."""

    n: int
    name: str
    script: str
    calibration: Calibration | None = None
    run: strides.CostRun | None = None


def cost() -> Cost:
    """The controls of the timing and its button."""
    cores = machine.cores()
    names = [name for name in strides.CASES if name != "view"]
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        n = inputs.whole_number("n", "strides_n", 4096, 16, strides.MAX_N, step=16, width=130)
        threads = inputs.whole_number(_("Threads"), "strides_threads", cores, 1, cores, width=130)
        name = inputs.choice(
            _("Explain"), "strides_case", names, lambda one: strides.CASES[one].code, "transposed", wrap=True
        )
    chosen = Cost(n, name, scripts.cost(n, threads, name), machine.calibration(machine.devices()[0], threads))
    if chosen.calibration is None:
        return chosen
    with row:
        done = jobs_view.button_and_progress(
            "strides_cost", _("Measure"), strides.measure_cost, n,
            check=lambda: _check(n), threads=threads, on_progress=jobs.report,
        )  # fmt: skip
    if done is not None and done.settings != (n, threads):
        st.caption(_("The settings have changed since the last measurement: measure again."))
        done = None
    return replace(chosen, run=done)


def _check(n: int) -> None:
    strides.check_cost(n)


# Elementwise and matmul


def results(ran: strides.Elementwise) -> None:
    """Each operation with its result, where that lies, and what was allocated."""
    head = (_("operation"), _("result"), _("storage at"), _("x's storage"), _("allocated"))
    rows = [("x", _row(ran.values), hex(ran.storage_pointer), _("yes"), "")]
    for one in ran.applied:
        shares = _("yes") if one.shares_storage else _("no")
        size = units.binary_bytes(one.allocated_bytes)
        rows.append((one.expression, _row(one.values), hex(one.storage_pointer), shares, size))
    charts.table(head, rows, _("where each result lies"))


def _row(numbers: Sequence[float]) -> str:
    return ", ".join(map(strides_cells.number, numbers))


def operands() -> strides.MatmulShapes:
    """The two shapes that are multiplied."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        a = strides.parse_shape(inputs.text(_("Shape of a"), "strides_a", "4, 8, 16, 32", 60, width=250))
        b = strides.parse_shape(inputs.text(_("Shape of b"), "strides_b", "32, 2", 60, width=250))
        inputs.presets(MATMULS)
    return strides.explain_matmul(a, b)


def matmul_in_words(shapes: strides.MatmulShapes) -> str:
    """How many multiplications there are, and how often each operand's matrices are used."""
    message = _(
        "**{count:,}** multiplications of {left} by {right}, {k} being contracted. Each matrix of a takes part in "
        "{a:,} of them, each of b in {b:,}."
    )
    left = f"{1 if shapes.m is None else shapes.m} × {shapes.k_a}"
    right = f"{shapes.k_b} × {1 if shapes.n is None else shapes.n}"
    texts = {"left": left, "right": right, "k": shapes.k_a}
    return message.format(count=shapes.multiplications, a=shapes.a_uses, b=shapes.b_uses, **texts)
