"""The lecture's stops, in its order, each with the page and section that shows it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.words import _

PAGES = Path(__file__).resolve().parent.parent

EDITION = "2026"  # what the later edition of the lecture added

# Section of the lecture, what happens there, page, and the label of the section that shows it.
STOPS = (
    ("2", _("Days to train 70B parameters on 15T tokens"), "napkin", _("Training time")),
    ("2", _("The largest model on eight H100"), "napkin", _("Largest model")),
    ("4.1", _("Creating tensors"), "tensors_memory", _("Create")),
    ("4.2", _("Bytes of a tensor"), "tensors_memory", _("Bytes")),
    ("4.2", _("fp32, fp16, bf16, fp8, bit by bit"), "dtypes", _("Bits")),
    ("4.2", _("1e-8 in each format; the largest and the smallest"), "dtypes", _("Range")),
    ("2026", _("fp4 and block formats"), "dtypes", _("Blocks")),
    ("5.1", _("Devices, and memory before and after"), "tensors_memory", _("Device")),
    ("5.2", _("Storage and strides"), "strides_views", _("Storage")),
    ("5.2", _("Slices, views and copies"), "strides_views", _("Chain")),
    ("5.2", _("Elementwise operations, triu"), "strides_views", _("x²")),
    ("5.2", _("Matmul, and batches of it"), "strides_views", _("Matmul")),
    ("5.3", _("Named dimensions: rearrange, reduce, repeat"), "einops_playground", _("Pattern")),
    ("5.3", _("einsum"), "einops_playground", _("Einsum")),
    ("5.3", _("jaxtyping"), "einops_playground", _("jaxtyping")),
    ("5.4", _("FLOPs against FLOP/s; the scale of things"), "flops_mfu", _("Scale")),
    ("5.4", _("The linear model: 2·B·D·K"), "flops_mfu", _("Count")),
    ("5.4", _("Its time, its FLOP/s"), "flops_mfu", _("Measure")),
    ("5.4", _("Model FLOPs utilization"), "flops_mfu", _("MFU")),
    ("5.4", _("How the lecture times"), "flops_mfu", _("Timing")),
    ("2026", _("Arithmetic intensity and the roofline"), "flops_mfu", _("Roofline")),
    ("2", _("6·N·D, and what a Transformer really costs"), "transformer_flops", _("Components")),
    ("5.5", _("Gradients: leaf and non-leaf"), "gradients", _("Graph")),
    ("5.6", _("FLOPs of the backward pass"), "gradients", _("Backward")),
    ("6.1", _("Parameters and their initialization"), "initialization", _("Output")),
    ("6.2", _("The Cruncher"), "initialization", _("Parameters")),
    ("6.3", _("Randomness and seeds"), "training", _("Seeds")),
    ("6.4", _("Data loading"), "training", _("Data")),
    ("6.5", _("Optimizers"), "optimizers", _("Surface")),
    ("6.5", _("The memory of a step"), "optimizer_memory", _("Step")),
    ("6.6", _("The training loop"), "training", _("Run")),
    ("6.7", _("Checkpoints"), "training", _("Checkpoints")),
    ("6.8", _("Mixed precision"), "low_precision", _("Precision")),
)


def show() -> None:
    """Every stop in order; a link where its page is there."""
    columns = st.columns(2)
    half = (len(STOPS) + 1) // 2
    for index, (number, stop, page, section) in enumerate(STOPS):
        label = f"{'' if number == EDITION else '§'}{number} · {stop}"
        with columns[index // half]:
            if (PAGES / f"{page}.py").exists():
                query = {f"{page}_section": section} if section else {}
                st.page_link(f"pages/{page}.py", label=label, query_params=query)
            else:
                st.caption(label)
    if any(not (PAGES / f"{page}.py").exists() for _number, _stop, page, _label in STOPS):
        st.caption(_("Grey: not in this version yet."))
