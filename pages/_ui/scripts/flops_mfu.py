"""*Copy as Python* of FLOPs & MFU."""

from __future__ import annotations


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


def half_peak(dtype: str, device: str, threads: int) -> str:
    """The size from which half of the peak is reached."""
    return f"""from core import flops, hardware

ceiling = hardware.calibrate({device!r}, ({dtype!r},), threads={threads}).ceiling({dtype!r})
prediction = flops.predict_half_peak(ceiling)
print("predicted", prediction.text, "=", prediction.formula)
sweep = flops.sweep_matmul(flops.square_shapes((16, 32, 64, 128, 256)), ({dtype!r},), {device!r}, threads={threads})
for run in sweep.runs:
    print(run.b, f"{{run.flop_per_sec / 1e9:.3g}} GFLOP/s")
comparison = flops.compare_half_peak(sweep, ceiling)
print("measured", comparison.measurement.text if comparison else "half of the peak was not reached")
"""


def roofline(b: int, d: int, k: int, dtype: str, device: str, threads: int) -> str:
    """The lecture's five operations and a matrix multiply under this machine's roof."""
    return f"""from core import flops, hardware

calibration = hardware.calibrate({device!r}, ({dtype!r},), threads={threads})
roof = flops.Roof("calibrated", calibration.peak_flop_per_sec({dtype!r}), calibration.bytes_per_sec, "calibrated")
print("ridge", round(roof.ridge_flop_per_byte, 1), "FLOP/byte")
for run in flops.measure_roofline({b}, {d}, {k}, {dtype!r}, {device!r}, threads={threads},
                                  expected_flop_per_sec=roof.peak_flop_per_sec):
    comparison = flops.compare_operation(run, roof, calibration)
    print(run.operation, run.size, "|", round(run.flop_per_byte, 2), "FLOP/byte,", roof.bound(run.flop_per_byte),
          "| predicted", comparison.prediction.text, "| measured", comparison.measurement.text)
"""
