"""The settings of a run on screen, shared by the sections of Training."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.optimizers import OPTIMIZERS
from core.training import PRECISIONS, SCHEDULES, TrainConfig
from core.words import _
from pages._ui import inputs, machine

TASKS = {"regression": _("regression"), "text": _("text")}
# Small enough for a laptop: a step takes a millisecond to a tenth of a second.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "regression": {
        _("Cruncher D=16, 2 layers"): {"dim": 16, "num_layers": 2, "model": "cruncher"},
        _("Cruncher D=64, 4 layers"): {"dim": 64, "num_layers": 4, "model": "cruncher"},
        _("DeepNetwork D=16, 3 layers"): {"dim": 16, "num_layers": 3, "model": "deep network"},
        _("DeepNetwork D=256, 4 layers"): {"dim": 256, "num_layers": 4, "model": "deep network"},
    },
    "text": {
        _("D=32, 1 layer"): {"dim": 32, "num_layers": 1, "num_heads": 2},
        _("D=64, 2 layers"): {"dim": 64, "num_layers": 2, "num_heads": 4},
        _("D=128, 4 layers"): {"dim": 128, "num_layers": 4, "num_heads": 4},
        _("D=256, 6 layers"): {"dim": 256, "num_layers": 6, "num_heads": 8},
    },
}
DEFAULTS = {
    "regression": {"optimizer": "sgd", "lr": 0.001, "batch": 4, "steps": 200},
    "text": {"optimizer": "adamw", "lr": 0.003, "batch": 16, "steps": 300},
}
MAX_BATCH, MAX_CONTEXT, MAX_STEPS = 4096, 1024, 20_000
WARMUP_SHARE = 10  # a cosine rises for a tenth of its steps


def settings() -> TrainConfig:
    """The controls of a run, in one row and what folds out of it, and what they ask for."""
    context = 64
    with st.container(horizontal=True, vertical_alignment="bottom"):
        task = inputs.choice(_("Task"), "train_task", list(TASKS), TASKS.__getitem__)
        default: dict[str, Any] = DEFAULTS[task]
        size = inputs.select(_("Model"), f"train_size_{task}", list(SIZES[task]))
        optimizers = {name: kind.class_name for name, kind in OPTIMIZERS.items()}
        optimizer = inputs.select(
            _("Optimizer"), f"train_opt_{task}", list(optimizers), optimizers.__getitem__, default["optimizer"]
        )
        lr = inputs.real_number(
            _("Learning rate"), f"train_lr_{task}", default["lr"], 1e-9, 1e3, step=default["lr"], format="%g", width=130
        )
        batch = inputs.whole_number(_("Batch B"), f"train_batch_{task}", default["batch"], 1, MAX_BATCH, width=90)
        if task == "text":
            context = inputs.whole_number(_("Context T"), "train_context", 64, 2, MAX_CONTEXT, width=90)
        steps = inputs.whole_number(_("Steps"), f"train_steps_{task}", default["steps"], 1, MAX_STEPS, width=100)
        with st.popover(_("More"), key="np_train_more"):
            schedule = inputs.select(_("Schedule"), "train_schedule", list(SCHEDULES))
            precision = inputs.select(_("Precision"), "train_precision", list(PRECISIONS))
            clip = inputs.real_number(_("Clip at norm (0: never)"), "train_clip", 0.0, 0.0, 1e9, step=1.0, format="%g")
            seed = inputs.whole_number(_("Seed"), "train_seed", 0, 0, 2**32 - 1)
            device = machine.choose_device()
    rise = steps // WARMUP_SHARE if schedule == "cosine" else 0
    return TrainConfig(
        task=task, optimizer=optimizer, lr=lr, schedule=schedule, warmup_steps=rise, batch_size=batch,
        context_length=context, num_steps=steps, precision=precision, seed=seed, max_grad_norm=clip or None,
        device=device.id, **SIZES[task][size],
    )  # fmt: skip


PACES = {"full": 0.0, "slow": 0.05, "steps": 0.5}
PACE_NAMES = {"full": _("full speed"), "slow": _("20 steps/s"), "steps": _("2 steps/s")}
_PACE = {"regression": "slow", "text": "full"}


def pace_seconds(task: str) -> float:
    """The pace's control; what a run waits after each step."""
    pace = inputs.choice(
        _("Pace"), f"train_pace_{task}", list(PACES), PACE_NAMES.__getitem__, _PACE[task], label_visibility="collapsed"
    )
    return PACES[pace]
