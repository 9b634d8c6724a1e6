"""SGD, Momentum, AdaGrad, RMSProp, Adam and AdamW, each as its formula (CS336 §6.5).

p parameter, g gradient. Each is torch's algorithm of the same name with torch's defaults, step for step; where torch
has options beyond these (Nesterov, dampening, AMSGrad, decay of the rate), they are left out. The lecture's AdaGrad and
RMSProp put ε under the root; torch, and so we, add it to the root.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from core.optimizers.base import Optimizer, State, at_least_zero, below_one, check_betas


class SGD(Optimizer):
    """p ← p − lr·g. No state."""

    def __init__(self, params: ParamsT, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": at_least_zero("lr", lr)})

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        p.sub_(g, alpha=group["lr"])


class Momentum(Optimizer):
    """v ← μ·v + g, p ← p − lr·v (Polyak 1964). One number of state for each parameter.

    torch calls it SGD with ``momentum``. The average's weights do not add up to 1: a steady gradient moves p by
    lr / (1 − μ) of it a step.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, momentum: float = 0.9) -> None:
        super().__init__(params, {"lr": at_least_zero("lr", lr), "momentum": below_one("momentum", momentum)})

    def new_state(self, p: Tensor) -> State:
        return {"momentum_buffer": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        v = state["momentum_buffer"].mul_(group["momentum"]).add_(g)
        p.sub_(v, alpha=group["lr"])


class AdaGrad(Optimizer):
    """s ← s + g², p ← p − lr·g / (√s + ε) (Duchi et al. 2011). One number of state for each parameter.

    The first step is lr·g / (|g| + ε), about lr·sign(g), whatever the gradient's size; later ones get smaller.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-2, eps: float = 1e-10) -> None:
        super().__init__(params, {"lr": at_least_zero("lr", lr), "eps": at_least_zero("eps", eps)})

    def new_state(self, p: Tensor) -> State:
        return {"sum": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        s = state["sum"].addcmul_(g, g)
        p.addcdiv_(g, s.sqrt().add_(group["eps"]), value=-group["lr"])


class RMSProp(Optimizer):
    """s ← α·s + (1 − α)·g², p ← p − lr·g / (√s + ε) (Hinton 2012). One number of state for each parameter.

    AdaGrad that forgets. The first step is lr·sign(g) / √(1 − α): ten times lr by default.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8) -> None:
        checked = {"lr": at_least_zero("lr", lr), "alpha": below_one("alpha", alpha), "eps": at_least_zero("eps", eps)}
        super().__init__(params, checked)

    def new_state(self, p: Tensor) -> State:
        return {"square_avg": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        alpha = group["alpha"]
        s = state["square_avg"].mul_(alpha).addcmul_(g, g, value=1 - alpha)
        p.addcdiv_(g, s.sqrt().add_(group["eps"]), value=-group["lr"])


class AdamW(Optimizer):
    """Averages of g and g², without the bias of their start, and weight decay apart from the gradient.

    m ← β₁·m + (1 − β₁)·g, s ← β₂·s + (1 − β₂)·g², p ← (1 − lr·λ)·p − lr·m̂ / (√ŝ + ε), where m̂ = m / (1 − β₁ᵗ) and
    ŝ = s / (1 − β₂ᵗ) (Loshchilov and Hutter 2019). Two numbers of state for each parameter, a step for each tensor.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        checked = {"lr": at_least_zero("lr", lr), "betas": check_betas(betas), "eps": at_least_zero("eps", eps)}
        super().__init__(params, checked | {"weight_decay": at_least_zero("weight_decay", weight_decay)})

    def new_state(self, p: Tensor) -> State:
        return {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        t = state["step"].add_(1.0).item()
        m = state["exp_avg"].lerp_(g, 1 - beta1)
        s = state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
        denominator = s.sqrt().div_((1 - beta2**t) ** 0.5).add_(group["eps"])
        p.addcdiv_(m, denominator, value=-lr / (1 - beta1**t))


class Adam(AdamW):
    """AdamW whose weight decay is 0 unless given, and then part of the gradient: g ← g + λ·p (Kingma and Ba 2015)."""

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        if group["weight_decay"]:
            g = g.add(p, alpha=group["weight_decay"])
        super().update(p, g, state, group | {"weight_decay": 0.0})
