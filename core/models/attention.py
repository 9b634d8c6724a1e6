# ruff: noqa: F722  (shapes are written as strings)
"""Causal self-attention: written out ("eager") or as one fused operator ("sdpa"), with fewer key heads if wanted."""

from __future__ import annotations

from typing import Any

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from core.models.layers import Linear, RMSNorm, Rotation, rotate

ATTENTIONS = ("sdpa", "eager")


def causal_attention(
    q: Float[Tensor, "... heads seq head_dim"],
    k: Float[Tensor, "... kv_heads seq head_dim"],
    v: Float[Tensor, "... kv_heads seq head_dim"],
) -> Float[Tensor, "... heads seq head_dim"]:
    """softmax(q kᵀ / √head_dim) v, every position looking at itself and what came before (Vaswani et al. 2017).

    Grouped queries: each head of k and v serves heads / kv_heads heads of q (Ainslie et al. 2023). All of the
    (seq, seq) square is computed and half of it masked.
    """
    seq, head_dim = q.shape[-2:]
    group = q.shape[-3] // k.shape[-3]
    k, v = (repeat(one, "... kv seq head_dim -> ... (kv group) seq head_dim", group=group) for one in (k, v))
    scores = einsum(q, k, "... i head_dim, ... j head_dim -> ... i j") * head_dim**-0.5
    future = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
    weights = scores.masked_fill(future, -torch.inf).softmax(-1)
    y: Tensor = einsum(weights, v, "... i j, ... j head_dim -> ... i head_dim")
    return y


class MultiHeadSelfAttention(nn.Module):
    """Project to q, k and v, attend in every head, join the heads, project back.

    ``num_kv_heads`` is ``num_heads`` and ``head_dim`` is ``d_model / num_heads`` where they are left out; ``qkv_bias``
    is ``bias``. With ``qk_norm`` every head of q and k goes through an RMSNorm of its own (Qwen3).

    >>> MultiHeadSelfAttention(d_model=64, num_heads=4, num_kv_heads=2)(torch.ones(2, 10, 64)).shape
    torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        bias: bool = False,
        qkv_bias: bool | None = None,
        qk_norm_eps: float | None = None,
        attention: str = "sdpa",
        **factory: Any,
    ) -> None:
        super().__init__()
        head_dim, kv_heads = head_dim or d_model // num_heads, num_kv_heads or num_heads
        qkv_bias = bias if qkv_bias is None else qkv_bias
        self.num_heads, self.num_kv_heads, self.attention = num_heads, kv_heads, attention
        self.q = Linear(d_model, num_heads * head_dim, qkv_bias, **factory)
        self.k = Linear(d_model, kv_heads * head_dim, qkv_bias, **factory)
        self.v = Linear(d_model, kv_heads * head_dim, qkv_bias, **factory)
        self.output = Linear(num_heads * head_dim, d_model, bias, **factory)
        self.q_norm = RMSNorm(head_dim, qk_norm_eps, **factory) if qk_norm_eps else None
        self.k_norm = RMSNorm(head_dim, qk_norm_eps, **factory) if qk_norm_eps else None

    def forward(
        self, x: Float[Tensor, "... seq d_model"], rotation: Rotation | None = None
    ) -> Float[Tensor, "... seq d_model"]:
        q = rearrange(self.q(x), "... seq (head head_dim) -> ... head seq head_dim", head=self.num_heads)
        k = rearrange(self.k(x), "... seq (head head_dim) -> ... head seq head_dim", head=self.num_kv_heads)
        v = rearrange(self.v(x), "... seq (head head_dim) -> ... head seq head_dim", head=self.num_kv_heads)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        if self.attention == "sdpa":
            grouped = self.num_kv_heads != self.num_heads
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        else:
            y = causal_attention(q, k, v)
        joined: Tensor = self.output(rearrange(y, "... head seq head_dim -> ... seq (head head_dim)"))
        return joined
