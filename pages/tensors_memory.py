"""Tensors in memory: new tensors, bytes, views and storages, devices, moves (CS336 lecture 2, §4.1, §4.2, §5.1)."""

import streamlit as st

from core import dtypes
from core.words import _
from pages._ui import cards, code_view, dtypes_memory, frame, inputs
from pages._ui.scripts import tensors_memory as scripts

lessons = code_view.Lessons("dtypes")

LARGEST_LESSON = 2**20  # elements


@frame.section(_("What is in a new tensor?"), _("Create"), needs_torch=True)
def create() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        way = inputs.choice(_("Made by"), "tm_way", dtypes.CREATED, default="randn")
        rows = inputs.whole_number(_("Rows"), "tm_rows", 64, 1, dtypes.MAX_ROWS, width=120)
        columns = inputs.whole_number(_("Columns"), "tm_columns", 64, 1, dtypes.MAX_ROWS, width=120)
        cut = 2.0
        if way == "trunc_normal_":
            cut = inputs.real_number(_("Cut at ±"), "tm_cut", 2.0, 0.1, 10.0, step=0.5, format="%g", width=120)
    made = dtypes.create(way, rows, columns, cut)
    prediction, comparison = dtypes.compare_created(made, cut)
    script = scripts.new_tensor(way, rows, columns, cut)
    waiting = dtypes_memory.what_empty_held(made) if comparison is None else ""
    if not cards.predict_measure_explain(
        f"tm_{way}", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    dtypes_memory.corner(made)
    if rows * columns <= LARGEST_LESSON:
        code_view.lesson("new_tensors", lessons.new_tensors, rows=rows, columns=columns)


@frame.section(_("How many bytes is a tensor?"), _("Bytes"), needs_torch=True)
def size() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = inputs.text(_("Shape"), "tm_shape", "49152, 12288", dtypes.MAX_SHAPE_CHARS, width=260)
        dtype = inputs.select(_("dtype"), "tm_dtype", dtypes.STORED, dtypes_memory.label_of, "fp32")
        inputs.presets(dtypes_memory.SHAPES)
    shape = dtypes.parse_shape(text)
    comparison = dtypes.compare_tensor_bytes(shape, dtype)
    script = scripts.bytes_of(shape, dtype)
    if not cards.predict_measure_explain("tm_bytes", comparison.prediction, comparison, script=script, draw=False):
        return
    dtypes_memory.units_table(int(comparison.measurement.value))
    name = dtypes.FORMATS[dtype].torch_name
    if name:
        code_view.lesson("tensor_memory", lessons.tensor_memory, shape=shape, dtype=name)


@frame.section(_("Is a view's size its memory?"), _("Views"), needs_torch=True)
def views() -> None:
    claims = {one.code: one for one in dtypes.view_claims()}
    chosen = inputs.select(_("x = torch.zeros(1000, 1000), and then"), "tm_view", list(claims), default="x[0, :10]")
    comparison = dtypes.compare_claim(claims[chosen])
    labels = dtypes_memory.CLAIM_LABELS
    script = scripts.view_claim(list(claims).index(chosen))
    if not cards.predict_measure_explain(
        "tm_view", comparison.prediction, comparison, script=script, labels=labels, draw=False
    ):
        return
    dtypes_memory.claim_table(list(claims.values()), chosen)


@frame.section(_("What does a device's memory say?"), _("Device"), needs_torch=True)
def device() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = inputs.text(_("Shape of each"), "tm_each", "32, 32", dtypes.MAX_SHAPE_CHARS, width=200)
        count = inputs.whole_number(_("Tensors"), "tm_count", 2, 1, dtypes.MAX_TENSORS, width=120)
        dtype = inputs.select(_("dtype"), "tm_each_dtype", dtypes.STORED, dtypes_memory.label_of, "fp32")
        chosen = dtypes_memory.choose_device()
    shape = dtypes.parse_shape(text)
    done = dtypes_memory.memory_taken(shape, dtype, count, chosen)
    if done is None:
        return
    comparison = dtypes.compare_device_memory(done)
    script = scripts.device_memory(shape, dtype, count, chosen.id)
    if not cards.predict_measure_explain("tm_device", comparison.prediction, comparison, script=script, draw=False):
        return
    dtypes_memory.on_a_gpu(done)
    if len(shape) == 2 and shape[0] * shape[1] * count <= LARGEST_LESSON and dtype == "fp32":
        code_view.lesson("two_matrices", lessons.two_matrices, rows=shape[0], columns=shape[1], count=count)


@frame.section(_("What does moving a tensor cost?"), _("Move"), needs_torch=True)
def move() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kib = inputs.whole_number(_("KiB to move"), "tm_kib", 16384, 1, dtypes.MAX_MEASURED_BYTES // 1024, width=160)
        chosen = dtypes_memory.choose_device()
    moved = dtypes_memory.moved(kib * 1024, chosen)
    if moved is None:
        return
    script = scripts.move(kib * 1024, chosen.id, moved.bytes_per_sec)
    if not cards.predict_measure_explain(
        "tm_move", moved.prediction, moved.comparison, script=script, waiting=_("press Measure")
    ):
        return


frame.page("tensors_memory", _("Tensors in memory"), [create, size, views, device, move])
