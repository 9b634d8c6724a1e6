"""Elementwise operations make new tensors; triu as an attention mask; strides that torch refuses (CS336 §5.2.3)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.checks import whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.strides.layout import ITEM_BYTES
from core.words import _

LECTURE_VALUES = (1.0, 4.0, 9.0)
MAX_VALUES = 8
MAX_MAGNITUDE = 1e6
MAX_MASK = 64


@dataclass(frozen=True)
class Applied:
    """An elementwise operation that ran: its result, and where the result lies.

    ``storage_pointer`` is an address in memory; ``allocated_bytes`` the storage made for the result, 0 in place.
    """

    expression: str
    values: tuple[float, ...]
    storage_pointer: int
    shares_storage: bool
    allocated_bytes: int


@dataclass(frozen=True)
class Elementwise:
    """What ran on x, one after the other; the last one in place."""

    values: tuple[float, ...]
    storage_pointer: int
    applied: tuple[Applied, ...]

    @property
    def allocated_bytes(self) -> int:
        return sum(one.allocated_bytes for one in self.applied)


def apply_elementwise(values: Sequence[float] = LECTURE_VALUES) -> Elementwise:
    """Run pow, sqrt, rsqrt, +, ×, ÷, and sqrt_ in place, on an fp32 tensor of these values.

    Errors: ValueError for more than 8 values, and for one that is not a number of magnitude up to a million.

    >>> ran = apply_elementwise()
    >>> [one.values for one in ran.applied[:2]], ran.applied[0].shares_storage, ran.applied[-1].shares_storage
    ([(1.0, 16.0, 81.0), (1.0, 2.0, 3.0)], False, True)
    """
    import torch

    from core.strides.running import shares_storage

    x_N = torch.tensor(_checked(values), dtype=torch.float32)
    start, pointer = tuple(x_N.tolist()), x_N.untyped_storage().data_ptr()
    made, kept = [], []
    for expression, operation in _OPERATIONS.items():
        result = operation(x_N)
        kept.append(result)  # or its place in memory would go to the next one
        shares = shares_storage(x_N, result)
        storage = result.untyped_storage()
        allocated = 0 if shares else storage.nbytes()
        made.append(Applied(expression, tuple(result.tolist()), storage.data_ptr(), shares, allocated))
    return Elementwise(start, pointer, tuple(made))


def compare_elementwise(ran: Elementwise) -> Comparison:
    """Bytes of the results: one new storage for each operation that is not in place, beside what torch allocated.

    >>> compare_elementwise(apply_elementwise()).prediction.formula
    '6 new tensors · 3 elements · 4 B'
    """
    quantity = _("bytes of new storage")
    new = sum(not one.expression.endswith("_()") for one in ran.applied)
    formula = _("{new} new tensors · {count} elements · {bytes} B")
    predicted = new * len(ran.values) * ITEM_BYTES
    terms = (Term(_("each"), len(ran.values) * ITEM_BYTES, _("elements × bytes of one")),)
    texts = {"new": new, "count": len(ran.values), "bytes": ITEM_BYTES}
    prediction = Prediction(quantity, predicted, "B", formula.format(**texts), terms, "CS336 lecture 2, §5.2.3")
    return Comparison(prediction, Measurement(quantity, (ran.allocated_bytes,), "B", counted(_("by storage pointer"))))


@dataclass(frozen=True)
class Mask:
    """ones(n, n).triu(diagonal): ``rows`` of 0 and 1, row i being what position i contributes to each position j."""

    n: int
    diagonal: int
    rows: tuple[tuple[int, ...], ...]

    @property
    def kept(self) -> int:
        return sum(map(sum, self.rows))


def triu_mask(n: int = 3, diagonal: int = 0) -> Mask:
    """The upper triangle of ones as torch makes it. Errors: ValueError for n beyond 64.

    >>> triu_mask(3).rows
    ((1, 1, 1), (0, 1, 1), (0, 0, 1))
    """
    import torch

    n = whole_number("n", n, 1, MAX_MASK)
    diagonal = whole_number(_("diagonal"), diagonal, -MAX_MASK, MAX_MASK)
    mask = torch.ones(n, n).triu(diagonal)
    return Mask(n, diagonal, tuple(tuple(map(int, row)) for row in mask.tolist()))


def compare_mask(mask: Mask) -> Comparison:
    """How many pairs (i, j) the mask keeps: a sum of a triangle beside torch's count of the ones.

    >>> compare_mask(triu_mask(4)).prediction.formula
    '4 + 3 + 2 + 1'
    """
    quantity = _("pairs that are kept")
    rows = [min(mask.n, max(0, mask.n - row - mask.diagonal)) for row in range(mask.n)]
    shown = [row for row in rows if row] or [0]
    formula = " + ".join(map(str, shown[:4] + (["…", shown[-1]] if len(shown) > 5 else shown[4:])))
    note = _("of {all} pairs").format(all=mask.n**2)
    prediction = Prediction(quantity, sum(rows), "", formula, (Term(note, mask.n**2),), "CS336 lecture 2, §5.2.3")
    return Comparison(prediction, Measurement(quantity, (mask.kept,), "", counted("count_nonzero()")))


@dataclass(frozen=True)
class NegativeStrides:
    """What numpy shows with a negative stride, and what torch says to each attempt at one."""

    numpy_strides: tuple[int, ...]
    slice_error: str
    from_numpy_error: str
    flip_strides: tuple[int, ...]
    flip_allocated_bytes: int


@functools.lru_cache(maxsize=64)
def negative_strides(n: int = 4) -> NegativeStrides:
    """Walk 0, 1, …, n − 1 backwards in numpy and in torch; numpy's strides here are in elements.

    >>> tried = negative_strides(4)
    >>> tried.numpy_strides, tried.slice_error, tried.flip_allocated_bytes
    ((-1,), 'step must be greater than zero', 16)
    """
    import numpy as np
    import torch

    n = whole_number("n", n, 1, MAX_MASK)
    backwards = np.arange(n, dtype=np.float32)[::-1]
    x_N = torch.arange(n, dtype=torch.float32)
    flipped = x_N.flip(0)
    return NegativeStrides(
        numpy_strides=tuple(stride // backwards.itemsize for stride in backwards.strides),
        slice_error=_message(lambda: x_N[::-1]),
        from_numpy_error=_message(lambda: torch.from_numpy(backwards)),
        flip_strides=flipped.stride(),
        flip_allocated_bytes=flipped.untyped_storage().nbytes(),
    )


def counted(how: str) -> Conditions:
    """The conditions of what was counted and not timed."""
    import torch

    return Conditions("cpu", how, "fp32", threads=1, warmup=0, trials=1, torch_version=torch.__version__)


def _checked(values: Sequence[float]) -> list[float]:
    if not 1 <= len(values) <= MAX_VALUES:
        message = _("from 1 to {most} values, please, for example 1, 4, 9; received {count}")
        raise ValueError(message.format(most=MAX_VALUES, count=len(values)))
    for one in values:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not abs(one) <= MAX_MAGNITUDE:
            message = _("a value must be a number from −{most:,.0f} to {most:,.0f}; received {value}")
            raise ValueError(message.format(most=MAX_MAGNITUDE, value=repr(one)[:40]))
    return [float(one) for one in values]


def _message(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (ValueError, RuntimeError) as refused:
        return str(refused).split("\n")[0]
    raise AssertionError("torch took a negative stride")


_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "x.pow(2)": lambda x: x.pow(2),
    "x.sqrt()": lambda x: x.sqrt(),
    "x.rsqrt()": lambda x: x.rsqrt(),
    "x + x": lambda x: x + x,
    "x * 2": lambda x: x * 2,
    "x / 0.5": lambda x: x / 0.5,
    "x.sqrt_()": lambda x: x.sqrt_(),
}
