"""Predictions beside records, samples, sweeps, the bug hunt, and the lessons."""

import math

import numpy as np
import pytest
import torch

from core import lesson, training
from core.flops.explain import Peak
from core.lessons import training as lessons
from core.models import TransformerLM
from core.training import TrainConfig, Trainer

TEXT = TrainConfig(
    task="text", num_layers=2, dim=16, num_heads=2, context_length=8, batch_size=8, num_steps=6, optimizer="adamw",
    lr=0.01,
)  # fmt: skip
DATA = np.random.default_rng(0).integers(0, 256, 500)
PEAK = Peak(1e9, "calibrated", "fp32", "here")
UNKNOWN = Peak(None, "unknown", "fp32", "nobody knows")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def first_losses(config, count):
    """The loss before the first step under many seeds."""
    return [next(training.train(config.replace(seed=seed), data=DATA)).loss for seed in range(count)]


@pytest.mark.parametrize("tied_head", [True, False])
def test_a_fresh_transformer_s_loss_is_log_v_and_the_spread_of_its_logits(tied_head):
    config = TEXT.replace(tied_head=tied_head, dim=32, batch_size=32)
    first = next(training.train(config, data=DATA))
    comparison = training.compare_initial_loss(config, first)
    assert comparison.prediction.value == math.log(256)
    assert comparison.measurement.value == first.loss
    assert abs(comparison.unexplained) < 0.1
    assert comparison.parts[0].value == (0.5 if not tied_head else pytest.approx(0.0064))


@pytest.mark.parametrize(("model", "own"), [("cruncher", 1.0), ("deep network", 0.25)])
def test_a_fresh_regression_s_loss(model, own):
    config = TrainConfig(model=model, batch_size=512)
    losses = first_losses(config, 20)
    comparison = training.compare_initial_loss(config, next(training.train(config)))
    assert comparison.prediction.value == 1240
    assert comparison.parts[0].value == own
    standard_error = 1240 * math.sqrt(2 / 512 / 20)
    assert abs(np.mean(losses) - 1240 - own) < 4 * standard_error


@pytest.mark.parametrize("config", [TrainConfig(), TrainConfig(model="deep network", num_accumulation_steps=2), TEXT])
def test_flops_of_a_step(config):
    comparison = training.compare_step_flops(config)
    assert comparison.difference == 0
    assert sum(term.value for term in comparison.prediction.terms) == comparison.prediction.value


def test_seconds_and_rates():
    records = list(training.train(TEXT, data=DATA))
    seconds = training.compare_step_seconds(TEXT, records, PEAK, threads=1)
    assert seconds.prediction.value == TEXT.flops_per_step / 1e9
    assert seconds.measurement.samples == tuple(r.step_seconds for r in records[3:])
    assert seconds.parts[0].value >= 0
    rate = training.compare_step_rate(TEXT, records, PEAK, threads=1)
    assert rate.measurement.samples == tuple(r.flop_per_sec for r in records[3:])
    assert rate.ratio == pytest.approx(np.median([r.flop_per_sec for r in records[3:]]) / 1e9)
    for compare in (training.compare_step_seconds, training.compare_step_rate):
        unknown = compare(TEXT, records, UNKNOWN)
        assert unknown.ratio is None
        assert unknown.prediction.unknown == "nobody knows"
        with pytest.raises(ValueError, match="no record yet"):
            compare(TEXT, [], PEAK)
    assert training.predict_run_seconds(TEXT, PEAK, 0.5).value == pytest.approx(12 * TEXT.flops_per_step / 1e9)
    assert training.predict_run_seconds(TEXT, UNKNOWN, 0.5).value is None


def test_a_peak_that_is_known_gives_an_mfu():
    (record,) = training.train(TEXT.replace(num_steps=1), peak_flop_per_sec=1e9, data=DATA)
    assert record.mfu == pytest.approx(record.flop_per_sec / 1e9)


def always(token):
    """A model that is sure of one byte."""
    model = TransformerLM(TEXT.transformer())
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.final_norm.weight.fill_(1.0)
    model.register_forward_hook(lambda _m, _i, logits: logits.index_fill(-1, torch.tensor([token]), 50.0))
    return model


def test_samples_follow_the_logits():
    assert list(training.sample_tokens(always(65), b"x", 5, temperature=0)) == [65] * 5
    assert list(training.sample_tokens(always(66), b"", 5, temperature=1e-300)) == [66] * 5
    even = TransformerLM(TEXT.transformer())
    torch.nn.init.zeros_(even.embedding.weight)
    drawn = list(training.sample_tokens(even, b"a", 400, seed=3))
    assert 170 < len(set(drawn)) < 235  # 256·(1 − e^(−400/256)) = 202, deviation 6
    assert drawn == list(training.sample_tokens(even, b"a", 400, seed=3))
    assert drawn[:50] != list(training.sample_tokens(even, b"a", 50, seed=4))


def test_a_long_prompt_is_cut_to_the_context():
    model = TransformerLM(TEXT.transformer())
    long, short = b"0123456789" * 10, (b"0123456789" * 10)[-8:]
    ours = next(training.sample_tokens(model, long, 1, temperature=0))
    assert ours == int(model(torch.tensor([list(short)]))[0, -1].argmax())


def test_a_run_writes_what_it_has_learned(tmp_path):
    config = TEXT.replace(num_steps=120, dim=32, lr=0.01)
    data = np.frombuffer(b"abcdefgh" * 60, dtype=np.uint8)
    trainer = training.trained(config, data=data)
    trainer.save(tmp_path / "c.pt")
    assert training.sample_text(config, tmp_path / "c.pt", "abc", 13, temperature=0) == "abcdefghabcdefgh"
    before = torch.get_rng_state()
    training.sample_text(config, tmp_path / "c.pt", "é", 3)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 0}, "number of tokens must be"),
        ({"count": 10**6}, "number of tokens must be"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"temperature": math.nan}, "temperature must be"),
        ({"temperature": "hot"}, "temperature must be"),
    ],
)
def test_samples_that_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        list(training.sample_tokens(TransformerLM(TEXT.transformer()), b"x", **({"count": 1} | change)))


def test_samples_of_what_writes_no_text(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPKIN_RUNS_DIR", str(tmp_path))
    with pytest.raises(ValueError, match="only a run on text"):
        training.sample_text(TrainConfig(), tmp_path / "c.pt")
    with pytest.raises(ValueError, match="2,000 characters"):
        training.sample_text(TEXT, tmp_path / "c.pt", "x" * 3000)
    from core.training import runs

    run_id = runs.new_folder(TEXT, runs.RunState("paused", checkpoint_every=7))
    with pytest.raises(ValueError, match="the first comes at step 7"):
        training.sample_run(run_id)
    Trainer(TEXT, data=DATA).save(runs.run_folder(run_id) / "checkpoint.pt")
    assert training.sample_run(run_id, "import ", 5).startswith("import ")


def test_sweeps():
    config = TrainConfig(num_steps=60, optimizer="adam", lr=0.01)
    rates = training.sweep(config, "lr", (1e-4, 1e-2, 0.1))
    for point in rates:
        assert list(point.losses) == [r.loss for r in training.train(config.replace(lr=point.value))]
        assert point.final_loss == pytest.approx(np.mean(point.losses[-6:]))
    sizes = training.sweep(config, "batch_size", (2, 4, 16))
    assert [len(one.losses) for one in sizes] == [120, 60, 15]
    assert {len(one.losses) * one.tokens_per_step for one in sizes} == {240}
    assert sizes[0].loss_after(15) == pytest.approx(np.mean(sizes[0].losses[13:15]))
    assert sizes[0].loss_after(120) == sizes[0].final_loss
    assert sizes[1].tokens_per_sec == pytest.approx(240 / sizes[1].seconds)
    diverged = training.sweep(TrainConfig(num_steps=60), "lr", (0.1,))[0]
    assert diverged.final_loss == math.inf
    for bad in (("dim", (1,)), ("lr", ()), ("lr", (-1.0,)), ("batch_size", (1.5,)), ("lr", (0.1,) * 50)):
        with pytest.raises(ValueError, match="must be"):
            training.sweep(config, *bad)


GROUPS = {
    "ignored lr": "learning rate", "ignored depth": "depth", "no optimizer restored": "restart",
    "mean for sum": "accumulation",
}  # fmt: skip


@pytest.mark.parametrize("bug", ["", *training.BUGS])
def test_each_bug_shows_in_its_own_curves_and_nowhere_else(bug):
    evidence = training.bug_evidence(bug, num_steps=20)
    pairs = {}
    for curve in evidence.curves:
        pairs.setdefault(curve.group, []).append(curve)
    (slow, fast), (shallow, deep), (whole, resumed), (one, four) = pairs.values()
    assert (slow.losses == fast.losses) == (bug == "ignored lr")
    assert (shallow.losses == deep.losses) == (bug == "ignored depth")
    assert (whole.losses == resumed.losses) == (bug != "no optimizer restored")
    ratio = four.gradient_norms[0] / one.gradient_norms[0]
    assert ratio == pytest.approx(4.0 if bug == "mean for sum" else 1.0)
    assert (evidence.windows[-1] == 0) == (bug == "last window missing")
    assert sum(evidence.windows) == pytest.approx(evidence.expected * len(evidence.windows))
    grown = fast.gradient_norms[-1] > 5 * fast.gradient_norms[0]
    assert grown == (bug == "no zero_grad")
    if bug in GROUPS:
        assert GROUPS[bug] in pairs


def test_a_bug_that_is_none():
    with pytest.raises(ValueError, match="bug must be one of"):
        training.bug_evidence("typo")


@pytest.mark.parametrize("name", ["train", "batches", "checkpoint", "mixed_precision"])
def test_the_lessons_hold(name):
    run = lesson.run(getattr(lessons, name))
    assert not run.truncated
    assert any(step.holds for step in run.steps)


def test_the_lesson_s_loop_obeys_its_arguments():
    curves = {(layers, lr): tuple(lessons.train(layers, lr, 50)) for layers in (1, 2) for lr in (0.001, 0.002)}
    assert len(set(curves.values())) == 4
    assert all(curve[-1] < curve[0] for curve in curves.values())
    for bad in ((0, 0.1, 5), (1, -1.0, 5), (1, 0.1, 10**6)):
        with pytest.raises(ValueError, match="must be"):
            lessons.train(*bad)
