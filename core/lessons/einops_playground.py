"""The lessons of the einops page (CS336 lecture 2, §5.3).

Shapes: B batch, S seq, H heads, D hidden (of one head or of all).
"""

# jaxtyping writes names of axes as text where Python expects types.
# ruff: noqa: F722, F821, UP037

from __future__ import annotations

import torch
from einops import einsum, rearrange, reduce
from jaxtyping import Float
from torch import Tensor


def motivation() -> torch.Tensor:
    x = torch.arange(24.0).reshape(2, 3, 4)  # batch, sequence, hidden
    y = torch.arange(24.0).reshape(2, 3, 4)

    by_number = x @ y.transpose(-2, -1)  # which dimensions are -2 and -1?
    by_name = einsum(x, y, "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2")
    any_batch = einsum(x, y, "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2")

    assert by_name.shape == (2, 3, 3)
    assert torch.equal(by_name, by_number)
    assert torch.equal(by_name, any_batch)
    return by_name


def mean_and_sum() -> torch.Tensor:
    x = torch.arange(24.0).reshape(2, 3, 4)
    old = x.mean(dim=-1)
    new_sum = reduce(x, "... hidden -> ...", "sum")
    new_mean = reduce(x, "... hidden -> ...", "mean")

    assert old.shape == new_sum.shape == new_mean.shape == (2, 3)
    assert torch.equal(old, new_mean)
    assert torch.equal(new_sum, 4 * old)  # not the same thing: a sum over 4 is 4 means
    return new_mean


def heads() -> torch.Tensor:
    x = torch.arange(48.0).reshape(2, 3, 8)  # hidden holds 2 heads of 4
    w = torch.eye(4).flip(0)

    split = rearrange(x, "... (heads hidden1) -> ... heads hidden1", heads=2)
    assert split.shape == (2, 3, 2, 4)
    mixed = einsum(split, w, "... hidden1, hidden1 hidden2 -> ... hidden2")
    assert mixed.shape == (2, 3, 2, 4)
    merged = rearrange(mixed, "... heads hidden2 -> ... (heads hidden2)")

    assert merged.shape == (2, 3, 8)
    assert merged[0, 0].tolist() == [3, 2, 1, 0, 7, 6, 5, 4]  # each head on its own
    return merged


def order_matters() -> torch.Tensor:
    x = torch.arange(8.0)
    heads_first = rearrange(x, "(heads d) -> heads d", heads=2)
    d_first = rearrange(x, "(d heads) -> heads d", heads=2)
    assert heads_first.shape == d_first.shape == (2, 4)
    assert heads_first.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert d_first.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]

    ones = torch.ones(8)  # a test with ones sees no difference
    assert torch.equal(
        rearrange(ones, "(heads d) -> heads d", heads=2), rearrange(ones, "(d heads) -> heads d", heads=2)
    )
    return d_first


# The annotations below are read by a runtime checker where there is one, and by nobody where there is none.
def annotated_loss(prediction: Float[Tensor, "batch"], target: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    return (prediction - target).pow(2).mean()


def annotated_scores(
    x: Float[Tensor, "batch seq1 hidden"], y: Float[Tensor, "batch seq2 hidden"]
) -> Float[Tensor, "batch seq1 seq2"]:
    return x @ y.transpose(-2, -1)


def annotated_bias(x: Float[Tensor, "batch hidden"], bias: Float[Tensor, "hidden"]) -> Float[Tensor, "batch hidden"]:
    return x + bias
