"""*Copy as Python* of the start page."""

from __future__ import annotations


def training_time(num_params: float, num_tokens: float, devices: int, peak: float | None, mfu: float) -> str:
    """Days to train."""
    return f"""from core import napkin

prediction = napkin.predict_training_time({num_params!r}, {num_tokens!r}, {devices}, {peak!r}, {mfu!r})
print(prediction.text, "=", prediction.formula)
"""


def max_params(devices: int, memory_bytes: float, recipe: str) -> str:
    """The largest model that fits."""
    return f"""from core import napkin

prediction = napkin.predict_max_params({devices}, {memory_bytes!r}, napkin.RECIPES[{recipe!r}])
print(prediction.text, "=", prediction.formula)
"""


def gpu_hours(model: str, mfu: float) -> str:
    """The GPU-hours of a published training, predicted and reported."""
    return f"""from core import napkin

run = next(run for run in napkin.published_runs() if run.model == {model!r})
comparison = napkin.compare_gpu_hours(run, {mfu!r})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("reported", comparison.measurement.text, "which implies an MFU of", round(run.implied_mfu, 3))
"""


def throughput(name: str) -> str:
    """The MFU of a step by 6N alone, and as it was reported."""
    return f"""from core import napkin

comparison = napkin.compare_throughput(napkin.THROUGHPUTS[{name!r}])
print("6N alone", comparison.prediction.text, "=", comparison.prediction.formula)
print("reported", comparison.measurement.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}} ({{part.note}})")
"""
