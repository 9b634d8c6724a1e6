"""Strides: layouts against torch's own answers, the rules one by one, and the lecture's values (CS336 §5.2)."""

import itertools
import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import lesson, strides
from core.lessons import strides_views as lessons
from core.strides import Layout, Operation, predict
from core.strides.copying import iteration_order
from core.strides.merging import Broken

SHAPES = st.lists(st.integers(0, 4), max_size=5).map(tuple)


def after(shape, *operations):
    steps = strides.predict_chain(Layout.contiguous(shape), operations)
    assert all(one.kind != "error" for one in steps), steps[-1].reason
    return steps[-1].after


def step(shape, *operations):
    return strides.predict_chain(Layout.contiguous(shape), operations)[-1]


def chain(text):
    return strides.parse_chain(text)


def test_the_lecture_s_4_by_4():
    x = Layout.contiguous((4, 4))
    assert x.strides == (4, 1)
    assert x.address((1, 2)) == 6
    address = strides.address_of(x, (1, 2))
    assert (address.text, address.byte) == ("0 + 1·4 + 2·1 = 6", 24)
    assert torch.zeros(4, 4).stride() == (4, 1)


@pytest.mark.parametrize(
    ("text", "expected_strides", "offset"),
    [("x[0]", (1,), 0), ("x[:, 1]", (3,), 1), ("x.view(3, 2)", (2, 1), 0), ("x.transpose(1, 0)", (1, 3), 0)],
)
def test_the_lecture_s_views(text, expected_strides, offset):
    (one,) = strides.predict_chain(Layout.contiguous((2, 3)), chain(text))
    assert (one.kind, one.after.strides, one.after.offset) == ("view", expected_strides, offset)
    (ran,) = strides.run_chain((2, 3), chain(text))
    assert (ran.kind, ran.layout) == ("view", one.after)


def test_the_lecture_s_transpose_does_not_view_and_contiguous_copies():
    failed = step((2, 3), *chain("x.transpose(1, 0).view(2, 3)"))
    assert failed.kind == "error"
    assert (failed.broken.outer, failed.broken.inner, failed.broken.new_dim) == (0, 1, 1)
    assert "stride[0] = size[1] · stride[1] = 2 · 3 = 6, and it is 1" in failed.reason
    assert "Write reshape(2, 3), which copies, or contiguous() before view()." in failed.reason
    transposed, copied, viewed = strides.predict_chain(
        Layout.contiguous((2, 3)), chain("x.transpose(1, 0).contiguous().view(2, 3)")
    )
    assert [one.kind for one in (transposed, copied, viewed)] == ["view", "copy", "view"]
    assert [one.allocated_bytes for one in (transposed, copied, viewed)] == [0, 24, 0]
    assert viewed.after.is_contiguous


def test_the_lessons_hold():
    run = lesson.run(lessons.storage_of_a_tensor, rows=4, columns=4, row=1, column=2)
    assert run.result == 6
    assert lesson.run(lessons.views_and_copies).result.tolist() == [[100, 4, 2], [5, 3, 6]]
    assert lesson.run(lessons.elementwise).result.tolist() == [2, 8, 18]
    assert lesson.run(lessons.causal_mask).result.sum() == 6
    assert lesson.run(lessons.matmuls).result.shape == (4, 8, 16, 2)
    for function in (lessons.storage_of_a_tensor, lessons.views_and_copies, lessons.elementwise, lessons.matmuls):
        lines = {line for _start, _end, line in function.__code__.co_lines() if line is not None}
        assert max(lines) - function.__code__.co_firstlineno + 1 <= 26


def made(shape, order, step_of):
    """A real tensor of odd strides: permuted, then every other element of each dimension where asked."""
    whole = torch.zeros([size * step for size, step in zip(shape, step_of, strict=True)])
    return whole[tuple(slice(None, None, step) for step in step_of)].permute(order)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_the_predicates_are_torch_s(data):
    shape = data.draw(SHAPES)
    order = data.draw(st.permutations(range(len(shape))))
    tensor = made(shape, order, data.draw(st.lists(st.integers(1, 2), min_size=len(shape), max_size=len(shape))))
    if data.draw(st.booleans()):
        tensor = tensor.unsqueeze(data.draw(st.integers(0, tensor.dim())))
    layout = strides.layout_of(tensor)
    assert layout.is_contiguous == tensor.is_contiguous()
    assert layout.is_dense == torch.ops.aten.is_non_overlapping_and_dense(tensor)
    if tensor.dim() == 4:
        assert layout.is_channels_last == tensor.is_contiguous(memory_format=torch.channels_last)
    if tensor.numel():
        flat = tensor.as_strided((layout.storage_size,), (1,), 0).copy_(torch.arange(float(layout.storage_size)))
        assert list(layout.addresses()) == [int(flat[int(one)]) for one in tensor.flatten()]
        last = tuple(size - 1 for size in tensor.shape)
        assert layout.address(last) == int(tensor[last])


@given(SHAPES)
def test_contiguous_strides_are_torch_s(shape):
    assert strides.contiguous_strides(shape) == torch.empty(shape).stride()


@given(st.lists(st.integers(1, 3), max_size=3), st.data())
def test_places_used_are_the_different_addresses(shape, data):
    steps = tuple(data.draw(st.integers(0, 3)) for _ in shape)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
    offset = data.draw(st.integers(0, 3))
    layout = Layout(tuple(shape), steps, offset, span + offset)
    assert strides.places_used(layout) == len(set(layout.addresses())) == layout.elements_used


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), st.data())
def test_a_view_exists_exactly_where_some_strides_show_the_elements_in_order(shape, data):
    """Brute force: the strides of the new shape, if there are any, follow from the addresses of the elements."""
    order = data.draw(st.permutations(range(len(shape))))
    layout = after(shape, Operation("permute", tuple(order)))
    if data.draw(st.booleans()):
        layout = predict(layout, Operation("index", ((None, None, 2),))).after
    sizes = [one for one in itertools.product(range(1, layout.numel + 1), repeat=2) if one[0] * one[1] == layout.numel]
    new_shape = data.draw(st.sampled_from(sizes))
    places = list(layout.addresses())
    outer, inner = new_shape
    down = places[inner] - places[0] if outer > 1 else 0
    along = places[1] - places[0] if inner > 1 else 0
    fits = places == [places[0] + row * down + column * along for row in range(outer) for column in range(inner)]
    found = strides.view_strides(layout.shape, layout.strides, new_shape)
    assert isinstance(found, Broken) != fits
    if fits:
        shown = Layout(new_shape, found, layout.offset, layout.storage_size)
        assert list(shown.addresses()) == places
    else:
        assert layout.strides[found.outer] != layout.shape[found.inner] * layout.strides[found.inner]
        assert found.needed == layout.shape[found.inner] * layout.strides[found.inner]
        assert min(layout.shape[found.outer], layout.shape[found.inner], new_shape[found.new_dim]) > 1


def test_merged_runs():
    assert strides.merged_runs((2, 3, 4), (12, 4, 1)) == ((0, 1, 2),)
    assert strides.merged_runs((2, 1, 4), (4, 99, 1)) == ((0, 1, 2),)
    assert strides.merged_runs((4, 2, 3), (1, 12, 4)) == ((0,), (1, 2))
    assert strides.merged_runs((), ()) == ()


def test_sizes_of_1_may_have_any_stride():
    broken = step((3, 2, 4), *chain("x.transpose(0, 2).unsqueeze(1).view(-1)")).broken
    assert (broken.outer, broken.inner) == (2, 3)  # not the new dimension of size 1
    broken = strides.view_strides((4, 1, 3), (1, 7, 4), (12,))
    assert (broken.outer, broken.inner) == (0, 2)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x.flip(0)", "copy"),
        ("x.expand(5, 2, 3)", "view"),
        ("x.contiguous()", "view"),
        ("x.t", None),
        ("x.transpose(0, 1).contiguous()", "copy"),
        ("x.transpose(0, 1).clone().view(2, 3)", "error"),  # clone keeps the strides
        ("x.transpose(0, 1).add(1).view(2, 3)", "error"),
        ("x.transpose(0, 1).triu().view(2, 3)", "view"),  # triu does not
        ("x.transpose(0, 1).flatten()", "copy"),
        ("x.flatten()", "view"),
        ("x[[0, 1]]", "copy"),
        ("x[0:2]", "view"),
        ("x[::-1]", "error"),
        ("x.unfold(1, 2, 1)", "view"),
        ("x.unfold(1, 2, 1).reshape(2, 4)", "copy"),
        ("x.diagonal()", "view"),
        ("x.as_strided((2, 2), (0, 1), 5)", "error"),
        ("x.as_strided((2, 2), (0, 1), 4)", "view"),
    ],
)
def test_a_view_a_copy_or_an_error(text, kind):
    if kind is None:
        with pytest.raises(ValueError, match="no operation is called t"):
            chain(text)
        return
    operations = chain(text)
    assert step((2, 3), *operations).kind == kind
    assert strides.run_chain((2, 3), operations)[-1].kind == kind


def test_sqrt_and_adding_a_number_differ_where_a_size_is_1():
    layout = Layout((1, 3), (1, 1), 0, 3)
    assert predict(layout, Operation("sqrt")).after.strides == (3, 1)
    assert predict(layout, Operation("add", (1,))).after.strides == (1, 1)
    tensor = torch.ones(3).as_strided((1, 3), (1, 1))
    assert (tensor.sqrt().stride(), (tensor + 1).stride()) == ((3, 1), (1, 1))


def test_the_order_of_dimensions_of_a_copy():
    assert iteration_order((2, 3, 4), (1, 8, 2)) == [0, 2, 1]
    assert predict(Layout((2, 3), (2, 8), 0, 99), Operation("clone")).after.strides == (1, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x[2]", "index 2 is out of bounds for dimension 0 with size 2"),
        ("x[0, 0, 0]", "3 indices are too many for a tensor of 2 dimensions"),
        ("x[0, 0].select(0, 0)", "nothing to select from"),
        ("x.transpose(0, 2)", "dimension 2 does not exist: the tensor has 2, numbered from -2 to 1"),
        ("x.permute(0)", "each of the 2 dimensions once; received 1"),
        ("x.permute(0, 0)", "names one twice"),
        ("x.view(4)", r"\(4,\) does not hold 6 elements"),
        ("x.view(-1, -1)", "one of them may be −1"),
        ("x.view(4, -1)", r"\(4, -1\) does not hold 6 elements"),
        ("x[0:0].view(0, -1)", "the size −1 could be anything"),
        ("x.flatten(1, 0)", "flatten goes from a dimension to a later one; received 1 and 0"),
        ("x.expand(3)", "at least the 2 dimensions"),
        ("x.expand(4, 3)", "only a dimension of size 1 can expand: dimension 0 has size 2, not 4"),
        ("x.expand(-1, 2, 3)", "size -1 of dimension 0"),
        ("x.unfold(0, 3, 1)", "a window of 3 does not fit: dimension 0 has size 2"),
        ("x.unfold(0, 1, 0)", "a step must be above 0"),
        ("x.diagonal(0, 1, 1)", "two different dimensions"),
        ("x.flip(0, 0)", "names one twice"),
        ("x[0].triu()", "at least 2 dimensions; the tensor has 1"),
        ("x.as_strided((2,), (1, 1))", "as many sizes as strides"),
        ("x.as_strided((2,), (-1,))", "a stride must be 0 or more, received -1"),
        ("x.as_strided((2,), (6,))", "the last element would lie at 6; the storage has 6 elements"),
        ("x[::0]", "a step must be above 0"),
        ("x[[0, 2]]", "index 2 is out of bounds"),
    ],
)
def test_errors_say_why(text, words):
    failed = step((2, 3), *chain(text))
    assert failed.kind == "error"
    assert failed.after is None
    assert failed.allocated_bytes == 0
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(failed.reason)
    ran = strides.run_chain((2, 3), chain(text))[-1]
    assert ran.kind == "error"
    assert ran.error


def test_operations_are_plain_data():
    for text in ("x[::2, None, ..., -1]", "x[[0, 1]]", "x.as_strided((2, 2), (1, 1), 1)", "x.as_strided((), ())"):
        (operation,) = chain(text)
        assert Operation.of(json.loads(json.dumps(operation.plain))) == operation


@pytest.mark.parametrize(
    ("name", "args"),
    [("explode", ()), ("transpose", (0,)), ("select", (0, 1, 2)), ("view", (2.0,)), ("view", ("2",)),
     ("index", (True,)), ("index", (("pick",),)), ("index", ((1, 2),)), ("index", ("...", "...")),
     ("as_strided", (2, 1)), ("flip", ()), ("index", ()), ("as_strided", ((1,), (1,), "0"))],
)  # fmt: skip
def test_what_is_no_operation_is_refused(name, args):
    with pytest.raises(ValueError, match="received|there are"):
        Operation(name, args)


@pytest.mark.parametrize(
    ("shape", "text", "words"),
    [
        ((2**41,), "x", "size 0 must be a whole number from 0 to"),
        ((2**20, 2**21), "x", "larger than this page follows"),
        ((0, 2**20, 2**21), "x", "larger than this page follows"),
        ((1,) * 9, "x", "at most 8 dimensions"),
        ((1, 1), "x.expand(1000000, 9999999)", "larger than this page follows"),
        ((1,), "x.unsqueeze(0)" + ".unsqueeze(0)" * 7, "at most 8 dimensions"),
        ((2,), "x[::9999999999][::9999999999]", "larger than this page follows"),
    ],
)
def test_what_is_too_large_is_refused(shape, text, words):
    with pytest.raises(ValueError, match=words):
        strides.predict_chain(Layout.contiguous(shape), chain(text))


def test_a_large_copy_is_refused_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(torch, "arange", None)
    with pytest.raises(
        ValueError, match=r"a tensor of shape \(2000, 1000\) takes 7.63 MiB; the limit here is 4.00 MiB"
    ):
        strides.run_chain((1, 1000), chain("x.expand(2000, 1000).contiguous()"))
    with pytest.raises(ValueError, match="the limit here"):
        strides.run_chain((2**21,), ())


def test_the_import_is_cheap():
    command = "import sys, core.strides; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0
