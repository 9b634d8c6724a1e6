"""The graph of ½(x·w − y)²: the lecture's values, the chain rule against autograd, why a .grad is None."""

import math
import subprocess
import sys

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import gradients, lesson
from core.lessons import gradients as lessons

NUMBERS = st.floats(-1000, 1000, width=32)
VECTORS = st.integers(1, 6).flatmap(lambda n: st.tuples(st.tuples(*[NUMBERS] * n), st.tuples(*[NUMBERS] * n)))


def lecture(**options):
    return gradients.explain_graph([1, 2, 3], [1, 1, 1], 5, **options)


def test_the_lectures_values():
    graph = lecture()
    assert graph.node("pred_y").value == (6,)
    assert graph.node("loss").value == (0.5,)
    assert graph.node("w").grad == (1, 2, 3)
    assert [node.name for node in graph.nodes if node.grad is not None] == ["w"]
    assert graph.backward_error == ""
    assert graph.largest_difference == 0


def test_torch_itself_says_none_and_warns():
    """What ``kept_grad`` returns is what torch's own .grad holds."""
    x, w = torch.tensor([1.0, 2, 3]), torch.tensor([1.0, 1, 1], requires_grad=True)
    pred_y = x @ w
    loss = 0.5 * (pred_y - 5).pow(2)
    loss.backward()
    for tensor in (pred_y, loss):
        with pytest.warns(UserWarning, match="not a leaf"):
            assert tensor.grad is None
        assert gradients.kept_grad(tensor) is None
    assert gradients.kept_grad(w) is w.grad


def test_what_torch_recorded():
    graph = lecture()
    assert [one.grad_fn for one in graph.operations] == ["DotBackward0", "SubBackward0", "PowBackward0", "MulBackward0"]
    dot, minus, square, half = graph.operations
    assert dot.next_functions == (None, "AccumulateGrad")  # x needs none; w is a leaf
    assert minus.next_functions == ("DotBackward0", None)
    assert square.next_functions == ("SubBackward0",)
    assert half.next_functions == ("PowBackward0",)
    assert graph.node("w").grad_fn is None
    assert graph.node("w").is_leaf
    assert not graph.node("pred_y").is_leaf


def test_the_edges_connect_every_tensor_to_the_loss():
    graph = lecture()
    names = {node.name for node in graph.nodes} | {one.name for one in graph.operations}
    assert {end for edge in graph.edges for end in edge} == names
    sources = {source for source, _target in graph.edges}
    assert names - sources == {"loss"}
    columns = {node.name: node.column for node in graph.nodes}
    assert all(columns[one.output] > max(columns[source] for source in one.inputs) for one in graph.operations)


@pytest.mark.parametrize(
    ("options", "name", "grad", "because"),
    [
        ({}, "w", (1, 2, 3), "it is a leaf"),
        ({}, "x", None, "requires no gradient"),
        ({}, "y", None, "requires no gradient"),
        ({}, "pred_y", None, "nobody called retain_grad()"),
        ({}, "loss", None, "nobody called retain_grad()"),
        ({"retain": ["pred_y"]}, "pred_y", (1,), "retain_grad() asked"),
        ({"retain": ["loss"]}, "loss", (1,), "retain_grad() asked"),
        ({"retain": ["squared"]}, "squared", (0.5,), "retain_grad() asked"),
        ({"retain": "error"}, "error", (1,), "retain_grad() asked"),
        ({"x_requires_grad": True}, "x", (1, 1, 1), "it is a leaf"),
        ({"w_requires_grad": False}, "w", None, "requires no gradient"),
        ({"w_requires_grad": False}, "pred_y", None, "nothing it comes from requires a gradient."),
        ({"w_requires_grad": False, "retain": ["pred_y"]}, "pred_y", None, "torch refuses retain_grad()"),
    ],
)
def test_why_there_is_a_grad_or_none(options, name, grad, because):
    node = lecture(**options).node(name)
    assert node.grad == grad
    assert because in node.why
    assert (".grad is None" in node.why) == (grad is None)


def test_without_any_requires_grad_torch_refuses_backward():
    graph = lecture(w_requires_grad=False)
    assert "does not require grad" in graph.backward_error
    assert all(one.grad_fn is None and one.next_functions == () for one in graph.operations)
    assert all(edge.measured is None for edge in graph.backward)
    assert [edge.predicted for edge in graph.backward if edge.source == "w"] == [(1, 2, 3)]


@settings(deadline=None, max_examples=60)
@given(VECTORS, NUMBERS)
def test_the_chain_rule_by_hand_is_autograds(vectors, target):
    x, w = vectors
    graph = gradients.explain_graph(x, w, target, x_requires_grad=True, retain=gradients.COMPUTED)
    scale = sum(abs(a * b) for a, b in zip(x, w, strict=True)) + abs(target)
    for edge in graph.backward:
        if edge.source == "y":
            assert edge.measured is None
            continue
        assert edge.measured == graph.node(edge.source).grad
        slack = 1e-6 * (1 + scale) * max(1, *map(abs, edge.local))
        for by_hand, by_torch in zip(edge.predicted, edge.measured, strict=True):
            assert by_hand == pytest.approx(by_torch, rel=1e-6, abs=slack)


@settings(deadline=None, max_examples=40)
@given(VECTORS, NUMBERS)
def test_the_lesson_holds_for_any_numbers(vectors, target):
    x, w = vectors
    grad = lesson.run(lessons.quadratic, x=x, w=w, target=target).result
    by_hand, _x_grad = gradients.gradient_by_hand(x, w, target)
    scale = sum(abs(a * b) for a, b in zip(x, w, strict=True)) + abs(target)
    assert grad.tolist() == pytest.approx(by_hand, rel=1e-6, abs=1e-6 * (1 + scale) * max(1, *map(abs, x)))


def test_the_lecture_in_the_lesson():
    run = lesson.run(lessons.quadratic, x=(1, 2, 3), w=(1, 1, 1), target=5)
    values = {value.name: value.text for step in run.steps for value in step.values}
    assert values["pred_y"] == "6.00 (float32)"
    assert values["loss"] == "0.500 (float32)"
    assert values["grad_N"] == "(3,) float32 = [1.00, 2.00, 3.00]"
    assert values["none"] == "[None, None, None]"
    assert sum(step.holds for step in run.steps) == 5
    assert lesson.run(lessons.accumulation).result.tolist() == [1, 2, 3]


@pytest.mark.parametrize("function", [lessons.quadratic, lessons.two_layers, lessons.accumulation])
def test_a_lesson_fits_a_slide(function):
    code = function.__code__
    lines = {line for _start, _end, line in code.co_lines() if line is not None}
    assert max(lines) - code.co_firstlineno + 1 <= 25


@pytest.mark.parametrize(
    ("x", "w", "target", "words"),
    [
        ([1, 2, 3], [1, 1], 5, "x has 3 and w has 2"),
        ([], [], 5, "received none"),
        ([1] * 7, [1] * 7, 5, "from 1 to 6 numbers, for example 1, 2, 3; received 7"),
        ([1, math.nan], [1, 1], 5, r"x\[1\] must be a number from −1,000,000 to 1,000,000; received nan"),
        ([1, 2], [1, math.inf], 5, r"w\[1\] must be a number .* received inf"),
        ([1, 2], [1, 2], -math.inf, "y must be a number .* received -inf"),
        ([1, 2], [1, 2], 1e7, "y must be a number"),
        ([1, 2], [1, 2], 10**400, "y must be a number"),
        ([1, "2"], [1, 2], 5, r"x\[1\] must be a number .* received '2'"),
        ([1, True], [1, 2], 5, r"x\[1\] must be a number .* received True"),
        ([1, None], [1, 2], 5, r"x\[1\] must be a number .* received None"),
        ([1, 1j], [1, 2], 5, r"x\[1\] must be a number"),
        ([[1, 2]], [1], 5, r"x\[0\] must be a number"),
        ("12", [1, 2], 5, "x must be a list of numbers.*received '12'"),
        (12, [1, 2], 5, "x must be a list of numbers.*received 12"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(x, w, target, words):
    with pytest.raises(ValueError, match=words):
        gradients.explain_graph(x, w, target)


@pytest.mark.parametrize("retain", [["w"], ["nothing"], "x"])
def test_only_computed_tensors_can_retain(retain):
    with pytest.raises(ValueError, match="computed tensors: pred_y, error, squared, loss"):
        lecture(retain=retain)


def test_numpy_numbers_are_numbers():
    checked = gradients.check_quadratic(numpy.arange(3), numpy.ones(3, numpy.float32), numpy.float64(5))
    assert checked == ((0, 1, 2), (1, 1, 1), 5)


def test_the_import_is_cheap():
    command = "import sys, core.gradients; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0
