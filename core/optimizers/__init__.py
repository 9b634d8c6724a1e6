"""Optimizers: each as its formula, what it keeps for every parameter, and where it goes on a surface (CS336 §6.5).

Names, state bytes and surfaces work without torch; it is imported with the first optimizer that is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from core.optimizers.registry import (
    IMPLEMENTATIONS,
    OPTIMIZERS,
    OptimizerKind,
    compare_state_bytes,
    make,
    measured_state_bytes,
    state_bytes,
)
from core.optimizers.surfaces import MAX_CONDITION, SURFACES, Surface, quadratic, surface
from core.optimizers.trajectories import (
    FIRST_STEPS,
    MAX_COORDINATE,
    MAX_STEPS,
    Trajectory,
    compare_first_step,
    trajectory,
)

if TYPE_CHECKING:
    from core.optimizers.algorithms import SGD, AdaGrad, Adam, AdamW, Momentum, RMSProp
    from core.optimizers.base import Optimizer
    from core.optimizers.modern import Adafactor, Muon, orthogonalize

_WITH_TORCH = {
    "algorithms": ("SGD", "AdaGrad", "Adam", "AdamW", "Momentum", "RMSProp"),
    "base": ("Optimizer",),
    "modern": ("Adafactor", "Muon", "orthogonalize"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(importlib.import_module(f"core.optimizers.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "FIRST_STEPS",
    "IMPLEMENTATIONS",
    "MAX_CONDITION",
    "MAX_COORDINATE",
    "MAX_STEPS",
    "OPTIMIZERS",
    "SGD",
    "SURFACES",
    "AdaGrad",
    "Adafactor",
    "Adam",
    "AdamW",
    "Momentum",
    "Muon",
    "Optimizer",
    "OptimizerKind",
    "RMSProp",
    "Surface",
    "Trajectory",
    "compare_first_step",
    "compare_state_bytes",
    "make",
    "measured_state_bytes",
    "orthogonalize",
    "quadratic",
    "state_bytes",
    "surface",
    "trajectory",
]
