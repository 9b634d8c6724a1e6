"""Backward's FLOPs: the lecture's counts, each multiplication against torch's gradient, totals against its counter."""

import itertools
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import gradients, lesson
from core.flops import MatmulLimits
from core.lessons import gradients as lessons

DIMS = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
DEPTHS = st.integers(1, 8)


def test_the_lectures_counts():
    assert gradients.forward_flops(1024, 256, 64) == 167_772_160
    assert gradients.predict_backward_flops(1024, 256, 64).value == 335_544_320
    assert gradients.count_backward(1024, 256, 64).value == 201_326_592
    assert gradients.count_backward(1024, 256, 64, x_requires_grad=True).value == 335_544_320
    assert gradients.backward_ratio(256, 64) == Fraction(6, 5)
    assert gradients.backward_ratio(256, 64, x_requires_grad=True) == 2


def test_the_difference_is_the_input_gradient_and_nothing_else():
    comparison = gradients.compare_backward_flops(1024, 256, 64)
    assert comparison.measurement.value == 201_326_592
    assert comparison.difference == -134_217_728
    (part,) = comparison.parts
    assert part.value == -134_217_728
    assert "x.grad = h1.grad @ w1ᵀ" in part.name
    assert comparison.unexplained == 0
    with_x = gradients.compare_backward_flops(1024, 256, 64, x_requires_grad=True)
    assert (with_x.ratio, with_x.parts, with_x.unexplained) == (1, (), 0)


@settings(deadline=None, max_examples=60)
@given(DIMS, DEPTHS, st.booleans())
def test_the_count_is_torchs(dims, num_layers, x_requires_grad):
    count = gradients.count_backward(*dims, x_requires_grad, num_layers)
    assert count.value == gradients.torch_backward_flops(*dims, x_requires_grad, num_layers)
    assert sum(term.value for term in count.terms) == count.value
    comparison = gradients.compare_backward_flops(*dims, x_requires_grad, num_layers)
    assert comparison.unexplained == 0
    _b, d, k = dims
    ratio = gradients.backward_ratio(d, k, x_requires_grad, num_layers)
    assert ratio == Fraction(count.value, gradients.forward_flops(*dims, num_layers))


def run_network(b, d, k, x_requires_grad, num_layers):
    """The network in fp64 with every gradient retained: its tensors by the names of the formulas."""
    tensors = {"x": torch.randn(b, d, dtype=torch.float64, requires_grad=x_requires_grad)}
    before = "x"
    for layer in range(1, num_layers + 2):
        columns = k if layer == num_layers + 1 else d
        tensors[f"w{layer}"] = torch.randn(d, columns, dtype=torch.float64, requires_grad=True)
        tensors[f"h{layer}"] = tensors[before] @ tensors[f"w{layer}"]
        tensors[f"h{layer}"].retain_grad()
        before = f"h{layer}"
    tensors[before].pow(2).mean().backward()
    return tensors


@settings(deadline=None, max_examples=40)
@given(DIMS, DEPTHS, st.booleans(), st.integers(0, 2**31))
def test_every_formula_makes_torchs_gradient(dims, num_layers, x_requires_grad, seed):
    torch.manual_seed(seed)
    tensors = run_network(*dims, x_requires_grad, num_layers)
    matmuls = gradients.backward_matmuls(*dims, x_requires_grad, num_layers)
    assert len(matmuls) == 2 * (num_layers + 1)

    def operand(text):
        name = text.removesuffix("ᵀ")
        value = tensors[name.removesuffix(".grad")]
        value = value.grad if name.endswith(".grad") else value.detach()
        return value.T if text.endswith("ᵀ") else value

    for matmul in matmuls:
        name, product = matmul.formula.split(" = ")
        left, right = (operand(text) for text in product.split(" @ "))
        made = left @ right
        assert (tuple(left.shape), tuple(right.shape), tuple(made.shape)) == matmul.shapes
        assert matmul.flops == 2 * left.shape[0] * left.shape[1] * right.shape[1]
        grad = tensors[name.removesuffix(".grad")].grad
        assert (grad is not None) == matmul.runs
        if grad is not None:
            torch.testing.assert_close(made, grad)


def test_only_the_input_gradient_is_ever_skipped():
    for num_layers in range(1, 9):
        skipped = [one for one in gradients.backward_matmuls(4, 3, 2, False, num_layers) if not one.runs]
        assert [one.name for one in skipped] == ["x.grad"]
        assert all(one.runs for one in gradients.backward_matmuls(4, 3, 2, True, num_layers))


def test_the_ratio_tends_to_two_with_depth():
    ratios = gradients.ratios_by_depth(256, 64)
    assert [one.num_layers for one in ratios] == list(range(1, 9))
    assert [one.exact for one in ratios[:2]] == [Fraction(6, 5), Fraction(14, 9)]
    assert all(a.ratio < b.ratio < 2 for a, b in itertools.pairwise(ratios))
    assert {one.ratio for one in gradients.ratios_by_depth(256, 64, x_requires_grad=True)} == {2}


@pytest.mark.parametrize("dims", [(1024, 256, 64), (1, 1, 1), (7, 33, 5), (300, 128, 300)])
@pytest.mark.parametrize("x_requires_grad", [False, True])
def test_the_lesson_counts_what_is_counted_here(dims, x_requires_grad):
    b, d, k = dims
    run = lesson.run(lessons.two_layers, b=b, d=d, k=k, x_requires_grad=x_requires_grad)
    assert run.result == gradients.count_backward(*dims, x_requires_grad).value


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ((0, 1, 1), "B must be a whole number from 1 to 1,048,576; received 0"),
        ((1, 1.5, 1), "D must be a whole number"),
        ((1, 1, float("nan")), "K must be a whole number"),
        ((1, 1, "2"), "K must be a whole number"),
        ((2**20 + 1, 1, 1), "B must be a whole number"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(dims, words):
    for function in (gradients.backward_matmuls, gradients.forward_flops, gradients.check_network):
        with pytest.raises(ValueError, match=words):
            function(*dims)


@pytest.mark.parametrize("num_layers", [0, 9, 1.5, True])
def test_depths_that_make_no_sense_are_refused(num_layers):
    with pytest.raises(ValueError, match="num_layers must be a whole number from 1 to 8"):
        gradients.ratios_by_depth(1, 1) and gradients.backward_ratio(1, 1, num_layers=num_layers)


def test_a_network_too_large_is_refused_before_it_is_made():
    with pytest.raises(ValueError, match=r"7\.25 GiB in fp32 .* limit here is 1\.00 GiB"):
        gradients.check_network(65536, 4096, 4096)
    with pytest.raises(ValueError, match="GiB"):
        lesson.run(lessons.two_layers, b=2**20, d=2**16, k=1, x_requires_grad=False)
    exactly = gradients.network_bytes(8, 8, 8)
    gradients.check_network(8, 8, 8, limits=MatmulLimits(exactly, 1.0))
    with pytest.raises(ValueError, match="limit here"):
        gradients.check_network(8, 8, 8, limits=MatmulLimits(exactly - 1, 1.0))


def test_the_largest_count_is_exact():
    most = gradients.forward_flops(2**20, 2**20, 2**20, 8)
    assert most == 9 * 2**61
    assert gradients.predict_backward_flops(2**20, 2**20, 2**20, 8).value == 2 * most
    assert gradients.torch_backward_flops(2**20, 2**20, 2**20, True) == 2**63
