"""*Copy as Python* of Training."""

from __future__ import annotations

from core.training import TrainConfig


def _settings(config: TrainConfig) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in config.changed().items())


def run(config: TrainConfig) -> str:
    """The run's records, and its claims."""
    return f"""from core.training import TrainConfig, Trainer
from core.training import advance_counted, compare_initial_loss, compare_step_flops, compare_step_memory

config = TrainConfig({_settings(config)})
trainer = Trainer(config)
records = [trainer.advance()]
claims = [compare_initial_loss(config, records[0])]
if not trainer.finished:
    record, counted = advance_counted(trainer)
    records.append(record)
    claims += [compare_step_flops(config, counted.flops), compare_step_memory(config, counted.live_bytes)]
while not trainer.finished:
    records.append(trainer.advance())
for one in claims:
    print(one.prediction.quantity, "| predicted", one.prediction.text, "| measured", one.measurement.text)
for record in records[:: max(1, len(records) // 10)]:
    print(f"step {{record.step}}: loss {{record.loss:.4g}}, lr {{record.lr:g}}, {{record.step_seconds:.2e}} s")
print(f"loss at step {{records[-1].step}}: {{records[-1].loss!r}}")
"""


def hunt(bug: str, seed: int) -> str:
    """The curves of a loop with that bug, or with none."""
    return f"""from core.training.sweeps import bug_evidence

for bug in ("", {bug!r}):
    evidence = bug_evidence(bug, {seed})
    print(bug or "no bug")
    for curve in evidence.curves:
        print(f"  {{curve.group}}, {{curve.label}}: {{curve.losses[0]:.3g}} ... {{curve.losses[-1]:.3g}}")
    print("  windows drawn", evidence.windows, "expected", evidence.expected)
"""


def windows(text: str, batch: int, context: int, batches: int, seed: int, skip_last: bool) -> str:
    """How many windows a number of batches reaches."""
    short = "[:-1]  # the bug: one window is out of reach" if skip_last else ""
    return f"""import numpy as np
import torch

from core.training import get_batch, num_windows

data = np.frombuffer({text.encode()!r}, dtype=np.uint8){short}
generator = torch.Generator().manual_seed({seed})
inputs, targets = get_batch(data, {batch}, {context}, generator=generator)
for x, y in zip(inputs.tolist(), targets.tolist()):
    print(bytes(x), "->", bytes(y))
n = num_windows(len(data), {context})
print("windows", n, "| expected to be reached", n * (1 - (1 - 1 / n) ** ({batch} * {batches})))
"""


def repeat(config: TrainConfig, change: str) -> str:
    """The same run twice, one thing changed."""
    return f"""from core.training import TrainConfig, repeat_run

twice = repeat_run(TrainConfig({_settings(config)}), {change!r})
differ = sum(one.hex() != other.hex() for one, other in zip(twice.first, twice.second))
print("steps that differ", differ, "| first", twice.first_difference, "| largest", twice.largest_difference)
"""


def accumulation(config: TrainConfig, parts: int) -> str:
    """One batch at once and in parts; negative parts are not divided by."""
    return f"""from core.training import TrainConfig, accumulate

both = accumulate(TrainConfig({_settings(config)}), {abs(parts)}, divide={parts > 0})
print("loss", both.loss, "in parts", both.parts_loss)
print("gradient norm", both.norm, "in parts", both.parts_norm)
for one in both.layers:
    print(f"{{one.layer}}: largest difference {{one.largest_difference:.3g}}, {{one.share_equal:.0%}} equal to the bit")
"""


def clipping(config: TrainConfig, limit: float) -> str:
    """A short run with its gradients clipped, beside the same run without."""
    return f"""from core.training import TrainConfig, clipping

run = clipping(TrainConfig({_settings(config)}), {limit!r})
print("steps clipped", run.num_clipped, "of", len(run.steps))
for one in run.steps[:: max(1, len(run.steps) // 10)]:
    print(f"step {{one.step}}: norm {{one.norm:.4g}} -> {{one.clipped_norm:.4g}}, cosine {{one.cosine:.6f}}")
print("numbers in which torch's clip_grad_norm_ differs", sum(one.differing for one in run.steps))
print("last loss clipped", run.steps[-1].loss, "not clipped", run.losses_unclipped[-1])
"""


def schedule(max_lr: float, min_lr: float, warmup_steps: int, total_steps: int) -> str:
    """The learning rate at each step, and its mean."""
    return f"""from core.training import cosine_lr

rates = [cosine_lr(step, {max_lr!r}, {min_lr!r}, {warmup_steps}, {total_steps}) for step in range({total_steps})]
print("first", rates[0], "highest", max(rates), "last", rates[-1])
print("mean learning rate", sum(rates) / len(rates))
"""


def sweep(config: TrainConfig, setting: str, values: tuple[float, ...]) -> str:
    """The loss at the end for each value of a setting."""
    return f"""from core.training import TrainConfig
from core.training.sweeps import sweep

for point in sweep(TrainConfig({_settings(config)}), {setting!r}, {values}):
    print(f"{setting} = {{point.value:g}}: loss {{point.final_loss:.4g}}")
"""


def checkpoint(config: TrainConfig) -> str:
    """A checkpoint: its bytes, and that resuming changes no bit."""
    return f"""import io

from core.training import TrainConfig, Trainer, inspect_checkpoint
from core.training.runs import checkpoint_bytes

config = TrainConfig({_settings(config)})
trainer = Trainer(config)
while trainer.step < config.num_steps // 2:
    trainer.advance()
file = io.BytesIO()
print("bytes: predicted", checkpoint_bytes(config), "written", trainer.save(file))
print(inspect_checkpoint(file).parts)
resumed = Trainer(config)
resumed.load(file)
print("bit-identical:", all(resumed.advance().loss == trainer.advance().loss for _ in range(5)))
"""


def devices(config: TrainConfig, processes: int, parallel: str) -> str:
    """The same run on several processes: loss, and bytes sent."""
    return f"""from core.training import TrainConfig, distributed

config = TrainConfig({_settings(config)})
print(distributed.command_for(config, {processes}, {parallel!r}))
print("sent a step: predicted", distributed.predict_communication(config, {processes}, {parallel!r}).text)
"""


def sample(config: TrainConfig, prompt: str, count: int, temperature: float, seed: int) -> str:
    """A model trained from its seed on, and what it writes."""
    return f"""import tempfile
from pathlib import Path

from core.training import TrainConfig, trained
from core.training.sample import sample_text

config = TrainConfig({_settings(config)})
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "checkpoint.pt"
    trained(config).save(checkpoint)
    print(sample_text(config, checkpoint, {prompt!r}, {count}, temperature={temperature!r}, seed={seed}))
"""
