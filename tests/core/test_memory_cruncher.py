"""The lecture's Cruncher: its count against a real step, for every optimizer and at any size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import mse_loss

from core.lessons.optimizer_memory import cruncher_step
from core.memory import cruncher
from core.models.lecture import Cruncher


def test_the_lecture_s_numbers():
    prediction = cruncher.predict_cruncher_bytes(2, 4, 2)
    assert prediction.value == 496
    assert [term.value for term in prediction.terms] == [144, 64, 144, 144]
    run = cruncher.measure_cruncher(2, 4, 2)
    assert (run.num_parameters, run.num_gradients, run.num_saved, run.flops) == (36, 36, 28, 368)
    assert cruncher.compare_cruncher_bytes(run).measurement.value == 496 + 32 + 16
    assert cruncher_step(b=2, d=4, num_layers=2) == 496


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(2, 9), st.integers(1, 5), st.sampled_from(cruncher.TRAINERS))
def test_nothing_is_left_unexplained(b, d, layers, optimizer):
    run = cruncher.measure_cruncher(b, d, layers, optimizer)
    assert cruncher.compare_cruncher_bytes(run).unexplained == 0
    assert cruncher.compare_cruncher_flops(run).unexplained == 0


def saved_by_graph(output):
    """Storages that the graph's nodes hold, walked from the loss: another way to what the hooks are told."""
    storages, waiting, seen = {}, [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in (one for one in dir(node) if one.startswith("_saved_")):
            value = getattr(node, name)
            for tensor in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        waiting += [edge[0] for edge in node.next_functions]
    return storages


def test_what_is_saved_is_what_the_graph_holds():
    model = Cruncher(6, 3)
    x, y = torch.randn(5, 6), torch.randn(5)
    with cruncher.saved_by_backward(model) as saved:
        loss = mse_loss(model(x), y)
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found = {at: size for at, size in saved_by_graph(loss).items() if at not in parameters}
    assert saved == found
    assert sum(saved.values()) == 5 * 6 * (3 + 1) + 2 * 5


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 4, 2), "B must be a whole number from 1 to 256; received 0"),
        ((2, 10**12, 2), "D must be a whole number"),
        ((2, 4, 2.5), "L must be a whole number"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes, message):
    for function in (cruncher.predict_cruncher_bytes, cruncher.predict_cruncher_flops, cruncher.measure_cruncher):
        with pytest.raises(ValueError, match=message):
            function(*sizes)
    with pytest.raises(ValueError, match="optimizer must be one of"):
        cruncher.measure_cruncher(2, 4, 2, "muon")
