"""A batch in parts and clipped gradients, against gradients by hand; memory and FLOPs counted in a run."""

import math

import numpy as np
import pytest
import torch

from core import training
from core.training import TrainConfig, Trainer
from core.training.step_memory import COUNTED_STEP

DATA = np.random.default_rng(0).integers(0, 256, 500)
TEXT = TrainConfig(
    task="text", num_layers=2, dim=16, num_heads=2, context_length=8, batch_size=8, num_steps=4, optimizer="adamw"
)


def gradient_by_hand(config):
    """The lecture's loss of the first batch in fp64, and its gradients."""
    trainer = Trainer(config)
    x, y = (one.double() for one in trainer.batches.next())
    weights = [p.detach().double().requires_grad_() for p in trainer.parameters]
    h = x
    for weight in weights[:-1]:
        h = h @ weight.T
    loss = ((h @ weights[-1][0] - y) ** 2).mean()
    return loss.item(), torch.autograd.grad(loss, weights)


@pytest.mark.parametrize("parts", [1, 2, 8])
@pytest.mark.parametrize("divide", [True, False])
def test_parts_are_the_whole_but_for_the_order_of_sums(parts, divide):
    config = TrainConfig(batch_size=8)
    both = training.accumulate(config, parts, divide=divide)
    loss, gradients = gradient_by_hand(config)
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    assert both.loss == pytest.approx(loss, rel=1e-6)
    assert both.parts_loss == pytest.approx(loss, rel=1e-6)
    assert both.norm == pytest.approx(norm, rel=1e-6)
    assert both.parts_norm == pytest.approx(norm * (1 if divide else parts), rel=1e-6)
    assert [one.norm for one in both.layers] == pytest.approx([float(g.norm()) for g in gradients], rel=1e-6)
    assert both.divided == (divide or parts == 1)
    assert both.roundings < 20
    if parts == 1:
        assert both.largest_difference == 0
        assert all(one.share_equal == 1 for one in both.layers)


def test_parts_of_a_text():
    both = training.accumulate(TEXT, 4, data=DATA)
    assert both.roundings < 100
    assert len(both.layers) == len(list(Trainer(TEXT, data=DATA).model.parameters()))
    comparison = training.compare_accumulated(TEXT, both)
    assert comparison.ratio == pytest.approx(1, rel=1e-5)
    assert comparison.unexplained == 0
    with pytest.raises(ValueError, match="parts must be a whole number from 1 to 8; received 9"):
        training.accumulate(TEXT, 9, data=DATA)


@pytest.mark.parametrize("config", [TrainConfig(num_steps=12, lr=0.002), TEXT.replace(num_steps=5)])
def test_clipping_is_looked_at_without_changing_it(config):
    data = DATA if config.task == "text" else None
    limit = 1.0 if config.task == "text" else 200.0
    run = training.clipping(config, limit, data=data)
    bare = list(training.train(config.replace(max_grad_norm=limit), data=data))
    assert [one.loss for one in run.steps] == [record.loss for record in bare]
    assert [one.norm for one in run.steps] == [record.gradient_norm for record in bare]
    assert list(run.losses_unclipped) == [record.loss for record in training.train(config, data=data)]
    assert run.num_clipped > 0
    for one in run.steps:
        assert one.clipped_norm == pytest.approx(min(one.norm, limit), rel=1e-5)
        assert one.cosine == pytest.approx(1, abs=1e-12)
        assert one.differing == 0
    comparison = training.compare_clipped(config, run)
    assert comparison.ratio == pytest.approx(1, rel=1e-5)
    assert comparison.unexplained == 0


@pytest.mark.parametrize("limit", [0, -1.0, math.nan])
def test_a_limit_that_is_none(limit):
    with pytest.raises(ValueError, match="max_norm"):
        training.clipping(TrainConfig(num_steps=2), limit)


MEASURED = [
    TrainConfig(num_steps=4), TrainConfig(num_steps=4, optimizer="adamw", max_grad_norm=1.0), TEXT,
    TEXT.replace(num_accumulation_steps=4), TEXT.replace(precision="bf16 autocast"), TEXT.replace(precision="bf16"),
    TEXT.replace(optimizer="muon", lr=0.01), TrainConfig(num_steps=4, model="deep network"),
]  # fmt: skip


@pytest.mark.parametrize("config", MEASURED, ids=lambda config: f"{config.model} {config.optimizer} {config.precision}")
def test_counting_changes_no_bit_and_agrees_with_paper(config):
    data = DATA if config.task == "text" else None
    trainer = Trainer(config, data=data)
    records = [trainer.advance()]
    record, counted = training.advance_counted(trainer)
    records += [record, trainer.advance(), trainer.advance()]
    assert [one.loss for one in records] == [one.loss for one in training.train(config, data=data)]
    assert records[COUNTED_STEP].step == COUNTED_STEP
    assert counted.flops == config.flops_per_step
    item = 2 if config.precision == "bf16" else 4
    assert counted.live_bytes["parameter"] == item * config.num_params
    assert counted.live_bytes.get("gradient", 0) <= item * config.num_params
    comparison = training.compare_step_memory(config, counted.live_bytes)
    assert comparison.measurement.value == sum(counted.live_bytes.values())
    if config.model == "deep network":
        assert comparison.prediction.value is None
        return
    assert comparison.unexplained == 0
    if config.task == "text" and config.num_accumulation_steps == 1 and config.precision != "bf16":
        assert comparison.difference == 0
    if config.num_accumulation_steps == 4:  # the whole batch is drawn at once: 3 of 4 parts more, inputs and targets
        (inputs,) = [part.value for part in comparison.parts if part.name == "inputs"]
        assert inputs == 2 * 8 * 3 * 2 * config.context_length


def test_the_claims_of_a_run_without_a_count_need_none():
    assert training.compare_step_flops(TrainConfig(), 7).measurement.value == 7
