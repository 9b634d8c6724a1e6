# ruff: noqa: F722  (shapes are written as strings)
"""The lecture's two networks: the Cruncher (2025) and the DeepNetwork (2026).

Letters: B batch, D width, L layers.
"""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from core.checks import whole_number
from core.models.blocks import check_every, run_blocks
from core.models.build import check_size
from core.models.config import MAX_LAYERS
from core.models.layers import Linear

MAX_DIM = 2**17


class Cruncher(nn.Module):
    """L bias-free (D, D) linear layers and a (D, 1) head: L·D² + D parameters, weights randn / √D (CS336 §6.2).

    >>> cruncher = Cruncher(dim=64, num_layers=2)
    >>> sum(p.numel() for p in cruncher.parameters())
    8256
    >>> cruncher(torch.randn(8, 64)).shape
    torch.Size([8])
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        *,
        checkpoint_every: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        dim, num_layers = check_dims(dim, num_layers)
        check_size(cruncher_parameters(dim, num_layers), device, dtype)
        self.checkpoint_every = check_every(checkpoint_every, num_layers)
        self.layers = nn.ModuleList(Linear(dim, dim, device=device, dtype=dtype) for _layer in range(num_layers))
        self.head = Linear(dim, 1, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
        x = run_blocks(self.layers, x, checkpoint_every=self.checkpoint_every)
        y: Tensor = rearrange(self.head(x), "batch 1 -> batch")
        return y


class ReluLayer(nn.Module):
    """relu(x Wᵀ); ``relu=False`` leaves the nonlinearity out."""

    def __init__(
        self, dim: int, relu: bool = True, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.linear = Linear(dim, dim, device=device, dtype=dtype)
        self.relu = relu

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        y: Tensor = self.linear(x)
        return functional.relu(y) if self.relu else y


class DeepNetwork(nn.Module):
    """L bias-free (D, D) linear layers with a ReLU after each: L·D² parameters (CS336 2026).

    ``relu=False`` leaves the nonlinearity out, to see what it does.

    >>> DeepNetwork(dim=16, num_layers=4)(torch.randn(8, 16)).shape
    torch.Size([8, 16])
    """

    def __init__(
        self,
        dim: int,
        num_layers: int,
        *,
        relu: bool = True,
        checkpoint_every: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        dim, num_layers = check_dims(dim, num_layers)
        check_size(num_layers * dim * dim, device, dtype)
        self.checkpoint_every = check_every(checkpoint_every, num_layers)
        self.layers = nn.ModuleList(ReluLayer(dim, relu, device, dtype) for _layer in range(num_layers))

    def forward(self, x: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        return run_blocks(self.layers, x, checkpoint_every=self.checkpoint_every)


def cruncher_parameters(dim: int, num_layers: int) -> int:
    """L·D² + D.

    >>> cruncher_parameters(64, 2), cruncher_parameters(4, 2)
    (8256, 36)
    """
    return num_layers * dim * dim + dim


def check_dims(dim: object, num_layers: object) -> tuple[int, int]:
    """The width and the depth as ints; ValueError for what is no whole number in range."""
    return whole_number("dim", dim, 1, MAX_DIM), whole_number("num_layers", num_layers, 1, MAX_LAYERS)
