"""New tensors: what each way of making one puts into it (CS336 lecture 2, §4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction
from core.dtypes.scaling import by_chance
from core.dtypes.storage import torch_version
from core.words import _

if TYPE_CHECKING:
    import torch

CREATED = ("literal", "zeros", "ones", "randn", "trunc_normal_", "empty")
MAX_ROWS = 512
SHOWN_ROWS, SHOWN_COLUMNS = 4, 8
LITERAL = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
LEFT_BEHIND = 3.14159274101257324  # fp32's π: what the memory held before


@dataclass(frozen=True)
class NewTensor:
    """A new fp32 tensor: the code that made it, its first entries, and what its entries are like.

    ``left_behind`` is, for "empty", the share of entries that hold what a tensor freed just before had in them; None
    for the others.
    """

    way: str
    code: str
    shape: tuple[int, int]
    corner: tuple[tuple[float, ...], ...]
    mean: float
    deviation: float
    low: float
    high: float
    left_behind: float | None


@lru_cache(maxsize=64)
def _made(way: str, rows: int, columns: int, cut: float, seed: int) -> NewTensor:
    """The tensors that are the same every time."""
    return _make(way, rows, columns, cut, seed)


def create(way: str, rows: int = 4, columns: int = 8, cut: float = 2.0, seed: int = 0) -> NewTensor:
    """Make an fp32 tensor of (rows, columns), at most 512 each, in one of the lecture's ways.

    "trunc_normal_" draws from N(0, 1) and redraws what is beyond ±``cut``. For "empty" a tensor full of π is made and
    freed first, so that there is something to find; torch promises nothing. What is neither π nor 0 may be anybody's
    data in a server's memory, so it comes out as NaN. Raises ValueError for an unknown way or
    sizes out of range.

    >>> create("ones", 2, 3).corner, create("literal").shape, create("randn", 256, 256).high > 3
    (((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)), (2, 3), True)
    """
    one_of(_("the way"), way, CREATED)
    rows, columns = whole_number(_("rows"), rows, 1, MAX_ROWS), whole_number(_("columns"), columns, 1, MAX_ROWS)
    return (_make if way == "empty" else _made)(way, rows, columns, _check_cut(cut), seed)


def _make(way: str, rows: int, columns: int, cut: float, seed: int) -> NewTensor:
    import torch

    generator = torch.Generator().manual_seed(seed)
    code, made = f"torch.{way}({rows}, {columns})", torch.zeros(rows, columns)
    if way == "literal":
        made = torch.tensor(LITERAL)
        code = "torch.tensor([[1., 2., 3.], [4., 5., 6.]])"
    elif way == "ones":
        made = torch.ones(rows, columns)
    elif way == "randn":
        made = torch.randn(rows, columns, generator=generator)
    elif way == "trunc_normal_":
        made = torch.nn.init.trunc_normal_(torch.empty(rows, columns), a=-cut, b=cut, generator=generator)
        code = f"nn.init.trunc_normal_(torch.empty({rows}, {columns}), mean=0, std=1, a={-cut:g}, b={cut:g})"
    elif way == "empty":
        made = _empty_after_use(rows, columns)
    left = float((made == LEFT_BEHIND).float().mean()) if way == "empty" else None
    # Of empty π and 0; else all are, and need not be looked for.
    finite = (made[torch.isfinite(made)] if way == "empty" else made.flatten()).double()
    figures = (finite.mean(), finite.std(correction=0), finite.min(), finite.max()) if finite.numel() else ()
    mean, deviation, low, high = (float(figure) for figure in figures) if figures else (math.nan,) * 4
    corner = tuple(tuple(row) for row in made[:SHOWN_ROWS, :SHOWN_COLUMNS].tolist())
    return NewTensor(way, code, (made.shape[0], made.shape[1]), corner, mean, deviation, low, high, left)


def _empty_after_use(rows: int, columns: int) -> torch.Tensor:
    import torch

    used = torch.full((rows, columns), math.pi)
    del used
    found = torch.empty(rows, columns)
    return torch.where((found == LEFT_BEHIND) | (found == 0), found, math.nan)


def _check_cut(cut: float) -> float:
    if not 0.1 <= cut <= 10:
        raise ValueError(_("the cut must be a number from 0.1 to 10; received {cut}").format(cut=cut))
    return float(cut)


def truncated_deviation(cut: float) -> float:
    """The standard deviation of N(0, 1) cut off at ±cut: √(1 − 2·c·φ(c) / (2Φ(c) − 1)).

    Source: Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, vol. 1, §10.1.

    >>> f"{truncated_deviation(2):.4f}", f"{truncated_deviation(3):.4f}"
    ('0.8796', '0.9866')
    """
    cut = _check_cut(cut)
    density = math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * cut * density / math.erf(cut / math.sqrt(2)))


def compare_created(one: NewTensor, cut: float = 2.0) -> tuple[Prediction, Comparison | None]:
    """The standard deviation that the way promises beside that of the tensor; for fixed values the mean.

    Of "empty" nothing can be predicted: the prediction is unknown, and there is nothing to compare.

    >>> prediction, comparison = compare_created(create("trunc_normal_", 256, 256), 2.0)
    >>> prediction.text, 0.98 < comparison.ratio < 1.02
    ('0.880', True)
    """
    conditions = Conditions("cpu", one.code, "fp32", 1, 0, 1, torch_version=torch_version())
    if one.way == "empty":
        unknown = _("uninitialised memory: whatever its last owner left there")
        return Prediction(_("standard deviation"), None, "", unknown, unknown=unknown), None
    if one.way in ("randn", "trunc_normal_"):
        quantity, measured = _("standard deviation"), one.deviation
        value = 1.0 if one.way == "randn" else truncated_deviation(cut)
        formula = "N(0, 1)" if one.way == "randn" else f"√(1 − 2·{cut:g}·φ({cut:g}) / (2Φ({cut:g}) − 1))"
    else:
        quantity, measured = _("mean"), one.mean
        value = {"literal": 3.5, "zeros": 0.0, "ones": 1.0}[one.way]
        formula = (
            "(1 + 2 + 3 + 4 + 5 + 6) / 6" if one.way == "literal" else _("every entry is {value:g}").format(value=value)
        )
    prediction = Prediction(quantity, value, "", formula, source="CS336 lecture 2, §4.1")
    random = one.way in ("randn", "trunc_normal_")
    # The standard deviation of n normal numbers spreads by σ/√(2n); that of truncated ones a little less.
    spread = value / math.sqrt(2 * one.shape[0] * one.shape[1]) if random else 0.0
    parts = by_chance(measured - value, spread)
    return prediction, Comparison(prediction, Measurement(quantity, (measured,), "", conditions), parts)
