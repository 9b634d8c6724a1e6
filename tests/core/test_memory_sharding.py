"""ZeRO, held against torch: FSDP2 and ZeroRedundancyOptimizer on gloo processes, rank by rank and byte by byte."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.memory.sharding import (
    STAGES,
    Unit,
    local_shape,
    padded_chunk_numel,
    partition_by_size,
    shard,
    transformer_units,
)
from core.memory.sharding_claims import (
    compare_sharding,
    predict_device_bytes,
    predict_gathered_bytes,
    predict_paper_bytes,
    predict_paper_sent_bytes,
    predict_sent_bytes,
)
from core.memory.sharding_measure import MEASURED_OPTIMIZERS, ShardingCase, measure_sharding, measure_shardings
from core.models import PRESETS, TransformerConfig, TransformerLM, list_parameters
from core.optimizers import state_bytes

SHARDED = STAGES[1:]
EVEN = TransformerConfig("even", num_layers=2, d_model=16, num_heads=2, d_ff=32, vocab_size=64)
LLAMA = TransformerConfig("odd llama", num_layers=2, d_model=20, num_heads=2, d_ff=31, vocab_size=51, num_kv_heads=1)
GPT = TransformerConfig(
    "odd gpt", num_layers=3, d_model=21, num_heads=3, d_ff=30, vocab_size=53, gated_mlp=False, bias=True,
    norm_bias=True, tied_head=True, learned_positions=11,
)  # fmt: skip
TINY = TransformerConfig("d_model of 2", num_layers=1, d_model=2, num_heads=1, d_ff=1, vocab_size=3)
WIDE_ROOT = TransformerConfig("wide root", num_layers=1, d_model=6, num_heads=1, d_ff=5, vocab_size=301)

ON_TWO = (
    *(ShardingCase(LLAMA, stage) for stage in STAGES),
    *(ShardingCase(GPT, stage, "adagrad", implementation="torch") for stage in SHARDED),
    *(ShardingCase(EVEN, stage, "adam", implementation="torch") for stage in SHARDED),
    *(ShardingCase(GPT, stage, "momentum", "bf16") for stage in SHARDED),
    *(ShardingCase(WIDE_ROOT, stage, "rmsprop") for stage in SHARDED),
    *(ShardingCase(TINY, stage, "sgd") for stage in SHARDED),
)
ON_THREE = tuple(ShardingCase(config, stage) for config in (GPT, TINY) for stage in STAGES)
shapes = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple), min_size=1, max_size=6).map(tuple)


@pytest.fixture(scope="module")
def on_two():
    return dict(zip(ON_TWO, measure_shardings(ON_TWO, 2), strict=True))


@pytest.fixture(scope="module")
def on_three():
    return dict(zip(ON_THREE, measure_shardings(ON_THREE, 3), strict=True))


def _name(case):
    return f"{case.config.name} {case.stage} {case.optimizer} {case.dtype}"


def _assert_exact(run):
    for rank in range(run.sharding.num_devices):
        comparisons = compare_sharding(run, rank)
        assert len(comparisons) == 6
        for one in comparisons[:-1]:
            assert one.difference == 0, (rank, one.prediction.quantity, one.difference)
        sent = comparisons[-1]
        if (
            run.case.config == TINY
        ):  # fewer entries than gloo's segments: it sends fewer messages than it has headers for
            assert abs(sent.unexplained) < sent.parts[1].value
        else:
            assert sent.unexplained == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("case", ON_TWO, ids=_name)
def test_two_processes_hold_gather_and_send_what_was_predicted(on_two, case):
    _assert_exact(on_two[case])


@pytest.mark.parametrize("case", ON_THREE, ids=_name)
def test_three_processes_hold_gather_and_send_what_was_predicted(on_three, case):
    _assert_exact(on_three[case])


def test_ranks_are_uneven_where_rows_do_not_divide(on_two, on_three):
    state = [one.optimizer_state_bytes for one in on_two[ShardingCase(LLAMA, "zero3")].ranks]
    assert state[0] > state[1]
    held = [one.parameter_bytes for one in on_two[ShardingCase(LLAMA, "zero3")].ranks]
    assert held[0] == held[1]  # the second rank's is padding
    empty = on_three[ShardingCase(TINY, "zero3")].ranks[2]
    assert empty.parameter_bytes > 0
    assert empty.optimizer_state_bytes < on_three[ShardingCase(TINY, "zero3")].ranks[0].optimizer_state_bytes


def test_what_one_rank_sends_another_receives(on_two):
    for run in on_two.values():
        first, second = run.ranks
        assert first.sent_bytes == second.received_bytes
        assert second.sent_bytes == first.received_bytes


def test_gloo_sends_twice_for_a_reduce_scatter(on_two):
    run = on_two[ShardingCase(EVEN, "zero3", "adam", implementation="torch")]
    names = [name for name, _size in run.ranks[0].collectives]
    assert names.count("all-gather") == 5  # root, two blocks, two blocks again
    assert names.count("reduce-scatter") == 3
    sent = compare_sharding(run)[-1]
    assert sent.parts[0].value == run.sharding.padded_bytes / 2


def test_stage_1_of_torch_sends_half_as_much_again_as_the_paper(on_two):
    run = on_two[ShardingCase(LLAMA, "zero1")]
    paper = predict_paper_sent_bytes(LLAMA.num_params, "zero1", 2, gradient_bytes=4)
    assert predict_sent_bytes(run.sharding).value == 1.5 * paper.value


@pytest.mark.parametrize("name", PRESETS)
def test_units_are_the_shapes_of_the_model_that_torch_builds(name):
    config = PRESETS[name]
    config = TransformerConfig(**{**vars(config), "num_layers": 2})
    model = TransformerLM(config, device="meta")
    blocks = [tuple(tuple(p.shape) for p in block.parameters()) for block in model.blocks]
    root = tuple(one.shape for one in list_parameters(model) if not one.name.startswith("blocks."))
    assert [unit.shapes for unit in transformer_units(config)] == [root, *blocks]


@pytest.mark.parametrize("name", PRESETS)
def test_units_hold_every_parameter(name):
    assert sum(unit.numel for unit in transformer_units(PRESETS[name])) == PRESETS[name].num_params


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "adamw", "adafactor"])
def test_one_device_holds_everything_and_sends_nothing(stage, optimizer):
    sharding = shard(transformer_units(GPT), stage, 1, optimizer)
    whole = [shape for unit in transformer_units(GPT) for shape in unit.shapes]
    device = sharding.fullest
    assert (device.parameter_bytes, device.gradient_bytes) == (4 * GPT.num_params, 4 * GPT.num_params)
    assert device.optimizer_state_bytes == state_bytes(optimizer, whole)
    assert (sharding.gathered_bytes, sharding.reduce_bytes) == (0, 0)
    assert predict_sent_bytes(sharding).value == 0


def test_none_means_data_parallel():
    assert shard(transformer_units(GPT), None, 4) == shard(transformer_units(GPT), "none", 4)


def test_muon_gives_vectors_to_adamw():
    units = (Unit("root", ((6, 4), (6,))),)
    assert shard(units, "zero3", 2, "muon").device(0).optimizer_state_bytes == 4 * 12 + (2 * 4 * 3 + 4)


@given(st.integers(1, 40), st.integers(1, 12))
def test_chunks_are_torch_chunks(rows, n):
    chunks = torch.empty(rows, 2).chunk(n)
    sizes = [len(chunk) for chunk in chunks] + [0] * (n - len(chunks))
    assert [local_shape((rows, 2), n, rank)[0] for rank in range(n)] == sizes
    assert padded_chunk_numel((rows, 2), n) == 2 * sizes[0]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(1, 8))
def test_the_greedy_partition_deals_every_tensor_once(numels, n):
    ranks = partition_by_size(numels, n)
    assert sorted(itertools.chain.from_iterable(ranks)) == list(range(len(numels)))
    loads = [sum(numels[index] for index in rank) for rank in ranks]
    assert max(loads) <= Fraction(sum(numels), n) + max(numels)  # Graham's bound for any list schedule


@given(shapes, st.sampled_from(SHARDED), st.integers(1, 7), st.sampled_from(MEASURED_OPTIMIZERS))
def test_all_ranks_together_hold_at_least_everything(some, stage, n, optimizer):
    sharding = shard((Unit("root", some),), stage, n, optimizer)
    devices = [sharding.device(rank) for rank in range(n)]
    whole = 4 * sum(math.prod(shape) for shape in some)
    assert sum(one.parameter_bytes for one in devices) >= whole
    assert sum(one.gradient_bytes for one in devices) >= whole
    assert sum(one.optimizer_state_bytes for one in devices) >= state_bytes(optimizer, some)
    copies = 1 if sharding.shards_parameters else n
    needed = sum(one.parameter_bytes + one.gradient_bytes - one.padding_bytes for one in devices)
    assert needed == copies * 2 * whole
    assert sharding.fullest.total_bytes == max(one.total_bytes for one in devices)


@given(shapes, st.sampled_from(("zero2", "zero3")), st.integers(1, 8))
def test_more_devices_never_hold_more_each(some, stage, n):
    fewer, more = (shard((Unit("root", some),), stage, count).fullest for count in (n, n + 1))
    assert more.total_bytes <= fewer.total_bytes
    assert predict_sent_bytes(shard((Unit("root", some),), "none", n)).value <= predict_sent_bytes(
        shard((Unit("root", some),), "none", n + 1)
    ).value  # fmt: skip


@given(st.integers(1, 10**12), st.integers(1, 4096))
def test_the_papers_stages_are_in_order(params, n):
    values = [predict_paper_bytes(params, stage, n).value for stage in STAGES]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(16 * params / n)


@settings(max_examples=20)
@given(st.sampled_from(sorted(PRESETS)), st.integers(2, 64), st.sampled_from(("fp32", "bf16")))
def test_torchs_stages_are_in_order_for_real_models(name, n, dtype):
    stages = [shard(transformer_units(PRESETS[name]), stage, n, dtype=dtype) for stage in STAGES]
    held = [one.fullest.total_bytes for one in stages]
    assert held == sorted(held, reverse=True)
    assert stages[2].gathered_bytes >= stages[3].gathered_bytes
    assert predict_sent_bytes(stages[2]).value <= predict_sent_bytes(stages[3]).value


def test_the_papers_own_table():
    """Figure 1 of the paper: 7.5 B parameters on 64 devices."""
    texts = [predict_paper_bytes(7_500_000_000, stage, 64).text for stage in STAGES]
    assert texts == ["120 GB", "31.4 GB", "16.6 GB", "1.88 GB"]


def test_terms_add_up():
    sharding = shard(transformer_units(PRESETS["llama3-8b"]), "zero3", 8)
    for prediction in (
        predict_device_bytes(sharding),
        predict_device_bytes(sharding, 7),
        predict_sent_bytes(sharding),
        predict_paper_bytes(10**9, "zero2", 8),
        predict_paper_sent_bytes(10**9, "zero3", 8),
    ):
        assert sum(term.value for term in prediction.terms) == pytest.approx(prediction.value)
    assert predict_gathered_bytes(sharding).value == sharding.gathered_bytes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": "zero4"}, "sharding must be one of none, zero1, zero2, zero3; received 'zero4'"),
        ({"num_devices": 0}, "num_devices must be a whole number from 1 to 65,536; received 0"),
        ({"num_devices": 2.5}, "num_devices must be a whole number"),
        ({"optimizer": "lion"}, "optimizer must be one of"),
        ({"dtype": "int4"}, "dtype must be one of fp32, bf16, fp16"),
        ({"units": ()}, "the number of units must be"),
        ({"units": (Unit("root", ((),)),)}, "the number of axes must be"),
        ({"units": (Unit("root", ((3, 0),)),)}, "an axis of a shape must be"),
    ],
)
def test_refusals(change, message):
    good = {"units": (Unit("root", ((4, 4),)),), "stage": "zero3", "num_devices": 2}
    with pytest.raises(ValueError, match=message):
        shard(**{**good, **change})


@pytest.mark.parametrize(
    ("case", "num_devices", "message"),
    [
        (ShardingCase(EVEN, "zero3"), 1, "num_devices must be a whole number from 2 to 4"),
        (ShardingCase(EVEN, "zero3", "muon"), 2, "optimizer must be one of sgd"),
        (ShardingCase(EVEN, "zero3", dtype="fp16"), 2, "dtype must be one of fp32, bf16"),
        (ShardingCase(PRESETS["llama3-70b"], "zero3"), 2, "2 processes with this model take about 4.52 TB"),
    ],
)
def test_what_is_not_run_is_refused_before_anything_starts(case, num_devices, message):
    with pytest.raises(ValueError, match=message):
        measure_sharding(case, num_devices)


def test_the_time_limit_ends_every_process():
    with pytest.raises(RuntimeError, match="did not finish within"):
        measure_sharding(ShardingCase(EVEN, "zero3"), 2, timeout_seconds=0.05)
