"""The lesson of the optimizers page (CS336 lecture 2, §6.5): AdaGrad by hand, and as the optimizer."""

from __future__ import annotations

import torch

from core.checks import positive_number
from core.optimizers import AdaGrad

MAX_GRADIENT = 1e6


def adagrad(g: float, lr: float) -> list[float]:
    check_adagrad(g, lr)
    p, s = 0.0, 0.0  # the parameter, and its state: one number
    eps = 1e-10
    reached = []
    for _step in range(3):
        s += g**2
        p -= lr * g / (s**0.5 + eps)
        reached.append(p)

    by_optimizer = optimizer_steps(g, lr, 3)
    torch.testing.assert_close(reached, by_optimizer)
    if abs(g) >= 1e-6:  # far above ε
        size = [abs(p) / lr for p in reached]  # whatever the gradient's size
        torch.testing.assert_close(size, [1.0, 1 + 2**-0.5, 1 + 2**-0.5 + 3**-0.5], rtol=1e-3, atol=0)
    return reached


def optimizer_steps(g: float, lr: float, steps: int) -> list[float]:
    """Where ``core.optimizers.AdaGrad`` goes from 0 under that gradient, always the same."""
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = AdaGrad([p], lr=lr)
    reached = []
    for _step in range(steps):
        p.grad = torch.full_like(p, g)
        optimizer.step()
        reached.append(p.item())
    return reached


def check_adagrad(g: float, lr: float) -> None:
    """Raises ValueError for a gradient beyond a million, and for a learning rate that is none."""
    positive_number("|g|", abs(g) or 1.0, MAX_GRADIENT)
    positive_number("lr", lr, MAX_GRADIENT)
