"""The lessons of the FLOPs & MFU page (CS336 lecture 2, §5.4). Shapes: B rows, D inputs, K outputs."""

from __future__ import annotations

import torch


def linear_model(b: int, d: int, k: int) -> int:
    x_BD = torch.ones(b, d)
    w_DK = torch.randn(d, k)
    y_BK = x_BD @ w_DK

    multiplies = b * d * k  # one for every (b, d, k)
    adds = b * d * k  # and one to add it to its sum
    flops = multiplies + adds
    exact = flops - b * k  # the first product of each sum needs no add

    assert y_BK.shape == (b, k)
    assert flops == 2 * b * d * k
    assert exact == (2 * d - 1) * b * k
    return flops
