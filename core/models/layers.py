# ruff: noqa: F722  (shapes are written as strings)
"""The layers of a Transformer, each by its formula: linear maps, embedding, norm, feed-forward, rotary positions.

jaxtyping states every shape; ``...`` is any number of leading axes, such as batch and seq.
"""

from __future__ import annotations

from typing import Any

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

Rotation = tuple[Float[Tensor, "seq pair"], Float[Tensor, "seq pair"]]  # cos and sin of every position's angles


class Linear(nn.Module):
    """y = x Wᵀ + b, the bias only where asked for. W starts as N(0, 1/in_features), so that y is as large as x.

    >>> Linear(16, 32)(torch.ones(4, 8, 16)).shape
    torch.Size([4, 8, 32])
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = False, **factory: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, **factory))
        self.bias = nn.Parameter(torch.zeros(out_features, **factory)) if bias else None
        nn.init.normal_(self.weight, std=in_features**-0.5)

    def forward(self, x: Float[Tensor, "... in_features"]) -> Float[Tensor, "... out_features"]:
        return functional.linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """Row ``token`` of a table, for every token. The table starts as N(0, 0.02²), as GPT-2's does.

    >>> Embedding(1000, 16)(torch.tensor([[3, 1, 4]])).shape
    torch.Size([1, 3, 16])
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, **factory: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, **factory))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        return functional.embedding(tokens, self.weight)


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · weight, in fp32 up to the weight (Zhang and Sennrich 2019).

    >>> RMSNorm(2)(torch.tensor([3.0, 4.0])).square().mean().round(decimals=4).item()
    1.0
    """

    def __init__(self, d_model: int, eps: float = 1e-5, **factory: Any) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, **factory))

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        x_fp32 = x.float()
        mean_square = reduce(x_fp32.square(), "... d_model -> ... 1", "mean")
        normalized = x_fp32 * torch.rsqrt(mean_square + self.eps)
        return self.weight * normalized.to(x.dtype)


class FeedForward(nn.Module):
    """down(activation(up(x))): GPT-2's, by default with the GELU that it approximates by tanh."""

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "gelu_tanh", bias: bool = True, **factory: Any
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(d_model, d_ff, bias, **factory)
        self.down = Linear(d_ff, d_model, bias, **factory)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        y: Tensor = self.down(activate(self.up(x), self.activation))
        return y


class SwiGLU(nn.Module):
    """down(silu(gate(x)) ⊙ up(x)), three matrices (Shazeer 2020): Llama's.

    >>> SwiGLU(16, 64)(torch.ones(4, 8, 16)).shape
    torch.Size([4, 8, 16])
    """

    def __init__(self, d_model: int, d_ff: int, bias: bool = False, **factory: Any) -> None:
        super().__init__()
        self.gate = Linear(d_model, d_ff, bias, **factory)
        self.up = Linear(d_model, d_ff, bias, **factory)
        self.down = Linear(d_ff, d_model, bias, **factory)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        y: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return y


def activate(x: Float[Tensor, "*shape"], activation: str) -> Float[Tensor, "*shape"]:
    """The activation by its name in ``core.models.config.ACTIVATIONS``."""
    if activation == "gelu_tanh":
        return functional.gelu(x, approximate="tanh")
    if activation == "gelu":
        return functional.gelu(x)
    return functional.relu(x) if activation == "relu" else functional.silu(x)


class RotaryEmbedding(nn.Module):
    """The angle of every position: pair i of a head turns by position · theta^(−2i / head_dim) (Su et al. 2021).

    cos and sin are computed once a forward, in fp32, and not kept in a table: no length is too long, no cast to bf16
    blurs a position.

    >>> cos, sin = RotaryEmbedding(head_dim=64)(torch.arange(10))
    >>> cos.shape, cos[0, 0].item(), sin[0, 0].item()
    (torch.Size([10, 32]), 1.0, 0.0)
    """

    def __init__(self, head_dim: int, theta: float = 10_000.0) -> None:
        super().__init__()
        self.head_dim, self.theta = head_dim, theta

    def forward(self, positions: Int[Tensor, " seq"], dtype: torch.dtype = torch.float32) -> Rotation:
        exponents = torch.arange(0, self.head_dim, 2, device=positions.device).float() / self.head_dim
        angles = einsum(positions.float(), 1 / self.theta**exponents, "seq, pair -> seq pair")
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Float[Tensor, "... seq head_dim"], rotation: Rotation) -> Float[Tensor, "... seq head_dim"]:
    """Turn every pair (x[i], x[i + head_dim/2]) by its angle: the order of Llama's published weights.

    >>> quarter_turn = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> rotate(torch.tensor([[1.0, 0.0]]), quarter_turn).tolist()
    [[0.0, 1.0]]
    """
    cos, sin = rotation
    first, second = rearrange(x, "... seq (half pair) -> half ... seq pair", half=2)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
