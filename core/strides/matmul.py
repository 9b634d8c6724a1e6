"""What ``a @ b`` does with shapes: the last two dimensions multiply, all before them are a batch and broadcast.

Shapes: (…, M, K) @ (…, K, N) → (…, M, N); an operand of one dimension is a vector. Source: torch.matmul's rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from core.claims import Comparison, Measurement, Prediction, Term
from core.strides.elementwise import counted
from core.strides.layout import check_shape
from core.words import _

Shape = tuple[int, ...]
SMALL = 2**20  # elements of both operands, and products


@dataclass(frozen=True)
class BatchDim:
    """A dimension before the last two: its size in each operand (None: it is not there), in the result, and a verdict.

    ``repeats`` names the operand that is used again and again: "a", "b", "" for none; ``fits`` is whether it goes.
    """

    a: int | None
    b: int | None
    result: int | None
    repeats: str

    @property
    def fits(self) -> bool:
        return self.result is not None


@dataclass(frozen=True)
class MatmulShapes:
    """``a @ b`` by shapes alone. ``error`` is "" where it works; then ``result`` and ``flops`` are there.

    ``m``, ``n`` are None where that operand is a vector; ``k_a`` and ``k_b`` must be equal: they are contracted.
    ``a_uses`` and ``b_uses`` say how many multiplications each of the operand's matrices takes part in.
    """

    a: Shape
    b: Shape
    batch: tuple[BatchDim, ...]
    m: int | None
    k_a: int | None
    k_b: int | None
    n: int | None
    result: Shape | None
    flops: int | None
    error: str

    @property
    def multiplications(self) -> int:
        """How many matrix multiplications the batch holds."""
        return math.prod(one.result or 0 for one in self.batch)

    @property
    def a_uses(self) -> int:
        return math.prod(one.result or 0 for one in self.batch if one.repeats == "a")

    @property
    def b_uses(self) -> int:
        return math.prod(one.result or 0 for one in self.batch if one.repeats == "b")


def explain_matmul(shape_a: Sequence[int], shape_b: Sequence[int]) -> MatmulShapes:
    """Which dimensions broadcast, which are contracted, the result's shape and its FLOPs; or why it does not go.

    Errors: ValueError for shapes that are none. A shape error of the multiplication is no exception: see ``error``.

    >>> explain_matmul((4, 8, 16, 32), (32, 2)).result, explain_matmul((16, 32), (32, 2)).flops
    ((4, 8, 16, 2), 2048)
    >>> explain_matmul((2, 3), (2, 3)).error
    'the contracted dimensions differ: the last of a is 3, the second to last of b is 2. Transposing b would fit.'
    """
    a, b = check_shape(shape_a), check_shape(shape_b)
    batch = tuple(
        _batch_dim(one, other) for one, other in reversed(list(zip_longest(reversed(a[:-2]), reversed(b[:-2]))))
    )
    m = a[-2] if len(a) >= 2 else None
    k_a = a[-1] if a else None
    k_b = b[-2] if len(b) >= 2 else b[-1] if b else None
    n = b[-1] if len(b) >= 2 else None
    error = _error(a, b, k_a, k_b, batch)
    result, flops = None, None
    if not error:
        outer = tuple(one.result or 0 for one in batch)
        result = (*outer, *((m,) if m is not None else ()), *((n,) if n is not None else ()))
        flops = 2 * math.prod(result) * (k_a or 0)
        check_shape(result)
    return MatmulShapes(a, b, batch, m, k_a, k_b, n, result, flops, error)


def compare_matmul_flops(shapes: MatmulShapes) -> Comparison | None:
    """2 · elements of the result · contracted size, beside what torch's operators ran; None after an error.

    >>> compare_matmul_flops(explain_matmul((4, 8, 16, 32), (32, 2))).ratio
    1.0
    """
    if shapes.result is None or shapes.flops is None:
        return None
    import torch

    from core.flops import count_flops

    quantity = "FLOPs"
    formula = " · ".join(["2", *map(str, shapes.result), str(shapes.k_a)])
    terms = (
        Term(_("elements of the result"), math.prod(shapes.result), _("each is a sum of products"), ""),
        Term(_("products in each"), shapes.k_a or 0, _("the contracted dimension"), ""),
    )
    source = "CS336 lecture 2, §5.2.4, §5.4"
    prediction = Prediction(quantity, shapes.flops, "FLOP", formula, terms, source)
    a, b = _operands(shapes.a, shapes.b)
    measurement = Measurement(
        quantity, (count_flops(torch.matmul, a, b),), "FLOP", counted(_("as torch's operators ran"))
    )
    return Comparison(prediction, measurement)


def torch_matmul_shape(shape_a: Sequence[int], shape_b: Sequence[int]) -> tuple[Shape | None, str]:
    """The shape of torch's own result, or torch's own message.

    >>> torch_matmul_shape((4, 8, 16, 32), (32, 2))
    ((4, 8, 16, 2), '')
    """
    import torch

    a, b = _operands(check_shape(shape_a), check_shape(shape_b))
    try:
        return tuple(torch.matmul(a, b).shape), ""
    except (RuntimeError, IndexError) as error:
        return None, str(error).split("\n")[0]


def _operands(a: Shape, b: Shape) -> tuple[Any, Any]:
    """Two tensors of these shapes: real ones, and where that would be more than a little work, on the meta device."""
    import torch

    shapes = explain_matmul(a, b)
    small = math.prod(a) + math.prod(b) <= SMALL and (shapes.flops or 0) <= 2 * SMALL
    device = "cpu" if small else "meta"  # whose first multiplication takes two seconds of imports
    return torch.zeros(a, device=device), torch.zeros(b, device=device)


def _batch_dim(a: int | None, b: int | None) -> BatchDim:
    one, other = 1 if a is None else a, 1 if b is None else b
    if one == other:
        return BatchDim(a, b, one, "")
    if 1 not in (one, other):
        return BatchDim(a, b, None, "")
    return BatchDim(a, b, other if one == 1 else one, "a" if one == 1 else "b")


def _error(a: Shape, b: Shape, k_a: int | None, k_b: int | None, batch: Sequence[BatchDim]) -> str:
    if k_a is None or k_b is None:
        return _("a number has no dimension to contract: multiply it with *, not with @")
    if k_a != k_b:
        message = _("the contracted dimensions differ: {a} is {k_a}, {b} is {k_b}.")
        second = _("the second to last of b") if len(b) >= 2 else _("the only one of b")
        first = _("the last of a") if len(a) >= 2 else _("the only one of a")
        hint = ""
        if not all(one.fits for one in batch):
            hint = _(" The batch dimensions do not fit either.")
        elif len(b) >= 2 and b[-1] == k_a:
            hint = _(" Transposing b would fit.")
        elif len(a) >= 2 and a[-2] == k_b:
            hint = _(" Transposing a would fit.")
        return message.format(a=first, k_a=k_a, b=second, k_b=k_b) + hint
    for place, one in enumerate(batch):
        if not one.fits:
            message = _(
                "the batch dimensions do not fit: {a} in a meets {b} in b, {back} from the end. Sizes must be equal, "
                "or one of them 1 or absent."
            )
            return message.format(a=one.a, b=one.b, back=len(batch) - place + 2)
    return ""
