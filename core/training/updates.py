"""What an update is made of, looked at: a batch in parts beside the whole one, and gradients scaled down (CS336 §6.6).

Letters: k parts, g gradient of the whole batch, h gradient of its parts added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.checks import positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.training.clip import EPSILON, gradient_norm
from core.training.config import TrainConfig
from core.training.loop import Trainer, train
from core.words import _

MAX_SHOWN_STEPS = 2000
UNIT_ROUNDOFF = 2.0**-24  # fp32: half of the gap between 1 and the next number


@dataclass(frozen=True)
class LayerDifference:
    """A parameter's gradient, of the whole batch and of its parts; ``share_equal`` is that of equal bits."""

    layer: str
    norm: float
    largest_difference: float
    share_equal: float


@dataclass(frozen=True)
class Accumulated:
    """One batch worked off at once and in ``parts``: both losses, both gradients' norms, and where they differ.

    ``divided``: whether each part's loss was divided by their number. ``largest_difference`` is that of any gradient
    from the whole batch's (times k, where the parts were not divided), ``largest_gradient`` the largest there is.
    """

    parts: int
    divided: bool
    loss: float
    parts_loss: float
    norm: float
    parts_norm: float
    layers: tuple[LayerDifference, ...]
    largest_gradient: float

    @property
    def largest_difference(self) -> float:
        return max(layer.largest_difference for layer in self.layers)

    @property
    def roundings(self) -> float:
        """The largest difference in fp32's unit roundoffs, 2^−24, of the largest gradient."""
        return self.largest_difference / (UNIT_ROUNDOFF * self.largest_gradient)


def accumulate(config: TrainConfig, parts: int, *, divide: bool = True, data: object = None) -> Accumulated:
    """The first batch of a run, at once and in ``parts``, on the same fresh weights.

    ``divide=False`` leaves out what makes a mean of means: each part's loss divided by k. Raises ValueError for parts
    that do not divide the batch.

    >>> both = accumulate(TrainConfig(batch_size=8), 4)
    >>> both.roundings < 20, round(accumulate(TrainConfig(batch_size=8), 4, divide=False).parts_norm / both.norm, 5)
    (True, 4.0)
    """
    parts = whole_number(_("parts"), parts, 1, config.batch_size)
    whole = Trainer(config.replace(num_accumulation_steps=1, bug=""), data=data)
    bug = "" if divide or parts == 1 else "mean for sum"
    split = Trainer(config.replace(num_accumulation_steps=parts, bug=bug), data=data)
    loss, parts_loss = (float(one.backward(*one.batches.next())) for one in (whole, split))
    scale = parts if bug else 1
    layers, largest = [], 0.0
    for (name, p), q in zip(whole.model.named_parameters(), split.model.parameters(), strict=True):
        g, h = _gradient(p), _gradient(q)
        largest = max(largest, float((scale * g).abs().max()))
        differing = (h - scale * g).abs().max()
        equal = float((h == scale * g).double().mean())
        layers.append(LayerDifference(name.removesuffix(".weight"), float(g.norm()), float(differing), equal))
    norms = [float(gradient_norm(one.parameters)) for one in (whole, split)]
    return Accumulated(parts, not bug, loss, parts_loss, norms[0], norms[1], tuple(layers), largest)


def compare_accumulated(config: TrainConfig, both: Accumulated) -> Comparison:
    """The norm of the whole batch's gradient, times k where nothing was divided, beside that of the parts' sum.

    >>> config = TrainConfig(batch_size=8)
    >>> compare_accumulated(config, accumulate(config, 4, divide=False)).prediction.formula[:14]
    '4 · |g|, |g| ='
    """
    factor = 1 if both.divided else both.parts
    quantity = _("gradient norm of {k} parts").format(k=both.parts)
    formula = f"|g| = {both.norm:.6g}" if factor == 1 else f"{factor} · |g|, |g| = {both.norm:.6g}"
    source = _("the mean of a batch is the mean of its parts' means; a sum of k means is k times that")
    prediction = Prediction(quantity, factor * both.norm, "", formula, source=source)
    note = _("the first batch of {rows:,}, fresh weights").format(rows=config.batch_size)
    conditions = Conditions(config.device, _("computed"), config.precision, 1, 0, 1, notes=(note,))
    measurement = Measurement(quantity, (both.parts_norm,), "", conditions)
    gap = both.parts_norm - factor * both.norm
    name, why = _("order of additions"), _("sums of floats depend on their order; a unit roundoff is 6 × 10⁻⁸")
    return Comparison(prediction, measurement, (Term(name, gap, why),) if gap else ())


@dataclass(frozen=True)
class ClippedStep:
    """One update: its norm before and after, the loss, how far the direction turned, and against torch's function.

    ``cosine`` is that of the angle between the gradients before and after; ``differing`` counts the numbers in which
    torch's own clip_grad_norm_, on the same gradients, gives other bits.
    """

    step: int
    loss: float
    norm: float
    clipped_norm: float
    cosine: float
    differing: int


@dataclass(frozen=True)
class Clipping:
    """A short run with its gradients clipped, and the losses of the same run without."""

    max_norm: float
    steps: tuple[ClippedStep, ...]
    losses_unclipped: tuple[float, ...]

    @property
    def num_clipped(self) -> int:
        """Steps whose gradients were longer than allowed."""
        return sum(1 for one in self.steps if one.norm > self.max_norm)


def clipping(config: TrainConfig, max_norm: float, *, data: object = None) -> Clipping:
    """Train with clipping, looking at every step's gradients before and after; and train without.

    Raises ValueError for a ``max_norm`` that is not above zero, and for more than 2,000 steps.

    >>> run = clipping(TrainConfig(num_steps=20), 10.0)
    >>> run.num_clipped, sum(one.differing for one in run.steps), run.steps[0].cosine > 0.999999
    (20, 0, True)
    """
    max_norm = positive_number("max_norm", max_norm)
    whole_number("num_steps", config.num_steps, 1, MAX_SHOWN_STEPS)
    plain = config.replace(num_accumulation_steps=1, max_grad_norm=None, precision="fp32", loss_scale_log2=0)
    trainer, steps = Trainer(plain.replace(max_grad_norm=max_norm), data=data), []
    # In torch's order: the norm's last bit depends on it.
    before: dict[Tensor, Tensor] = {p: torch.empty(0) for p in trainer.parameters}
    seen: list[tuple[float, float, int]] = []
    handles = [_on_gradient(p, before) for p in trainer.parameters]
    handles.append(trainer.optimizers[0].register_step_pre_hook(lambda *_args: seen.append(_look(before, max_norm))))
    while not trainer.finished:
        record = trainer.advance()
        steps.append(ClippedStep(record.step, record.loss, record.gradient_norm, *seen[-1]))
    losses = tuple(record.loss for record in train(plain, data=data))
    return Clipping(max_norm, tuple(steps), losses)


def compare_clipped(config: TrainConfig, run: Clipping) -> Comparison:
    """The first step's norm after clipping: min(1, max_norm / (norm + 10⁻⁶)) · norm, beside the one that is there.

    >>> config = TrainConfig(num_steps=1)
    >>> compare_clipped(config, clipping(config, 10.0)).prediction.text
    '10.0'
    """
    first = run.steps[0]
    quantity = _("gradient norm after clipping, step 0")
    value = min(1.0, run.max_norm / (first.norm + EPSILON)) * first.norm
    formula = f"min(1, {run.max_norm:g} / {first.norm:.4g}) · {first.norm:.4g}"
    source = _("Pascanu et al. 2013; torch adds 10⁻⁶ to the norm that it divides by")
    conditions = Conditions(config.device, _("computed"), "fp32", 1, 0, 1)
    measurement = Measurement(quantity, (first.clipped_norm,), "", conditions)
    gap = first.clipped_norm - value
    why = _("each number is scaled in fp32, and the norm is summed anew")
    parts = (Term(_("rounding"), gap, why),) if gap else ()
    return Comparison(Prediction(quantity, value, "", formula, source=source), measurement, parts)


def _on_gradient(p: Tensor, before: dict[Tensor, Tensor]) -> Any:
    """Keep a copy of the parameter's gradient as backward leaves it."""
    register: Any = p.register_post_accumulate_grad_hook
    return register(lambda p: before.__setitem__(p, p.grad.clone()))


def _look(before: dict[Tensor, Tensor], max_norm: float) -> tuple[float, float, int]:
    """The norm now, the cosine to the gradients before, and the numbers in which torch's function differs."""
    theirs = [torch.empty_like(p) for p in before]
    for one, g in zip(theirs, before.values(), strict=True):
        one.grad = g.clone()
    torch.nn.utils.clip_grad_norm_(theirs, max_norm, foreach=False)
    g_N, h_N = (torch.cat([one.flatten().double() for one in grads])
                for grads in (before.values(), map(_gradient, before)))  # fmt: skip
    cosine = float(g_N @ h_N / (g_N.norm() * h_N.norm()))
    differing = sum(int((_gradient(p) != _gradient(q)).sum()) for p, q in zip(before, theirs, strict=True))
    return float(gradient_norm(before)), cosine, differing


def _gradient(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad
