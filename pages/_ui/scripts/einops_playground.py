"""*Copy as Python* of the einops page."""

from __future__ import annotations

from collections.abc import Sequence

Shape = tuple[int, ...]


def transform(operation: str, pattern: str, shapes: Sequence[Shape], sizes: dict[str, int]) -> str:
    """An operation explained, step by step, and run beside einops."""
    return f"""from core import named_dims

{_explained(operation, pattern, shapes, sizes)}
print(done.call, "->", done.output_shape)
print(done.code)
ran = named_dims.execute(done)
print("elements: predicted", named_dims.compare_elements(done).prediction.value, "measured", ran.values.numel())
print("the plan gives what einops gives:", ran.agrees)
print(ran.values)
"""


def storage(operation: str, pattern: str, shapes: Sequence[Shape], sizes: dict[str, int]) -> str:
    """Whether the result is a view, by strides and by storage pointer."""
    return f"""from core import named_dims

{_explained(operation, pattern, shapes, sizes)}
for step in done.steps:
    print(step.code, "|", step.shape, "strides", step.strides, "view" if step.is_view else "new", step.why)
comparison = named_dims.compare_storage(done)
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured ", comparison.measurement.text)
"""


def einsum(pattern: str, shapes: Sequence[Shape]) -> str:
    """An einsum's products in their order, and their FLOPs by torch's count."""
    return f"""from core import named_dims

{_explained("einsum", pattern, shapes, {})}
print(done.code)
order = done.contraction
for product in order.products:
    print(product.left, "·", product.right, "keeps", product.axes, "sums over", product.summed, product.flops, "FLOPs")
print("one loop:", order.naive_flops, "as written:", order.in_written_order_flops, "taken:", order.flops)
comparison = named_dims.compare_einsum_flops(done)
print("matrix multiplies: predicted", comparison.prediction.value, "torch's count", comparison.measurement.value)
"""


def reduction(pattern: str, shape: Shape) -> str:
    """A sum over a mean of one pattern."""
    return f"""from core import named_dims

comparison = named_dims.compare_mean_and_sum({pattern!r}, {shape})
print("predicted", comparison.prediction.value, "=", comparison.prediction.formula)
print("measured ", comparison.measurement.value)
"""


def orders(first: str, second: str, shape: Shape, sizes: dict[str, int]) -> str:
    """Two patterns of one shape: how many cells they fill alike."""
    return f"""from core import named_dims

for pattern in ({first!r}, {second!r}):
    print(named_dims.execute(named_dims.explain(pattern, {shape}, **{sizes})).values)
comparison = named_dims.compare_orders({first!r}, {second!r}, {shape}, **{sizes})
print("cells that are the same: predicted", comparison.prediction.value, "measured", comparison.measurement.value)
"""


def pack(pattern: str, shapes: Sequence[Shape]) -> str:
    """Tensors packed into one, and the bytes that it takes."""
    return f"""from core import named_dims

packed = named_dims.explain_pack({pattern!r}, *{list(shapes)})
print(packed.shape, packed.packed_shapes)
print(packed.code)
comparison = named_dims.compare_packed_bytes(packed)
print("predicted", comparison.prediction.text, "measured", comparison.measurement.text)
"""


def unpack(pattern: str, shape: Shape, wanted: Sequence[Shape]) -> str:
    """A tensor cut into pieces that share its storage."""
    return f"""from core import named_dims

unpacked = named_dims.explain_unpack({pattern!r}, {shape}, {list(wanted)})
print(unpacked.shapes)
print(unpacked.code)
comparison = named_dims.compare_unpacked_storage(unpacked)
print("predicted", comparison.prediction.text, "measured", comparison.measurement.text)
"""


def _explained(operation: str, pattern: str, shapes: Sequence[Shape], sizes: dict[str, int]) -> str:
    named = f", **{sizes}" if sizes else ""
    return f"done = named_dims.explain({pattern!r}, *{list(shapes)}, operation_={operation!r}{named})"
