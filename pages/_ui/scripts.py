"""*Copy as Python*: short scripts that import core and print what a card shows. A test runs every one of them."""

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


def budget(devices: int, peak_flop_per_sec: float | None, weeks: float, mfu: float) -> str:
    """The FLOPs of a cluster."""
    return f"""from core import flops

prediction = flops.predict_budget({devices}, {peak_flop_per_sec!r}, {weeks!r}, {mfu!r})
print(prediction.text, "=", prediction.formula)
"""


def matmul_count(b: int, d: int, k: int) -> str:
    """The FLOPs of a matrix multiply, on the napkin and by torch."""
    return f"""from core import flops

comparison = flops.compare_matmul_flops({b}, {d}, {k})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("torch's count", comparison.measurement.text)
print("exact", flops.exact_matmul_flops({b}, {d}, {k}))
"""


def matmul_time(b: int, d: int, k: int, dtype: str, device: str, threads: int) -> str:
    """A matrix multiply predicted, measured and explained."""
    return f"""from core import flops, hardware

device = next(one for one in hardware.devices() if one.id == {device!r})
calibration = hardware.calibrate({device!r}, ({dtype!r}, "fp32"), threads={threads})
run = flops.measure_matmul({b}, {d}, {k}, dtype={dtype!r}, device={device!r}, threads={threads})
comparison = flops.compare_matmul_time(run, flops.choose_peak(device, {dtype!r}, calibration), calibration)
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured ", comparison.measurement.text, "|", comparison.measurement.conditions.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}} s ({{part.note}})")
print("  unexplained:", comparison.unexplained, "s")
print("the lecture's method:", run.lecture_time.text)
"""
