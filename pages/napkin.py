"""The start page: what Napkin is about, in two estimates that need no torch (CS336 lecture 2, §2)."""

import streamlit as st

from core import flops, hardware, napkin, units
from core.words import _
from pages._ui import cards, charts, frame, inputs, scripts
from pages._ui.charts import napkin as napkin_charts


@frame.section(_("How long does it take to train a language model?"), _("Training time"))
def training_time() -> None:
    columns = st.columns([1, 1, 1, 2, 1])
    with columns[0]:
        billions = inputs.real_number(_("Parameters, in billions"), "params", 70.0, 0.001, 100_000.0)
    with columns[1]:
        trillions = inputs.real_number(_("Tokens, in trillions"), "tokens", 15.0, 0.001, 10_000.0)
    with columns[2]:
        devices = inputs.whole_number(_("Devices"), "train_devices", 1024, 1, 1_000_000)
    peaks = {name: peak for name, peak in flops.promised_peaks("bf16").items() if peak.flop_per_sec is not None}
    with columns[3]:
        peak = peaks[inputs.select(_("Accelerator (bf16)"), "train_on", list(peaks))]
    with columns[4]:
        mfu = inputs.real_number("MFU", "train_mfu", 0.5, 0.01, 1.0)
    settings = (billions * 1e9, trillions * 1e12, devices, peak.flop_per_sec, mfu)
    prediction = napkin.predict_training_time(*settings)
    if not cards.predict_measure_explain("training_time", prediction, script=scripts.training_time(*settings)):
        return
    alt_text = _("days to train against the number of devices, at three fractions of the peak")
    charts.show(napkin_charts.days_by_devices, *settings, alt_text=alt_text)


@frame.section(_("What is the largest model that fits?"), _("Largest model"))
def largest_model() -> None:
    columns = st.columns([1, 2, 2])
    with columns[0]:
        devices = inputs.whole_number(_("Devices"), "fit_devices", 8, 1, 1_000_000)
    known = {one.name: one for one in hardware.all_accelerators() if one.memory_bytes}
    with columns[1]:
        accelerator = known[inputs.select(_("Accelerator"), "fit_on", sorted(known), default="NVIDIA H100 SXM5 80GB")]
    with columns[2]:
        recipe = napkin.RECIPES[inputs.select(_("Recipe"), "recipe", list(napkin.RECIPES))]
    prediction = napkin.predict_max_params(devices, accelerator.memory_bytes, recipe)
    script = scripts.max_params(devices, accelerator.memory_bytes, recipe.name)
    if not cards.predict_measure_explain("largest_model", prediction, script=script):
        return
    rows = tuple(
        (one.name, part.name, part.value) for one in napkin.RECIPES.values() for part in napkin.recipe_parts(one)
    )
    alt_text = "; ".join(f"{one.name}: {one.bytes_per_param:g} B" for one in napkin.RECIPES.values())
    charts.show(napkin_charts.recipe_bytes, rows, recipe.name, alt_text=alt_text)
    message = _("Activations come on top: {memory} of memory holds {params} with nothing left for them.")
    total = units.si_bytes(devices * accelerator.memory_bytes)
    st.caption(message.format(memory=total, params=prediction.text))


@frame.section(_("Where does the lecture go from here?"), _("Tour"))
def tour() -> None:
    st.page_link(
        "pages/flops_mfu.py", label=_("FLOPs & MFU: count a matrix multiply, time it here, explain the difference")
    )


frame.page("napkin", _("Napkin"), [training_time, largest_model, tour])
