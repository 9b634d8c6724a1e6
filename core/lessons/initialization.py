"""The lessons of the initialization page (CS336 lecture 2, §6.1, §6.2).

Shapes: B rows, D the layer's inputs, K its outputs.
"""

from __future__ import annotations

import math

import torch
from torch.nn.init import trunc_normal_
from torch.nn.utils import vector_to_parameters

from core.checks import whole_number
from core.models.initialization import check_bytes
from core.models.lecture import Cruncher, check_dims

MAX_DIM = 2**17


def one_layer(d: int, k: int) -> torch.Tensor:
    whole_number("D", d, 1, MAX_DIM)
    whole_number("K", k, 1, MAX_DIM)
    check_bytes(4 * 3 * (d * k + 64 * d))  # refused before anything is allocated
    x_BD = torch.randn(64, d)
    w_DK = torch.randn(d, k)
    grown = (x_BD @ w_DK).std().item()

    std = 1 / math.sqrt(d)
    w_DK = torch.randn(d, k) * std
    right = (x_BD @ w_DK).std().item()

    lecture_DK = trunc_normal_(torch.empty(d, k), std=std, a=-3, b=3)
    bound_in_sigmas = 3 / std
    w_DK = trunc_normal_(torch.empty(d, k), std=std, a=-3 * std, b=3 * std)
    largest = [w.abs().max().item() / std for w in (lecture_DK, w_DK)]  # in σ

    assert largest[1] <= 3.0001
    if (d, k) == (16384, 32):  # the lecture's numbers
        assert math.isclose(grown, 128, rel_tol=0.1)
        assert math.isclose(right, 1, rel_tol=0.1)
        assert bound_in_sigmas == 384
        assert 4 < largest[0] < 7
    return x_BD @ w_DK


def cruncher(dim: int, num_layers: int, b: int) -> int:
    check_dims(dim, num_layers)
    check_bytes(4 * (3 * num_layers * dim * dim + 3 * b * dim))  # refused before anything is allocated
    std = 1 / math.sqrt(dim)
    w_LDD = torch.randn(num_layers, dim, dim) * std
    head_D = torch.randn(dim) * std

    x_BD = torch.randn(b, dim)
    h_BD = x_BD
    for w_DD in w_LDD:
        h_BD = h_BD @ w_DD.T
    y_B = h_BD @ head_D
    assert y_B.shape == (b,)

    theta_N = torch.cat([w_LDD.flatten(), head_D])  # every parameter
    torch.testing.assert_close(module_output(dim, num_layers, theta_N, x_BD), y_B, rtol=1e-3, atol=1e-4)
    sizes = [p.numel() for p in Cruncher(dim, num_layers).parameters()]
    num_parameters = sum(sizes)
    assert num_parameters == theta_N.numel() == num_layers * dim * dim + dim
    if (dim, num_layers) == (64, 2):  # the lecture's numbers
        assert sizes == [4096, 4096, 64]
        assert num_parameters == 8256
    return num_parameters


def module_output(dim: int, num_layers: int, theta_N: torch.Tensor, x_BD: torch.Tensor) -> torch.Tensor:
    """What the module ``core.models.Cruncher`` makes of x, given every parameter in one vector."""
    model = Cruncher(dim, num_layers)
    vector_to_parameters(theta_N, model.parameters())
    with torch.no_grad():
        y_B: torch.Tensor = model(x_BD)
    return y_B
