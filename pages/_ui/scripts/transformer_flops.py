"""*Copy as Python* of Transformer FLOPs."""

from __future__ import annotations

from core import flops


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
