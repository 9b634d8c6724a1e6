"""Few bits: rounding against core.dtypes and by hand, products, underflow, weights alone."""

import copy
import math

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from core import dtypes, training
from core.training import TrainConfig, Trainer, quantised

TEXT = TrainConfig(
    task="text", num_layers=2, dim=32, num_heads=2, context_length=8, batch_size=8, num_steps=15, optimizer="adamw",
    lr=0.01,
)  # fmt: skip
DATA = np.tile(np.random.default_rng(0).integers(97, 123, 40), 20)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", quantised.BLOCK_NAMES)
@pytest.mark.parametrize("distribution", dtypes.DISTRIBUTIONS)
def test_blocks_are_those_of_the_number_formats(name, distribution):
    values = dtypes.sample(distribution, 4096, seed=1)
    expected = dtypes.quantise(values, name).values
    ours = quantised.round_to_blocks(torch.from_numpy(values).reshape(64, 64), name)
    np.testing.assert_array_equal(ours.flatten().numpy(), expected)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=70))
def test_any_row_in_blocks(numbers):
    values = np.array(numbers)
    padded = np.concatenate([values, np.zeros(-len(values) % 32)])
    for name in ("MXFP4", "NVFP4", "MXFP8 e4m3"):
        expected = dtypes.quantise(padded, name).values[: len(values)]
        ours = quantised.round_to_blocks(torch.from_numpy(values)[None], name)[0].numpy()
        np.testing.assert_array_equal(ours, expected)


def test_ties_go_to_even():
    middles = torch.tensor([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] + [0.0] * 24])
    expected = torch.from_numpy(middles.numpy().astype(ml_dtypes.float4_e2m1fn).astype(np.float32))
    assert torch.equal(quantised.round_to_blocks(middles, "MXFP4"), expected)
    assert torch.equal(quantised.round_to_blocks(-middles, "MXFP4"), -expected)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_with_a_scale_for_the_tensor(kind):
    x = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    top = float(ml_dtypes.finfo(kind).max)
    scale = (x.abs().max() / top).numpy()
    expected = (x.numpy() / scale).astype(getattr(ml_dtypes, kind)).astype(np.float32) * scale
    np.testing.assert_array_equal(quantised.round_to_fp8(x, getattr(torch, kind)).numpy(), expected)


@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, 32), (4, 5)])
def test_integers_are_within_half_a_step(bits, group):
    x = torch.randn(12, 70, generator=torch.Generator().manual_seed(0))
    rounded = quantised.round_to_integers(x, bits, group)
    width = group or 70
    for row, back in zip(x.tolist(), rounded.tolist(), strict=True):
        for start in range(0, 70, width):
            some, other = row[start : start + width], back[start : start + width]
            step = float(np.float16(max(map(abs, some)) / (2 ** (bits - 1) - 1)))
            assert len({round(v / step) for v in other}) <= 2**bits - 1
            assert all(abs(v / step - round(v / step)) < 1e-3 for v in other)
            # The scale itself was rounded: the largest may be clipped by a little.
            assert all(abs(a - b) <= step * (0.5 + 1e-2) for a, b in zip(some, other, strict=True))


@pytest.mark.parametrize("name", training.WEIGHT_FORMATS)
def test_all_zeros_and_odd_shapes(name):
    for shape in ((3, 5), (1, 1), (2, 33)):
        decoded, num_bytes = quantised.quantise_weight(torch.zeros(shape), name)
        assert torch.equal(decoded, torch.zeros(shape))
        assert num_bytes > 0


@pytest.mark.parametrize("name", ["fp8", "fp4"])
def test_products_round_all_three_operands(name):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 32, generator=generator, requires_grad=True)
    weight = torch.randn(48, 32, generator=generator, requires_grad=True)
    bias = torch.zeros(48, requires_grad=True)
    gradient = torch.randn(3, 4, 48, generator=generator)
    with quantised.QuantisedMatmuls(name):
        y = functional.linear(x, weight, bias)
    y.backward(gradient)
    x_q, w_q = (quantised.operand(name)(one.detach()) for one in (x, weight))
    g_q = quantised.gradient_operand(name)(gradient)
    torch.testing.assert_close(y, torch.einsum("abi,oi->abo", x_q, w_q))
    torch.testing.assert_close(x.grad, torch.einsum("abo,oi->abi", g_q, w_q))
    torch.testing.assert_close(weight.grad, torch.einsum("abo,abi->oi", g_q, x_q))
    torch.testing.assert_close(bias.grad, gradient.sum((0, 1)))
    assert not torch.equal(x_q, x)
    torch.testing.assert_close(functional.linear(x, weight), x @ weight.T)  # outside the block nothing is rounded


def test_every_precision_side_by_side():
    fractions = []
    runs = training.compare_precisions(TEXT, data=DATA, on_progress=fractions.append)
    assert [one.precision for one in runs] == list(training.PRECISIONS)
    exact = runs[0]
    assert exact.losses == tuple(r.loss for r in training.train(TEXT, data=DATA))
    for one in runs[1:]:
        assert one.losses != exact.losses
        assert one.losses[-1] == pytest.approx(exact.losses[-1], abs=0.5)
        assert one.losses[-1] < one.losses[0] - 1
    bytes_of = {one.precision: one for one in runs}
    assert exact.parameter_bytes == 4 * TEXT.num_params == 2 * bytes_of["bf16"].parameter_bytes
    assert bytes_of["bf16 autocast"].total_bytes == exact.total_bytes
    steps = 4 * len(list(Trainer(TEXT, data=DATA).parameters))
    assert exact.optimizer_bytes == 8 * TEXT.num_params + steps
    assert [one.precision for one in runs if one.emulated] == ["fp8 matmul", "fp4 matmul"]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_fp16_without_a_scale_fails_where_gradients_underflow():
    small = TEXT.replace(loss_scale_log2=-20, num_steps=15)
    exact, scaled, unscaled = training.compare_precisions(small, ("fp32", "fp16 scaled", "fp16 unscaled"), data=DATA)
    assert exact.losses == tuple(r.loss for r in training.train(TEXT, data=DATA))  # a power of two changes no bit
    assert scaled.losses[-1] == pytest.approx(exact.losses[-1], abs=0.3)
    assert unscaled.losses[-1] > exact.losses[-1] + 1
    config = small.replace(num_steps=2)
    layers = training.gradient_underflow(config, data=DATA)
    assert [one.layer for one in layers] == ["embedding", "blocks.0", "blocks.1", "final_norm"]
    assert sum(one.num_gradients for one in layers) == TEXT.num_params
    assert all(one.zero_share > 0.9 for one in layers if one.layer != "final_norm")
    rescued = training.gradient_underflow(config, "fp16 scaled", data=DATA)
    assert all(one.zero_share < 0.1 for one in rescued)
    shares = [training.gradient_underflow(config.replace(loss_scale_log2=s), data=DATA)[1] for s in (0, -8, -12)]
    assert shares[0].zero_share < 0.001 < shares[1].zero_share < shares[2].zero_share
    assert shares[0].median_size == shares[2].median_size > 0


def test_at_least_what_a_cast_loses_underflows():
    """The head's gradient is one product of factors that were rounded too: it loses what a cast loses, or more."""
    trainer = Trainer(TrainConfig(num_steps=1))
    trainer.advance()
    trainer.backward(*trainer.batches.next())
    gradients = trainer.model.head.weight.grad
    half = round(math.log2(2.0**-25 / float(gradients.abs().median())))  # half of them are below the smallest
    for scale in (half, half + 2, half + 14):
        cast = float((gradients * 2.0**scale).half().eq(0).float().mean())
        head = training.gradient_underflow(TrainConfig(num_steps=1, loss_scale_log2=scale))[-1]
        assert head.layer == "head"
        assert head.zero_share >= cast
        assert (0.2 < cast < 0.8) == (scale == half)
    assert head.zero_share == cast == 0


def test_weights_alone():
    trainer = training.trained(TEXT.replace(num_steps=40), data=DATA)
    position, before = trainer.batches.state_dict(), copy.deepcopy(trainer.model.state_dict())
    rows = {one.name: one for one in training.compare_weight_only(trainer)}
    assert list(rows) == list(training.WEIGHT_FORMATS)
    assert rows["fp32"].loss == training.evaluate(trainer)
    assert rows["fp32"].bits_per_parameter == 32
    assert rows["bf16"].bits_per_parameter == 16
    for name in ("bf16", "int8", "fp8", "MXFP8 e4m3"):
        assert rows[name].loss == pytest.approx(rows["fp32"].loss, rel=0.02)
    assert rows["int4"].loss < 2 * rows["fp32"].loss + 0.5
    order = ["fp32", "bf16", "int8", "int4", "MXFP4"]
    assert [rows[name].num_bytes for name in order] == sorted((rows[n].num_bytes for n in order), reverse=True)
    blocks = 2 * (4 * 32 * 32 + 2 * 32 * 128)
    assert rows["MXFP4"].num_bytes == blocks * 17 // 32 + 2 * (TEXT.num_params - blocks)
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(trainer.batches.state_dict()["generator"], position["generator"])


def test_a_checkpoint_is_enough(tmp_path):
    trainer = training.trained(TEXT, data=DATA)
    trainer.save(tmp_path / "c.pt")
    again = training.trained(TEXT, tmp_path / "c.pt", data=DATA)
    assert training.compare_weight_only(again, ("int8",)) == training.compare_weight_only(trainer, ("int8",))


@pytest.mark.parametrize(
    "call",
    [
        lambda: training.compare_precisions(TEXT, ("fp64",)),
        lambda: training.compare_precisions(TEXT.replace(num_steps=10_000)),
        lambda: training.gradient_underflow(TEXT, "fp64"),
        lambda: quantised.quantise_weight(torch.zeros(2, 2), "int3"),
        lambda: quantised.QuantisedMatmuls("int8"),
        lambda: TEXT.replace(loss_scale_log2=math.pi),
    ],
)
def test_what_is_refused(call):
    with pytest.raises(ValueError, match="must be"):
        call()


def test_a_layer_with_a_bias_keeps_it():
    layer = nn.Linear(32, 32)
    before = layer.bias.detach().clone()
    quantised.quantise_model(layer, "int8")
    assert torch.equal(layer.bias, before.bfloat16().float())
