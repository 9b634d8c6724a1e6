"""Adafactor and Muon: what came after Adam, with less state. Both are torch's algorithms, step for step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from core.checks import whole_number
from core.optimizers.base import Optimizer, State, at_least_zero, below_one
from core.words import _

# The quintic whose repetition brings every singular value near 1 (Jordan et al. 2024).
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


class Adafactor(Optimizer):
    """Adam's s of a matrix as the product of its row and column means: n + m numbers of state instead of n·m.

    ŝ = r·cᵀ / mean(r), update u = g / √ŝ, scaled down to a root mean square of at most ``d``; the step is relative to
    p's own root mean square, and never above lr or 1/√t (Shazeer and Stern 2018). Vectors keep all of s. No momentum.
    """

    def __init__(
        self, params: ParamsT, lr: float = 1e-2, beta2_decay: float = -0.8, d: float = 1.0, weight_decay: float = 0.0
    ) -> None:
        checked = {"lr": at_least_zero("lr", lr), "d": at_least_zero("d", d)}
        if at_least_zero("−beta2_decay", -beta2_decay) > 1 or checked["d"] < 1:
            message = _("beta2_decay must be from −1 to 0 and d at least 1; received {decay} and {d}")
            raise ValueError(message.format(decay=beta2_decay, d=d))
        checked |= {"beta2_decay": beta2_decay, "weight_decay": at_least_zero("weight_decay", weight_decay)}
        super().__init__(params, checked)

    def new_state(self, p: Tensor) -> State:
        step = torch.tensor(0.0)
        if p.dim() > 1:
            return {"step": step, "row_var": torch.zeros_like(p[..., :1]), "col_var": torch.zeros_like(p[..., :1, :])}
        return {"step": step, "variance": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        t = state["step"].add_(1).item()
        new, tiny = t ** group["beta2_decay"], torch.finfo(p.dtype).eps
        p_rms = _rms(p).clamp(min=1e-3)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        if p.dim() > 1:
            rows = state["row_var"].lerp_(g.square().mean(-1, keepdim=True), new)
            columns = state["col_var"].lerp_(g.square().mean(-2, keepdim=True), new)
            s = (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=tiny))
        else:
            s = state["variance"].lerp_(g.square(), new).clone()
        u = s.clamp_(min=tiny**2).rsqrt_().mul_(g)
        p.sub_(u.mul_(min(group["lr"], t**-0.5) * p_rms / (_rms(u) / group["d"]).clamp(min=1)))


class Muon(Optimizer):
    """Momentum whose update is made orthogonal: every direction of a matrix moves equally far (Jordan et al. 2024).

    v ← μ·v + (1 − μ)·g, u = orthogonal((1 − μ)·g + μ·v), p ← (1 − lr·λ)·p − lr·√max(1, rows/columns)·u. One number of
    state for each parameter. Matrices only: embeddings, heads and vectors are left to AdamW.

    Raises ValueError for a parameter that is no matrix.
    """

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, steps: int = 5
    ) -> None:
        checked = {"lr": at_least_zero("lr", lr), "weight_decay": at_least_zero("weight_decay", weight_decay)}
        checked |= {"momentum": below_one("momentum", momentum), "steps": whole_number("steps", steps, 1, 99)}
        super().__init__(params, checked)
        for p in (p for group in self.param_groups for p in group["params"] if p.dim() != 2):
            message = _("Muon is for matrices, two axes; received a parameter of shape {shape}. Use AdamW for it.")
            raise ValueError(message.format(shape=tuple(p.shape)))

    def new_state(self, p: Tensor) -> State:
        return {"momentum_buffer": torch.zeros_like(p)}

    def update(self, p: Tensor, g: Tensor, state: State, group: dict[str, Any]) -> None:
        v = state["momentum_buffer"].lerp_(g, 1 - group["momentum"])
        u = orthogonalize(g.lerp(v, group["momentum"]), group["steps"])
        p.mul_(1 - group["lr"] * group["weight_decay"])
        rows, columns = p.shape
        p.sub_(u, alpha=group["lr"] * max(1, rows / columns) ** 0.5)


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """U Vᵀ of a matrix U S Vᵀ, roughly, in bf16: Newton-Schulz steps bring singular values to between 0.7 and 1.2.

    >>> singular_values = torch.linalg.svdvals(orthogonalize(torch.randn(16, 8)).float())
    >>> 0.3 < singular_values.min() and singular_values.max() < 1.3
    tensor(True)
    """
    a, b, c = NEWTON_SCHULZ
    x = g.bfloat16() if g.shape[0] <= g.shape[1] else g.bfloat16().T
    x = x / x.norm().clamp(min=1e-7)  # no singular value is above 1
    for _step in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if g.shape[0] <= g.shape[1] else x.T


def _rms(x: Tensor) -> Tensor:
    rms: Tensor = torch.linalg.vector_norm(x) / x.numel() ** 0.5
    return rms
