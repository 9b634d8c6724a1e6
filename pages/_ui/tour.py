"""The lecture's stops, in its order, each with the page and section that shows it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.words import _

PAGES = Path(__file__).resolve().parent.parent

# Section of the lecture, what happens there, page, and the label of the section that shows it.
STOPS = (
    ("2", _("Days to train 70B parameters on 15T tokens"), "napkin", _("Training time")),
    ("2", _("The largest model on eight H100"), "napkin", _("Largest model")),
    ("4.1", _("Creating tensors"), "dtypes", ""),
    ("4.2", _("Bytes of a tensor; fp32, fp16, bf16, fp8"), "dtypes", ""),
    ("5.1", _("Devices, and memory before and after"), "dtypes", ""),
    ("5.2", _("Storage, strides, views, elementwise, matmul"), "strides_views", ""),
    ("5.3", _("Named dimensions: einsum, reduce, rearrange"), "einops_playground", ""),
    ("5.4", _("FLOPs against FLOP/s; the scale of things"), "flops_mfu", _("Scale")),
    ("5.4", _("The linear model: 2·B·D·K"), "flops_mfu", _("Count")),
    ("5.4", _("Its time, its FLOP/s"), "flops_mfu", _("Measure")),
    ("5.4", _("Model FLOPs utilization"), "flops_mfu", _("MFU")),
    ("5.4", _("How the lecture times"), "flops_mfu", _("Timing")),
    ("2026", _("Arithmetic intensity and the roofline"), "flops_mfu", _("Roofline")),
    ("2", _("6·N·D, and what a Transformer really costs"), "transformer_flops", _("Components")),
    ("5.5", _("Gradients: leaf and non-leaf"), "gradients", _("Graph")),
    ("5.6", _("FLOPs of the backward pass"), "gradients", _("Backward")),
    ("6.1", _("Parameters and their initialization"), "initialization", ""),
    ("6.2", _("The Cruncher"), "initialization", ""),
    ("6.3", _("Randomness and seeds"), "training", ""),
    ("6.4", _("Data loading"), "training", ""),
    ("6.5", _("Optimizers, and the memory of a step"), "optimizer_memory", ""),
    ("6.6", _("The training loop"), "training", ""),
    ("6.7", _("Checkpoints"), "training", ""),
    ("6.8", _("Mixed precision"), "training", ""),
)


def show() -> None:
    """Every stop in order; a link where its page is there."""
    columns = st.columns(2)
    half = (len(STOPS) + 1) // 2
    for index, (number, stop, page, section) in enumerate(STOPS):
        label = _("§{number} · {stop}").format(number=number, stop=stop)
        with columns[index // half]:
            if (PAGES / f"{page}.py").exists():
                query = {f"{page}_section": section} if section else {}
                st.page_link(f"pages/{page}.py", label=label, query_params=query)
            else:
                st.caption(label)
    st.caption(_("Grey: not in this version yet."))
