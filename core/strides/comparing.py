"""Claims of the strides page: logical bytes against storage, and what writing through a view changes."""

from __future__ import annotations

from collections.abc import Sequence

from core.claims import Comparison, Measurement, Prediction, Term
from core.strides.addresses import Write, address_of, places_used
from core.strides.elementwise import counted, negative_strides
from core.strides.layout import ITEM_BYTES, Layout
from core.strides.operation import Operation
from core.strides.rules import predict_chain
from core.strides.running import base_tensor, run_chain
from core.words import _


def compare_bytes(shape: Sequence[int], operations: Sequence[Operation]) -> Comparison:
    """What the last tensor of a chain claims (numel × element size) beside the storage that it keeps alive.

    The difference has two parts: places of the storage that the tensor does not reach, and elements that are the same
    place again (a negative part). Errors: ValueError for chains that torch refuses, or beyond 4 MiB.

    >>> from core.strides.parsing import parse_chain
    >>> slice_of_ten = compare_bytes((1_000_000,), parse_chain("x[:10]"))
    >>> slice_of_ten.prediction.value, slice_of_ten.measurement.value
    (40, 4000000)
    >>> [(part.name, part.value) for part in compare_bytes((1, 1000), parse_chain("x.expand(1000, 1000)")).parts]
    [('the same place again', -3996000)]
    """
    steps = predict_chain(Layout.contiguous(shape), operations)
    failed = next((one for one in steps if one.kind == "error"), None)
    if failed is not None:
        message = _("torch refuses {operation}: {reason}")
        raise ValueError(message.format(operation=failed.operation.text, reason=failed.reason))
    layout = steps[-1].after if steps else Layout.contiguous(shape)
    assert layout is not None
    ran = run_chain(shape, operations)
    storage_bytes = ran[-1].layout.storage_bytes if ran and ran[-1].layout is not None else layout.storage_bytes
    quantity = _("bytes")
    formula = " · ".join([*map("{:,}".format, layout.shape), f"{layout.item_bytes} B"])
    prediction = Prediction(quantity, layout.logical_bytes, "B", formula, (), "CS336 lecture 2, §4.2")
    used = places_used(layout) * layout.item_bytes
    unreached, again = layout.storage_bytes - used, used - layout.logical_bytes
    parts = (
        Term(_("storage that it does not reach"), unreached, _("kept alive all the same, as long as the view lives")),
        Term(_("the same place again"), again, _("a stride of 0, or windows that overlap: counted, never stored")),
    )
    measurement = Measurement(quantity, (storage_bytes,), "B", counted("untyped_storage().nbytes()"))
    return Comparison(prediction, measurement, tuple(part for part in parts if part.value))


def compare_place(shape: Sequence[int], index: Sequence[int]) -> Comparison:
    """The place of an element of a new tensor, offset + Σ index · stride, beside where torch says that it lies.

    >>> compare_place((4, 4), (1, 2)).prediction.formula, compare_place((4, 4), (1, 2)).ratio
    ('0 + 1·4 + 2·1', 1.0)
    """
    address = address_of(Layout.contiguous(shape), index)
    x = base_tensor(shape)
    element = x[tuple(index)]
    place = (element.data_ptr() - x.untyped_storage().data_ptr()) // x.element_size()
    quantity = _("place in storage")
    terms = tuple(
        Term(_("dimension {d}").format(d=d), one * stride, f"{one} · {stride}")
        for d, (one, stride) in enumerate(zip(address.index, address.strides, strict=True))
    )
    formula = address.text.rsplit(" = ", 1)[0]
    prediction = Prediction(quantity, address.place, "", formula, terms, "CS336 lecture 2, §5.2.1")
    return Comparison(prediction, Measurement(quantity, (place,), "", counted("x[index].data_ptr()")))


def compare_flip(n: int) -> Comparison:
    """Bytes that flip allocates to walk n numbers backwards: all of them, beside torch's storage.

    >>> compare_flip(4).prediction.formula, compare_flip(4).ratio
    ('4 elements · 4 B', 1.0)
    """
    tried = negative_strides(n)
    quantity = _("bytes of new storage")
    formula = _("{n} elements · {bytes} B").format(n=n, bytes=ITEM_BYTES)
    prediction = Prediction(quantity, n * ITEM_BYTES, "B", formula, (), "CS336 lecture 2, §5.2.2")
    return Comparison(prediction, Measurement(quantity, (tried.flip_allocated_bytes,), "B", counted("x.flip(0)")))


def compare_write(write: Write) -> Comparison:
    """How many elements of all the chain's tensors one write changes: by address, beside those that changed in torch.

    >>> from core.strides.addresses import write_through
    >>> compare_write(write_through((2, 3), [Operation("transpose", (0, 1))], 0, (0, 0))).prediction.value
    2
    """
    quantity = _("elements that change")
    by_tensor = [len(one.predicted) for one in write.tensors]
    changed = sum(len(one.changed) for one in write.tensors)
    terms = tuple(Term(one.text, count) for one, count in zip(write.tensors, by_tensor, strict=True))
    formula = " + ".join(map(str, by_tensor))
    prediction = Prediction(quantity, sum(by_tensor), "", formula, terms, "CS336 lecture 2, §5.2.2")
    measured = Measurement(quantity, (changed,), "", counted(_("compared before and after")))
    return Comparison(prediction, measured)
