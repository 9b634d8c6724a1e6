"""*Copy as Python* of Gradients."""

from __future__ import annotations


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
