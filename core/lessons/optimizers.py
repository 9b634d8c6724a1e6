"""The lesson of the optimizers page (CS336 lecture 2, §6.5): AdaGrad, as its formula and as the optimizer."""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import torch

from core.checks import positive_number
from core.optimizers import AdaGrad

MAX_GRADIENT = 1e6


def adagrad(g: float, lr: float) -> list[float]:
    positive_number("|g|", abs(g) or 1.0, MAX_GRADIENT)
    positive_number("lr", lr, MAX_GRADIENT)
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = AdaGrad([p], lr=lr)
    eps = 1e-10
    value, sum_of_squares = 0.0, 0.0
    reached = []
    for _step in range(3):
        p.grad = torch.full_like(p, g)
        optimizer.step()  # what torch.optim does

        sum_of_squares += g**2  # the state: one number for each parameter
        value -= lr * g / (sum_of_squares**0.5 + eps)  # by hand
        torch.testing.assert_close(p.item(), value)
        reached.append(value)
    if abs(g) >= 1e-6:  # far above ε
        sign = g / abs(g)
        torch.testing.assert_close(reached[0], -lr * sign, rtol=1e-3, atol=0)  # whatever the gradient's size
        torch.testing.assert_close(reached[2], -lr * sign * (1 + 2**-0.5 + 3**-0.5), rtol=1e-3, atol=0)  # less and less
    return reached
