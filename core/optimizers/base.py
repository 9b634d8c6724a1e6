"""What the optimizers share: the loop over parameters, and the checks of what a user can type wrong."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from core.words import _

State = dict[str, Tensor]


class Optimizer(torch.optim.Optimizer):
    """``step`` calls ``update`` for every parameter that has a gradient; an algorithm is its ``update``.

    ``update`` changes the parameter and its state in place; the state is what ``new_state`` made at the first step. Its
    names are torch's own, so that a ``state_dict`` goes from either to the other.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; ``closure``, where it is given, computes the loss (and the gradients) first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter] = self.state[parameter] or self.new_state(parameter)
                    self.update(parameter, parameter.grad, state, group)
        return loss

    def new_state(self, p: Tensor) -> State:
        """What is kept of a parameter from its first step on; nothing, unless the algorithm says otherwise."""
        return {}

    @abstractmethod
    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        """One parameter's step, by its gradient, its state and its group's settings."""


def at_least_zero(name: str, value: object) -> float:
    """The value, if it is a finite number that is not negative.

    >>> at_least_zero("lr", -0.1)
    Traceback (most recent call last):
    ValueError: lr must be a number of at least 0, for example 0.001; received -0.1
    """
    number = finite_number(value)
    if number is None or number < 0:
        message = _("{name} must be a number of at least 0, for example 0.001; received {value}")
        raise ValueError(message.format(name=name, value=repr(value)[:40]))
    return number


def below_one(name: str, value: object) -> float:
    """The value, if it is a number from 0 to below 1: the share of the past that an average keeps.

    >>> below_one("beta2", 1)
    Traceback (most recent call last):
    ValueError: beta2 must be a number from 0 to below 1, for example 0.9; received 1
    """
    number = finite_number(value)
    if number is None or not 0 <= number < 1:
        message = _("{name} must be a number from 0 to below 1, for example 0.9; received {value}")
        raise ValueError(message.format(name=name, value=repr(value)[:40]))
    return number


def check_betas(betas: object) -> tuple[float, float]:
    """Adam's two shares."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        message = _("betas must be two numbers, for example (0.9, 0.999); received {value}")
        raise ValueError(message.format(value=repr(betas)[:40]))
    return below_one("beta1", betas[0]), below_one("beta2", betas[1])


def finite_number(value: object) -> float | None:
    """The value as a float; None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None
