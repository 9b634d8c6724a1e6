"""Controls, cells and tables that the sections of the einops page share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TypeVar

import streamlit as st

from core import named_dims, units
from core.claims import Comparison
from core.named_dims import Explanation, PatternError, Step
from core.words import _
from pages._ui import cards, inputs, markup, prose, tables
from pages._ui.cells import HUES
from pages._ui.einops_cells import axes_text, shape_text

Shape = tuple[int, ...]
T = TypeVar("T")

ONE_TENSOR = [one for one in named_dims.OPERATIONS if one != "einsum"]
HEADS = {"en_op": "rearrange", "en_pattern": "... (heads d) -> ... heads d", "en_shape": "(2, 3, 8)",
         "en_sizes": "heads=2"}  # fmt: skip
PRESETS = {
    _("heads (lecture)"): HEADS,
    _("heads merged"): {"en_op": "rearrange", "en_pattern": "... heads d -> ... (heads d)", "en_shape": "(2, 3, 2, 4)",
                        "en_sizes": ""},
    _("patches"): {"en_op": "rearrange", "en_pattern": "(h p1) (w p2) c -> (h w) (p1 p2 c)", "en_shape": "(4, 6, 2)",
                   "en_sizes": "p1=2 p2=2"},
    _("pixel shuffle"): {"en_op": "rearrange", "en_pattern": "(c r1 r2) h w -> c (h r1) (w r2)",
                         "en_shape": "(4, 3, 4)", "en_sizes": "r1=2 r2=2"},
    _("max pooling"): {"en_op": "max", "en_pattern": "(h 2) (w 2) -> h w", "en_shape": "(4, 8)", "en_sizes": ""},
    _("mean"): {"en_op": "mean", "en_pattern": "batch seq hidden -> batch hidden", "en_shape": "(2, 3, 4)",
                "en_sizes": ""},
    _("repeat"): {"en_op": "repeat", "en_pattern": "h w -> (h 2) (w r)", "en_shape": "(2, 3)", "en_sizes": "r=3"},
}  # fmt: skip
EINSUM_PRESETS = {
    _("scores (lecture)"): {"en_einsum": "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2",
                            "en_shapes": "(2, 3, 4), (2, 3, 4)"},
    _("any batch (lecture)"): {"en_einsum": "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2",
                               "en_shapes": "(2, 3, 4), (2, 3, 4)"},
    _("attention"): {"en_einsum": "head q d, head k d -> q head k", "en_shapes": "(2, 3, 4), (2, 5, 4)"},
    _("three factors"): {"en_einsum": "a b, b c, c d -> a d", "en_shapes": "(8, 2), (2, 9), (9, 2)"},
    _("outer product"): {"en_einsum": "i, j -> i j", "en_shapes": "(4), (5)"},
    _("trace"): {"en_einsum": "i i ->", "en_shapes": "(4, 4)"},
}  # fmt: skip
STORAGE_PRESETS = {
    _("heads"): HEADS,
    _("transpose"): {"en_op": "rearrange", "en_pattern": "a b c -> c a b", "en_shape": "(2, 3, 4)",
                             "en_sizes": ""},
    _("transpose, merge"): {"en_op": "rearrange", "en_pattern": "b seq heads d -> b heads (seq d)",
                          "en_shape": "(2, 3, 2, 4)", "en_sizes": ""},
    _("repeat, new axis"): {"en_op": "repeat", "en_pattern": "h w -> h w c", "en_shape": "(30, 40)", "en_sizes": "c=3"},
    _("repeat, merge"): {"en_op": "repeat", "en_pattern": "h w -> h (w c)", "en_shape": "(30, 40)",
                          "en_sizes": "c=3"},
}  # fmt: skip


def operation_controls() -> tuple[str, str, str, str]:
    """Operation, pattern, shape and sizes, shared by the sections of this page; the lecture's heads at first."""
    with st.container(horizontal=True):
        operation = inputs.select(_("Operation"), "en_op", ONE_TENSOR)
        pattern = inputs.text(_("Pattern"), "en_pattern", HEADS["en_pattern"], named_dims.MAX_PATTERN_CHARS, width=430)
        shape = inputs.text(_("Shape"), "en_shape", HEADS["en_shape"], named_dims.MAX_TEXT_CHARS, width=190)
        sizes = inputs.text(_("Sizes by name"), "en_sizes", HEADS["en_sizes"], named_dims.MAX_TEXT_CHARS, width=190)
    return operation, pattern, shape, sizes


def explained(operation: str, pattern: str, shapes_text: str, sizes_text: str = "") -> Explanation | None:
    """The operation explained; where it cannot be, the reason on screen, with its place in the pattern, and None."""
    read = tried(lambda: (named_dims.read_shapes(shapes_text), named_dims.read_sizes(sizes_text)))
    if read is None:
        return None
    shapes, sizes = read
    return tried(
        lambda: named_dims.explain(pattern, *shapes, operation_=operation, **sizes),
        lambda: named_dims.einops_says(operation, pattern, shapes, sizes),
    )


def tried(work: Callable[[], T], library: Callable[[], str] | None = None) -> T | None:
    """The work's result; None, and the refusal on screen, where it is refused. ``library`` has einops' own words."""
    try:
        return work()
    except ValueError as refused:
        if isinstance(refused, PatternError) and refused.end > refused.start:
            st.code(refused.marked, language=None)
        st.warning(prose.plain(str(refused)))
        said = library() if library is not None else ""
        if said:
            with st.expander(_("What einops says")):
                st.code(said, language=None, wrap_lines=True)
        return None


def card(key: str, comparison: Comparison, script: str) -> bool:
    """A card of counts."""
    return cards.predict_measure_explain(key, comparison.prediction, comparison, script=script, draw=False)


def code(done: Explanation) -> str:
    """The operation in plain torch, and whether what that gives is what einops gave."""
    agrees = named_dims.executed(done).agrees
    verdict = _("run on 0, 1, 2, …: equal to einops' result") if agrees else _("run on 0, 1, 2, …: NOT einops' result")
    return f"{done.code}\n# {verdict}"


# Axes


def axes_and_color(key: str, done: Explanation) -> str:
    """Every tensor as its axes, and beside them the choice of the axis whose index colours the cells; that axis."""
    sizes = dict(done.sizes)
    axes = [one for one in (*done.kept, *done.gone) if sizes[one] > 1 and "@" not in one]
    if len(axes) < 2:
        markup.show(axes_line(done))
        return axes[0] if axes else ""
    few = [one for one in axes if sizes[one] <= len(HUES) and not one.startswith(".")]
    label = _("cells coloured by")
    with st.container(horizontal=True, vertical_alignment="center"):
        told = f'{axes_line(done)}<span class="np-quiet">{label}</span>'
        markup.show(
            f'<div style="display:flex;flex-wrap:wrap;align-items:center;gap:0 1rem">{told}</div>', width="content"
        )
        return inputs.choice(label, key, axes, default=(few or axes)[0], label_visibility="collapsed")


def axes_line(done: Explanation) -> str:
    """Every tensor as its axes, each in its own colour: the inputs, an arrow, the output; what is gone, what is new."""
    hue = {key: HUES[index % len(HUES)] for index, (key, _size) in enumerate(done.sizes)}
    sizes = dict(done.sizes)
    tensors = [
        f"{name} {_dims(dims, hue, sizes)}" for name, dims in zip(named_dims.OPERAND_NAMES, done.inputs, strict=False)
    ]
    told = [(_("summed") if done.contraction else done.operation, done.gone), (_("repeated"), done.added)]
    words = "".join(f' <span class="np-quiet">{label}: {_and(keys)}</span>' for label, keys in told if keys)
    style = "line-height:2;font-size:.95rem"
    line = f"{' &nbsp; '.join(tensors)} &nbsp;→&nbsp; {_dims(done.output, hue, sizes)}{words}"
    return f'<div style="{style}">{line}</div>'


def _dims(dims: Sequence[tuple[str, ...]], hue: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """A tensor's dimensions, each a box with its axes; an axis is underlined in its colour."""
    boxes = []
    for keys in dims:
        axes = " ".join(
            f'<span style="border-bottom:3px solid {hue[key]}">{escape(named_dims.label(key))}'
            f"{'' if named_dims.label(key).isdecimal() else f'={sizes[key]}'}</span>"
            for key in keys
        )
        style = "border:1px solid var(--line);border-radius:.3rem;padding:.1rem .4rem;white-space:nowrap"
        boxes.append(f'<span style="{style}">{axes or 1}</span>')
    return " ".join(boxes) or _("one number")


def _and(keys: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(named_dims.label(key))}</code>" for key in keys)


# Steps


def storage_table(done: Explanation) -> None:
    """Every step with axes, shape and strides after it, view or copy, the bytes that it allocates, and why."""
    rows = [
        (step.code, axes_text(step.axes), shape_text(step.shape), _strides(step), _kind(step), _bytes(step), step.why)
        for step in done.steps
    ]
    if not rows:
        rows = [(_("nothing to do"), axes_text(done.output), shape_text(done.output_shape), "", _("view"), "0 B", "")]
    head = (_("torch"), _("axes after it"), _("shape"), _("strides"), "", _("new"), _("why"))
    tables.show(head, rows, _("where the elements lie after each step"), code=(0, 1), sentences=True)


def _strides(step: Step) -> str:
    return "" if step.strides is None else shape_text(step.strides)


def _kind(step: Step) -> str:
    return {True: _("view"), False: _("new"), None: _("by layout")}[step.is_view]


def _bytes(step: Step) -> str:
    return "" if step.is_view is None else units.si_bytes(step.new_bytes)


def order_table(done: Explanation) -> None:
    """The products in the order in which they are made: what is kept, what is summed, and their FLOPs."""
    assert done.contraction is not None
    rows = [
        (
            f"{one.left} · {one.right}",
            _names(one.axes),
            _names(one.summed),
            f"{one.result_elements:,}",
            f"{one.flops:,}",
        )
        for one in done.contraction.products
    ]
    if rows:
        head = (_("product"), _("keeps"), _("sums over"), _("elements"), _("FLOPs"))
        tables.show(head, rows, _("the products in their order"), code=(0, 1, 2))


def _names(keys: Sequence[str]) -> str:
    return ", ".join(named_dims.label(key) for key in keys) or "–"


# Controls of the other sections


def einsum_controls() -> tuple[str, str]:
    """Pattern and shapes of an einsum; the lecture's scores at first."""
    scores = next(iter(EINSUM_PRESETS.values()))
    with st.container(horizontal=True):
        pattern = inputs.text(_("Pattern"), "en_einsum", scores["en_einsum"], named_dims.MAX_PATTERN_CHARS)
        shapes = inputs.text(_("Shapes"), "en_shapes", scores["en_shapes"], named_dims.MAX_TEXT_CHARS, width=440)
    return pattern, shapes


def reduction_controls() -> tuple[str, str]:
    """Pattern and shape of a reduction; the lecture's at first."""
    with st.container(horizontal=True):
        pattern = inputs.text(_("Pattern"), "en_reduced", "... hidden -> ...", named_dims.MAX_PATTERN_CHARS)
        shape = inputs.text(_("Shape"), "en_reduced_shape", "(2, 3, 4)", named_dims.MAX_TEXT_CHARS, width=440)
    return pattern, shape


def order_controls() -> tuple[str, str, str, str]:
    """Two patterns, a shape and sizes; heads first and heads last at first."""
    fields = {
        "en_first": (_("Pattern"), "(heads d) -> heads d", "stretch"),
        "en_second": (_("Another"), "(d heads) -> heads d", "stretch"),
        "en_order_shape": (_("Shape"), "(8)", 180),
        "en_order_sizes": (_("Sizes by name"), "heads=2", 180),
    }
    with st.container(horizontal=True):
        values = [
            inputs.text(label, key, default, named_dims.MAX_PATTERN_CHARS, width=width)
            for key, (label, default, width) in fields.items()
        ]
    return values[0], values[1], values[2], values[3]
