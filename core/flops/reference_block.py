"""A decoder-only Transformer in plain torch modules, as small as it can be written: what the FLOP formulas count.

GPT-2 style (LayerNorm, learned positions, GELU, biases) or Llama style (RMSNorm, rotary positions, SwiGLU, grouped
queries), by the shape that it is built from; attention as three operators ("eager") or fused ("sdpa").

Letters: B batch, T positions, D model width, H heads, K key-value heads, Q head size, F feed-forward width,
V vocabulary. This module imports torch; import it where it is used.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.flops.counter import FlopCount, count_flops_detail
from core.flops.transformer_shapes import TransformerShape
from core.words import _


def rotate(x_BHTQ: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021): elementwise work only, so that no FLOP counter sees it."""
    t, q = x_BHTQ.shape[-2:]
    frequency_Q = 10000.0 ** (-torch.arange(0, q, 2, device=x_BHTQ.device) / q)
    angle_TQ = torch.arange(t, device=x_BHTQ.device)[:, None] * frequency_Q
    cos_TQ, sin_TQ = angle_TQ.cos(), angle_TQ.sin()
    a, b = x_BHTQ.chunk(2, dim=-1)
    return torch.cat([a * cos_TQ - b * sin_TQ, a * sin_TQ + b * cos_TQ], dim=-1)


def eager_attention(q_BHTQ: Tensor, k_BHTQ: Tensor, v_BHTQ: Tensor) -> Tensor:
    """Causal attention as three operators; the whole square is computed, then half of it masked."""
    t, q = q_BHTQ.shape[-2:]
    scores_BHTT = q_BHTQ @ k_BHTQ.transpose(-1, -2) / q**0.5
    future_TT = torch.ones(t, t, dtype=torch.bool, device=q_BHTQ.device).triu(1)
    y_BHTQ: Tensor = scores_BHTT.masked_fill(future_TT, -torch.inf).softmax(-1) @ v_BHTQ
    return y_BHTQ


class Attention(nn.Module):
    def __init__(self, shape: TransformerShape, attention: str) -> None:
        super().__init__()
        qkv_bias = shape.bias if shape.qkv_bias is None else shape.qkv_bias
        self.shape, self.attention = shape, attention
        self.q = nn.Linear(shape.d_model, shape.q_dim, bias=qkv_bias)
        self.k = nn.Linear(shape.d_model, shape.kv_dim, bias=qkv_bias)
        self.v = nn.Linear(shape.d_model, shape.kv_dim, bias=qkv_bias)
        self.output = nn.Linear(shape.q_dim, shape.d_model, bias=shape.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        b, t, _ = x_BTD.shape
        h, k = self.shape.num_heads, self.shape.num_kv_heads
        assert k is not None
        q_BHTQ = self.q(x_BTD).view(b, t, h, -1).transpose(1, 2)
        k_BKTQ = self.k(x_BTD).view(b, t, k, -1).transpose(1, 2)
        v_BKTQ = self.v(x_BTD).view(b, t, k, -1).transpose(1, 2)
        if not self.shape.learned_positions:
            q_BHTQ, k_BKTQ = rotate(q_BHTQ), rotate(k_BKTQ)
        if self.attention == "sdpa":
            y_BHTQ = functional.scaled_dot_product_attention(q_BHTQ, k_BKTQ, v_BKTQ, is_causal=True, enable_gqa=h != k)
        else:
            repeated = k_BKTQ.repeat_interleave(h // k, 1), v_BKTQ.repeat_interleave(h // k, 1)
            y_BHTQ = eager_attention(q_BHTQ, *repeated)
        projected: Tensor = self.output(y_BHTQ.transpose(1, 2).reshape(b, t, -1))
        return projected


class FeedForward(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.d_model, shape.d_ff, bias=shape.bias)
        self.gate = nn.Linear(shape.d_model, shape.d_ff, bias=shape.bias) if shape.gated_mlp else None
        self.down = nn.Linear(shape.d_ff, shape.d_model, bias=shape.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        up_BTF = self.up(x_BTD)
        hidden_BTF = functional.gelu(up_BTF) if self.gate is None else functional.silu(self.gate(x_BTD)) * up_BTF
        y_BTD: Tensor = self.down(hidden_BTF)
        return y_BTD


class ReferenceTransformer(nn.Module):
    """Token ids (B, T) in, logits (B, T, V) out; its parameters are ``shape.num_params``, exactly.

    Raises ValueError for rotary positions with an odd head size: they turn pairs.
    """

    def __init__(self, shape: TransformerShape, attention: str = "sdpa") -> None:
        super().__init__()
        assert shape.head_dim is not None
        if not shape.learned_positions and shape.head_dim % 2:
            message = _("rotary positions turn pairs: the width of a head, D / heads, must be even; received {width}")
            raise ValueError(message.format(width=shape.head_dim))

        def norm() -> nn.Module:
            return nn.LayerNorm(shape.d_model) if shape.norm_bias else nn.RMSNorm(shape.d_model)

        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        self.positions = nn.Embedding(shape.learned_positions, shape.d_model) if shape.learned_positions else None
        self.attentions = nn.ModuleList(Attention(shape, attention) for _ in range(shape.num_layers))
        self.mlps = nn.ModuleList(FeedForward(shape) for _ in range(shape.num_layers))
        self.norms = nn.ModuleList(norm() for _ in range(2 * shape.num_layers + 1))
        self.head = nn.Linear(shape.d_model, shape.vocab_size, bias=False)
        if shape.tied_head:
            self.head.weight = self.embedding.weight

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = self.embedding(tokens_BT)
        if self.positions is not None:
            x_BTD = x_BTD + self.positions(torch.arange(tokens_BT.shape[1], device=tokens_BT.device))
        for layer, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x_BTD = x_BTD + attention(self.norms[2 * layer](x_BTD))
            x_BTD = x_BTD + mlp(self.norms[2 * layer + 1](x_BTD))
        logits_BTV: Tensor = self.head(self.norms[-1](x_BTD))
        return logits_BTV


def training_step(model: nn.Module, tokens_BT: Tensor, backward: bool = True) -> None:
    """Forward, and the backward of the next-token loss if wanted."""
    logits_BTV = model(tokens_BT)
    if backward:
        loss = functional.cross_entropy(logits_BTV.flatten(0, 1), tokens_BT.flatten())
        loss.backward()  # type: ignore[no-untyped-call]


def count_reference_flops(
    shape: TransformerShape, batch_size: int, seq_len: int, attention: str = "sdpa", backward: bool = True
) -> FlopCount:
    """FLOPs that torch runs for this shape, counted on tensors without data: any size, no memory.

    One and two layers are run. Layers are equal, so every further one adds what the second added: exact, and a model
    of 80 layers takes no longer. ``by_module`` is left empty. Attention is "sdpa" or "eager".

    >>> from core.flops.transformer_shapes import PRESETS
    >>> count_reference_flops(PRESETS["GPT-2 small"], 1, 1024).total
    874944921600
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    counts = []
    with FakeTensorMode():
        for num_layers in (1, 2)[: shape.num_layers]:
            one = dataclasses.replace(shape, num_layers=num_layers, learned_positions=_positions(shape, seq_len))
            model = ReferenceTransformer(one, attention)
            tokens_BT = torch.zeros(batch_size, seq_len, dtype=torch.int64)
            counts.append(count_flops_detail(training_step, model, tokens_BT, backward))
    first, last, more = counts[0], counts[-1], shape.num_layers - 1

    def extended(of_one: int, of_two: int) -> int:
        return of_one + more * (of_two - of_one)

    return FlopCount(
        total=extended(first.total, last.total),
        by_operator={name: extended(first.by_operator.get(name, 0), n) for name, n in last.by_operator.items()},
        by_module={},
        uncounted=last.uncounted,
        recomputed_flops=extended(first.recomputed_flops, last.recomputed_flops),
    )


def _positions(shape: TransformerShape, seq_len: int) -> int:
    """A table of positions long enough; looking it up is no matrix multiply, so its length changes no count."""
    return max(shape.learned_positions, seq_len) if shape.learned_positions else 0
