"""The learning rate at each step: constant, or a rise and a fall along a cosine. Works without torch."""

from __future__ import annotations

import math

from core.checks import one_of

SCHEDULES = ("constant", "cosine")


def cosine_lr(step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> float:
    """Up to ``max_lr`` in ``warmup_steps`` equal steps, down to ``min_lr`` along half a cosine, and there it stays.

    Step 0 is the first: during the rise it gets max_lr / warmup_steps, so that no step is without effect; step
    ``warmup_steps`` gets max_lr, and the last one, total_steps − 1, min_lr. Source: Loshchilov and Hutter 2017, SGDR;
    the warm-up as in GPT-3 and Llama.

    >>> [round(cosine_lr(step, 1.0, 0.1, 2, 7), 3) for step in range(8)]
    [0.5, 1.0, 1.0, 0.868, 0.55, 0.232, 0.1, 0.1]
    """
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    fall = total_steps - 1 - warmup_steps
    done = min(1.0, (step - warmup_steps) / fall) if fall > 0 else float(step > warmup_steps)
    return min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (max_lr - min_lr)


class Schedule:
    """The learning rate of a run, which may be changed while it runs: from then on every step is scaled by it.

    >>> schedule = Schedule("cosine", max_lr=1.0, min_lr=0.1, warmup_steps=2, total_steps=7)
    >>> schedule.lr(0)
    0.5
    >>> schedule.max_lr = 0.5
    >>> schedule.lr(1), Schedule("constant", max_lr=0.5).lr(1000)
    (0.5, 0.5)
    """

    def __init__(
        self, name: str, max_lr: float, min_lr: float = 0.0, warmup_steps: int = 0, total_steps: int = 1
    ) -> None:
        self.name = one_of("schedule", name, SCHEDULES)
        self.max_lr, self.min_lr = max_lr, min_lr
        self.warmup_steps, self.total_steps = warmup_steps, total_steps

    def lr(self, step: int) -> float:
        """The learning rate of that step, 0 being the first."""
        if self.name == "constant":
            return self.max_lr
        return cosine_lr(step, self.max_lr, min(self.min_lr, self.max_lr), self.warmup_steps, self.total_steps)

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps: the rate, as it was last set."""
        return {"max_lr": self.max_lr}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on with the rate of a checkpoint."""
        self.max_lr = float(state["max_lr"])
