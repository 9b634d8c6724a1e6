"""A step on paper against the same step under the meter: equal at every moment, to the byte."""

import dataclasses
import itertools
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import memory
from core.memory import StepConfig, measure, measure_step, predict_step
from core.memory.paper_depth import step_on_paper
from core.memory.paper_steps import write_step
from core.models import TransformerConfig
from core.optimizers import OPTIMIZERS

GPT2 = TransformerConfig(
    "tiny GPT-2", 3, 24, 3, 52, 97, gated_mlp=False, tied_head=True, learned_positions=16, bias=True, norm_bias=True
)
LLAMA = TransformerConfig("tiny Llama", 3, 24, 3, 52, 97, num_kv_heads=1)
TINY = {"gpt2": GPT2, "llama": LLAMA}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors of a few hundred bytes: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def assert_equal(config, **how):
    predicted, measured = predict_step(config), measure_step(config, **how)
    assert predicted.moments == measured.moments
    assert sum(term.value for term in predicted.activation_terms) == measured.activation_bytes
    assert (predicted.peak_bytes, predicted.peak_moment) == (measured.peak_bytes, measured.peak_moment)
    return measured


@pytest.mark.parametrize("checkpointing", [None, 2])
@pytest.mark.parametrize("precision", memory.PRECISIONS)
@pytest.mark.parametrize("attention", memory.ATTENTIONS)
@pytest.mark.parametrize("name", TINY)
def test_a_real_step(name, attention, precision, checkpointing):
    config = StepConfig(
        TINY[name], batch_size=2, seq_len=5, attention=attention, precision=precision, checkpointing=checkpointing
    )
    assert_equal(config, real=True)


@pytest.mark.parametrize(
    ("optimizer", "implementation", "precision"),
    [
        *((name, "napkin", "fp32") for name in OPTIMIZERS),
        *(("adamw", one, "fp32") for one in ("for-loop", "foreach", "fused")),
        ("adam", "for-loop", "bf16"),
        ("muon", "napkin", "bf16"),
        ("adafactor", "napkin", "autocast"),
    ],
)
def test_every_optimizer(optimizer, implementation, precision):
    config = StepConfig(
        LLAMA, batch_size=1, seq_len=3, precision=precision, optimizer=optimizer,
        optimizer_implementation=implementation,
    )  # fmt: skip
    measured = assert_equal(config, real=True)
    assert measured.moments[-1].kind == "optimizer"
    assert measured.moments[-1].end.get("gradient", 0) == 0


@pytest.mark.parametrize(("steps", "checkpointing"), [(2, None), (5, 1), (3, 2)])
def test_accumulation_adds_gradients_in_place(steps, checkpointing):
    config = StepConfig(GPT2, batch_size=2, seq_len=5, accumulation_steps=steps, checkpointing=checkpointing)
    measured = assert_equal(config, real=True)
    first, later = ([one for one in measured.moments if one.micro_batch == number] for number in (0, 1))
    assert first[0].highest.get("gradient", 0) == 0
    assert later[0].highest["gradient"] == measured.gradient_bytes == measured.parameter_bytes


@st.composite
def configs(draw, max_layers=4):
    heads = draw(st.integers(1, 4))
    gpt2 = draw(st.booleans())
    head_dim = draw(st.integers(1, 6)) if gpt2 else 2 * draw(st.integers(2, 4))
    gated = draw(st.booleans())
    layers = draw(st.integers(1, max_layers))
    model = TransformerConfig(
        "random",
        layers,
        draw(st.sampled_from([heads * head_dim, 7, 12])),
        heads,
        draw(st.integers(1, 40)),
        draw(st.integers(1, 60)),
        num_kv_heads=draw(st.sampled_from([k for k in range(1, heads + 1) if heads % k == 0])),
        head_dim=head_dim,
        gated_mlp=gated,
        tied_head=draw(st.booleans()),
        learned_positions=9 if gpt2 else 0,
        bias=draw(st.booleans()),
        qkv_bias=draw(st.sampled_from([None, True, False])),
        norm_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        activation="silu" if gated else draw(st.sampled_from(["gelu", "gelu_tanh", "relu", "silu"])),
    )
    return StepConfig(
        model,
        batch_size=draw(st.integers(1, 3)),
        seq_len=draw(st.integers(1, 9)),
        attention=draw(st.sampled_from(memory.ATTENTIONS)),
        precision=draw(st.sampled_from(memory.PRECISIONS)),
        checkpointing=draw(st.none() | st.integers(1, layers)),
        accumulation_steps=draw(st.integers(1, 3)),
        optimizer=draw(st.sampled_from(list(OPTIMIZERS))),
    )


@settings(max_examples=20)
@given(configs())
def test_random_shapes(config):
    assert_equal(config, real=True)


@settings(max_examples=60)
@given(configs(max_layers=12))
def test_two_blocks_say_what_all_say(config):
    """The paper's short cut through the depth against every block written down."""
    short, full = step_on_paper(config), write_step(config)
    assert short.moments == full.moments
    assert sum(short.kept.values()) == sum(full.kept.values())


@pytest.mark.parametrize("attention", memory.ATTENTIONS)
@pytest.mark.parametrize("precision", memory.PRECISIONS)
@pytest.mark.parametrize("checkpointing", [None, 1])
@pytest.mark.parametrize("name", TINY)
def test_two_blocks_of_hugging_faces_say_what_all_say(name, checkpointing, precision, attention):
    config = StepConfig(
        TINY[name], "huggingface", 2, 6, num_layers=7, attention=attention, precision=precision,
        checkpointing=checkpointing, accumulation_steps=2,
    )  # fmt: skip
    assert step_on_paper(config).moments == write_step(config).moments


@pytest.mark.parametrize(("checkpointing", "layers"), [(None, 8), (2, 13)])
def test_two_depths_say_what_the_full_depth_says(checkpointing, layers):
    """The meter's short cut, over fake tensors, against the whole model metered, over real ones."""
    config = StepConfig(
        LLAMA, num_layers=layers, batch_size=2, seq_len=4, precision="autocast", checkpointing=checkpointing
    )
    assert len(measure.measured_depths(config)) == 2
    told = []
    step = measure_step(config, on_progress=lambda *report: told.append(report))
    assert step.moments == measure_step(config, real=True).moments
    assert [fraction for fraction, _message in told] == sorted(fraction for fraction, _message in told)
    assert told[-1] == (1.0, f"{measure.measured_depths(config)[1]} of {layers} blocks")


LARGE = [
    StepConfig("gpt2", batch_size=4, seq_len=1024),
    StepConfig("gpt2", batch_size=4, seq_len=1024, checkpointing=4, precision="autocast", accumulation_steps=8),
    StepConfig("llama3-8b", batch_size=2, seq_len=4096, precision="bf16", checkpointing=1, optimizer="adafactor"),
    StepConfig("qwen3-0.6b", batch_size=2, seq_len=2048, attention="eager", precision="autocast"),
]


@pytest.mark.parametrize("config", LARGE, ids=lambda config: config.model.name)
def test_large_models_under_fake_tensors(config):
    comparison = memory.compare_step(config)
    for one in (comparison.peak, comparison.activations):
        assert one.difference == 0
        assert one.unexplained == 0
        assert one.parts == ()


def test_a_difference_is_named():
    config = StepConfig(GPT2, batch_size=2, seq_len=5)
    other = measure_step(config.change(batch_size=3))
    comparison = memory.compare_step(config, other)
    assert comparison.peak.difference > 0
    assert comparison.peak.unexplained == 0
    assert comparison.activations.unexplained == 0


def test_terms_add_up():
    for config in (StepConfig("gpt2-xl", batch_size=1), StepConfig("llama2-7b", precision="bf16", checkpointing=4)):
        step = predict_step(config)
        for name, terms in step.terms.items():
            assert sum(term.value for term in terms) == getattr(step, name), name
        assert step.parameter_bytes == config.model.num_params * (2 if config.precision == "bf16" else 4)
        assert step.gradient_bytes == step.parameter_bytes
        assert step.input_bytes == 2 * 8 * config.num_tokens


def test_predictions_need_no_torch():
    code = (
        "import sys, core.memory as m; m.largest_batch(m.StepConfig('gpt2'), 10**10); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


MODEL = dataclasses.replace(LLAMA, num_layers=1)
REFUSED = [
    ({"model": "gpt5"}, "model must be one of gpt2, "),
    ({"model": 7}, "model must be a preset's name or a TransformerConfig; received 7"),
    ({"model": "gpt2", "batch_size": 0}, "batch_size must be a whole number from 1"),
    ({"model": "gpt2", "batch_size": 2.5}, "batch_size must be a whole number .* received 2.5"),
    ({"model": "gpt2", "batch_size": 10**12}, "batch_size must be a whole number"),
    ({"model": "gpt2", "seq_len": 2048}, "seq_len must be a whole number from 1 to 1,024; received 2048"),
    ({"model": "llama2-7b", "batch_size": 2**20, "seq_len": 2**24}, "one tensor of this step would have .* elements"),
    ({"model": "gpt2", "num_layers": 0}, "num_layers must be a whole number"),
    ({"model": "llama3-70b", "num_layers": 1024, "checkpointing": 1025}, "checkpointing must be a whole number"),
    ({"model": "gpt2", "precision": "fp8"}, "precision must be one of fp32, autocast, bf16; received 'fp8'"),
    ({"model": "gpt2", "implementation": "huggingface", "checkpointing": 2}, "checkpointing must be 1 or None"),
    ({"model": "gpt2", "optimizer": "sgd", "optimizer_implementation": "fused"}, "torch's fused optimizers"),
    ({"model": "gpt2", "num_devices": 2}, "num_devices is for sharded steps"),
    ({"model": "gpt2", "sharding": "zero4", "num_devices": 2}, "sharding must be one of zero1, zero2, zero3"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED, ids=str)
def test_what_cannot_be_a_step_is_refused_in_words(fields, words):
    with pytest.raises(ValueError, match=words):
        StepConfig(**fields)


def test_a_trillion_parameters_and_heads_that_do_not_divide_are_refused():
    huge = {"num_layers": 1024, "d_model": 2**15, "num_heads": 8, "d_ff": 2**17, "vocab_size": 1000}
    with pytest.raises(ValueError, match=r"this model has 1\d,\d{3},\d{3},\d{3},\d{3} parameters"):
        StepConfig(TransformerConfig("huge", **huge))
    with pytest.raises(ValueError, match="d_model must be a multiple of num_heads"):
        StepConfig(TransformerConfig("odd", **huge | {"num_heads": 7}))
    with pytest.raises(ValueError, match="heads of at least 4 numbers"):
        StepConfig(TransformerConfig("narrow", **huge | {"num_layers": 1, "head_dim": 2}))


def test_a_real_step_beyond_memory_is_refused_before_anything_is_made():
    with pytest.raises(ValueError, match="this step takes .*; the limit here is .* Measure it with fake tensors"):
        measure_step(StepConfig("llama3-70b", batch_size=64, seq_len=8192), real=True)


def test_every_moment_has_a_name():
    names = {predict_step(StepConfig("gpt2", checkpointing=3)).name(one) for one in predict_step(LARGE[0]).moments}
    assert {
        "last block's backward",
        "first block's backward",
        "loss backward",
        "optimizer",
        "block 2's forward",
    } <= names
    kinds = [one.kind for one in predict_step(StepConfig("gpt2", checkpointing=3)).moments]
    assert kinds.count("recomputation") == 4


def test_more_never_takes_less():
    base = StepConfig("gpt2", batch_size=2, seq_len=256)
    for field, larger in itertools.product(("batch_size", "seq_len"), (2, 3)):
        grown = base.change(**{field: getattr(base, field) * larger})
        assert predict_step(grown).peak_bytes > predict_step(base).peak_bytes
