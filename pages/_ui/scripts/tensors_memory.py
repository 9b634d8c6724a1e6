"""*Copy as Python* of Tensors in memory."""

from __future__ import annotations


def new_tensor(way: str, rows: int, columns: int, cut: float) -> str:
    """A new tensor and what is in it."""
    return f"""from core import dtypes

made = dtypes.create({way!r}, {rows}, {columns}, {cut!r})
prediction, comparison = dtypes.compare_created(made, {cut!r})
print(made.code)
print("predicted", prediction.quantity, prediction.text, "=", prediction.formula)
print("measured", comparison.measurement.value if comparison else f"{{made.left_behind:.0%}} of what was freed before")
print("first row", made.corner[0])
"""


def bytes_of(shape: tuple[int, ...], dtype: str) -> str:
    """The bytes of a tensor, by its shape and by its storage."""
    return f"""from core import dtypes

comparison = dtypes.compare_tensor_bytes({shape}, {dtype!r})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured", comparison.measurement.text, "|", comparison.measurement.conditions.text)
print(dtypes.in_every_unit(comparison.measurement.value))
"""


def view_claim(index: int) -> str:
    """What a tensor's shape claims, and what its storage takes."""
    return f"""from core import dtypes

claim = dtypes.view_claims()[{index}]
print(claim.code, claim.shape)
print("claimed", claim.claimed_bytes, "B | storage", claim.storage_bytes, "B |", claim.why)
"""


def device_memory(shape: tuple[int, ...], dtype: str, count: int, device: str) -> str:
    """What tensors take on a device."""
    return f"""from core import dtypes

done = dtypes.measure_device_memory({shape}, {dtype!r}, {count}, {device!r})
comparison = dtypes.compare_device_memory(done)
print("predicted", comparison.prediction.value, "B =", comparison.prediction.formula)
print("measured", comparison.measurement.value, "B |", comparison.measurement.conditions.text)
print("on a GPU, in blocks of 512 B:", dtypes.allocated_bytes({shape}, {dtype!r}, {count}), "B")
"""


def move(count_bytes: int, device: str, bytes_per_sec: float | None) -> str:
    """The time that moving takes."""
    return f"""from core import dtypes

run = dtypes.measure_move({count_bytes}, {device!r})
comparison = dtypes.compare_move(run, {bytes_per_sec!r})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured", comparison.measurement.text, "|", comparison.measurement.conditions.text)
for part in comparison.parts:
    print(f"  {{part.name}}: {{part.value:.3g}} s ({{part.note}})")
print("  unexplained:", comparison.unexplained, "s")
"""
