"""Forward and backward timed: the pieces are the real ones, the parts add up, what is too large is refused."""

import pickle

import pytest
import torch

from core import gradients
from core.claims import Conditions, Measurement
from core.flops import MatmulLimits
from core.gradients.measure import ForwardBackwardRun, Pieces
from core.gradients.network import Network

CONDITIONS = Conditions("cpu", "a processor", "fp32", threads=1, warmup=3, trials=3, busy_fraction=0.0)


def measured(quantity, *samples, conditions=CONDITIONS):
    return Measurement(quantity, samples, "s", conditions)


def made_up_run(**changes):
    """The lecture's network on a machine of round numbers."""
    run = {
        "b": 1024, "d": 256, "k": 64, "num_layers": 1, "x_requires_grad": False,
        "forward_flops": 167_772_160, "backward_flops": 201_326_592,
        "forward": measured("forward time", 10.0, 11.0, 12.0),
        "backward": measured("backward time", 15.0, 18.0, 19.0),
        "step": measured("step time", 30.0),
        "forward_pieces": Pieces(7.0, 8.0, 1.0, 10.0),
        "backward_pieces": Pieces(9.0, 11.0, 2.0, 15.0),
        "tiny_forward": Pieces(0.1, 0.1, 0.1, 0.7),
        "tiny_backward": Pieces(0.1, 0.1, 0.1, 1.2),
    }  # fmt: skip
    return ForwardBackwardRun(**(run | changes))


def test_the_prediction_is_forward_time_by_the_ratio_of_flops():
    run = made_up_run()
    assert run.flop_ratio == 1.2
    assert run.time_ratio == pytest.approx(18 / 11)
    assert gradients.predict_backward_time(run).value == pytest.approx(13.2)
    assert run.step_surplus_seconds == pytest.approx(1.0)


def test_the_parts_are_backward_minus_what_the_prediction_allows():
    comparison = gradients.compare_backward_time(made_up_run())
    assert {part.name: round(part.value, 9) for part in comparison.parts} == {
        "multiplications": round(9 - 1.2 * 7, 9),
        "new tensors": round(2 - 1.2 * 1, 9),
        "gradient of the loss": round(2 - 1.2 * 1, 9),
        "autograd": round(1.0 - 1.2 * 0.5, 9),
        "interruptions": round(3 - 1.2 * 1, 9),
    }
    assert comparison.difference == pytest.approx(18 - 13.2)
    # Left over: the overhead of the passes (2 and 1) beyond that of the network of ones (1 and 0.5).
    assert comparison.unexplained == pytest.approx((2 - 1) - 1.2 * (1 - 0.5))
    assert comparison.warnings == ()


def test_a_busy_machine_is_said():
    busy = Conditions("cpu", "a processor", "fp32", threads=1, warmup=3, trials=1, busy_fraction=0.5)
    run = made_up_run(backward=measured("backward time", 18.0, conditions=busy))
    (warning,) = gradients.compare_backward_time(run).warnings
    assert "50% of the processor" in warning


@pytest.mark.parametrize(("num_layers", "x_requires_grad"), [(1, False), (1, True), (3, False), (8, True)])
def test_the_pieces_make_the_gradients_of_the_whole(num_layers, x_requires_grad):
    network = Network(6, 5, 4, num_layers, x_requires_grad)
    before = [gradient.clone() for gradient in network.backward()]
    network.forward_matmuls()
    network.backward_matmuls()
    network.loss_backward()
    made = network.new_backward_matmuls()
    ran = [
        one
        for one in gradients.backward_matmuls(6, 5, 4, x_requires_grad=x_requires_grad, num_layers=num_layers)
        if one.runs
    ]
    assert [tuple(one.shape) for one in made] == [one.shapes[2] for one in ran]
    weights = [gradient for gradient, one in zip(made, ran, strict=True) if one.name.startswith("w")]
    expected = weights[::-1] + ([made[-1]] if x_requires_grad else [])
    for whole, again, step, piece in zip(before, network.backward(), network.step(), expected, strict=True):
        assert torch.equal(whole, again)  # the kept graph was not disturbed
        torch.testing.assert_close(step, whole)
        torch.testing.assert_close(piece, whole)
    assert all(tensor.grad is None for tensor in network.wanted)
    torch.testing.assert_close(network.loss(), network.kept_graph)


def test_a_real_run():
    told = []
    run = gradients.measure_forward_backward(
        32, 16, 8, 2, True, threads=1, min_seconds=0.01, on_progress=lambda *report: told.append(report)
    )
    assert (run.forward_flops, run.backward_flops) == (2 * 16_384 + 8_192, 2 * (2 * 16_384 + 8_192))
    assert run.settings == (32, 16, 8, 2, True, 1)
    for one in (run.forward, run.backward, run.step):
        assert one.unit == "s"
        assert one.minimum > 0
        assert one.conditions.threads == 1
        assert one.conditions.dtype == "fp32"
    for pieces in (run.forward_pieces, run.backward_pieces, run.tiny_forward, run.tiny_backward):
        assert min(pieces.matmuls, pieces.new_matmuls, pieces.loss, pieces.whole) > 0
    assert pickle.loads(pickle.dumps(run)) == run
    fractions = [fraction for fraction, _message in told]
    assert fractions == sorted(fractions)
    assert 0.99 < fractions[-1] <= 1
    assert len({message for _fraction, message in told}) == 5
    comparison = gradients.compare_backward_time(run)
    parts = sum(part.value for part in comparison.parts)
    assert comparison.unexplained == pytest.approx(comparison.difference - parts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2**20, 2**14, 1), "this network takes .* GiB in fp32; the limit here is 1.00 GiB"),
        ((2**20, 2**20, 2**20, 8, True), "this network takes .* in fp32"),
        ((0, 1, 1), "B must be a whole number"),
        ((1, "wide", 1), "D must be a whole number .* received 'wide'"),
        ((1, 1, 1, 9), "num_layers must be a whole number from 1 to 8"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_made(arguments, words, monkeypatch):
    monkeypatch.setattr(torch, "randn", None)  # calling it would raise a TypeError
    with pytest.raises(ValueError, match=words):
        gradients.measure_forward_backward(*arguments)


def test_the_limits_are_the_matmuls_own(monkeypatch):
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", str(gradients.measurement_bytes(64, 32, 16) - 1))
    with pytest.raises(ValueError, match="the limit here is"):
        gradients.check_forward_backward(64, 32, 16)
    gradients.check_forward_backward(63, 32, 16)
    limits = MatmulLimits(2**30, 1.0)
    flops = 167_772_160 + 201_326_592
    gradients.check_forward_backward(1024, 256, 64, expected_flop_per_sec=flops, limits=limits)
    with pytest.raises(ValueError, match=r"one step would take about 2\.00 s; the limit here is 1\.00 s"):
        gradients.check_forward_backward(1024, 256, 64, expected_flop_per_sec=flops / 2, limits=limits)
    with pytest.raises(ValueError, match="FLOP/s to expect"):
        gradients.check_forward_backward(1024, 256, 64, expected_flop_per_sec=0, limits=limits)
