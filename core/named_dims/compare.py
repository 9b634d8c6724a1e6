"""What the cards of the einops page claim: bytes, FLOPs and cells that differ, predicted and measured."""

from __future__ import annotations

import functools
import math
from typing import Any

from core.claims import Comparison, Conditions, Measurement, Prediction
from core.named_dims.execute import call_einops, executed, numbered
from core.named_dims.explain import Explanation, explain
from core.named_dims.packing import Packed, Unpacked
from core.named_dims.plan import label
from core.named_dims.sizes import ELEMENT_BYTES, Shape
from core.words import _


@functools.lru_cache(maxsize=256)
def compare_elements(explanation: Explanation) -> Comparison:
    """Elements of the output: the product of its axes, and what einops' result holds.

    >>> compare_elements(explain("b (h d) -> b h d", (2, 8), h=2)).prediction.formula
    'b=2 × h=2 × d=4'
    """
    sizes = dict(explanation.sizes)
    factors = " × ".join(_factor(key, sizes[key]) for key in explanation.right) or "1"
    prediction = Prediction(_("elements of the output"), math.prod(explanation.output_shape), "", factors)
    ran = executed(explanation)
    return Comparison(prediction, _counted(prediction, ran.values.numel(), _("read off einops' result")))


@functools.lru_cache(maxsize=256)
def compare_storage(explanation: Explanation) -> Comparison:
    """Bytes that inputs and output occupy together: a view adds none, by its strides and by its storage pointer.

    >>> done = compare_storage(explain("a b c -> c (b a)", (2, 3, 4)))
    >>> done.prediction.text, done.prediction.formula, done.measurement.text
    ('192 B', '24 elements · 4 B + 96 B new', '192 B')
    """
    elements = sum(math.prod(shape) for shape in explanation.shapes)
    new = _("nothing new: a view") if explanation.is_view else _("{n:,} B new").format(n=explanation.new_bytes)
    formula = _("{n:,} elements · 4 B + {new}").format(n=elements, new=new)
    value = ELEMENT_BYTES * elements + explanation.new_bytes
    prediction = Prediction(_("bytes of input and output"), value, "B", formula, source=_("the strides alone"))
    ran = executed(explanation)
    note = _("the result has the input's storage") if ran.shares_storage else _("the result has its own storage")
    return Comparison(prediction, _counted(prediction, ran.storage_bytes, note))


@functools.lru_cache(maxsize=256)
def compare_packed_bytes(packed: Packed) -> Comparison:
    """New bytes of a pack: it always copies.

    >>> from core.named_dims.packing import explain_pack
    >>> compare_packed_bytes(explain_pack("i *", (2, 3), (2,))).measurement.text
    '32 B'
    """
    import einops

    elements = " + ".join(str(math.prod(shape)) for shape in packed.shapes)
    prediction = Prediction(_("new bytes"), packed.new_bytes, "B", _("({n}) elements · 4 B").format(n=elements))
    result, _shapes = einops.pack(list(numbered(packed.shapes)), packed.pattern)
    return Comparison(prediction, _counted(prediction, result.untyped_storage().nbytes(), _("a storage of its own")))


@functools.lru_cache(maxsize=256)
def compare_unpacked_storage(unpacked: Unpacked) -> Comparison:
    """Bytes that a tensor and all pieces cut out of it occupy together: every piece is a view.

    >>> from core.named_dims.packing import explain_unpack
    >>> compare_unpacked_storage(explain_unpack("i *", (2, 5), [(3,), (2,)])).measurement.text
    '40 B'
    """
    import einops

    elements = math.prod(unpacked.shape)
    formula = _("{n:,} elements · 4 B + nothing new: views").format(n=elements)
    prediction = Prediction(_("bytes of the tensor and its pieces"), ELEMENT_BYTES * elements, "B", formula)
    (tensor,) = numbered([unpacked.shape])
    inner: list[Any] = [shape[unpacked.axis : len(shape) - unpacked.axes_after] for shape in unpacked.shapes]
    pieces = einops.unpack(tensor, inner, unpacked.pattern)
    storages = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in (tensor, *pieces)}
    return Comparison(prediction, _counted(prediction, sum(storages.values()), _("each storage counted once")))


@functools.lru_cache(maxsize=256)
def compare_einsum_flops(explanation: Explanation) -> Comparison:
    """FLOPs of an einsum's matrix multiplies, a multiply-add being 2: ours, and torch's count of what einops ran.

    Elementwise products and sums are no matrix multiplies: torch counts neither, and so they are in neither figure.

    >>> scores = "b s1 h, b s2 h -> b s1 s2"
    >>> done = compare_einsum_flops(explain(scores, (2, 3, 4), (2, 3, 4), operation_="einsum"))
    >>> done.prediction.formula, done.prediction.value, done.measurement.value
    ('2 · 2 · 3 · 3 · 4', 144, 144.0)
    """
    assert explanation.contraction is not None, explanation.operation
    products = [step for step in explanation.steps if step.kind == "matmul"]
    formula = " + ".join(f"{step.flops:,}" for step in products) or _("no matrix multiply")
    sizes = dict(explanation.sizes)
    if len(products) == 1:
        summed = explanation.contraction.products[0].summed if len(explanation.contraction.products) == 1 else ()
        if summed:
            common = [sizes[key] for key in summed]
            each = 2 * math.prod(products[0].shape)
            if each * math.prod(common) != products[0].flops:  # an axis of one operand alone is summed before
                common = [products[0].flops // each]
            formula = " · ".join(map(str, (2, *products[0].shape, *common)))
    value = explanation.contraction.matmul_flops
    prediction = Prediction(_("FLOPs"), value, "FLOP", formula, source=_("2·B·M·N·K for each product of two"))
    counted = executed(explanation).flops
    return Comparison(prediction, _counted(prediction, counted, _("torch's count of einops.einsum")))


def compare_orders(first: str, second: str, shape: Shape, /, **sizes: int) -> Comparison:
    """How many cells two patterns of one output shape fill alike, on arange; with ones all of them would be.

    Predicted from the axes' places alone, measured on einops' results.

    >>> done = compare_orders("(heads d) -> heads d", "(d heads) -> heads d", (8,), heads=2)
    >>> done.prediction.value, done.measurement.value
    (2, 2.0)
    """
    one, other = (explain(pattern, shape, operation_="rearrange", **sizes) for pattern in (first, second))
    return _compare_orders(one, other)


@functools.lru_cache(maxsize=128)
def _compare_orders(one: Explanation, other: Explanation) -> Comparison:
    from core.named_dims.sources import sources

    if one.output_shape != other.output_shape:
        message = _("the patterns give {one} and {other}: their cells can be compared where the shapes agree")
        raise ValueError(message.format(one=one.output_shape, other=other.output_shape))
    pairs = zip(sources(one), sources(other), strict=True)
    value = sum(a.cells == b.cells for a, b in pairs)
    formula = _("of {n:,} cells").format(n=math.prod(one.output_shape))
    prediction = Prediction(_("cells that are the same"), value, "", formula)
    counted = int((executed(one).values == executed(other).values).sum())
    return Comparison(prediction, _counted(prediction, counted, _("einops on arange")))


@functools.lru_cache(maxsize=256)
def compare_mean_and_sum(pattern: str, shape: Shape) -> Comparison:
    """A sum over its mean: the number of elements that went into it.

    >>> compare_mean_and_sum("... hidden -> ...", (2, 3, 4)).measurement.value
    4.0
    """
    done = explain(pattern, shape, operation_="mean")
    sizes = dict(done.sizes)
    count = math.prod(sizes[key] for key in done.gone)
    factors = " × ".join(_factor(key, sizes[key]) for key in done.gone) or "1"
    prediction = Prediction(_("sum over mean"), count, "", factors)
    if not math.prod(done.shapes[0]):
        raise ValueError(_("there is nothing to add up: a size is 0"))
    if math.prod(done.shapes[0]) == 1:  # 0, whose mean is 0 as well
        one = [numbered(done.shapes)[0] + 1]
        total, mean = (call_einops(operation, pattern, one, {}) for operation in ("sum", "mean"))
    else:
        total, mean = (executed(explain(pattern, shape, operation_=name)).values for name in ("sum", "mean"))
    ratio = (total.flatten()[-1] / mean.flatten()[-1]).item()
    return Comparison(prediction, _counted(prediction, ratio, _("the last cell of each")))


def _factor(key: str, size: int) -> str:
    return label(key) if "@" in key else f"{key}={size}"


def _counted(prediction: Prediction, value: float, note: str) -> Measurement:
    """A count, read off once."""
    import torch

    conditions = Conditions("any", note, "fp32", threads=1, warmup=0, trials=1, torch_version=torch.__version__)
    return Measurement(prediction.quantity, (float(value),), prediction.unit, conditions)
