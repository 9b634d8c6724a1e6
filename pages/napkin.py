"""The start page: the lecture's two estimates, and how such estimates fit what was published (CS336 lecture 2, §2)."""

from html import escape

import streamlit as st

from core import flops, hardware, napkin, units
from core.words import _
from pages._ui import cards, charts, frame, inputs, tour
from pages._ui.charts import napkin as napkin_charts
from pages._ui.scripts import napkin as scripts

H100 = "H100 (the lecture's)"
H100_WATTS = 700.0  # NVIDIA H100 SXM5 data sheet: the most it draws
PRESETS = {
    _("lecture: 70B on 15T"): {
        "params": 70.0, "tokens": 15.0, "train_devices": 1024, "train_on": H100, "train_mfu": 0.5,
    },
    _("GPT-3 on 8 H100, MFU 1"): {
        "params": 174.6, "tokens": 0.3, "train_devices": 8, "train_on": H100, "train_mfu": 1.0,
    },
    _("GPT-3 on 8 H100, MFU 0.5"): {
        "params": 174.6, "tokens": 0.3, "train_devices": 8, "train_on": H100, "train_mfu": 0.5,
    },
    _("Llama 3.1 405B"): {
        "params": 405.0, "tokens": 15.6, "train_devices": 16384, "train_on": H100, "train_mfu": 0.4,
    },
}  # fmt: skip


@frame.section(_("How long does it take to train a language model?"), _("Training time"))
def training_time() -> None:
    peaks = {name: peak for name, peak in flops.promised_peaks("bf16").items() if peak.flop_per_sec is not None}
    with st.container(horizontal=True):
        billions = inputs.real_number(_("Parameters, in billions"), "params", 70.0, 0.001, 100_000.0, width=190)
        trillions = inputs.real_number(_("Tokens, in trillions"), "tokens", 15.0, 0.001, 10_000.0, width=190)
        devices = inputs.whole_number(_("Devices"), "train_devices", 1024, 1, 1_000_000, width=190)
        peak = peaks[inputs.select(_("Accelerator (bf16)"), "train_on", list(peaks))]
        mfu = inputs.real_number("MFU", "train_mfu", 0.5, 0.01, 1.0, width=190)
    with st.container(horizontal=True, vertical_alignment="center"):
        inputs.presets(PRESETS)
        priced = inputs.switch(_("Energy and cost"), "priced")
    settings = (billions * 1e9, trillions * 1e12, devices, peak.flop_per_sec, mfu)
    prediction = napkin.predict_training_time(*settings)
    if not cards.predict_measure_explain("training_time", prediction, script=scripts.training_time(*settings)):
        return
    if priced:
        energy_and_cost(devices, prediction.value)
    napkin_charts.days_by_devices(*settings)


def energy_and_cost(devices: int, seconds: float) -> None:
    """What the training takes from the grid and from the budget."""
    with st.container(horizontal=True):
        watts = inputs.real_number(_("Watts each"), "watts", H100_WATTS, 1.0, 5000.0)
        pue = inputs.real_number(_("PUE: what the building adds"), "pue", 1.1, 1.0, 3.0)
        price = inputs.real_number(_("Dollars for a device and hour"), "price", 2.5, 0.01, 1000.0)
    energy = napkin.predict_energy(devices, watts, seconds, pue)
    cost = napkin.predict_cost(devices, price, seconds)
    cards.predictions([energy, cost])


@frame.section(_("What is the largest model that fits?"), _("Largest model"))
def largest_model() -> None:
    known = {one.name: one for one in hardware.all_accelerators() if one.memory_bytes}
    with st.container(horizontal=True):
        devices = inputs.whole_number(_("Devices"), "fit_devices", 8, 1, 1_000_000, width=230)
        accelerator = known[inputs.select(_("Accelerator"), "fit_on", sorted(known), default="NVIDIA H100 SXM5 80GB")]
        recipe = napkin.RECIPES[inputs.select(_("Recipe"), "recipe", list(napkin.RECIPES))]
    prediction = napkin.predict_max_params(devices, accelerator.memory_bytes, recipe)
    script = scripts.max_params(devices, accelerator.memory_bytes, recipe.name)
    if not cards.predict_measure_explain("largest_model", prediction, script=script):
        return
    napkin_charts.recipe_bytes(list(napkin.RECIPES.values()), recipe.name)
    message = _("Activations come on top: {memory} of memory holds {params} with nothing left for them.")
    total = units.si_bytes(devices * accelerator.memory_bytes)
    st.caption(message.format(memory=total, params=prediction.text))


@frame.section(_("Does the napkin fit what was published?"), _("Published runs"))
def published_runs() -> None:
    runs = {run.model: run for run in napkin.published_runs() if run.gpu_hours is not None and not run.is_benchmark}
    with st.container(horizontal=True):
        mfu = inputs.real_number(_("MFU that the napkin assumes"), "assumed_mfu", 0.4, 0.01, 1.0, width=390)
        run = runs[inputs.select(_("Training"), "run", list(runs), default="Llama 3.1 405B")]
    comparison = napkin.compare_gpu_hours(run, mfu)
    script = scripts.gpu_hours(run.model, mfu)
    labels = cards.Labels(measured=_("Reported GPU-hours"), ratio=_("Reported over predicted"))
    message = escape(_("These hours imply an MFU of {implied}; reported: {reported}."))
    words = message.format(implied=f"<b>{run.implied_mfu:.1%}</b>", reported=escape(run.reported or _("none")))
    if not cards.predict_measure_explain(
        "gpu_hours",
        comparison.prediction,
        comparison,
        script=script,
        labels=labels,
        draw=False,
        below=cards.in_words(words),
    ):
        return
    napkin_charts.gpu_hours(list(runs.values()), mfu, run)
    rows = st.expander(_("All rows, with their sources and doubts"), key="np_all_runs", on_change="rerun")
    if rows.open:
        with rows:
            charts.table(napkin_charts.published(), _("published trainings and benchmarks"))


@frame.section(_("Why do two reports of one training give two MFUs?"), _("Two MFUs"))
def two_mfus() -> None:
    name = inputs.choice(_("Report"), "throughput", list(napkin.THROUGHPUTS))
    one = napkin.THROUGHPUTS[name]
    comparison = napkin.compare_throughput(one)
    labels = cards.Labels(predicted=_("MFU by 6N alone"), measured=_("MFU as reported"), ratio=_("Reported over 6N"))
    if not cards.predict_measure_explain(
        "throughput", comparison.prediction, comparison, script=scripts.throughput(name), labels=labels
    ):
        return
    by_hours = next((run for run in napkin.published_runs() if run.model == name and run.implied_mfu), None)
    if by_hours is not None:
        message = _(
            "By its GPU-hours the whole training used **{hours:.1%}**: they hold restarts, checkpoints, evaluation and "
            "idle machines; a step holds none of that."
        )
        st.markdown(message.format(hours=by_hours.implied_mfu))


@frame.section(_("Where does the lecture go from here?"), _("Tour"))
def stops() -> None:
    tour.show()


frame.page("napkin", _("Napkin"), [training_time, largest_model, published_runs, two_mfus, stops])
