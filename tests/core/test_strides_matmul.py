"""matmul's rules by shapes alone: the lecture's, and torch's own answer on any shapes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import strides
from core.strides import explain_matmul

SIZES = st.lists(st.sampled_from((0, 1, 1, 2, 2, 3)), max_size=5).map(tuple)


def test_the_lecture_s_matmuls():
    one = explain_matmul((16, 32), (32, 2))
    assert (one.result, one.flops, one.batch) == ((16, 2), 2 * 16 * 32 * 2, ())
    many = explain_matmul((4, 8, 16, 32), (32, 2))
    assert many.result == (4, 8, 16, 2)
    assert [(dim.a, dim.b, dim.result, dim.repeats) for dim in many.batch] == [(4, None, 4, "b"), (8, None, 8, "b")]
    assert (many.multiplications, many.a_uses, many.b_uses) == (32, 1, 32)
    assert many.flops == 32 * one.flops


def torch_s(a, b):
    try:
        return tuple(torch.matmul(torch.zeros(a), torch.zeros(b)).shape)
    except RuntimeError:
        return None


@settings(deadline=None, max_examples=600)
@given(SIZES, SIZES, st.booleans())
def test_any_shapes_agree_with_torch(a, b, make_fit):
    if make_fit and a and b:
        b = (*b[:-2], a[-1], b[-1]) if len(b) >= 2 else (a[-1],)
    explained = explain_matmul(a, b)
    assert explained.result == torch_s(a, b)
    assert bool(explained.error) == (explained.result is None)
    shape, message = strides.torch_matmul_shape(a, b)
    assert shape == explained.result
    assert bool(message) == bool(explained.error)
    if explained.result is not None:
        products = torch.matmul(torch.ones(a), torch.ones(b)).sum().item()
        assert explained.flops == 2 * products  # each product of ones adds 1


@pytest.mark.parametrize(
    ("a", "b", "flops"),
    [((3,), (3,), 6), ((2, 3), (3,), 12), ((3,), (3, 2), 12), ((5, 2, 3), (3,), 60), ((2, 1, 4, 3), (5, 3, 2), 480)],
)
def test_vectors_and_batches_are_counted_by_torch_too(a, b, flops):
    comparison = strides.compare_matmul_flops(explain_matmul(a, b))
    assert comparison.prediction.value == comparison.measurement.value == flops


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((2, 3), (2, 3), "the last of a is 3, the second to last of b is 2. Transposing b would fit."),
        ((3, 2), (3, 4), "the last of a is 2, the second to last of b is 3. Transposing a would fit."),
        ((2, 3), (4, 5), "the last of a is 3, the second to last of b is 4.$"),
        ((3,), (4,), "the only one of a is 3, the only one of b is 4.$"),
        ((), (3,), "a number has no dimension to contract"),
        ((2, 3), (), "a number has no dimension to contract"),
        ((2, 4, 3), (5, 3, 4), "2 in a meets 5 in b, 3 from the end"),
        ((2, 9, 4, 3), (5, 9, 3, 4), "2 in a meets 5 in b, 4 from the end"),
    ],
)
def test_a_shape_error_says_which_dimensions(a, b, words):
    explained = explain_matmul(a, b)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(explained.error)
    assert strides.compare_matmul_flops(explained) is None


@pytest.mark.parametrize(("a", "b"), [((-1,), (2,)), ((1,) * 9, (1,)), ((2**41,), (1,)), ((2**30, 1), (1, 2**30))])
def test_what_is_no_shape_is_refused(a, b):
    with pytest.raises(ValueError, match="size 0|at most 8|larger than"):
        explain_matmul(a, b)


def test_a_hint_is_only_given_where_it_helps():
    assert "Transposing b would fit." in strides.explain_matmul((2, 3), (5, 3)).error
    clash = strides.explain_matmul((2, 2, 3), (4, 5, 3)).error
    assert "Transposing" not in clash
    assert "The batch dimensions do not fit either." in clash
    with pytest.raises(RuntimeError):
        torch.zeros(2, 2, 3) @ torch.zeros(4, 5, 3).mT
