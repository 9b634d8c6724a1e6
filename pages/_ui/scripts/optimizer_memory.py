"""*Copy as Python* of Optimizer memory."""

from __future__ import annotations

import dataclasses

from core.memory.config import StepConfig
from core.models import PRESETS


def step(config: StepConfig) -> str:
    """A step on paper: every moment, and the most that it ever holds."""
    return f"""from core.memory.config import StepConfig
from core.memory.paper_depth import step_on_paper
from core.models import TransformerConfig

config = {_config_text(config)}
moments = step_on_paper(config).moments
for moment in moments:
    print(f"{{moment.name(config.num_layers)}}: {{moment.highest_bytes:,}} B")
peak = max(moments, key=lambda moment: moment.highest_bytes)
print("peak:", peak.name(config.num_layers), peak.highest)
"""


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


def sharding(model: str, stage: str, num_devices: int, optimizer: str, dtype: str) -> str:
    """What one device holds and sends, as torch deals it out, and by the paper's formula."""
    return f"""from core.memory import sharding, sharding_claims
from core.models import preset

units = sharding.transformer_units(preset({model!r}))
for stage in sharding.STAGES:
    dealt = sharding.shard(units, stage, {num_devices}, {optimizer!r}, {dtype!r})
    states, sent = sharding_claims.predict_device_bytes(dealt), sharding_claims.predict_sent_bytes(dealt)
    mark = "*" if stage == {stage!r} else " "
    print(f"{{mark}} {{stage}}: {{states.value:,}} B = {{states.formula}}")
    print(f"    gathered for a moment {{dealt.gathered_bytes:,}} B, sent a step {{sent.value:,}} B = {{sent.formula}}")
"""
