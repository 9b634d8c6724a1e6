"""Random patterns, right ones and broken ones: we take what einops takes, refuse what it refuses, with its values."""

import math

import einops
import pytest
import torch
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from core import named_dims
from core.named_dims import parse

NAMES = ["a", "b", "c2", "heads", "_"]
SETTINGS = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
ONE_TENSOR = [one for one in parse.OPERATIONS if one != "einsum"]
# Where einops takes a pattern and we say no, on purpose: "(...)" and "…" in an einsum are one axis of that name there.
PIECES = [
    "a",
    "b",
    "c",
    "(",
    ")",
    "...",
    "->",
    "1",
    "2",
    "()",
    " ",
    " ",
    ",",
    "0",
    "_",
    "b_",
    "2d",
    "-",
    "*",
    ".",
    "é",
    "２",
]


def by_einops(operation, pattern, shapes, sizes):
    tensors = named_dims.numbered(shapes)
    return named_dims.call_einops(operation, pattern, tensors, sizes)


def agree(operation, pattern, shapes, sizes):
    """Both accept, with the same values; or both refuse."""
    try:
        theirs = by_einops(operation, pattern, shapes, sizes)
    except Exception as refused:
        event(f"refused by einops: {type(refused).__name__}")
        with pytest.raises(ValueError, match=".") as ours:
            named_dims.explain(pattern, *shapes, operation_=operation, **sizes)
        if isinstance(ours.value, named_dims.PatternError):
            assert 0 <= ours.value.start <= ours.value.end <= len(pattern)
        return None
    done = named_dims.explain(pattern, *shapes, operation_=operation, **sizes)
    event(f"accepted, a view: {done.is_view}")
    ran = named_dims.execute(done)
    assert ran.agrees
    torch.testing.assert_close(ran.values, theirs, equal_nan=True, rtol=0, atol=0)
    assert done.output_shape == tuple(theirs.shape)
    assert [step.shape for step in done.steps] == [tuple(one.shape) for one in ran.step_values]
    assert ran.shares_storage == done.is_view
    assert ran.new_bytes == done.new_bytes
    tensors = dict(zip("xyzwvu", ran.inputs, strict=False))
    for step, after in zip(done.steps, ran.step_values, strict=True):
        if step.is_view is not None:
            assert named_dims.shares_storage(after, tensors[step.sources[0]]) == step.is_view
        if step.strides is not None and after.numel():
            real = [dim for dim, size in enumerate(step.shape) if size > 1]  # a size of 1 may have any stride
            assert [after.stride()[dim] for dim in real] == [step.strides[dim] for dim in real]
        tensors[step.target] = after
    return done


@st.composite
def transforms(draw):
    """A pattern that may well be right, with shape and sizes: axes split, moved, dropped and added."""
    operation = draw(st.sampled_from(ONE_TENSOR))
    axes = draw(st.lists(st.sampled_from(["a", "b", "c", "d", "e2", "é"]), unique=True, max_size=5))
    lengths = {axis: draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 4)) for axis in axes}
    left, shape = _groups(draw, axes, lengths)
    right_axes = draw(st.permutations(axes))
    sizes = {axis: lengths[axis] for axis in axes if draw(st.booleans())}
    if operation == "repeat":
        for axis in draw(st.lists(st.sampled_from(["n", "m"]), unique=True, max_size=2)):
            sizes[axis] = lengths[axis] = draw(st.integers(0, 3))
            right_axes.insert(draw(st.integers(0, len(right_axes))), axis)
        if draw(st.booleans()):
            right_axes.append(str(draw(st.integers(1, 3))))
    elif operation != "rearrange":
        right_axes = right_axes[: draw(st.integers(0, len(right_axes)))]
        if draw(st.booleans()):
            number = draw(st.integers(1, 3))
            left.append(f"{number}")
            shape.append(number)
    right, _shape = _groups(draw, right_axes, {axis: lengths.get(axis, 1) for axis in right_axes})
    if draw(st.booleans()):
        at = draw(st.integers(0, len(left)))
        left.insert(at, "...")
        shape[at:at] = draw(st.lists(st.integers(1, 3), max_size=2))
        if operation in ("rearrange", "repeat") or draw(st.booleans()):
            right.insert(draw(st.integers(0, len(right))), draw(st.sampled_from(["...", "(...)"])))
    return operation, f"{' '.join(left)} -> {' '.join(right)}", (tuple(shape),), sizes


def _groups(draw, axes, lengths):
    """The axes in order, some of them together in parentheses, and a 1 here and there."""
    words, shape = [], []
    left = list(axes)
    while left:
        taken = left[: draw(st.integers(1, 3))] if draw(st.booleans()) else left[:1]
        left = left[len(taken) :]
        words.append(f"({' '.join(taken)})" if len(taken) > 1 or draw(st.integers(0, 5)) == 0 else taken[0])
        shape.append(math.prod(lengths[axis] for axis in taken))
        if draw(st.integers(0, 7)) == 0:
            words.append(draw(st.sampled_from(["1", "()"])))
            shape.append(1)
    return words, shape


@SETTINGS
@given(transforms())
def test_transforms_agree_with_einops(case):
    agree(*case)


@SETTINGS
@given(transforms(), st.data())
def test_broken_transforms_are_refused_where_einops_refuses_them(case, data):
    operation, pattern, shapes, sizes = case
    for _ in range(data.draw(st.integers(1, 2))):
        pattern = broken(pattern, data)
    if data.draw(st.integers(0, 4)) == 0:
        sizes = {**sizes, data.draw(st.sampled_from(NAMES)): data.draw(st.integers(0, 5))}
    if data.draw(st.integers(0, 4)) == 0:
        shapes = ((*shapes[0], data.draw(st.integers(0, 4))),)
    agree(operation, pattern, shapes, sizes)


def broken(pattern, data):
    at = data.draw(st.integers(0, len(pattern)))
    kind = data.draw(st.sampled_from(["insert", "delete", "replace"]))
    piece = "" if kind == "delete" else data.draw(st.sampled_from(PIECES))
    return pattern[:at] + piece + pattern[at + (kind != "insert") :]


@SETTINGS
@given(
    st.lists(st.sampled_from(PIECES), max_size=14), st.lists(st.integers(0, 4), max_size=4), st.sampled_from(ONE_TENSOR)
)
def test_patterns_of_any_pieces(pieces, shape, operation):
    agree(operation, "".join(pieces), (tuple(shape),), {})


@st.composite
def einsums(draw):
    """Two or three operands over a few axes, some of size 1 where others are larger, some on the diagonal."""
    lengths = {axis: draw(st.integers(1, 4)) for axis in ["a", "b", "c", "d", "long"]}
    if draw(st.integers(0, 14)) == 0:
        lengths["a"] = 0
    dots = draw(st.lists(st.integers(1, 3), max_size=2)) if draw(st.booleans()) else None
    operands, shapes, used = [], [], set()
    for _ in range(draw(st.integers(1, 4))):
        axes = draw(st.lists(st.sampled_from(list(lengths)), max_size=4, unique=draw(st.integers(0, 4)) > 0))
        one = draw(st.sampled_from([None, None, None, *axes]))
        shape = [1 if axis == one else lengths[axis] for axis in axes]
        words = list(axes)
        if dots is not None and draw(st.booleans()):
            at = draw(st.integers(0, len(words)))
            own = dots[draw(st.integers(0, len(dots))) :]
            words.insert(at, "...")
            shape[at:at] = own
        operands.append(" ".join(words))
        shapes.append(tuple(shape))
        used |= set(axes)
    output = draw(st.lists(st.sampled_from(sorted(used)), unique=True)) if used else []
    if dots is not None and draw(st.booleans()):
        output.insert(draw(st.integers(0, len(output))), "...")
    return "einsum", f"{' , '.join(operands)} -> {' '.join(output)}", tuple(shapes), {}


@SETTINGS
@given(einsums())
def test_einsums_agree_with_einops(case):
    done = agree(*case)
    if done is None:
        return
    total = done.contraction
    assert sum(step.flops for step in done.steps) == total.flops
    assert total.matmul_flops == named_dims.compare_einsum_flops(done).measurement.value


@SETTINGS
@given(einsums(), st.data())
def test_broken_einsums_are_refused_where_einops_refuses_them(case, data):
    operation, pattern, shapes, sizes = case
    pattern = broken(pattern, data)
    assume("(...)" not in pattern.replace(" ", ""))
    agree(operation, pattern, shapes, sizes)


SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def pack_agrees(pattern, shapes):
    tensors = list(named_dims.numbered(shapes))
    try:
        theirs, packed_shapes = einops.pack(tensors, pattern)
    except Exception:
        with pytest.raises(ValueError, match="."):
            named_dims.explain_pack(pattern, *shapes)
        return
    ours = named_dims.explain_pack(pattern, *shapes)
    assert ours.shape == tuple(theirs.shape)
    assert ours.packed_shapes == tuple(map(tuple, packed_shapes))
    assert ours.new_bytes == theirs.untyped_storage().nbytes()
    assert not any(named_dims.shares_storage(theirs, one) for one in tensors)
    joined = torch.cat([one.reshape(flat) for one, flat in zip(tensors, ours.flat_shapes, strict=True)], dim=ours.axis)
    assert torch.equal(joined, theirs)
    back = named_dims.explain_unpack(pattern, ours.shape, ours.packed_shapes)
    assert back.shapes == ours.shapes
    assert back.cuts[:-1] == ours.starts


@SETTINGS
@given(st.lists(SHAPES, min_size=1, max_size=3), st.lists(st.sampled_from(["a", "b", "*"]), max_size=4), st.data())
def test_packing_agrees_with_einops(shapes, words, data):
    if data.draw(st.booleans()):  # the same sizes outside of *, as it must be
        ends = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        shapes = [(ends[0], *shape, ends[1]) for shape in shapes]
        words = ["a", "*", "b"]
    pack_agrees(" ".join(words), tuple(shapes))


@SETTINGS
@given(SHAPES, st.lists(st.lists(st.integers(-1, 4), max_size=2).map(tuple), min_size=1, max_size=3), st.booleans())
def test_unpacking_agrees_with_einops(shape, wanted, fitting):
    pattern = " ".join([*"abc"[: max(0, len(shape) - 1)], "*"])
    if fitting and shape and all(-1 not in one for one in wanted):
        shape = (*shape[:-1], sum(math.prod(one) for one in wanted))
    tensor = named_dims.numbered([shape])[0]
    # A tensor of no elements can be cut at wrong places: every reshape of nothing into nothing succeeds.
    assume(tensor.numel() or not shape)
    # Where more is wanted than there is, beside a -1, einops gives some elements twice (see the test of refusals).
    assume(not shape or sum(math.prod(one) for one in wanted if -1 not in one) <= shape[-1])
    try:
        theirs = einops.unpack(tensor, list(wanted), pattern)
    except Exception:
        with pytest.raises(ValueError, match="."):
            named_dims.explain_unpack(pattern, shape, wanted)
        return
    ours = named_dims.explain_unpack(pattern, shape, wanted)
    assert list(ours.shapes) == [tuple(one.shape) for one in theirs]
    assert all(named_dims.shares_storage(one, tensor) for one in theirs)
    for one, start, end in zip(theirs, ours.cuts, ours.cuts[1:], strict=False):
        assert torch.equal(one.flatten(), tensor[..., start:end].flatten())


@SETTINGS
@given(
    SHAPES, st.lists(st.sampled_from(["a", "b", "_", "...", "1", "2", "()", "(a)", "(...)", "(a b)", "3d"]), max_size=5)
)
def test_parse_shape_agrees_with_einops(shape, words):
    pattern = " ".join(words)
    try:
        theirs = einops.parse_shape(named_dims.numbered([shape])[0], pattern)
    except Exception:
        with pytest.raises(ValueError, match="."):
            named_dims.parse_shape(pattern, shape)
        return
    assert named_dims.parse_shape(pattern, shape) == theirs


@SETTINGS
@given(transforms())
def test_the_sources_of_every_cell_give_its_value(case):
    operation, pattern, (shape,), sizes = case
    try:
        done = named_dims.explain(pattern, shape, operation_=operation, **sizes)
    except ValueError:
        assume(False)
    functions = {"sum": sum, "max": max, "min": min, "prod": math.prod, "any": any, "all": all}
    functions["mean"] = lambda cells: sum(cells) / len(cells) if cells else math.nan
    values = named_dims.execute(done).values.flatten().tolist()
    found = named_dims.sources(done)
    assert len(found) == len(values)
    for value, one in zip(values, found, strict=True):
        (cells,) = one.cells
        assume(operation != "prod" or len(cells) < 16)  # beyond it fp32 overflows, and 0 · inf is NaN
        # einops passes the tensor on as it is where no axis is left to reduce, for any and all too
        made = functions[operation](cells) if done.gone else cells[0]
        assert made == pytest.approx(value, rel=1e-5, nan_ok=True)
        assert done.gone or len(cells) == 1


@SETTINGS
@given(einsums())
def test_the_sources_of_an_einsum_are_the_cells_that_are_multiplied(case):
    operation, pattern, shapes, _sizes = case
    try:
        done = named_dims.explain(pattern, *shapes, operation_=operation)
        found = named_dims.sources(done)
    except ValueError:
        assume(False)
    assume(0 not in dict(done.sizes).values())
    # A cell is a source exactly where the output changes with it: with ones everywhere, its gradient is not zero.
    inputs = [torch.ones(shape, requires_grad=True) for shape in shapes]
    output = einops.einsum(*inputs, pattern).flatten()
    for index in range(min(len(output), 5)):
        grads = torch.autograd.grad(output[index], inputs, retain_graph=True, allow_unused=True)
        for cells, grad in zip(found[index].cells, grads, strict=True):
            assert sorted(set(cells)) == ([] if grad is None else grad.flatten().nonzero().flatten().tolist())
