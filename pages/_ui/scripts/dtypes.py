"""*Copy as Python* of Number formats."""

from __future__ import annotations

from core.dtypes import FORMATS, Format


def _format(fmt: Format) -> str:
    """The format as code: by its name, or made anew."""
    if FORMATS.get(fmt.name) == fmt:
        return f"dtypes.FORMATS[{fmt.name!r}]"
    return f"dtypes.custom({fmt.exponent_bits}, {fmt.mantissa_bits}, {fmt.bias}, {fmt.specials!r})"


def one_number(text: str, fmt: Format) -> str:
    """A number in a format: its bits and what they mean, by us and by torch."""
    return f"""from core import dtypes

fmt = {_format(fmt)}
typed = dtypes.typed({text!r}, fmt)
one = typed.decoded
print("predicted", dtypes.in_words(one), "| bits", " ".join(one.fields), "|", one.kind)
if one.value is not None:
    print("exactly", dtypes.decimal_text(one.value))
    print("spacing", dtypes.power_text(dtypes.spacing(one.value, fmt)))
for step, name in ((-1, "below"), (+1, "above")):
    code = dtypes.neighbour(one.code, fmt, step)
    print(name, "nothing" if code is None else dtypes.shortest_text(dtypes.decode(code, fmt)))
for cast in dtypes.library_casts(typed.exact, fmt):
    print("measured", cast.library, cast.version, float(cast.decoded))
"""


def every_format(text: str, fmt: Format) -> str:
    """A number in every format, with its error."""
    return f"""from core import dtypes

fmt = {_format(fmt)}
exact = dtypes.typed({text!r}, fmt).exact
prediction, comparison, why = dtypes.compare_relative_error(exact, fmt)
print("predicted", prediction.text, "=", prediction.formula)
print("measured", comparison.measurement.text if comparison else why)
for one in dtypes.survey(exact):
    value = "no code" if one.decoded is None else dtypes.shortest_text(one.decoded)
    print(f"{{one.fmt.label}}: {{value}}, relative error {{one.relative_error}} ({{one.note}})")
"""


def threshold(fmt: Format, which: str) -> str:
    """A threshold by the format's bits, and by torch."""
    return f"""from core import dtypes

fmt = {_format(fmt)}
prediction, comparison, why = dtypes.compare_threshold(fmt, {which!r})
print("predicted", prediction.value, "=", prediction.formula)
print("measured", (comparison.measurement.value, comparison.measurement.conditions.text) if comparison else why)
one = dtypes.thresholds(fmt)
print("largest", float(one.largest), "| smallest normal", float(one.smallest_normal), "| numbers", one.count)
for row in dtypes.beside_finfo():
    if not row.agrees:
        print(f"torch.finfo is wrong: {{row.fmt.label}} {{row.field}} {{row.torchs}}, in truth {{row.ours}}")
"""


def updates(name: str, update: float, steps: int, stochastic: bool) -> str:
    """A small update added many times."""
    compare = "compare_stochastic(done)" if stochastic else f"compare_accumulated({name!r}, {update!r}, {steps})"
    return f"""from core import dtypes

done = dtypes.accumulate({name!r}, {update!r}, {steps})
comparison = dtypes.{compare}
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured", comparison.measurement.value, "|", comparison.measurement.conditions.text)
print("nearest", done.nearest[-1], "| stochastic, mean", done.stochastic_mean[-1])
smallest = dtypes.compare_smallest_update({name!r})
print("smallest update that changes 1: predicted", smallest.prediction.value, "measured", smallest.measurement.value)
"""


def loss_scaling(name: str, middle: int, spread: int, scale: int) -> str:
    """The share of gradients that become 0, and at which scale the fewest are lost."""
    return f"""from core import dtypes

comparison = dtypes.compare_zero_share({name!r}, {middle}, {spread}, {scale})
print("predicted", comparison.prediction.text, "=", comparison.prediction.formula)
print("measured", comparison.measurement.text, "|", comparison.measurement.conditions.text)
best = min(dtypes.scale_curve({name!r}, {middle}, {spread}), key=lambda one: one.zero + one.overflow)
print(f"fewest lost at 2^{{best.scale_log2}}: {{best.zero:.3%}} become 0, {{best.overflow:.3%}} overflow")
"""


def block_format(name: str, distribution: str) -> str:
    """A tensor in a block format: the error and the bytes."""
    return f"""from core import dtypes

for comparison in (dtypes.compare_block_error({name!r}, {distribution!r}), dtypes.compare_block_bytes({name!r})):
    print(comparison.prediction.quantity)
    print("  predicted", comparison.prediction.text, "=", comparison.prediction.formula)
    print("  measured", comparison.measurement.text)
    for part in comparison.parts:
        print(f"  {{part.name}}: {{part.value:.4g}}")
print("scale:", dtypes.BLOCK_FORMATS[{name!r}].rule)
"""
