"""The lessons of the gradients page (CS336 lecture 2, §5.5, §5.6).

Shapes: N entries, B rows, D features, K outputs.
"""
# Written as torch code is written: without a check at each line that .grad, which torch types as optional, is there.
# mypy: disable-error-code="no-untyped-call, union-attr, arg-type, return-value, operator"

from __future__ import annotations

import torch

from core.gradients.graph import kept_grad
from core.gradients.two_layers import check_network


def quadratic(x: tuple[float, ...], w: tuple[float, ...], target: float) -> torch.Tensor:
    x_N = torch.tensor(x, dtype=torch.float32)  # data
    w_N = torch.tensor(w, dtype=torch.float32, requires_grad=True)
    pred_y = x_N @ w_N
    loss = 0.5 * (pred_y - target).pow(2)
    loss.backward()

    grad_N = w_N.grad
    by_hand_N = (pred_y.detach() - target) * x_N  # the chain rule
    none = [kept_grad(loss), kept_grad(pred_y), x_N.grad]

    assert torch.equal(grad_N, by_hand_N)
    assert none == [None, None, None]
    if [*x, *w, target] == [1, 2, 3, 1, 1, 1, 5]:  # the lecture's numbers
        assert pred_y == 6
        assert loss == 0.5
        assert grad_N.tolist() == [1, 2, 3]
    return grad_N


def two_layers(b: int, d: int, k: int, x_requires_grad: bool) -> int:
    check_network(b, d, k, x_requires_grad)  # refused before anything is allocated
    x_BD = torch.randn(b, d, requires_grad=x_requires_grad)
    w1_DD = torch.randn(d, d, requires_grad=True)
    w2_DK = torch.randn(d, k, requires_grad=True)
    h1_BD = x_BD @ w1_DD
    h2_BK = h1_BD @ w2_DK
    h1_BD.retain_grad()
    h2_BK.retain_grad()
    h2_BK.pow(2).mean().backward()

    forward = 2 * b * d * d + 2 * b * d * k
    torch.testing.assert_close(w2_DK.grad, h1_BD.T @ h2_BK.grad)
    torch.testing.assert_close(h1_BD.grad, h2_BK.grad @ w2_DK.T)
    torch.testing.assert_close(w1_DD.grad, x_BD.T @ h1_BD.grad)
    backward = 2 * b * d * k + 2 * b * d * k + 2 * b * d * d  # in this order
    if x_requires_grad:
        torch.testing.assert_close(x_BD.grad, h1_BD.grad @ w1_DD.T)
        backward += 2 * b * d * d
        assert backward == 2 * forward
    if (b, d, k) == (1024, 256, 64):  # the lecture's numbers
        assert (forward, backward) == (167_772_160, 335_544_320 if x_requires_grad else 201_326_592)
    return backward


def accumulation() -> torch.Tensor:
    x_N = torch.tensor([1.0, 2.0, 3.0])
    w_N = torch.tensor([1.0, 1.0, 1.0], requires_grad=True)
    (0.5 * (x_N @ w_N - 5).pow(2)).backward()
    once_N = w_N.grad.clone()

    (0.5 * (x_N @ w_N - 5).pow(2)).backward()  # nobody cleared .grad: this one is added
    twice_N = w_N.grad.clone()
    assert torch.equal(twice_N, 2 * once_N)

    w_N.grad = None  # what optimizer.zero_grad() does
    (0.5 * (x_N @ w_N - 5).pow(2)).backward()
    fresh_N = w_N.grad
    assert torch.equal(fresh_N, once_N)
    return fresh_N
