"""*Copy as Python* of Optimizers."""

from __future__ import annotations


def surface(
    name: str,
    optimizers: tuple[str, ...],
    followed: str,
    lr: float,
    start: tuple[float, float],
    steps: int,
    condition: float,
) -> str:
    """Where each optimizer goes on a surface, and the loss that the closed form predicts of one."""
    return f"""from core import optimizers
from core.optimizers.closed_form import predict_loss

settings = {{"lr": {lr!r}, "start": {start}, "steps": {max(1, steps)}, "condition": {condition!r}}}
for name in {optimizers}:
    went = optimizers.trajectory({name!r}, name, **settings)
    x, y = went.points[-1]
    print(f"{{name}}: after {{went.num_steps}} steps at ({{x:.4g}}, {{y:.4g}}), loss {{went.losses[-1]:.4g}}")
    if went.diverged_at is not None:
        print(f"  diverged at step {{went.diverged_at}}")
prediction = predict_loss({name!r}, {followed!r}, {lr!r}, {start}, {steps}, {condition!r})
print({followed!r}, "predicted", prediction.quantity, prediction.text, prediction.unknown)
"""


def first_step(optimizer: str, gradient: float, lr: float) -> str:
    """The first step of an optimizer, predicted and taken, for gradients of many sizes."""
    return f"""from core import optimizers

for gradient in ({gradient!r}, 1e-12, 1e-8, 1e-4, 1.0, 1e4):
    comparison = optimizers.compare_first_step({optimizer!r}, gradient, {lr!r})
    claim, taken = comparison.prediction, comparison.measurement
    print(f"g = {{gradient:g}}: predicted {{claim.value:.6g}} = {{claim.formula}}, taken {{taken.value:.6g}}")
    for part in comparison.parts:
        print(f"  {{part.name}}: {{part.value:.3g}} ({{part.note}})")
"""


def state(optimizer: str, dim: int, num_layers: int, dtype: str) -> str:
    """What an optimizer keeps for the lecture's Cruncher, predicted and after one step."""
    return f"""from core import optimizers

shapes = [({dim}, {dim})] * {num_layers} + [(1, {dim})]
comparison = optimizers.compare_state_bytes({optimizer!r}, shapes, {dtype!r})
print(f"predicted {{comparison.prediction.value:,}} B = {{comparison.prediction.formula}}")
print(f"measured {{comparison.measurement.value:,}} B")
for name in optimizers.OPTIMIZERS:
    print(f"  {{name}}: {{optimizers.state_bytes(name, shapes, {dtype!r}):,}} B")
"""
