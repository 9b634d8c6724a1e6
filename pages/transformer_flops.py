"""Transformer FLOPs: component by component, beside torch's count of the real network (CS336 lecture 2)."""

import streamlit as st

from core import flops
from core.words import _
from pages._ui import cards, frame, inputs, jobs_view, transformer_view
from pages._ui.charts import transformer as transformer_charts
from pages._ui.scripts import transformer_flops as scripts


@frame.section(_("Where do a Transformer's FLOPs go?"), _("Components"))
def components() -> None:
    shape, batch, length = transformer_view.transformer_controls()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        attention = inputs.choice(_("Attention"), "attention", ["sdpa", "eager"])
        counted = jobs_view.button_and_progress(
            "counted", _("Count with torch"), flops.count_transformer, shape, batch, length, attention
        )
    prediction = flops.predict_transformer_flops(shape, batch, length)
    comparison, count = counted if counted and counted[0].prediction == prediction else (None, None)
    script = scripts.transformer(shape, batch, length, attention)
    labels = cards.Labels(measured=_("Counted by torch"), ratio=_("torch's count over the napkin's"))
    if not cards.predict_measure_explain(
        "transformer",
        prediction,
        comparison,
        script=script,
        waiting=_("press Count with torch"),
        labels=labels,
        draw=False,
    ):
        return
    transformer_charts.components(flops.transformer_flops(shape, batch, length).components)
    for note in count.notes if count is not None else ():
        st.caption(note)


@frame.section(_("When does the attention take over?"), _("Context length"))
def context() -> None:
    shape, batch, length = transformer_view.transformer_controls()
    half = inputs.switch(_("Count only what a causal mask keeps"), "causal_half")
    share = flops.predict_attention_share(shape, batch, length, causal_half=half)
    script = scripts.attention(shape, batch, length, half)
    if not cards.predict_measure_explain("attention", share, script=script):
        return
    lengths = sorted({length, *(2**power for power in range(8, 18))})
    transformer_charts.context(flops.attention_share(shape, lengths, causal_half=half), length)
    transformer_view.causal_conventions()


@frame.section(_("How far off is 6ND?"), _("Rules of thumb"))
def rules() -> None:
    shape, batch, length = transformer_view.transformer_controls()
    comparison = flops.compare_six_nd(shape, batch, length)
    labels = cards.Labels(predicted=_("6·N·D, all parameters"), measured=_("Exact count"), ratio=_("Exact over 6ND"))
    script = scripts.six_nd(shape, batch, length)
    if not cards.predict_measure_explain("six_nd", comparison.prediction, comparison, script=script, labels=labels):
        return
    transformer_view.rules_of_thumb(shape, batch, length)


frame.page("transformer_flops", _("Transformer FLOPs"), [components, context, rules])
