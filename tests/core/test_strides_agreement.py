"""Prediction and torch agree on random chains: a sample of what `python -m benchmarks strides` runs 100,000 times."""

import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import strides
from core.strides import NAMES, Layout, Operation
from core.strides.chains import random_operation

CHAINS = 2000


def test_two_thousand_random_chains_agree():
    wrong = [one for one in strides.disagreements(CHAINS, seed=336) if one is not None]
    assert wrong == []


def test_the_chains_are_worth_agreeing_on():
    """Every operation, each outcome it can have, and the corners: no elements, no dimensions, overlapping strides."""
    generator, seen, corners = random.Random(336), Counter(), Counter()
    for _ in range(CHAINS):
        shape, operations = strides.random_chain(generator)
        assert len(shape) <= 5
        for step in strides.predict_chain(Layout.contiguous(shape), operations):
            seen[step.operation.name, step.kind] += 1
            before = step.before
            corners["no elements"] += before.numel == 0
            corners["no dimensions"] += before.dim == 0
            corners["five dimensions"] += before.dim == 5
            corners["size 1"] += 1 in before.shape
            corners["stride 0"] += before.numel > 1 and 0 in before.strides
            corners["not contiguous"] += not before.is_contiguous
            corners["offset"] += before.offset > 0
    assert {name for name, _kind in seen} == set(NAMES)
    for name in ("view", "select", "transpose", "permute", "expand", "unfold", "diagonal", "as_strided", "index"):
        assert seen[name, "view"] > 20, name
        assert seen[name, "error"] > 0, name
    for name in ("index", "reshape", "flatten", "contiguous"):
        assert seen[name, "copy"] > 5, name
        assert seen[name, "view"] > 20, name
    for name in ("flip", "clone", "triu", "sqrt", "rsqrt", "pow", "add", "mul", "div"):
        assert seen[name, "copy"] > 20, name
    assert min(corners.values()) > 100, corners
    assert len(corners) == 7


def test_the_same_seed_gives_the_same_chains():
    one, other = random.Random(5), random.Random(5)
    assert [strides.random_chain(one) for _ in range(20)] == [strides.random_chain(other) for _ in range(20)]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from((0, 1, 1, 2, 3, 4)), max_size=5).map(tuple), st.integers(0, 2**32), st.integers(1, 6))
def test_any_chain_agrees(shape, seed, length):
    generator, layout, operations = random.Random(seed), Layout.contiguous(shape), []
    for _ in range(length):
        operation = random_operation(generator, layout)
        try:
            step = strides.predict(layout, operation)
        except ValueError:
            break
        if step.after is not None and step.after.numel > 5000:
            break
        operations.append(operation)
        if step.after is None:
            break
        layout = step.after
    assert strides.compare_chain(shape, operations) is None


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_strides_agree(data):
    """Layouts that no chain of ordinary operations makes: any sizes and strides over a storage, overlapping too."""
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=5)))
    steps = tuple(data.draw(st.integers(0, 5)) for _ in shape)
    layout = Layout(shape, steps, 3, 64)
    generator = random.Random(data.draw(st.integers(0, 2**32)))
    names = ("clone", "sqrt", "add", "flip", "view", "reshape", "flatten", "contiguous", "index")
    wanted, operation = data.draw(st.sampled_from(names)), Operation("clone")
    for _ in range(300):
        operation = random_operation(generator, layout)
        if operation.name == wanted:
            break
    operations = [Operation("as_strided", (shape, steps, 3)), operation]
    assert strides.compare_chain((64,), operations) is None


def test_a_disagreement_is_found(monkeypatch):
    from core.strides import rules

    monkeypatch.setitem(rules._COPIES, "flip", (lambda x: Layout.contiguous(x.shape), ""))
    found = strides.compare_chain((2, 3), strides.parse_chain("x.transpose(0, 1).flip(0)"))
    assert found is not None
    assert "strides=(2, 1)" in found.predicted
    assert "strides=(1, 3)" in found.ran


def test_view_or_copy_is_told_by_the_storage():
    x = torch.zeros(2, 3)
    assert strides.shares_storage(x, x[1:].t())
    assert not strides.shares_storage(x, x + 0)
    empty = torch.zeros(0, 3)
    assert strides.shares_storage(empty, empty.view(3, 0))
    assert not strides.shares_storage(empty, empty.clone())  # both have the pointer 0


@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 1, 1, 1, 1), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_the_corners_of_every_operation(name, shape):
    generator, done = random.Random(1), 0
    layout = Layout.contiguous(shape)
    for _ in range(4000):
        operation = random_operation(generator, layout)
        if operation.name != name:
            continue
        assert strides.compare_chain(shape, [operation]) is None
        done += 1
        if done == 12:
            break
    assert done
