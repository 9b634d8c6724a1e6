# ruff: noqa: F722  (shapes are written as strings)
"""The language model: embedding, blocks, norm, head. GPT-2 or Llama or what is between them, by its config."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from core.checks import one_of, whole_number
from core.models.attention import ATTENTIONS, MultiHeadSelfAttention
from core.models.blocks import check_every, run_blocks
from core.models.build import check_size
from core.models.config import TransformerConfig
from core.models.layers import Embedding, FeedForward, Linear, RMSNorm, RotaryEmbedding, Rotation, SwiGLU
from core.words import _


def norm(config: TransformerConfig, **factory: Any) -> nn.Module:
    """LayerNorm where the norm has a bias (GPT-2), RMSNorm where it has none (Llama)."""
    kind = nn.LayerNorm if config.norm_bias else RMSNorm
    return kind(config.d_model, eps=config.norm_eps, **factory)


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): pre-norm."""

    def __init__(self, config: TransformerConfig, attention: str = "sdpa", **factory: Any) -> None:
        super().__init__()
        self.attention_norm = norm(config, **factory)
        self.attention = MultiHeadSelfAttention(
            config.d_model,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            bias=config.bias,
            qkv_bias=config.qkv_bias,
            qk_norm_eps=config.norm_eps if config.qk_norm else None,
            attention=attention,
            **factory,
        )
        self.mlp_norm = norm(config, **factory)
        if config.gated_mlp:
            self.mlp: nn.Module = SwiGLU(config.d_model, config.d_ff, config.bias, **factory)
        else:
            self.mlp = FeedForward(config.d_model, config.d_ff, config.activation, config.bias, **factory)

    def forward(
        self, x: Float[Tensor, "... seq d_model"], rotation: Rotation | None = None
    ) -> Float[Tensor, "... seq d_model"]:
        x = x + self.attention(self.attention_norm(x), rotation)
        y: Tensor = x + self.mlp(self.mlp_norm(x))
        return y


class TransformerLM(nn.Module):
    """Token ids (batch, seq) in, logits (batch, seq, vocab) out; its parameters are ``config.num_params``, exactly.

    ``attention`` is "sdpa" or "eager". ``checkpoint_every=k`` keeps the input of every k blocks alone and computes the
    rest again in backward. Raises ValueError for a model that does not fit this machine, before anything is allocated;
    on the meta device and under FakeTensorMode, where nothing is, any size goes. The forward refuses tokens that are
    no integers and, with learned positions, a context that is too long.

    >>> config = TransformerConfig("tiny", num_layers=2, d_model=64, num_heads=4, d_ff=256, vocab_size=1000)
    >>> model = TransformerLM(config)
    >>> sum(p.numel() for p in model.parameters()) == config.num_params
    True
    >>> model(torch.tensor([[3, 1, 4, 1, 5]])).shape
    torch.Size([1, 5, 1000])
    """

    def __init__(
        self,
        config: TransformerConfig,
        attention: str = "sdpa",
        *,
        checkpoint_every: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        one_of("attention", attention, ATTENTIONS)
        check_size(config.num_params, device, dtype)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.config = config
        self.checkpoint_every = check_every(checkpoint_every, config.num_layers)
        self.embedding = Embedding(config.vocab_size, config.d_model, **factory)
        if config.learned_positions:
            self.positions: Embedding | None = Embedding(config.learned_positions, config.d_model, **factory)
            self.rotary = None
        else:
            assert config.head_dim is not None
            self.positions, self.rotary = None, RotaryEmbedding(config.head_dim, config.rope_theta)
        self.blocks = nn.ModuleList(
            TransformerBlock(config, attention, **factory) for _layer in range(config.num_layers)
        )
        self.final_norm = norm(config, **factory)
        self.head = None if config.tied_head else Linear(config.d_model, config.vocab_size, **factory)

    def forward(self, tokens: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq vocab"]:
        self._check(tokens)
        x = self.embedding(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        rotation = None
        if self.positions is not None:
            x = x + self.positions(positions)
        if self.rotary is not None:
            rotation = self.rotary(positions, x.dtype)
        x = self.final_norm(run_blocks(self.blocks, x, rotation, checkpoint_every=self.checkpoint_every))
        head = self.embedding if self.head is None else self.head
        return functional.linear(x, head.weight)

    def _check(self, tokens: Tensor) -> None:
        if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            message = _("tokens must be integers of shape (batch, seq); received {dtype} of shape {shape}")
            raise ValueError(message.format(dtype=tokens.dtype, shape=tuple(tokens.shape)))
        if self.config.learned_positions:
            whole_number(_("the context, in tokens,"), tokens.shape[1], 1, self.config.learned_positions)
