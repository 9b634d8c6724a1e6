"""*Copy as Python* of Low precision."""

from __future__ import annotations

from core.training import TrainConfig


def _settings(config: TrainConfig) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in config.changed().items())


def precisions(config: TrainConfig, wanted: tuple[str, ...]) -> str:
    """The same run in each precision: loss, speed, bytes."""
    return f"""from core.training import TrainConfig, compare_precisions

for one in compare_precisions(TrainConfig({_settings(config)}), {wanted}):
    print(f"{{one.precision}}: loss {{one.losses[-1]:.4g}}, {{one.tokens_per_sec:.3g}}/s, {{one.total_bytes:,}} bytes")
"""


def underflow(config: TrainConfig, precision: str) -> str:
    """The gradients that underflow, layer by layer."""
    return f"""from core.training import TrainConfig, gradient_underflow

for one in gradient_underflow(TrainConfig({_settings(config)}), {precision!r}):
    print(f"{{one.layer}}: {{100 * one.zero_share:.3g}}% become 0, median |g| {{one.median_size:.2e}}")
"""


def weights(config: TrainConfig) -> str:
    """A trained model in each format: loss and bytes."""
    return f"""from core.training import TrainConfig, compare_weight_only, trained

for one in compare_weight_only(trained(TrainConfig({_settings(config)}))):
    print(f"{{one.name}}: loss {{one.loss:.5g}}, {{one.num_bytes:,}} bytes")
"""
