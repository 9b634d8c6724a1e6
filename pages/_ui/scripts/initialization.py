"""*Copy as Python* of Initialization."""

from __future__ import annotations

from core.models import PRESETS, TransformerConfig


def output_std(scheme: str, input_dim: int, output_dim: int, batch_size: int, seed: int) -> str:
    """The std of one layer's output at several widths, and what the difference is made of."""
    dims = sorted({16, 64, 256, 1024, 4096, input_dim})
    return f"""from core import models

for d in {dims}:
    comparison = models.compare_output_std({scheme!r}, d, {output_dim}, {batch_size}, {seed})
    print(f"input_dim {{d:,}}: predicted {{comparison.prediction.text}}, measured {{comparison.measurement.text}}")
    for part in comparison.parts:
        print(f"  {{part.name}}: {{part.value:.3g}}")
"""


def truncation(scheme: str, fan_in: int, num_weights: int, seed: int) -> str:
    """What a truncation leaves of a normal: std, and share in each bin."""
    return f"""from core import models
from core.models.picture import share_beyond, weight_histogram

run = models.compare_truncation({scheme!r}, {fan_in}, {num_weights}, {seed})
print("std predicted", run.comparison.prediction.text, "measured", run.comparison.measurement.text)
print(f"the bound is at {{run.bound_in_sigmas:.4g}} sigma; the largest weight at {{run.largest_in_sigmas:.3f}}")
bins = weight_histogram({scheme!r}, {fan_in}, {num_weights}, {seed})
for one in bins:
    shares = f"predicted {{one.predicted:.2e}}, measured {{one.measured:.2e}}"
    print(f"{{one.low:4.1f}} to {{one.high:4.1f}} sigma: {{shares}}")
print("beyond 3 sigma: predicted {{:.3%}}, measured {{:.3%}}".format(*share_beyond(bins, 3)))
"""


def gains(scheme: str, dim: int, num_layers: int, batch_size: int, relu: bool, seed: int, of: str) -> str:
    """Activations and gradients through a deep network, and the gain per layer."""
    return f"""from core import models

run = models.measure_gains({scheme!r}, {dim}, {num_layers}, {batch_size}, {relu}, {seed})
for layer, rms in enumerate(run.activation_rms):
    print(f"layer {{layer}}: activations {{rms:.3g}}, gradients {{run.gradient_rms[layer]:.3g}}")
print("beyond fp32 at layer", run.overflow_at)
comparison = models.{"compare_activation_gain" if of == "activations" else "compare_gradient_gain"}(run)
print("gain per layer: predicted", comparison.prediction.text, "measured", comparison.measurement.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}}")
"""


def cruncher_parameters(dim: int, num_layers: int) -> str:
    """The Cruncher's parameters, listed and counted."""
    return _listing("", f"list_cruncher({dim}, {num_layers})")


def model_parameters(config: TransformerConfig) -> str:
    """A Transformer's parameters, listed and counted."""
    names = [name for name, one in PRESETS.items() if one == config]
    made = f"models.preset({names[0]!r})" if names else f"models.{config!r}"
    return _listing(f"config = {made}\n", "list_model(config)")


def _listing(before: str, call: str) -> str:
    imported = "from core import models\n" if before else ""
    return f"""{imported}from core.models.picture import kinds_of, {call.split("(")[0]}

{before}listing = {call}
print("predicted", listing.comparison.prediction.value, "=", listing.comparison.prediction.formula)
print("counted", listing.comparison.measurement.value)
for kind in kinds_of(listing.parameters):
    print(f"  {{kind.name}}: {{kind.numel:,}} in {{kind.tensors:,}} tensors")
for one in listing.parameters:
    print(one.name, one.shape, f"{{one.numel:,}}")
"""
