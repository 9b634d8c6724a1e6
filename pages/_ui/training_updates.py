"""An update of Training, looked at: a batch in parts, and gradients scaled down."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import units
from core.claims import Comparison
from core.training import TrainConfig
from core.words import _
from pages._ui import inputs, tables
from pages._ui.charts import training as training_charts
from pages._ui.training_settings import SIZES

MODELS = {name: size for name, size in SIZES["regression"].items() if size["dim"] <= 64}  # a step takes milliseconds
BATCHES, PARTS = ["8", "16", "64", "256"], ["1", "2", "4", "8"]
MAX_STEPS = 200

PARTS_VIEW, CLIP_VIEW = "parts", "clipped"
VIEWS = {PARTS_VIEW: _("a batch in parts"), CLIP_VIEW: _("a clipped gradient")}


@dataclass(frozen=True)
class Update:
    """What is looked at, one of ``VIEWS``, and what it shows; ``limit`` is 0 where nothing is clipped, ``parts``
    negative where they are not divided by."""

    key: str
    config: TrainConfig
    parts: int
    limit: float
    seen: Any
    comparison: Comparison


def update() -> Update:
    """The controls, and one batch at once and in parts, or a short run with and without clipping."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = inputs.choice(_("Look at"), "update_view", list(VIEWS), VIEWS.__getitem__)
        seed = inputs.whole_number(_("Seed"), "update_seed", 0, 0, 2**32 - 1, width=90)
        return _parts(seed) if view == PARTS_VIEW else _clipped(seed)


def results(one: Update) -> None:
    """What comes below the card."""
    if one.key == CLIP_VIEW:
        clipped_results(one.seen)
    else:
        accumulation_results(one.seen)


# A batch in parts


def _parts(seed: int) -> Update:
    model = inputs.select(_("Model"), "update_model", list(MODELS))
    batch = inputs.choice(_("Batch B"), "update_batch", BATCHES)
    parts = inputs.choice(_("In parts k"), "update_parts", PARTS, default="4")
    divide = not inputs.switch(_("forget to divide"), "update_undivided")
    config = TrainConfig(batch_size=int(batch), seed=seed, **MODELS[model])
    seen, comparison = _accumulated(config, int(parts), divide)
    return Update(PARTS_VIEW, config, int(parts) if divide else -int(parts), 0.0, seen, comparison)


@functools.lru_cache(maxsize=64)
def _accumulated(config: TrainConfig, parts: int, divide: bool) -> Any:
    from core.training.updates import accumulate, compare_accumulated

    both = accumulate(config, parts, divide=divide)
    return both, compare_accumulated(config, both)


def accumulation_results(both: Any) -> None:
    """Loss, and each parameter's gradient beside that of the whole batch."""
    text = _(
        "Mean loss: **{whole}** at once, **{parts}** in {k} parts. No gradient is further off than **{roundings:.3g} "
        "roundings** (2⁻²⁴ of the largest gradient, {largest}): the same numbers, added in another order."
    )
    if not both.divided:
        text = _(
            "Mean loss: **{whole}** at once, **{parts}** in {k} parts: the loss looks right. Every gradient is {k} "
            "times too large, as with {k} times the learning rate; Adam, which divides by its size, would hide it."
        )
    said = text.format(
        whole=units.significant(both.loss, 8), parts=units.significant(both.parts_loss, 8), k=both.parts,
        roundings=both.roundings, largest=units.significant(both.largest_gradient),
    )  # fmt: skip
    st.markdown(said)
    factor = "" if both.divided else f"{both.parts} · "
    head = [_("parameter"), _("|g| of the whole batch"), f"max |h − {factor}g|", _("equal to the bit")]
    rows = [
        (
            layer.layer,
            (units.significant(layer.norm), repr(layer.norm)),
            (units.significant(layer.largest_difference), repr(layer.largest_difference)),
            f"{layer.share_equal:.0%}",
        )
        for layer in both.layers
    ]
    tables.show(head, rows, _("gradients g at once and h in parts"), code=(0,), dense=True)


# Gradients scaled down


def _clipped(seed: int) -> Update:
    limit = inputs.real_number("max_norm", "update_limit", 50.0, 1e-6, 1e9, step=1.0, format="%g", width=110)
    optimizer = inputs.choice(_("Optimizer"), "update_optimizer", ["sgd", "momentum", "adam"])
    lr = inputs.real_number(_("Learning rate"), "update_lr", 0.003, 1e-9, 1e3, step=0.001, format="%g", width=130)
    steps = inputs.whole_number(_("Steps"), "update_steps", 100, 2, MAX_STEPS, width=100)
    config = TrainConfig(optimizer=optimizer, lr=lr, num_steps=steps, seed=seed)
    seen, comparison = _clipping(config, limit)
    return Update(CLIP_VIEW, config, 1, limit, seen, comparison)


@functools.lru_cache(maxsize=64)
def _clipping(config: TrainConfig, limit: float) -> Any:
    from core.training.updates import clipping, compare_clipped

    run = clipping(config, limit)
    return run, compare_clipped(config, run)


def clipped_results(run: Any) -> None:
    """Norms before and after, losses with and without, and what the scaling keeps."""
    left, right = st.columns(2)
    norms = {
        _("before"): [(one.step, one.norm) for one in run.steps],
        _("after"): [(one.step, one.clipped_norm) for one in run.steps],
    }
    losses = {
        _("clipped"): [(one.step, one.loss) for one in run.steps],
        _("not clipped"): list(enumerate(run.losses_unclipped)),
    }
    with left:
        training_charts.curves(norms, _("step"), _("gradient norm (log)"), True, _("norms"), height=100)
    with right:
        training_charts.curves(losses, _("step"), _("loss (log)"), True, _("losses"), height=100)
    text = _(
        "**{clipped} of {all} steps** are clipped, and keep their direction: the cosine is at least 1 − {off}. torch's "
        "`clip_grad_norm_` gives the same bits in {same} of them all."
    )
    off = max(0.0, 1 - min(one.cosine for one in run.steps))
    same = sum(1 for one in run.steps if not one.differing)
    st.markdown(text.format(clipped=run.num_clipped, all=len(run.steps), off=units.significant(off, 1), same=same))
