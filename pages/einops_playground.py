"""The einops playground: named dimensions instead of numbered ones (CS336 lecture 2, §5.3)."""

import streamlit as st

from core import named_dims, units
from core.words import _
from pages._ui import code_view, einops_cells, einops_packing, einops_view, frame, inputs
from pages._ui.charts import einops_playground as einops_charts
from pages._ui.scripts import einops_playground as scripts

lessons = code_view.Lessons("einops_playground")


@frame.section(_("What does a pattern do?"), _("Pattern"), needs_torch=True)
def transform() -> None:
    inputs.presets(einops_view.PRESETS)
    done = einops_view.explained(*einops_view.operation_controls())
    if done is None:
        return
    script = scripts.transform(done.operation, done.pattern.text, done.shapes, dict(done.given))
    if not einops_view.card("elements", named_dims.compare_elements(done), script):
        return
    einops_cells.tensors("transform", done, einops_view.axes_and_color("en_color", done))
    st.code(einops_view.code(done), language="python")
    for note in done.notes:
        st.caption(note)
    code_view.lesson("heads", lessons.heads)


@frame.section(_("What does an einsum compute, and what does it cost?"), _("Einsum"), needs_torch=True)
def einsum() -> None:
    inputs.presets(einops_view.EINSUM_PRESETS)
    pattern, shapes = einops_view.einsum_controls()
    done = einops_view.explained("einsum", pattern, shapes)
    if done is None or done.contraction is None:
        return
    comparison = named_dims.compare_einsum_flops(done)
    if not einops_view.card("einsum_flops", comparison, scripts.einsum(pattern, done.shapes)):
        return
    color = einops_view.axes_and_color("en_einsum_color", done)
    if len(done.contraction.products) > 1:
        left, right = st.columns([1, 1])
        with left:
            einops_view.order_table(done)
        with right:
            einops_charts.orders(done.contraction)
    einops_cells.tensors("einsum", done, color)
    st.code(einops_view.code(done), language="python")
    for note in done.notes:
        st.caption(note)
    code_view.lesson("motivation", lessons.motivation)


@frame.section(_("Is the result a view or a copy?"), _("Views"), needs_torch=True)
def storage() -> None:
    inputs.presets(einops_view.STORAGE_PRESETS)
    done = einops_view.explained(*einops_view.operation_controls())
    if done is None:
        return
    script = scripts.storage(done.operation, done.pattern.text, done.shapes, dict(done.given))
    if not einops_view.card("storage", named_dims.compare_storage(done), script):
        return
    einops_view.storage_table(done)
    message = _("{flops:,} FLOPs; {read} read and {written} written by the steps that are not views.")
    st.caption(
        message.format(
            flops=done.flops, read=units.si_bytes(done.read_bytes), written=units.si_bytes(done.written_bytes)
        )
    )


@frame.section(_("Is it a mean or a sum?"), _("Reduce"), needs_torch=True)
def reduction() -> None:
    pattern, shapes = einops_view.reduction_controls()
    mean = einops_view.explained("mean", pattern, shapes)
    total = einops_view.explained("sum", pattern, shapes) if mean is not None else None
    if mean is None or total is None:
        return
    comparison = named_dims.compare_mean_and_sum(pattern, mean.shapes[0])
    if not einops_view.card("mean_and_sum", comparison, scripts.reduction(pattern, mean.shapes[0])):
        return
    einops_cells.mean_and_sum("reduction", mean, total)
    code_view.lesson("mean_and_sum", lessons.mean_and_sum)


@frame.section(_("Does the order inside parentheses matter?"), _("Order"), needs_torch=True)
def order() -> None:
    first, second, shapes, sizes = einops_view.order_controls()
    one = einops_view.explained("rearrange", first, shapes, sizes)
    other = einops_view.explained("rearrange", second, shapes, sizes) if one is not None else None
    if one is None or other is None:
        return
    comparison = named_dims.compare_orders(first, second, one.shapes[0], **dict(one.given))
    if not einops_view.card("orders", comparison, scripts.orders(first, second, one.shapes[0], dict(one.given))):
        return
    color = einops_view.axes_and_color("en_order_color", one)
    einops_cells.two_orders("orders", one, other, color)
    code_view.lesson("order_matters", lessons.order_matters)


@frame.section(_("How do tensors of different shapes go into one?"), _("Pack"), needs_torch=True)
def packing() -> None:
    chosen = inputs.choice(_("Function"), "en_packing", ["pack", "unpack", "parse_shape"], label_visibility="collapsed")
    {"pack": einops_packing.pack, "unpack": einops_packing.unpack, "parse_shape": einops_packing.parse_shape}[chosen]()


@frame.section(_("Who checks a shape annotation?"), _("jaxtyping"), needs_torch=True)
def annotations() -> None:
    name = inputs.choice(
        _("Function"), "en_example", list(named_dims.EXAMPLES), einops_packing.EXAMPLE_LABELS.__getitem__
    )
    example = named_dims.annotated_example(name)
    shapes = einops_packing.example_shapes(example)
    st.code(example.source, language="python")
    checked = named_dims.check_annotations(name, shapes)
    if einops_packing.guessed(name, shapes, checked):
        einops_packing.calls(checked, shapes)


frame.page("einops_playground", _("Einops"), [transform, einsum, storage, reduction, order, packing, annotations])
