# ruff: noqa: F722  (shapes are written as strings)
"""Softmax and cross-entropy, written out as in the textbook, stable for logits of any size.

The Transformer itself calls torch's own, which are the same formulas in one kernel each: written out, autograd keeps
twice the bytes of a softmax for backward (the exponentials and their quotient), in one kernel the quotient alone.
"""

from __future__ import annotations

from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


def softmax(x: Float[Tensor, "*shape"], dim: int = -1) -> Float[Tensor, "*shape"]:
    """exp(x) / Σ exp(x) along ``dim``. The largest entry is taken off first: no exponential overflows.

    >>> import torch
    >>> softmax(torch.tensor([1e4, 1e4, 0.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    exp_x = (x - x.detach().amax(dim, keepdim=True)).exp()
    return exp_x / exp_x.sum(dim, keepdim=True)


def cross_entropy(logits: Float[Tensor, "*batch vocab"], targets: Int[Tensor, "*batch"]) -> Float[Tensor, ""]:
    """The mean of log Σ exp(logits) − logits[target], in nats. The largest logit is taken off both, as in softmax.

    >>> import torch
    >>> cross_entropy(torch.tensor([[1e4, 0.0], [0.0, 1e4]]), torch.tensor([0, 0])).item()
    5000.0
    """
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    of_target = shifted.gather(-1, rearrange(targets, "... -> ... 1"))
    return (shifted.logsumexp(-1) - rearrange(of_target, "... 1 -> ...")).mean()
