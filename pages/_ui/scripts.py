"""*Copy as Python*: short scripts that import core and print what a card shows. A test runs every one of them."""

from __future__ import annotations

from core import flops


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


def transformer(shape: flops.TransformerShape, batch: int, length: int, attention: str) -> str:
    """A Transformer's FLOPs by component, and torch's count of the real network."""
    return f"""from core import flops

shape = flops.{_shape(shape)}
comparison, count = flops.count_transformer(shape, {batch}, {length}, {attention!r})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
for part in flops.transformer_flops(shape, {batch}, {length}).components:
    print(f"  {{part.name}}: {{part.forward_flops:,}} forward, {{part.backward_flops:,}} backward")
print("counted by torch", f"{{count.total:,}}")
"""


def attention(shape: flops.TransformerShape, batch: int, length: int, causal_half: bool) -> str:
    """The attention's share of a Transformer's FLOPs."""
    return f"""from core import flops

shape = flops.{_shape(shape)}
prediction = flops.predict_attention_share(shape, {batch}, {length}, causal_half={causal_half})
print(prediction.text, "=", prediction.formula)
"""


def six_nd(shape: flops.TransformerShape, batch: int, length: int) -> str:
    """6ND beside the exact count."""
    return f"""from core import flops

comparison = flops.compare_six_nd(flops.{_shape(shape)}, {batch}, {length})
print("6ND", comparison.prediction.text, "=", comparison.prediction.formula)
print("exact", comparison.measurement.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.4g}} FLOPs ({{part.note}})")
"""


def _shape(shape: flops.TransformerShape) -> str:
    if flops.PRESETS.get(shape.name) == shape:
        return f"PRESETS[{shape.name!r}]"
    return repr(shape)


def gradient_graph(
    x: tuple[float, ...], w: tuple[float, ...], y: float, x_grad: bool, w_grad: bool, retain: tuple[str, ...]
) -> str:
    """Every tensor of ½(x·w − y)², with its .grad and why."""
    return f"""from core import gradients

graph = gradients.explain_graph({x}, {w}, {y!r}, {x_grad}, {w_grad}, {retain})
print("w.grad by hand", gradients.gradient_by_hand({x}, {w}, {y!r})[0])
for node in graph.nodes:
    print(f"{{node.name}}: value {{node.value}}, .grad {{node.grad}} | {{node.why}}")
"""


def finite_differences(x: tuple[float, ...], w: tuple[float, ...], y: float, loss: str, method: str, dtype: str) -> str:
    """The error of a finite difference at each step, and the best step."""
    return f"""from core import gradients

check = gradients.finite_difference_check({x}, {w}, {y!r}, loss={loss!r})
curve = check.curve({method!r}, {dtype!r})
print("gradient", check.gradient)
for point in curve.points:
    print(f"h = {{point.step:.1e}}: error {{point.error:.2e}}, predicted {{point.truncation + point.rounding:.2e}}")
print("best step: predicted", curve.predicted_best_step, "measured", curve.best_step)
"""


def accumulated_gradients(x: tuple[float, ...], w: tuple[float, ...], y: float, times: int) -> str:
    """What w.grad holds after each backward when nothing clears it."""
    return _trace(f"accumulation({x}, {w}, {y!r}, {times})", x, w, y)


def cleared_gradients(x: tuple[float, ...], w: tuple[float, ...], y: float, set_to_none: bool) -> str:
    """What w.grad holds after each step with zero_grad() between two backwards."""
    return _trace(f"zero_grad({set_to_none}, {x}, {w}, {y!r})", x, w, y)


def _trace(call: str, x: tuple[float, ...], w: tuple[float, ...], y: float) -> str:
    return f"""from core import gradients

trace = gradients.{call}
print("one gradient by hand", gradients.gradient_by_hand({x}, {w}, {y!r})[0])
for step in trace.steps:
    print(step.action, "|", ", ".join(f"{{held.name}} = {{held.value}}" for held in step.held))
print(trace.answer)
"""


def backward_flops(b: int, d: int, k: int, x_grad: bool, num_layers: int) -> str:
    """The FLOPs of a backward pass: the lecture's count, and torch's."""
    return f"""from core import gradients

comparison = gradients.compare_backward_flops({b}, {d}, {k}, {x_grad}, {num_layers})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("torch's count", comparison.measurement.text)
for one in gradients.backward_matmuls({b}, {d}, {k}, {x_grad}, {num_layers}):
    print(f"  {{one.formula}}: {{one.flops:,}} FLOPs, {{'runs' if one.runs else 'skipped'}}: {{one.why}}")
"""


def backward_time(b: int, d: int, k: int, num_layers: int, x_grad: bool, threads: int) -> str:
    """Forward and backward timed, and what their difference is made of."""
    return f"""from core import gradients

run = gradients.measure_forward_backward({b}, {d}, {k}, {num_layers}, {x_grad}, threads={threads})
comparison = gradients.compare_backward_time(run)
print("forward", run.forward.text, "|", run.forward.conditions.text)
print("backward predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("backward measured ", comparison.measurement.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}} s ({{part.note}})")
print("  unexplained:", comparison.unexplained, "s")
print(f"FLOPs {{run.flop_ratio:.2f}}x, time {{run.time_ratio:.2f}}x")
"""
