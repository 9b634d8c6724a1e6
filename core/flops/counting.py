"""How many FLOPs a matrix multiply is: on a napkin, exactly, and by torch's own count."""

from __future__ import annotations

import functools

from core.checks import whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.flops.counter import count_flops
from core.words import _

MAX_DIM = 2**24


def matmul_flops(b: int, d: int, k: int) -> int:
    """FLOPs of (B, D) @ (D, K), counting a multiply and an add for every (b, d, k).

    Exact is (2D - 1)·B·K: the first product needs no add. Source: CS336 lecture 2, §5.4. Raises ValueError for
    dimensions that are not whole numbers above zero.

    >>> matmul_flops(1024, 256, 64)
    33554432
    """
    b, d, k = _dims(b, d, k)
    return 2 * b * d * k


def exact_matmul_flops(b: int, d: int, k: int) -> int:
    """FLOPs of (B, D) @ (D, K) to the last one: D multiplies and D - 1 adds for each of the B·K sums.

    >>> exact_matmul_flops(1024, 256, 64)
    33488896
    """
    b, d, k = _dims(b, d, k)
    return (2 * d - 1) * b * k


def predict_matmul_flops(b: int, d: int, k: int) -> Prediction:
    """The napkin's count as a claim.

    >>> predict_matmul_flops(1024, 256, 64).formula
    '2 · 1,024 · 256 · 64'
    """
    flops = matmul_flops(b, d, k)
    terms = (Term(_("multiplies"), b * d * k, "B·D·K"), Term(_("adds"), b * d * k, "B·D·K"))
    formula = f"2 · {b:,} · {d:,} · {k:,}"
    return Prediction(_("FLOPs"), flops, "FLOP", formula, terms, _("CS336 lecture 2, §5.4"))


def compare_matmul_flops(b: int, d: int, k: int) -> Comparison:
    """The napkin's 2BDK beside torch's own count of the same multiplication.

    >>> compare_matmul_flops(1024, 256, 64).ratio
    1.0
    """
    prediction = predict_matmul_flops(b, d, k)
    note = _("counted by torch's FlopCounterMode on tensors without data")
    conditions = Conditions("meta", note, "fp32", threads=1, warmup=0, trials=1, torch_version=_torch_version())
    return Comparison(prediction, Measurement(_("FLOPs"), (torch_matmul_flops(b, d, k),), "FLOP", conditions))


def torch_matmul_flops(b: int, d: int, k: int) -> int:
    """FLOPs of (B, D) @ (D, K) by torch's FlopCounterMode, on meta tensors: nothing is allocated or computed.

    >>> torch_matmul_flops(1024, 256, 64)
    33554432
    """
    return _torch_matmul_flops(*_dims(b, d, k))


@functools.lru_cache(maxsize=1024)
def _torch_matmul_flops(b: int, d: int, k: int) -> int:
    import torch

    # Made outside: inside, the counter would follow their making too, which takes as long as the product.
    x_BD, w_DK = torch.empty(b, d, device="meta"), torch.empty(d, k, device="meta")
    return count_flops(torch.matmul, x_BD, w_DK)


def _dims(b: object, d: object, k: object) -> tuple[int, int, int]:
    return whole_number("B", b, 1, MAX_DIM), whole_number("D", d, 1, MAX_DIM), whole_number("K", k, 1, MAX_DIM)


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
