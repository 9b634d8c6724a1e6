"""The loop against bare torch, accumulation against the large batch, precisions, every optimizer, every bug."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from core import training
from core.flops import count_flops
from core.models import TransformerLM
from core.optimizers import OPTIMIZERS
from core.training import TrainConfig, Trainer, train
from core.training.models import LECTURE_LAYERS, TORCH_NAMES, build_model, loss_of

TEXT = TrainConfig(
    task="text", num_layers=2, dim=16, num_heads=2, context_length=8, batch_size=8, num_steps=6, optimizer="adamw",
    lr=0.01,
)  # fmt: skip
DATA = np.random.default_rng(0).integers(0, 256, 500)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def losses(config, data=DATA):
    return [record.loss for record in train(config, data=data)]


def test_the_lecture_s_loop_by_hand():
    """y = x·(0 … 15), B = 4: the same numbers as a loop of ten lines, to the bit."""
    config = TrainConfig(num_steps=30, lr=1e-3, seed=3)
    torch.manual_seed(3)
    model = build_model(TrainConfig(seed=3))
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    expected = []
    for _step in range(30):
        x = torch.randn(4, 16, generator=generator)
        loss = functional.mse_loss(model(x), x @ torch.arange(16.0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        expected.append(loss.item())
    assert losses(config) == expected
    assert expected[-1] < expected[0] / 10


def test_a_transformer_with_cosine_and_clipping_by_bare_torch():
    config = TEXT.replace(
        schedule="cosine", warmup_steps=2, min_lr=0.001, max_grad_norm=0.5, implementation="torch", weight_decay=0.1
    )
    torch.manual_seed(0)
    model = TransformerLM(config.transformer())
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    expected = []
    for step in range(6):
        starts = torch.randint(len(DATA) - 8, (8,), generator=generator)
        windows = torch.stack([torch.from_numpy(DATA[start : start + 9]) for start in starts.tolist()])
        for group in optimizer.param_groups:
            group["lr"] = training.cosine_lr(step, 0.01, 0.001, 2, 6)
        loss = functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False)
        optimizer.step()
        optimizer.zero_grad()
        expected.append((loss.item(), norm.item(), optimizer.param_groups[0]["lr"]))
    records = list(train(config, data=DATA))
    assert [(r.loss, r.gradient_norm, r.lr) for r in records] == expected
    assert [r.step for r in records] == list(range(6))
    for r in records:
        assert r.tokens_per_sec == pytest.approx(64 / r.step_seconds)
        assert r.flop_per_sec == pytest.approx(config.flops_per_step / r.step_seconds)
        assert r.mfu is None
        assert r.memory_bytes > 2**20


def test_the_loss_is_the_textbook_s():
    model = build_model(TEXT)
    windows = torch.from_numpy(DATA[:18].reshape(2, 9))
    ours = training.cross_entropy(model(windows[:, :-1]), windows[:, 1:])
    torch.testing.assert_close(loss_of(model, windows[:, :-1], windows[:, 1:]), ours)


@pytest.mark.parametrize("config", [TrainConfig(batch_size=8, num_steps=8, lr=1e-3), TEXT])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_accumulation_is_the_large_batch(config, parts):
    whole, split = Trainer(config, data=DATA), Trainer(config.replace(num_accumulation_steps=parts), data=DATA)
    inputs, targets = whole.batches.next()
    torch.testing.assert_close(whole.backward(inputs, targets), split.backward(inputs, targets))
    for p, q in zip(whole.parameters, split.parameters, strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
    accumulated = losses(config.replace(num_accumulation_steps=parts))
    np.testing.assert_allclose(accumulated, losses(config), rtol=1e-3)


@pytest.mark.parametrize("model", ["cruncher", "deep network"])
def test_depth_and_lr_are_obeyed(model):
    seen = {
        (layers, lr): tuple(losses(TrainConfig(model=model, num_layers=layers, lr=lr, num_steps=3)))
        for layers in (1, 2, 3)
        for lr in (1e-4, 1e-3)
    }
    assert len(set(seen.values())) == 6
    parameters = [sum(p.numel() for p in build_model(TrainConfig(num_layers=n)).parameters()) for n in (1, 4)]
    assert parameters == [16 * 16 + 16, 4 * 16 * 16 + 16] == [TrainConfig(num_layers=n).num_params for n in (1, 4)]


@pytest.mark.parametrize("config", [TrainConfig(dim=12, num_layers=3), TrainConfig(model="deep network"), TEXT])
def test_flops_are_those_that_torch_counts(config):
    trainer = Trainer(config, data=DATA)
    inputs, targets = trainer.batches.next()
    assert count_flops(lambda: trainer.backward(inputs, targets)) == config.flops_per_step


@pytest.mark.parametrize("name", [*OPTIMIZERS, *training.TORCH_ONLY])
def test_every_optimizer_trains(name):
    implementations = ("napkin", "torch") if name in OPTIMIZERS else ("torch",)
    lr = {"adadelta": 30.0, "sgd": 0.1, "asgd": 0.1, "momentum": 0.03, "radam": 0.1}.get(name, 0.01)
    ends = []
    for implementation in implementations:
        config = TEXT.replace(optimizer=name, implementation=implementation, lr=lr, num_steps=12)
        curve = losses(config, np.tile(np.arange(40), 5))
        assert curve[-1] < curve[0] - 0.05, curve
        ends.append(curve[-1])
    if name != "muon":  # torch's has Nesterov and a scale of its own
        assert ends[0] == pytest.approx(ends[-1], rel=1e-3)


def test_muon_leaves_embeddings_and_norms_to_adamw():
    trainer = Trainer(TEXT.replace(optimizer="muon"), data=DATA)
    muon, adamw = trainer.optimizers
    assert {p.dim() for p in muon.param_groups[0]["params"]} == {2}
    total = sum(p.numel() for one in (muon, adamw) for p in one.param_groups[0]["params"])
    assert total == TEXT.num_params
    assert any(p is trainer.model.embedding.weight for p in adamw.param_groups[0]["params"])
    trainer.advance()
    assert set(trainer.model.embedding.weight.shape) == {256, 16}


def test_torch_s_names_are_torch_s():
    assert set(TORCH_NAMES) == {*OPTIMIZERS, *training.TORCH_ONLY}
    for name in TORCH_NAMES.values():
        assert hasattr(torch.optim, name)


def test_weight_decay_only_where_there_is_some():
    with pytest.raises(ValueError, match="sgd has no weight decay"):
        next(train(TrainConfig(weight_decay=0.1)))
    curves = [losses(TEXT.replace(weight_decay=decay)) for decay in (0.0, 5.0)]
    assert curves[0][0] == curves[1][0]
    assert curves[0][-1] != curves[1][-1]


@pytest.mark.parametrize("precision", training.PRECISIONS)
def test_precisions(precision):
    trainer = Trainer(TEXT.replace(precision=precision, num_steps=10), data=np.tile(np.arange(40), 5))
    products = []
    trainer.model.blocks[0].mlp.up.register_forward_hook(lambda _m, _i, output: products.append(output.dtype))
    records = [trainer.advance() for _step in range(10)]
    narrow = {"fp16": torch.float16, "bf16": torch.bfloat16}  # the others multiply in fp32
    assert set(products) == {narrow.get(precision[:4], torch.float32)}
    kept = torch.bfloat16 if precision == "bf16" else torch.float32
    assert {p.dtype for p in trainer.parameters} == {kept}
    assert {v.dtype for s in trainer.optimizers[0].state.values() for k, v in s.items() if k != "step"} == {kept}
    assert records[-1].loss < records[0].loss
    assert records[0].loss == pytest.approx(math.log(256), abs=0.1)
    assert (records[0].loss_scale is not None) == (precision == "fp16 scaled")


def test_a_scale_that_overflows_skips_the_step_and_is_halved():
    trainer = Trainer(TEXT.replace(precision="fp16 scaled"), data=DATA)
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = [p.clone() for p in trainer.parameters]
    record = trainer.advance()
    assert not math.isfinite(record.gradient_norm)
    assert record.loss_scale == 2.0**39
    for p, q in zip(before, trainer.parameters, strict=True):
        assert torch.equal(p, q)


def test_bug_ignored_lr():
    a, b = (list(train(TrainConfig(bug="ignored lr", lr=lr, optimizer="adam", num_steps=4))) for lr in (0.1, 0.001))
    assert [r.loss for r in a] == [r.loss for r in b] == losses(TrainConfig(lr=0.01, optimizer="adam", num_steps=4))
    assert (a[0].lr, b[0].lr) == (0.1, 0.001)


def test_bug_ignored_depth():
    curves = [losses(TrainConfig(bug="ignored depth", num_layers=n, num_steps=4)) for n in (2, 5)]
    assert curves[0] == curves[1] == losses(TrainConfig(num_layers=LECTURE_LAYERS, num_steps=4))


def test_bug_no_zero_grad():
    trainer = Trainer(TrainConfig(bug="no zero_grad", lr=1e-9))
    sane = Trainer(TrainConfig(lr=1e-9))
    total = None
    for _step in range(3):
        trainer.advance()
        x, y = sane.batches.next()
        sane.backward(x, y)
        gradient = sane.parameters[0].grad.clone()
        sane.optimizers[0].zero_grad()
        total = gradient if total is None else total + gradient
    torch.testing.assert_close(trainer.parameters[0].grad, total, rtol=1e-4, atol=1e-3)


def test_bug_no_optimizer_restored():
    config = TrainConfig(optimizer="momentum", lr=1e-4, num_steps=10)
    sane, forgetful = losses(config), losses(config.replace(bug="no optimizer restored"))
    assert sane[:6] == forgetful[:6]  # step 5 still has the parameters of step 4's update
    assert sane[6] != forgetful[6]


def test_bug_last_window_missing():
    data, config = np.arange(11), TEXT.replace(context_length=8, batch_size=64, num_steps=5)
    for bug, starts in (("", {0, 1, 2}), ("last window missing", {0, 1})):
        trainer = Trainer(config.replace(bug=bug), data=data)
        assert {int(i) for _n in range(5) for i in trainer.batches.next()[0][:, 0]} == starts


def test_bug_mean_for_sum():
    config = TrainConfig(batch_size=8, num_accumulation_steps=4, num_steps=1)
    (sane,), (wrong,) = train(config), train(config.replace(bug="mean for sum"))
    assert wrong.loss == sane.loss
    assert wrong.gradient_norm == pytest.approx(4 * sane.gradient_norm)


BAD = [
    ({"task": "images"}, "task must be one of"),
    ({"model": "transformer"}, "model must be one of cruncher, deep network"),
    ({"task": "text", "model": "cruncher"}, "model must be one of transformer"),
    ({"dim": "16"}, "dim must be a whole number"),
    ({"dim": 10**9}, "dim must be a whole number"),
    ({"task": "text", "dim": 20, "num_heads": 3}, "multiple|divid"),
    ({"batch_size": 4, "num_accumulation_steps": 3}, "multiple of num_accumulation_steps, 3; received 4"),
    ({"num_steps": 0}, "num_steps must be a whole number"),
    ({"num_steps": 10**9}, "num_steps must be a whole number"),
    ({"lr": -1}, "lr must be a number above 0"),
    ({"lr": math.nan}, "lr must be a number above 0"),
    ({"lr": 0.1, "min_lr": 0.2}, "min_lr must be at most lr"),
    ({"optimizer": "lion"}, "optimizer must be one of"),
    ({"optimizer": "nadam"}, "optimizer must be one of"),
    ({"schedule": "linear"}, "schedule must be one of"),
    ({"precision": "fp8"}, "precision must be one of"),
    ({"device": "tpu"}, "device must be cpu"),
    ({"device": 7}, "device must be cpu"),
    ({"seed": -1}, "seed must be a whole number"),
    ({"bug": "typo"}, "bug must be one of"),
    ({"bug": "mean for sum"}, "2 accumulation steps or more"),
    ({"bug": "last window missing"}, "where there are windows"),
    ({"max_grad_norm": 0}, "max_grad_norm must be a number above 0"),
    ({"task": "text", "corpus": "/etc/passwd"}, "the corpus must be"),
    ({"task": "text", "batch_size": 2**20, "context_length": 2**16}, "batch_size · context_length"),
    ({"tied_head": 1}, "tied_head must be true or false"),
    ({"colour": "red"}, "no setting colour"),
    ({"lr": [1]}, "lr must be a number"),
    ({"num_layers": None}, "num_layers must be a whole number"),
]


@pytest.mark.parametrize(("values", "words"), BAD)
def test_settings_that_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        TrainConfig.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[]", "7", '"x"', "{", "[" * 5000, " " * 30_000])
def test_text_that_is_no_settings(text):
    with pytest.raises(ValueError, match="settings must"):
        TrainConfig.from_json(text)


@pytest.mark.parametrize("config", [TrainConfig(), TEXT, TEXT.replace(d_ff=48, seed=7, max_grad_norm=1.0)])
def test_settings_go_to_json_and_back(config):
    assert TrainConfig.from_json(config.to_json()) == config
    assert TrainConfig.from_dict(config.changed()) == config
    assert set(config.changed()) <= {field.name for field in dataclasses.fields(config)}


def test_replacing_the_width_takes_the_feed_forward_along():
    assert TEXT.replace(dim=32).d_ff == 128
    assert TEXT.replace(d_ff=50).replace(dim=32).d_ff == 50
    assert TEXT.replace(task="regression").model == "cruncher"


def test_a_model_too_large_for_the_machine_is_refused(monkeypatch):
    monkeypatch.setenv("NAPKIN_MAX_MODEL_BYTES", "1000")
    with pytest.raises(ValueError, match="the limit here is"):
        Trainer(TrainConfig())
