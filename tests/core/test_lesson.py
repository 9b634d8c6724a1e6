"""Lessons run, record what their lines assigned, and nothing else ever runs."""

import sys
import tempfile
from pathlib import Path

import pytest
import torch

from core import lesson
from core.lessons import flops_mfu


def values(run):
    return {value.name: value.text for step in run.steps for value in step.values}


def test_the_lectures_linear_model_with_its_own_numbers():
    run = lesson.run(flops_mfu.linear_model, b=1024, d=256, k=64)
    assert run.result == 33_554_432
    assert values(run)["flops"] == "33,554,432"
    assert values(run)["x_BD"] == "(1024, 256) float32"
    assert values(run)["y_BK"] == "(1024, 64) float32"
    assert values(run)["exact"] == "33,488,896"
    assert all(step.holds for step in run.steps if run.lines[step.line - 1].lstrip().startswith("assert"))


def test_the_source_is_the_function_itself():
    run = lesson.run(flops_mfu.linear_model, b=2, d=3, k=4)
    assert run.lines[0] == "def linear_model(b: int, d: int, k: int) -> int:"
    for step in run.steps:
        for value in step.values:
            if value.name != "return":
                assert run.lines[step.line - 1].lstrip().startswith(f"{value.name} =")


def test_values_appear_as_their_lines_are_reached():
    run = lesson.run(flops_mfu.linear_model, b=2, d=3, k=4)
    assert run.values_after(0) == {}
    assert list(run.values_after(2)) == [run.steps[0].line, run.steps[1].line]
    assert len(run.values_after(len(run.steps))) == len({step.line for step in run.steps})


def loop(count):
    total = 0
    for index in range(count):
        total += index
    if total > 3:
        size = "large"
    else:
        size = "small"
    pair = (
        total,
        size,
    )
    return pair


def recorded(monkeypatch, function, **arguments):
    monkeypatch.setattr(function, "__module__", "core.lessons.made_up")
    return lesson.run(function, **arguments)


def test_loops_branches_and_long_statements(monkeypatch):
    run = recorded(monkeypatch, loop, count=4)
    seen = [(value.name, value.text) for step in run.steps for value in step.values]
    assert seen == [
        ("total", "0"), ("index", "0"), ("total", "0"), ("index", "1"), ("total", "1"), ("index", "2"), ("total", "3"),
        ("index", "3"), ("total", "6"), ("index", "3"), ("size", "'large'"), ("pair", "(6, 'large')"),
        ("return", "(6, 'large')"),
    ]  # fmt: skip


def test_a_lesson_of_many_steps_is_cut_and_says_so(monkeypatch):
    run = recorded(monkeypatch, loop, count=1000)
    assert len(run.steps) == lesson.MAX_STEPS
    assert run.truncated
    assert run.result == (499500, "large")


def test_only_functions_of_the_lessons_run():
    for stranger in (loop, print, eval, lambda: 1):
        with pytest.raises(ValueError, match="only the functions of core.lessons"):
            lesson.run(stranger)


def broken():
    value = 1
    assert value == 2, "the lecture's number"


def test_what_a_lesson_raises_passes_through_and_tracing_ends(monkeypatch):
    before = sys.gettrace()
    with pytest.raises(AssertionError, match="the lecture's number"):
        recorded(monkeypatch, broken)
    assert sys.gettrace() is before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 3), "(2, 3) float32 = [[0, 0, 0], [0, 0, 0]]"),
        (torch.ones(100, 3, dtype=torch.bfloat16), "(100, 3) bfloat16"),
        (torch.tensor(2.5), "2.50 (float32)"),
        (torch.tensor([], dtype=torch.int64), "(0,) int64 = []"),
        (True, "True"),
        (float("inf"), "inf"),
        ((1,), "(1,)"),
        ({"a": 1.0}, "{'a': 1.00}"),
        (list(range(50)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …]"),
    ],
)
def test_values_in_words(value, text):
    assert lesson.describe(value) == text


def test_where_this_machine_keeps_its_temporary_files_stays_unsaid():
    with tempfile.TemporaryDirectory() as folder:
        assert lesson.describe(folder) == "a temporary folder"
        assert lesson.describe(Path(folder) / "data.bin") == "…/data.bin"


def test_a_network_is_shown_by_its_class():
    network = torch.nn.Sequential(torch.nn.Linear(2, 3))
    assert lesson.describe(network) == "a Sequential"
    assert lesson.describe(torch.optim.AdamW(network.parameters())) == "an AdamW"
    assert lesson.describe(object()) == "an object"


def test_a_float_that_is_a_whole_number_is_shown_whole():
    assert lesson.describe(2304.0) == "2,304"
    assert lesson.describe(2.0) == "2.00"


def test_what_an_except_runs_is_shown():
    from core.lessons import strides_views

    ran = lesson.run(strides_views.views_and_copies)
    reached = {step.line for step in ran.steps}
    handler = next(number for number, line in enumerate(ran.lines, 1) if line.strip().startswith("except"))
    assert {handler, handler + 1} <= reached
    message = next(step for step in ran.steps if step.line == handler + 1)
    assert "view size is not compatible" in message.values[0].text


def test_a_store_to_an_attribute_says_nothing_of_its_tensor():
    from core.lessons import gradients

    ran = lesson.run(gradients.accumulation)
    lines = [number for number, line in enumerate(ran.lines, 1) if ".grad = None" in line]
    assert lines
    assert all(not step.values for step in ran.steps if step.line in lines)
