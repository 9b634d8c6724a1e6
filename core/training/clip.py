"""Gradients scaled down together when they are too large (Pascanu et al. 2013)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from core.checks import positive_number

EPSILON = 1e-6  # torch's: a norm of 0 divides nothing


def gradient_norm(parameters: Iterable[Tensor]) -> Tensor:
    """√Σ g² over all gradients there are, on their device; of gradients that are sharded, that of the whole.

    >>> p = torch.zeros(2, requires_grad=True)
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> gradient_norm([p]).item()
    5.0
    """
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters if p.grad is not None]
    if not norms:
        return torch.zeros(())
    norm: Any = torch.linalg.vector_norm(torch.stack(norms))
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return whole


@torch.no_grad()
def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale every gradient by min(1, max_norm / (norm + 1e-6)), in place; the norm before. As torch's, to the bit.

    An infinite ``max_norm`` leaves all as it is. Raises ValueError for a ``max_norm`` that is not above zero.

    >>> p = torch.zeros(2, requires_grad=True)
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> clip_grad_norm([p], max_norm=1.0).item(), gradient_norm([p]).round(decimals=4).item()
    (5.0, 1.0)
    """
    if not (isinstance(max_norm, float) and math.isinf(max_norm) and max_norm > 0):
        max_norm = positive_number("max_norm", max_norm)
    parameters = list(parameters)
    norm = gradient_norm(parameters)
    scale = (max_norm / (norm + EPSILON)).clamp(max=1.0)
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(scale)
    return norm
