"""*Copy as Python* of Optimizer memory."""

from __future__ import annotations

import dataclasses

from core.memory.config import StepConfig
from core.memory.huggingface import HuggingFaceStep
from core.models import PRESETS


def step(config: StepConfig) -> str:
    """A step predicted and measured, moment by moment."""
    return f"""{_imports(config, "measure_step", "predict_step")}
config = {_config_text(config)}
predicted, measured = predict_step(config), {"None" if config.sharding else "measure_step(config)"}
for index, moment in enumerate(predicted.moments):
    beside = f", measured {{measured.moments[index].highest_bytes:,}} B" if measured else ""
    print(f"{{predicted.name(moment)}}: {{moment.highest_bytes:,}} B{{beside}}")
print("peak:", predicted.peak_moment, predicted.peak.highest)
for term in predicted.activation_terms:
    print(f"  {{term.name}}: {{term.value:,}} B = {{term.note}}")
"""


def file_step(step: HuggingFaceStep) -> str:
    """A step of a config.json's model, measured moment by moment."""
    fields = {one.name: getattr(step, one.name) for one in dataclasses.fields(step) if one.name != "fields"}
    plain = {one.name: one.default for one in dataclasses.fields(step)}
    changed = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value != plain[name])
    return f"""from core.memory import huggingface_step, measure_huggingface_step

config_json = {step.fields!r}
measured = measure_huggingface_step(huggingface_step(config_json, {changed}))
for moment in measured.moments:
    print(f"{{measured.name(moment)}}: {{moment.highest_bytes:,}} B")
print("peak:", measured.peak_moment, measured.peak.highest)
"""


def sharding(config: StepConfig, devices: int) -> str:
    """What one device holds and sends under every stage."""
    return f"""{_imports(config, "predict_step", "sharded")}
from core.memory.sharding_claims import predict_sent_bytes

config = {_config_text(config)}
for stage in (None, "zero1", "zero2", "zero3"):
    one = config.change(sharding=stage, num_devices={devices} if stage else 1)
    step, dealt = predict_step(one), sharded(one)
    print(f"{{stage}}: peak {{step.peak_bytes:,}} B ({{step.peak_moment}}), states {{dealt.fullest.total_bytes:,}} B")
    print(f"  gathered for a moment {{dealt.gathered_bytes:,}} B, sent {{predict_sent_bytes(dealt).value:,}} B")
"""


def sharding_here(config: StepConfig) -> str:
    """Every stage on two processes of this machine, predicted and measured."""
    return f"""{_imports(config)}
from core.memory.sharding_claims import compare_sharding
from core.memory.sharding_measure import measurable_cases, measure_shardings

config = {_config_text(config)}
for run in measure_shardings(measurable_cases(config)):
    print(run.case.stage)
    for one in compare_sharding(run, run.sharding.fullest.rank):
        print(f"  {{one.prediction.quantity}}: {{one.prediction.value:,}} B, measured {{one.measurement.value:,}} B")
        for part in one.parts:
            print(f"    {{part.name}}: {{part.value:+,}} B")
"""


def fits(config: StepConfig, memory_bytes: int) -> str:
    """Whether a step fits, the largest batch, and the largest listed model."""
    return f"""{_imports(config, "fits", "largest_batch", "largest_model", "predict_step")}
config = {_config_text(config)}
print(f"peak {{predict_step(config).peak_bytes:,}} B of {memory_bytes:,} B: fits {{fits(config, {memory_bytes})}}")
print("largest batch:", largest_batch(config, {memory_bytes}))
print("largest listed model:", largest_model({memory_bytes}, batch_size=config.batch_size, seq_len=config.seq_len,
      precision=config.precision, attention=config.attention, optimizer=config.optimizer))
"""


def exercise(config: StepConfig, memory_bytes: int) -> str:
    """The peak as a line in the batch, the batch that fits, and the days on one A100."""
    return f"""{_imports(config, "largest_batch", "peak_line", "predict_exercise_time")}
config = {_config_text(config)}
batch = largest_batch(config, {memory_bytes})
line = peak_line(config.change(batch_size=max(1, batch)))
print(f"peak = {{line.bytes_per_sequence:,}} * B + {{line.constant_bytes:,}} B, at {{line.moment}}")
print("largest batch", batch)
print(f"{{predict_exercise_time(config.model).value / 86400:,.0f}} days")
"""


def checkpoints(config: StepConfig) -> str:
    """The peak for every distance between checkpoints, and the FLOPs of the second forward."""
    return f"""{_imports(config, "best_checkpointing", "checkpointing_choices")}
config = {_config_text(config)}
for one in checkpointing_choices(config):
    print(f"every {{one.every}}: peak {{one.peak_bytes:,}} B, kept {{one.activation_bytes:,}} B, "
          f"{{one.recompute_flops:,}} FLOPs again")
print("best: every", best_checkpointing(config).every)
"""


def rules(config: StepConfig) -> str:
    """Rules of thumb beside the exact bytes."""
    return f"""{_imports(config, "korthikanti_activations", "predict_step", "sixteen_bytes_per_parameter")}
config = {_config_text(config)}
step = predict_step(config)
states = step.parameter_bytes + step.gradient_bytes + step.optimizer_state_bytes
print(f"16 bytes a parameter: {{sixteen_bytes_per_parameter(config).value:,}} B; exactly {{states:,}} B")
print(f"34sbh + 5abs2 a layer: {{korthikanti_activations(config).value:,}} B; exactly {{step.activation_bytes:,}} B")
print(f"peak {{step.peak_bytes:,}} B, at {{step.peak_moment}}")
"""


def _imports(config: StepConfig, *names: str) -> str:
    model = "" if config.model in PRESETS.values() else "\nfrom core.models import TransformerConfig"
    where = {"measure_step": "measure", "predict_step": "predict", "sharded": "predict"}
    where |= dict.fromkeys(("sixteen_bytes_per_parameter", "korthikanti_activations"), "rules")
    where |= {"predict_exercise_time": "exercise"}
    lines = [f"from core.memory.{where.get(name, 'fits')} import {name}" for name in names]
    return "\n".join(["from core.memory.config import StepConfig", *lines]) + model


def _config_text(config: StepConfig) -> str:
    """The config as Python: what differs from the defaults."""
    names = [name for name, one in PRESETS.items() if one == config.model]
    model = repr(names[0] if names else config.model)
    fields = {one.name: getattr(config, one.name) for one in dataclasses.fields(config)}
    plain = {one: getattr(StepConfig(config.model, seq_len=1), one) for one in fields}
    changed = [f"{one}={value!r}" for one, value in fields.items() if one != "model" and value != plain[one]]
    return f"StepConfig({', '.join([model, *changed])})"


def cruncher(batch_size: int, dim: int, num_layers: int, optimizer: str) -> str:
    """A step on the lecture's Cruncher: bytes and FLOPs as it counts, and as torch does."""
    return f"""from core.memory import cruncher

run = cruncher.measure_cruncher({batch_size}, {dim}, {num_layers}, {optimizer!r})
for comparison in (cruncher.compare_cruncher_bytes(run), cruncher.compare_cruncher_flops(run)):
    prediction, unit = comparison.prediction, comparison.prediction.unit
    print(f"{{prediction.quantity}}: the lecture's {{prediction.value:,}} {{unit}} = {{prediction.formula}}")
    print(f"  measured {{comparison.measurement.value:,}} {{unit}}")
    for part in comparison.parts:
        print(f"  {{part.name}}: {{part.value:+,}} {{unit}}, {{part.note}}")
print("entries saved for backward:", run.num_saved)
"""
