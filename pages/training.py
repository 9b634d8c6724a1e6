"""Training: a run that is watched, killed and resumed, and what its loop is made of (CS336 lecture 2, §6.3–6.7)."""

import streamlit as st

from core.words import _
from pages._ui import (
    cards,
    code_view,
    frame,
    inputs,
    training_claims,
    training_devices,
    training_hunt,
    training_more,
    training_rates,
    training_settings,
    training_updates,
    training_view,
)
from pages._ui.charts import training as training_charts
from pages._ui.scripts import training as scripts

lessons = code_view.Lessons("training")


@frame.section(_("What loss does the last step have?"), _("Run"), needs_torch=True)
def run() -> None:
    asked = training_settings.settings()
    config = asked.config
    seen = training_view.controls(asked)
    prediction = training_claims.last_loss(config)
    comparison, waiting = training_claims.compare_last_loss(seen, config)
    script = scripts.run(config)
    curve = st.container()  # in the lecture the curve comes before the card, where the last row sees it
    if not cards.predict_measure_explain(
        "train_last_loss", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    others = training_view.earlier(seen, config.task)
    if seen is None:
        if others:
            training_view.runs_table(None, others)
        return
    with curve if inputs.lecture_mode() else st.container():
        left, right = st.columns([5, 3])
        with left:
            training_view.live(seen, others)
        with right:
            training_claims.claims(seen)
    training_view.runs_table(seen, others)
    if seen.info.config.task == "text":
        training_more.sampled(seen.info)


@frame.section(_("Which bug is in this loop?"), _("Bugs"), needs_torch=True)
def hunt() -> None:
    one = training_hunt.hunt()
    if one.evidence is None:
        st.caption(_("Six loops, a bug in each. Every pair of curves is one loop run twice, with one setting changed."))
        return
    training_hunt.name_the_bug(one)
    training_hunt.hunt_evidence(one.evidence)
    if one.shown or one.answer == one.bug:
        cards.copy_as_python("hunt", scripts.hunt(one.bug, 0))


@frame.section(_("Is every window of the text drawn?"), _("Data"), needs_torch=True)
def data() -> None:
    values, drawn = training_more.data()
    script = scripts.windows(*values)
    if not cards.predict_measure_explain(
        "windows", drawn.comparison.prediction, drawn.comparison, script=script, draw=False
    ):
        return
    training_more.batch_table(drawn)
    text, batch, _context, batches, _seed, _short = values
    expected = batch * batches / len(drawn.counts)
    training_charts.counts(drawn.counts, expected)
    message = _(
        "Dashed: how often each should come, {expected:.3g} times. On disk a token takes 2 bytes, {size} here; "
        "np.memmap reads only the windows that are drawn. What the card leaves unexplained is chance."
    )
    st.caption(message.format(expected=expected, size=f"{2 * len(text.encode())} B"))
    code_view.lesson("batches", lessons.batches)


@frame.section(_("Do two runs agree to the bit?"), _("Seeds"), needs_torch=True)
def seeds() -> None:
    config, change, prediction, comparison, twice = training_more.repeated()
    script = scripts.repeat(config, change)
    waiting = _("press Run twice")
    if not cards.predict_measure_explain("seeds", prediction, comparison, script=script, waiting=waiting, draw=False):
        return
    if twice is not None:
        training_more.difference_chart(twice)
    code_view.lesson("train", lessons.train, num_steps=4)


@frame.section(_("Which gradient does the optimizer see?"), _("Update"), needs_torch=True)
def update() -> None:
    one = training_updates.update()
    script = scripts.clipping(one.config, one.limit) if one.limit else scripts.accumulation(one.config, one.parts)
    if cards.predict_measure_explain(one.key, one.comparison.prediction, one.comparison, script=script, draw=False):
        training_updates.results(one)


@frame.section(_("How does the learning rate rise and fall?"), _("Schedule"))
def schedule() -> None:
    values, comparison = training_rates.schedule()
    script = scripts.schedule(*values)
    if not cards.predict_measure_explain("mean_lr", comparison.prediction, comparison, script=script, draw=False):
        return
    line = {_("learning rate"): list(enumerate(training_rates.rates(*values)))}
    training_charts.curves(line, _("step"), _("learning rate"), False, _("a rise, then half a cosine"), height=170)


@frame.section(_("Which setting ends lowest?"), _("Sweep"), needs_torch=True)
def sweep() -> None:
    one = training_rates.swept()
    prediction, comparison = training_rates.sweep_claim(one)
    script = scripts.sweep(one.config, one.setting, one.values)
    waiting = _("press Sweep")
    if not cards.predict_measure_explain(
        f"sweep_{one.setting}", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    if one.points is not None:
        training_rates.sweep_results(one)


@frame.section(_("What is in a checkpoint, and is it safe to open?"), _("Checkpoints"), needs_torch=True)
def checkpoints() -> None:
    config, prediction, comparison, waiting = training_more.checkpoint(training_view.run_id())
    script = scripts.checkpoint(config)
    if not cards.predict_measure_explain(
        "checkpoint", prediction, comparison, script=script, waiting=waiting, draw=False
    ):
        return
    training_more.inspect_upload()
    code_view.lesson("checkpoint", lessons.checkpoint)


@frame.section(_("What do several devices send each other?"), _("Devices"), needs_torch=True)
def devices() -> None:
    asked = training_devices.devices()
    script = scripts.devices(asked.config, asked.processes, asked.parallel)
    if not cards.predict_measure_explain(
        "devices", asked.prediction, asked.comparison, script=script, waiting=asked.waiting, draw=False
    ):
        return
    training_devices.show(asked)


frame.page("training", _("Training"), [run, hunt, data, seeds, update, schedule, sweep, checkpoints, devices])
