"""Several devices on a page: the command for Run's settings, and the same run on processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import units
from core.claims import Comparison, Prediction
from core.training import STDLIB, TrainConfig
from core.training.data import corpus_path
from core.words import _
from pages._ui import inputs, jobs_view, tables, training_settings, training_view
from pages._ui.charts import training as training_charts

HERE = 2  # processes on this machine from the page
STEPS = 30  # at most, of a run here
KINDS = {"ddp": "DDP", "fsdp": "FSDP2"}


@dataclass(frozen=True)
class Asked:
    """What is to be spread over how many processes; the bytes sent a step, predicted and, once it ran, seen."""

    config: TrainConfig
    processes: int
    machines: int
    parallel: str
    prediction: Prediction
    comparison: Comparison | None
    run: Any
    waiting: str


def devices() -> Asked:
    """The controls, the button, and what came of it."""
    from core.training import distributed

    config = training_settings.kept()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parallel = inputs.choice(_("How"), "devices_how", list(KINDS), KINDS.__getitem__)
        processes = inputs.whole_number(_("Processes a machine"), "devices_n", 2, 1, 64, width=170)
        machines = inputs.whole_number(_("Machines"), "devices_machines", 1, 1, 64, width=120)
        until = min(STEPS, config.num_steps)
        run = jobs_view.button_and_progress(
            "devices_job", _("Run {steps} steps on 1 and on 2 processes").format(steps=until),
            distributed.train_on_processes, config, HERE, parallel, until=until, alone=True,
            check=lambda: _check(config, processes * machines), timeout=300.0,
        )  # fmt: skip
    st.caption(_("Run's settings: {settings}").format(settings=training_view.settings_in_words(config)))
    fits = run is not None and (run.config, run.parallel, run.processes) == (config, parallel, processes * machines)
    comparison = distributed.compare_communication(run) if fits else None
    prediction = distributed.predict_communication(config, processes * machines, parallel)
    waiting = _("run it here, or with the command below where more devices are")
    return Asked(config, processes, machines, parallel, prediction, comparison, run if fits else None, waiting)


def _check(config: TrainConfig, processes: int) -> None:
    from core.training.parallel import check_shares

    check_shares(config, processes)
    if config.corpus != STDLIB and not corpus_path(config.corpus).exists():
        raise ValueError(_("start a run with your text first: that keeps it where other processes find it"))
    if processes != HERE:
        raise ValueError(_("on this machine the page runs {n} processes; copy the command for others").format(n=HERE))


def show(asked: Asked) -> None:
    """The command, and the curve beside that of one process."""
    from core.training import distributed

    st.code(
        distributed.command_for(asked.config, asked.processes, asked.parallel, asked.machines),
        language="bash",
        wrap_lines=True,
    )
    run = asked.run
    if run is None:
        return
    kind = _("{kind}, {n} processes").format(kind=KINDS[asked.parallel], n=run.processes)
    lines = {_("1 process"): run.alone, kind: run.records}
    log = asked.config.task == "regression"
    left, right = st.columns([5, 4])
    with left:
        points = {name: [(record.step, record.loss) for record in records] for name, records in lines.items()}
        y_title = _("loss (log)") if log else _("loss (nats)")
        training_charts.curves(points, _("step"), y_title, log, _("one process and several"), height=140)
    with right:
        rows: list[list[tables.Cell]] = [
            [_("step time, 1 process"), units.seconds(run.alone_seconds)],
            [_("step time, {n} processes").format(n=run.processes), units.seconds(run.step_seconds)],
            [
                _("losses differ by, at most"),
                (_("{share} of the loss").format(share=units.significant(run.largest_difference)),
                 _("the same global batch; sums in another order")),
            ],
        ]  # fmt: skip
        tables.show(["", _("measured")], rows, _("one process beside several"), dense=True)
