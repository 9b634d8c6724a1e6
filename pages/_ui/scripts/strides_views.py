"""*Copy as Python* of Strides & views."""

from __future__ import annotations

Shape = tuple[int, ...]


def place(shape: Shape, index: Shape) -> str:
    """Where an element of a new tensor lies."""
    return f"""from core import strides

comparison = strides.compare_place({shape}, {index})
print("predicted place", comparison.prediction.formula, "=", comparison.prediction.value)
print("in torch", comparison.measurement.value)
"""


def chain(shape: Shape, text: str) -> str:
    """Each step of a chain: predicted from strides, and run."""
    return f"""from core import strides

operations = strides.parse_chain({text!r})
predicted = strides.predict_chain(strides.Layout.contiguous({shape}), operations)
for step, ran in zip(predicted, strides.run_chain({shape}, operations)):
    print(f"{{step.operation.text}}: predicted {{step.kind}}, torch {{ran.kind}}, {{ran.allocated_bytes}} B allocated")
    print("  ", step.after if step.after is not None else ran.error)
    print("  ", step.reason)
"""


def write(shape: Shape, text: str, step: int, index: Shape) -> str:
    """What changes in each tensor of a chain when one element is written."""
    return f"""from core import strides

write = strides.write_through({shape}, strides.parse_chain({text!r}), {step}, {index})
print("writing at", write.address.text)
for tensor in write.tensors:
    print(f"{{tensor.text}}: predicted {{sorted(tensor.predicted)}}, changed {{sorted(tensor.changed)}}")
"""


def held_bytes(shape: Shape, text: str) -> str:
    """What a tensor claims, and what its storage holds."""
    return f"""from core import strides

comparison = strides.compare_bytes({shape}, strides.parse_chain({text!r}))
print("claimed", comparison.prediction.formula, "=", comparison.prediction.text)
print("held", comparison.measurement.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:+,}} B ({{part.note}})")
"""


def backwards(n: int) -> str:
    """A negative stride in numpy, and torch's answers."""
    return f"""from core import strides

tried = strides.negative_strides({n})
print("numpy's strides", tried.numpy_strides)
print("x[::-1] in torch:", tried.slice_error)
print("torch.from_numpy:", tried.from_numpy_error)
print("x.flip(0): strides", tried.flip_strides, "and", tried.flip_allocated_bytes, "B allocated")
"""


def cost(n: int, threads: int, name: str) -> str:
    """Every case timed, and the chosen one explained."""
    return f"""from core import hardware, strides

calibration = hardware.calibrate(dtypes=("fp32",), threads={threads})
run = strides.measure_cost({n}, threads={threads})
for name, time in run.times.items():
    predicted = strides.predict_cost(name, {n}, calibration.bytes_per_sec)
    print(f"{{strides.CASES[name].code}}: predicted {{predicted.text}}, measured {{time.text}}")
comparison = strides.compare_cost(run, {name!r}, calibration)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}} s ({{part.note}})")
print("  unexplained:", comparison.unexplained, "s")
"""


def elementwise(values: tuple[float, ...]) -> str:
    """Each operation's result and its storage."""
    return f"""from core import strides

ran = strides.apply_elementwise({values})
print("x", hex(ran.storage_pointer))
for one in ran.applied:
    print(one.expression, one.values, hex(one.storage_pointer), f"{{one.allocated_bytes}} B allocated")
comparison = strides.compare_elementwise(ran)
print("predicted", comparison.prediction.text, "measured", comparison.measurement.text)
"""


def mask(n: int, diagonal: int) -> str:
    """The upper triangle, and how many pairs it keeps."""
    return f"""from core import strides

mask = strides.triu_mask({n}, {diagonal})
print(*mask.rows, sep="\\n")
comparison = strides.compare_mask(mask)
print("predicted", comparison.prediction.formula, "=", comparison.prediction.value)
print("counted", comparison.measurement.value)
"""


def matmul(a: Shape, b: Shape) -> str:
    """Which dimensions broadcast, the result, and its FLOPs; or why it does not go."""
    return f"""from core import strides

shapes = strides.explain_matmul({a}, {b})
print("result", shapes.result, "torch says", strides.torch_matmul_shape({a}, {b}))
for dim in shapes.batch:
    print(dim)
comparison = strides.compare_matmul_flops(shapes)
if comparison is None:
    print(shapes.error)
else:
    print("predicted", comparison.prediction.formula, "=", comparison.prediction.text)
    print("torch's count", comparison.measurement.text)
"""
