"""The bug hunt of Training: the loops, their curves, the student's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import jobs
from core.training import BUGS
from core.words import _
from pages._ui import inputs, jobs_view
from pages._ui.charts import training as training_charts

# What each bug does, and where it shows.
EXPLAINED = {
    "ignored lr": _("The loop uses 0.01 whatever it is given: two learning rates give one curve."),
    "ignored depth": _("The loop always builds one layer: two depths give one curve."),
    "no zero_grad": _("Every backward adds to the last one's gradient: the norms grow, and the loss swings up again."),
    "no optimizer restored": _("After the restart Adam has forgotten its moments: the loss jumps where it resumed."),
    "last window missing": _("randint stops one short: the last window is never drawn, so nobody trains on it."),
    "mean for sum": _("The parts' losses are not divided by their number: four parts give four times the gradient."),
}
_SECRET = (3, 0, 5, 2, 4, 1)  # which bug each loop has; the loops are called A to F
_UNKNOWN = "?"


@dataclass(frozen=True)
class Hunt:
    """The loop that is hunted, what it shows once it has been run, and what the student says."""

    bug: str
    evidence: Any
    answer: str
    shown: bool


def hunt() -> Hunt:
    """The loops, the button that runs one, and, when it has run, the student's answer."""
    from core.training.sweeps import bug_evidence

    loops = [chr(ord("A") + at) for at in range(len(BUGS))]
    named = {_UNKNOWN: _("not yet named"), **{one: _(one) for one in BUGS}}
    answer, shown = _UNKNOWN, False
    with st.container(horizontal=True, vertical_alignment="bottom"):
        loop = inputs.choice(_("Loop"), "hunt_loop", loops)
        bug = BUGS[_SECRET[loops.index(loop)]]
        evidence = jobs_view.button_and_progress(
            "hunt_job", _("Run the loop"), bug_evidence, bug, on_progress=jobs.report
        )
        evidence = evidence if evidence is not None and evidence.bug == bug else None
        if evidence is not None:
            answer = inputs.select(_("The bug is"), "hunt_answer", list(named), named.__getitem__)
            shown = inputs.switch(_("Show the answer"), "hunt_shown")
    return Hunt(bug, evidence, answer, shown)


def hunt_evidence(evidence: Any) -> None:
    """Small charts, a pair of runs each: loss, and the windows of the text."""
    groups = dict.fromkeys(curve.group for curve in evidence.curves)
    columns = st.columns(len(groups))
    for column, group in zip(columns, groups, strict=True):
        pair = [curve for curve in evidence.curves if curve.group == group]
        lines = {curve.label: list(enumerate(curve.losses)) for curve in pair}
        with column:
            training_charts.curves(lines, _("step"), _("loss (log)"), True, group, height=85, narrow=True)
    left, right = st.columns(2)
    with left:
        lines = {curve.label: list(enumerate(curve.gradient_norms)) for curve in evidence.curves[:2]}
        training_charts.curves(lines, _("step"), _("gradient norm (log)"), True, _("gradient norms"), height=70)
    with right:
        training_charts.counts(evidence.windows, evidence.expected)


def name_the_bug(one: Hunt) -> None:
    """What is right and wrong with the student's answer."""
    if one.shown or one.answer == one.bug:
        st.success(f"**{_(one.bug)}**: {EXPLAINED[one.bug]}")
    elif one.answer != _UNKNOWN:
        st.warning(_("Not this one. It would show so: {sign}").format(sign=EXPLAINED[one.answer]))
