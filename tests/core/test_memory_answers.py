"""What is asked of a step's memory: the reference table, what fits, checkpoints, rules of thumb, other models."""

import itertools
import json
import math

import pytest
import torch

from core import jobs, memory
from core.memory import StepConfig, measure_step, predict_step
from core.memory.meter import MemoryMeter
from core.models import PRESETS, TransformerConfig
from tests.core.test_memory import GPT2, LLAMA

QWEN2 = TransformerConfig("tiny Qwen2", 3, 24, 3, 52, 97, num_kv_heads=1, qkv_bias=True)
QWEN3 = TransformerConfig("tiny Qwen3", 3, 24, 3, 52, 97, num_kv_heads=1, head_dim=10, qk_norm=True, tied_head=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # what transformers warns of while it is imported is not ours
HF = "huggingface"

# Measured with torch 2.13 and transformers' own modules, AdamW in a for-loop: activations, peak, moment.
REFERENCE = {
    "GPT-2": (StepConfig("gpt2", HF, 4), 5_079_654_408, 8_219_786_840, "loss backward"),
    "GPT-2 eager": (StepConfig("gpt2", HF, 4, attention="eager"), 7_493_214_216, 10_633_346_648, "loss backward"),
    "GPT-2 checkpointed": (StepConfig("gpt2", HF, 4, checkpointing=1), 999_645_192, 4_139_777_624, "loss backward"),
    "GPT-2 autocast": (
        StepConfig("gpt2", HF, 8, precision="autocast"), 6_467_913_224, 11_254_899_800, "loss backward",
    ),
    "Llama 2 7B": (
        StepConfig("llama2-7b", HF, 1, 2048, precision="bf16"), 12_553_052_176, 54_431_655_564, "optimizer",
    ),
    "Llama 2 7B eager": (
        StepConfig("llama2-7b", HF, 1, 2048, attention="eager", precision="bf16"),
        38_314_467_344, 79_539_799_700, "last block's backward",
    ),
    "Llama 2 7B checkpointed": (
        StepConfig("llama2-7b", HF, 1, 4096, precision="bf16", checkpointing=1),
        1_734_426_640, 54_431_688_332, "optimizer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_table_predicted(name):
    config, activations, peak, moment = REFERENCE[name]
    step = predict_step(config)
    assert (step.activation_bytes, step.peak_bytes, step.peak_moment) == (activations, peak, moment)


@pytest.mark.parametrize("name", ["GPT-2 autocast", "Llama 2 7B checkpointed"])
def test_the_reference_table_measured(name):
    config, activations, peak, moment = REFERENCE[name]
    step = measure_step(config)
    assert (step.activation_bytes, step.peak_bytes, step.peak_moment) == (activations, peak, moment)
    assert any("extended" in note for note in step.conditions.notes)


# All of GPT-2's and Llama's; of the two that differ from Llama in their attention alone, every pair of two choices.
AT_EVERY_MOMENT = [
    pytest.param(model, attention, precision, checkpointing, id=f"{model.name}-{attention}-{precision}-{checkpointing}")
    for number, model in enumerate((GPT2, LLAMA, QWEN2, QWEN3))
    for place, (attention, precision) in enumerate(itertools.product(memory.ATTENTIONS, memory.PRECISIONS))
    for turn, checkpointing in enumerate((None, 1))
    if number < 2 or (number + place + turn) % 2
]


@pytest.mark.parametrize(("model", "attention", "precision", "checkpointing"), AT_EVERY_MOMENT)
def test_hugging_faces_models_at_every_moment(model, attention, precision, checkpointing):
    batch = 1 if precision == "bf16" else 2  # the labels of one row are shifted without a copy
    config = StepConfig(model, HF, batch, 6, attention=attention, precision=precision, checkpointing=checkpointing)
    predicted, measured = predict_step(config), measure_step(config)
    assert predicted.moments[1:] == measured.moments[1:]
    assert predicted.moments[0].end == measured.moments[0].end  # positions and mask come from scratch that passes


def test_the_crunchers_step():
    predicted = memory.predict_cruncher_step(2, 4, 2, "adamw", "for-loop")
    measured = memory.measure_cruncher_step(2, 4, 2, "adamw", "for-loop")
    assert predicted.moments == measured.moments
    states = predicted.parameter_bytes, predicted.gradient_bytes, predicted.optimizer_state_bytes
    assert states == (144, 144, 300)
    assert (measured.activation_bytes, measured.peak_bytes, measured.peak_moment) == (76, 812, "optimizer")
    assert [(term.name, term.value) for term in predicted.activation_terms] == [
        ("loss", 4), ("y", 8), ("h2", 32), ("h1", 32),
    ]  # fmt: skip


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw"])
def test_the_crunchers_optimizers(optimizer):
    arguments = 3, 5, 4, optimizer
    assert memory.predict_cruncher_step(*arguments).moments == memory.measure_cruncher_step(*arguments).moments


def test_the_meter_counts_each_storage_once_until_it_is_freed():
    meter = MemoryMeter()
    with meter, torch.no_grad():
        meter.timeline.start("here")
        x = torch.ones(10)
        meter.add([x, x[2:]], "parameter")
        y = x.view(2, 5).t()
        x.add_(1)
        assert meter.timeline.snapshot() == {"parameter": 40}
        z = y.contiguous()
        del x, y
        assert meter.timeline.snapshot() == {"temporary": 40}
        del z
        meter.timeline.stop()
    assert meter.timeline.moments[0].highest_bytes == 80
    assert meter.timeline.moments[0].end == {}


@pytest.mark.parametrize("memory_bytes", [24 * 10**9, 80 * 10**9])
@pytest.mark.parametrize("config", [StepConfig("gpt2"), StepConfig("qwen3-0.6b", precision="bf16", checkpointing=1)])
def test_the_largest_batch_fits_and_the_next_does_not(config, memory_bytes):
    batch = memory.largest_batch(config, memory_bytes)
    assert memory.fits(config.change(batch_size=batch), memory_bytes)
    assert not memory.fits(config.change(batch_size=batch + 1), memory_bytes)


def test_nothing_fits_where_the_states_do_not():
    assert memory.largest_batch(StepConfig("llama2-7b"), 80 * 10**9) == 0
    assert memory.largest_depth(StepConfig("llama3-70b"), 10**9) == 0
    assert memory.largest_model(10**6) is None
    with pytest.raises(ValueError, match="memory, in bytes, must be a whole number"):
        memory.fits(StepConfig("gpt2"), 0)


def test_the_largest_depth_and_model():
    config = StepConfig("gpt2", batch_size=2, seq_len=512, checkpointing=2)
    depth = memory.largest_depth(config, 16 * 10**9)
    peaks = [predict_step(config.change(num_layers=layers)).peak_bytes for layers in (depth, depth + 1)]
    assert peaks[0] <= 16 * 10**9 < peaks[1]
    name = memory.largest_model(24 * 10**9, batch_size=1, seq_len=2048, precision="bf16")
    larger = [one for one, model in PRESETS.items() if model.num_params > PRESETS[name].num_params]
    for one in (one for one in larger if not PRESETS[one].learned_positions):
        assert not memory.fits(StepConfig(one, batch_size=1, seq_len=2048, precision="bf16"), 24 * 10**9)


def test_cs336s_exercise_is_a_line_in_the_batch():
    """GPT-2 XL, fp32, AdamW: a·batch + b, and the largest batch in 80 GB."""
    config = StepConfig("cs336-xl", batch_size=4, seq_len=1024, attention="eager")
    line = memory.peak_line(config)
    for batch in (3, 5, 9):
        step = predict_step(config.change(batch_size=batch))
        assert step.peak_bytes == line.bytes_per_sequence * batch + line.constant_bytes
    batch = memory.largest_batch(config, 80 * 10**9)
    assert batch == (80 * 10**9 - line.constant_bytes) // line.bytes_per_sequence


def test_the_best_checkpoints_are_the_best_of_all():
    config = StepConfig("gpt2", num_layers=36, batch_size=4, seq_len=512, precision="bf16")
    best = memory.best_checkpointing(config)
    peaks = {k: predict_step(config.change(checkpointing=k)).peak_bytes for k in range(1, 37)}
    assert best.peak_bytes == min(peaks.values()) == peaks[best.every]
    choices = {one.every: one for one in memory.checkpointing_choices(config)}
    assert choices[None].recompute_flops == 0
    assert choices[None].activation_bytes > choices[1].activation_bytes > choices[6].activation_bytes
    d, n, t = 768, 2048, 512
    assert best.recompute_flops == 36 * n * (24 * d * d + 4 * t * d)


def test_rules_of_thumb_against_ours():
    config = StepConfig("gpt2", batch_size=4, seq_len=1024, attention="eager", precision="bf16")
    step = predict_step(config)
    assert memory.sixteen_bytes_per_parameter(config).value == 16 * config.model.num_params
    rule = memory.korthikanti_activations(config).value
    assert rule == 12 * (34 * 1024 * 4 * 768 + 5 * 12 * 4 * 1024**2)
    assert 0.5 < step.activation_bytes / rule < 1  # no dropout masks here, but a head and a loss
    assert memory.korthikanti_activations(config.change(checkpointing=1)).value == 12 * 2 * 1024 * 4 * 768


def test_what_hugging_faces_gpt2_keeps_beyond_ours():
    config = StepConfig("gpt2", batch_size=4, seq_len=1024)
    ours, theirs = predict_step(config), predict_step(config.change(implementation=HF, optimizer_implementation=None))
    terms = memory.compare_implementations(config)
    assert sum(term.value for term in terms) == theirs.activation_bytes - ours.activation_bytes
    n, f = 4096, 3072
    gelu = next(term for term in terms if term.name == "blocks: feed-forward")
    assert gelu.value == 12 * n * 4 * 3 * f  # ½x, tanh and 1 + tanh, where the fused one keeps x alone


def test_a_sharded_step_has_the_states_of_one_device():
    config = StepConfig("gpt2", batch_size=1, sharding="zero3", num_devices=8)
    step, alone = predict_step(config), predict_step(config.change(sharding=None, num_devices=1))
    assert math.isclose(step.parameter_bytes, alone.parameter_bytes / 8, rel_tol=0.01)
    assert math.isclose(step.optimizer_state_bytes, alone.optimizer_state_bytes / 8, rel_tol=0.01)
    assert step.activation_bytes == alone.activation_bytes
    assert step.peak_bytes < alone.peak_bytes
    with pytest.raises(ValueError, match="sharding_measure"):
        measure_step(config)


def huggingface_json(model: TransformerConfig) -> str:
    from core.memory.subjects import huggingface_fields

    return json.dumps(huggingface_fields(model) | {"torch_dtype": "float16", "_name_or_path": "somewhere/else"})


def test_a_config_json_is_measured_as_the_same_model():
    step = memory.measure_huggingface_config(huggingface_json(LLAMA), 2, 6)
    assert step.moments == measure_step(StepConfig(LLAMA, HF, 2, 6)).moments


def test_another_architecture_is_measured():
    fields = {"model_type": "gpt_neox", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 64, "vocab_size": 101, "max_position_embeddings": 32}  # fmt: skip
    step = memory.measure_huggingface_config(fields, 2, 8)
    assert step.num_layers == 2
    assert step.gradient_bytes == step.parameter_bytes
    assert step.peak_bytes > step.parameter_bytes + step.gradient_bytes + step.optimizer_state_bytes


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "this is not a config.json"),
        ("[1]", "holds an object with a model_type"),
        ("[" * 100_000, "this config.json is nested too deeply|this is not a config.json"),
        ("x" * 300_000, "at most 200,000 bytes"),
        ('{"model_type": "bert-of-mine"}', "is no causal language model of transformers"),
        ('{"model_type": "gpt2", "auto_map": {"AutoConfig": "evil.Config"}}', "auto_map is not supported"),
        ('{"model_type": "llama", "hidden_size": 1000000000000}', "hidden_size must be a whole number"),
        ('{"model_type": "llama", "num_hidden_layers": 100000}', "the number of blocks must be a whole number"),
        ('{"model_type": "llama", "hidden_size": 10, "num_attention_heads": 3}', "cannot build|divi|multiple"),
        ('{"model_type": "llama", "hidden_size": "wide"}', "transformers cannot build|hidden_size"),
    ],
)
def test_a_wrong_or_hostile_file_is_refused_in_words(source, words):
    with pytest.raises(ValueError, match=words):
        memory.measure_huggingface_config(source, 1, 8)


def test_without_transformers_the_measurement_says_so_and_the_prediction_works(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    config = StepConfig(GPT2, HF, 2, 5, optimizer="sgd", optimizer_implementation="napkin")
    assert predict_step(config).peak_bytes > 0
    with pytest.raises(ValueError, match="pip install transformers"):
        measure_step(config)


def test_a_measurement_is_a_job_that_can_be_cancelled():
    config = StepConfig(GPT2, batch_size=2, seq_len=5)
    *_updates, step = jobs.run(measure_step, config, timeout=120)
    assert step.moments == predict_step(config).moments
    job = jobs.submit(measure_step, StepConfig("gpt2-xl", checkpointing=48), timeout=120)
    jobs.cancel(job)
    status = jobs.wait(job, timeout=20)
    while not status.finished:
        status = jobs.wait(job, timeout=20, after_version=status.version)
    assert status.state == "cancelled"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_step_on_a_gpu_is_told_by_its_allocator():
    config = StepConfig("gpt2", batch_size=4, seq_len=512, precision="autocast")
    step = measure_step(config, device="cuda")
    sizes = {term.name: term.value for term in step.allocator_terms}
    assert min(sizes.values()) >= 0
    assert 0.8 < sizes["tensors"] / predict_step(config).peak_bytes < 1.05
    assert sizes["context"] > 2**27
