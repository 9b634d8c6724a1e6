"""Several devices on a page: the command for the settings on screen, and the same run on processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import units
from core.claims import Comparison, Prediction
from core.training import TrainConfig
from core.words import _
from pages._ui import inputs, jobs_view
from pages._ui.charts import training as training_charts

MAX_HERE = 2  # processes on this machine from the page
STEPS = 30
SIZES = {
    _("Cruncher D=64, 4 layers"): TrainConfig(dim=64, num_layers=4, batch_size=16, num_steps=STEPS, lr=1e-5),
    _("Cruncher D=256, 4 layers"): TrainConfig(dim=256, num_layers=4, batch_size=16, num_steps=STEPS, lr=1e-7),
    _("Transformer D=64, 2 layers"): TrainConfig(
        task="text", dim=64, num_layers=2, batch_size=16, num_steps=STEPS, lr=0.003, optimizer="adamw"
    ),
}
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

    with st.container(horizontal=True, vertical_alignment="bottom"):
        size = inputs.select(_("Model"), "devices_size", list(SIZES))
        parallel = inputs.choice(_("How"), "devices_how", list(KINDS), KINDS.__getitem__)
        processes = inputs.whole_number(_("Processes a machine"), "devices_n", 2, 1, 64, width=170)
        machines = inputs.whole_number(_("Machines"), "devices_machines", 1, 1, 64, width=120)
    config = SIZES[size]

    def check() -> None:
        if processes * machines != MAX_HERE:
            raise ValueError(_("on this machine the page runs {n} processes; copy the command for others").format(n=2))

    with st.container(horizontal=True, vertical_alignment="center"):
        run = jobs_view.button_and_progress(
            "devices_job", _("Run on 2 processes here"), distributed.train_on_processes, config, 2, parallel,
            check=check, timeout=300.0,
        )  # fmt: skip
    fits = run is not None and (run.config, run.parallel, run.processes) == (config, parallel, processes * machines)
    comparison = distributed.compare_communication(run) if fits else None
    prediction = distributed.predict_communication(config, processes * machines, parallel)
    waiting = _("run it here, or with the command below where more devices are")
    return Asked(config, processes, machines, parallel, prediction, comparison, run if fits else None, waiting)


def show(asked: Asked) -> None:
    """The command, and the curve beside that of one process."""
    from core.training import distributed

    command = distributed.command_for(asked.config, asked.processes, asked.parallel, asked.machines)
    st.code(command, language="bash", wrap_lines=True)
    if asked.run is None:
        return
    points = [(record.step, record.loss) for record in asked.run.records]
    text = _("{time} a step with {n} processes. The loss is that of one process with the same global batch.")
    st.caption(text.format(time=units.seconds(asked.run.step_seconds), n=asked.run.processes))
    line = {KINDS[asked.parallel]: points}
    training_charts.curves(line, _("step"), _("loss"), False, _("loss of the run on processes"), height=150)
