"""Low precision: one run in every format, what underflows, and what few bits cost a trained model (CS336 §6.8)."""

import streamlit as st

from core.words import _
from pages._ui import cards, code_view, frame, training_precision
from pages._ui.scripts import low_precision as scripts

lessons = code_view.Lessons("training")


@frame.section(_("What does each precision cost, and what does it save?"), _("Precision"), needs_torch=True)
def precision() -> None:
    asked = training_precision.compared()
    script = scripts.precisions(asked.config, asked.wanted)
    waiting = _("press Train in each")
    if not cards.predict_measure_explain(
        f"bytes_{asked.followed}", asked.prediction, asked.comparison, script=script, waiting=waiting, draw=False
    ):
        return
    if asked.runs:
        training_precision.precision_results(asked)
    code_view.lesson("mixed", lessons.mixed_precision)


@frame.section(_("Which gradients vanish in fp16?"), _("Underflow"), needs_torch=True)
def underflow() -> None:
    config, precision_name, prediction, comparison, layers = training_precision.underflow()
    script = scripts.underflow(config, precision_name)
    waiting = _("press Look for zeros")
    if not cards.predict_measure_explain(
        f"underflow_{precision_name}", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    if layers is not None:
        training_precision.underflow_results(config, layers)


@frame.section(_("How few bits does a trained model need?"), _("Weights"), needs_torch=True)
def weights() -> None:
    config, chosen, prediction, comparison, rows = training_precision.weight_only()
    script = scripts.weights(config)
    waiting = _("press Train and round")
    if not cards.predict_measure_explain(
        f"weights_{chosen}", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    if rows is not None:
        training_precision.weight_results(rows, chosen)
    st.caption(_("Rounded once, after training, without looking at any data; products are in fp32."))


frame.page("low_precision", _("Low precision"), [precision, underflow, weights])
