"""How large weights start: every scheme against its own draws, the lecture's √d, truncation, gains through depth."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import models
from core.models import SCHEMES


def test_the_lectures_output_of_one_layer():
    """CS336 §6.1: 16384 standard normal inputs and weights give an output of std 128; divided by √d, of 1."""
    assert models.predict_output_std("standard_normal", 16384).value == 128
    assert models.predict_output_std("one_over_sqrt", 16384).value == 1
    grown, right = (models.compare_output_std(scheme, 16384) for scheme in ("standard_normal", "one_over_sqrt"))
    assert grown.measurement.value == pytest.approx(128, rel=0.03)
    assert right.measurement.value == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_predicted_output_is_the_measured_one(scheme):
    for input_dim, output_dim in ((64, 64), (1024, 32), (100, 700)):
        comparison = models.compare_output_std(scheme, input_dim, output_dim, batch_size=512)
        assert comparison.ratio == pytest.approx(1, abs=0.06)
        assert abs(comparison.unexplained) < 0.05 * comparison.prediction.value
    again = models.compare_output_std(scheme, 100, 700, batch_size=512)
    assert again == comparison  # seeded
    assert models.compare_output_std(scheme, 100, 700, batch_size=512, seed=1) != comparison


def test_the_output_grows_as_the_root_of_the_input():
    dims = (16, 64, 256, 1024)
    stds = [one.measurement.value for one in models.compare_output_stds("standard_normal", dims, 64, 1024)]
    for d, std in zip(dims, stds, strict=True):
        assert std == pytest.approx(math.sqrt(d), rel=0.06)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", [(256, 1024), (1024, 256), (600, 600)])
def test_weights_are_as_large_as_they_are_said_to_be(scheme, shape):
    fan_out, fan_in = shape
    weight = models.initialize(torch.empty(shape), scheme, seed=3)
    assert weight.std().item() == pytest.approx(SCHEMES[scheme].std(fan_in, fan_out), rel=0.01)
    assert abs(weight.mean().item()) < 0.02 * weight.std().item()
    assert torch.equal(weight, models.initialize(torch.empty(shape), scheme, seed=3))
    assert weight.abs().max().item() <= SCHEMES[scheme].bound(fan_in, fan_out) * (1 + 1e-6)


def test_the_formulas_by_hand():
    assert SCHEMES["xavier_normal"].std(300, 500) == pytest.approx(0.05)
    assert SCHEMES["xavier_uniform"].std(300, 500) == pytest.approx(math.sqrt(6 / 800) / math.sqrt(3))
    assert SCHEMES["kaiming"].std(200, 7) == pytest.approx(0.1)
    assert SCHEMES["one_over_sqrt"].std(400, 7) == pytest.approx(0.05)
    assert SCHEMES["truncated"].std(400, 7) == pytest.approx(0.05 * 0.986578, rel=1e-6)
    assert SCHEMES["lecture_truncated"].std(16384, 7) == 1 / 128


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 6), st.floats(0.01, 10))
def test_the_std_of_a_truncated_normal_is_its_integral(cut, std):
    n = 20_000
    xs = [(-1 + (2 * i + 1) / n) * cut for i in range(n)]
    weights = [math.exp(-x * x / 2) for x in xs]
    expected = std * math.sqrt(math.fsum(w * x * x for w, x in zip(weights, xs, strict=True)) / math.fsum(weights))
    assert models.truncated_normal_std(std, cut * std) == pytest.approx(expected, rel=1e-5)


def test_truncation_far_out_and_close_by():
    assert models.truncated_normal_std(2.0, 1e9) == models.truncated_normal_std(2.0, math.inf) == 2
    assert models.truncated_normal_std(1.0, 0.01) == pytest.approx(0.01 / math.sqrt(3), rel=1e-4)  # uniform
    assert models.share_truncated(1.0, 3.0) == pytest.approx(0.0026998, rel=1e-4)


def test_the_lectures_truncation_truncates_nothing():
    lecture = models.compare_truncation("lecture_truncated", 16384)
    assert (lecture.bound_in_sigmas, lecture.share_beyond) == (384, 0)
    assert lecture.comparison.prediction.value == 1 / 128
    assert 4 < lecture.largest_in_sigmas < 7  # as an untruncated normal's
    right = models.compare_truncation("truncated", 16384)
    assert right.bound_in_sigmas == pytest.approx(3)
    assert 2.99 < right.largest_in_sigmas <= 3 * (1 + 1e-6)
    assert right.comparison.prediction.value * 128 == pytest.approx(0.986578, rel=1e-6)
    for run in (lecture, right):
        (error,) = run.comparison.prediction.terms
        assert abs(run.comparison.difference) < 4 * error.value
    assert models.compare_truncation("lecture_truncated", 1).bound_in_sigmas == 3  # at d = 1 alone it does


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_gains_are_as_predicted_and_their_parts_add_up(scheme, relu):
    run = models.measure_gains(scheme, dim=256, num_layers=12, batch_size=128, relu=relu)
    assert run.overflow_at is None
    for comparison in (models.compare_activation_gain(run), models.compare_gradient_gain(run)):
        assert comparison.ratio == pytest.approx(1, abs=0.06)
    activations = models.compare_activation_gain(run)
    assert activations.unexplained == pytest.approx(0, abs=1e-9)
    whole = (run.activation_rms[-1] / run.activation_rms[0]) ** (1 / 12)
    assert activations.measurement.value == pytest.approx(whole, rel=1e-9)


def test_the_predicted_gains():
    gain = {key: models.predict_gain(key, 1024).value for key in SCHEMES}
    assert gain["kaiming"] == 1
    assert gain["one_over_sqrt"] == gain["xavier_normal"] == gain["xavier_uniform"] == pytest.approx(math.sqrt(0.5))
    assert gain["standard_normal"] == pytest.approx(32 * math.sqrt(0.5))
    assert models.predict_gain("kaiming", 1024, relu=False).value == pytest.approx(math.sqrt(2))
    assert models.predict_gain("standard_normal", 1024, relu=False).value == 32


def test_the_run_is_the_networks_own():
    """Against the DeepNetwork with the same weights, and autograd through the whole of it."""
    run = models.measure_gains("kaiming", dim=64, num_layers=5, batch_size=16, seed=7)
    network = models.DeepNetwork(64, 5)
    for index, p in enumerate(network.parameters()):
        models.initialize(p, "kaiming", 7 + 2 + index)
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(7)).requires_grad_()
    y = network(x)
    y.backward(torch.randn(16, 64, generator=torch.Generator().manual_seed(8)))
    assert run.activation_rms[-1] == pytest.approx(y.detach().square().mean().sqrt().item(), rel=1e-5)
    assert run.gradient_rms[0] == pytest.approx(x.grad.square().mean().sqrt().item(), rel=1e-5)
    assert run.gradient_rms[-1] == pytest.approx(1, abs=0.1)
    assert models.measure_gains("kaiming", dim=64, num_layers=5, batch_size=16, seed=7) == run


def test_what_grows_too_fast_overflows_and_is_flagged():
    """√256 = 16 per layer: 16³² = 2¹²⁸ is beyond fp32."""
    run = models.measure_gains("standard_normal", dim=256, num_layers=64, batch_size=16, relu=False)
    assert run.overflow_at is not None
    assert 30 <= run.overflow_at <= 33
    assert len(run.activation_rms) == len(run.gradient_rms) == run.overflow_at
    assert all(math.isfinite(rms) for rms in run.activation_rms)
    assert models.compare_activation_gain(run).measurement.value == pytest.approx(16, rel=0.05)


def test_a_network_with_nothing_to_measure_says_so():
    dead = models.measure_gains("kaiming", dim=1, num_layers=64, batch_size=1)  # one unit: soon its ReLU is off
    assert dead.activation_rms[-1] == 0
    with pytest.raises(ValueError, match="there is no gain to measure"):
        models.compare_gradient_gain(dead)


def test_one_run_for_each_scheme_and_progress():
    seen = []
    runs = models.measure_many_gains(
        ("kaiming", "truncated"), 32, 3, 8, on_progress=lambda fraction, text: seen.append((fraction, text))
    )
    assert [run.scheme for run in runs] == ["kaiming", "truncated"]
    assert seen == [(0, "Kaiming"), (0.5, "1/√d, truncated at ±3σ")]
    one_by_one = []
    assert models.measure_gains("kaiming", 32, 3, 8, on_progress=lambda f, _text: one_by_one.append(f)) == runs[0]
    assert one_by_one == sorted(one_by_one)
    assert 0 <= one_by_one[0] <= one_by_one[-1] <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.measure_gains("he"), "scheme must be one of standard_normal"),
        (lambda: models.measure_gains("kaiming", dim=0), "dim must be a whole number from 1 to 4,096"),
        (lambda: models.measure_gains("kaiming", num_layers=1000), "num_layers must be a whole number from 1 to 256"),
        (lambda: models.measure_gains("kaiming", 4096, 256), "this takes 17.0 GiB; the limit here is 512 MiB"),
        (lambda: models.measure_gains("kaiming", 4096, 4, 1024 * 1024), "batch_size must be a whole number"),
        (lambda: models.measure_gains("kaiming", seed=-1), "seed must be a whole number"),
        (lambda: models.compare_output_std("he", 4), "scheme must be one of"),
        (lambda: models.compare_output_std("kaiming", 10**9), "input_dim must be a whole number"),
        (lambda: models.compare_output_std("kaiming", 2**17, 2**12), "this takes 2.13 GiB; the limit here is 512 MiB"),
        (lambda: models.compare_truncation("kaiming", 4), "scheme must be one of truncated, lecture_truncated"),
        (lambda: models.truncated_normal_std(0, 1), "std must be a number above 0"),
        (lambda: models.truncated_normal_std(1, -1), "bound must be a number above 0"),
    ],
)
def test_wrong_input_is_refused_in_words(call, message):
    with pytest.raises(ValueError) as refused:
        call()
    assert message in str(refused.value)
