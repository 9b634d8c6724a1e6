"""The lessons of the initialization page (CS336 lecture 2, §6.1, §6.2).

Shapes: B rows, D the layer's inputs, K its outputs.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from core.checks import whole_number
from core.models.initialization import check_bytes
from core.models.lecture import Cruncher, check_dims

MAX_DIM = 2**17


def one_layer(d: int, k: int) -> torch.Tensor:
    whole_number("D", d, 1, MAX_DIM)
    whole_number("K", k, 1, MAX_DIM)
    check_bytes(4 * 3 * (d * k + 64 * d))  # refused before anything is allocated
    x_BD = torch.randn(64, d)
    w_DK = nn.Parameter(torch.randn(d, k))
    grown = (x_BD @ w_DK).std().item()

    w_DK = nn.Parameter(torch.randn(d, k) / math.sqrt(d))
    right = (x_BD @ w_DK).std().item()

    three = nn.init.trunc_normal_(torch.empty(d, k), std=1 / math.sqrt(d), a=-3, b=3)
    bound_in_sigmas = 3 * math.sqrt(d)
    cut = 3 / math.sqrt(d)
    truncated = nn.init.trunc_normal_(torch.empty(d, k), std=1 / math.sqrt(d), a=-cut, b=cut)
    largest = [w.abs().max().item() * math.sqrt(d) for w in (three, truncated)]  # in σ

    assert largest[1] <= 3.0001
    if (d, k) == (16384, 32):  # the lecture's numbers
        assert bound_in_sigmas == 384
        assert math.isclose(grown, 128, rel_tol=0.1)
        assert math.isclose(right, 1, rel_tol=0.1)
        assert largest[0] > 4
    return x_BD @ w_DK


def cruncher(dim: int, num_layers: int, b: int) -> int:
    check_dims(dim, num_layers)
    check_bytes(4 * (2 * num_layers * dim * dim + 3 * b * dim))  # refused before anything is allocated
    layers = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _layer in range(num_layers))
    head = nn.Linear(dim, 1, bias=False)
    for layer in (*layers, head):
        nn.init.normal_(layer.weight, std=1 / math.sqrt(dim))

    x_BD = torch.randn(b, dim)
    h_BD = x_BD
    for layer in layers:
        h_BD = layer(h_BD)
    y_B = head(h_BD).squeeze(-1)
    assert y_B.shape == (b,)

    model = Cruncher(dim, num_layers)  # the same as a module
    model.load_state_dict(nn.ModuleDict({"layers": layers, "head": head}).state_dict())
    torch.testing.assert_close(model(x_BD), y_B)
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    num_parameters = sum(sizes.values())
    assert num_parameters == num_layers * dim * dim + dim
    if (dim, num_layers) == (64, 2):  # the lecture's numbers
        assert sizes == {"layers.0.weight": 4096, "layers.1.weight": 4096, "head.weight": 64}
        assert num_parameters == 8256
    return num_parameters
