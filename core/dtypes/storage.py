"""The bytes of a tensor: what its shape and dtype say, and what its storage takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from core import units
from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.formats import FORMATS, Format
from core.words import _

STORED = ("fp64", "fp32", "bf16", "fp16", "e4m3fn", "e5m2", "e2m1", "int64", "int32", "int16", "int8", "uint8")
MAX_DIMS = 8
MAX_DIM = 2**40
MAX_ELEMENTS = 2**62  # torch counts elements in 64 bits with a sign
MAX_BYTES = 2**63 - 1
MAX_SHAPE_CHARS = 80
MAX_MEASURED_BYTES = 2**26  # larger ones are measured on torch's device "meta", which allocates nothing
LECTURE = _("CS336 lecture 2, §4.2")


def parse_shape(text: str) -> tuple[int, ...]:
    """A shape as a person types it: "49152, 12288", "(4, 8)", "4 x 8", "1024"; "()" for no dimension at all.

    Raises ValueError for anything else, more than 8 dimensions, and more than 2^62 elements.

    >>> parse_shape("(4, 8)"), parse_shape("49152 × 12288"), parse_shape("7"), parse_shape("()")
    ((4, 8), (49152, 12288), (7,), ())
    >>> parse_shape("4, -1")
    Traceback (most recent call last):
    ValueError: '4, -1' is not a shape; write whole numbers with commas between them, for example 4, 8
    """
    shown = text if len(text) <= 40 else text[:37] + "…"
    wrong = ValueError(
        _("{text!r} is not a shape; write whole numbers with commas between them, for example 4, 8").format(text=shown)
    )
    if len(text) > MAX_SHAPE_CHARS or not text.strip():
        raise wrong
    body = text.strip().removeprefix("(").removesuffix(")").removeprefix("[").removesuffix("]").strip().rstrip(",")
    if not body and text.strip() in ("()", "[]"):
        return ()
    parts = [part.strip().replace("_", "") for part in body.replace("×", ",").replace("x", ",").split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise wrong
    return check_shape([int(part) for part in parts])


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple; ValueError where it has too many dimensions or elements.

    >>> check_shape([2**31, 2**32])
    Traceback (most recent call last):
    ValueError: a tensor has at most 2^62 elements; this shape has 9.22 × 10¹⁸
    """
    whole_number(_("the number of dimensions"), len(shape), 0, MAX_DIMS)
    sizes = tuple(whole_number(_("a dimension"), size, 0, MAX_DIM) for size in shape)
    count = math.prod(size or 1 for size in sizes)  # strides are counted as if a size of 0 were 1
    if count > MAX_ELEMENTS:
        message = _("a tensor has at most 2^62 elements; this shape has {count}")
        raise ValueError(message.format(count=units.significant(float(count))))
    return sizes


def tensor_bytes(shape: Sequence[int], dtype: str = "fp32") -> int:
    """numel × element size; e2m1 is packed, two to a byte. ValueError for more bytes than torch can count, 2^63 - 1.

    >>> tensor_bytes((4, 8)), tensor_bytes((49152, 12288)), tensor_bytes((3, 3), "e2m1"), tensor_bytes((), "bf16")
    (128, 2415919104, 5, 2)
    """
    fmt = FORMATS[one_of("dtype", dtype, STORED)]
    count = -(-math.prod(check_shape(shape)) * fmt.item_bits // 8)
    if count > MAX_BYTES:
        message = _("a tensor has fewer than 2^63 bytes; {shape} in {dtype} has {size}")
        raise ValueError(message.format(shape=tuple(shape), dtype=fmt.label, size=units.significant(float(count))))
    return count


def in_every_unit(count: int) -> dict[str, str]:
    """The bytes in decimal and binary units, two to four digits after the point where they need them.

    >>> in_every_unit(tensor_bytes((49152, 12288)))
    {'B': '2,415,919,104', 'MB': '2,415.919', 'MiB': '2,304', 'GB': '2.416', 'GiB': '2.25'}
    """
    scales = {"B": 1, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
    return {unit: _short(count, scale) for unit, scale in scales.items()}


def _short(count: int, scale: int) -> str:
    value = count / scale
    digits = 3 if value >= 1 or not value else 2 - math.floor(math.log10(value))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@lru_cache(maxsize=256)
def compare_tensor_bytes(shape: tuple[int, ...], dtype: str = "fp32") -> Comparison:
    """numel × element size beside the bytes of the storage that torch makes.

    A tensor of more than 64 MiB is made on the device "meta": torch computes its storage and allocates nothing.

    >>> c = compare_tensor_bytes((49152, 12288))
    >>> c.prediction.value, c.measurement.value, c.measurement.conditions.device
    (2415919104, 2415919104, 'meta')
    """
    fmt = FORMATS[one_of("dtype", dtype, STORED)]
    count = tensor_bytes(shape, dtype)
    sizes = " · ".join(f"{size:,}" for size in shape) or "1"
    each = _("{bits} bits").format(bits=fmt.item_bits) if fmt.item_bits < 8 else f"{fmt.item_bits // 8} B"
    quantity = _("size")
    device = "cpu" if count <= MAX_MEASURED_BYTES else "meta"
    measured = _storage_bytes(shape, fmt, device)
    note = _("untyped_storage().nbytes()") if device == "cpu" else _("untyped_storage().nbytes(), nothing allocated")
    conditions = Conditions(device, note, fmt.label, 1, 0, 1, torch_version=torch_version())
    prediction = Prediction(quantity, count, "B", f"{sizes} · {each}", source=LECTURE)
    return Comparison(prediction, Measurement(quantity, (measured,), "B", conditions))


def _storage_bytes(shape: Sequence[int], fmt: Format, device: str) -> int:
    import torch

    if fmt.torch_name:
        made = torch.empty(tuple(shape), dtype=getattr(torch, fmt.torch_name), device=device)
    else:  # torch keeps fp4 in pairs: a tensor of bytes
        made = torch.empty(math.ceil(math.prod(shape) / 2), dtype=torch.float4_e2m1fn_x2, device=device)
    return int(made.untyped_storage().nbytes())


def torch_version() -> str:
    """The version of torch that is here.

    >>> torch_version() >= "2"
    True
    """
    import torch

    return str(torch.__version__)


@dataclass(frozen=True)
class Claim:
    """A tensor of a megaelement made in a way of its own: what its shape claims and what its storage holds."""

    code: str
    shape: tuple[int, ...]
    claimed_bytes: int
    storage_bytes: int
    why: str


@lru_cache(maxsize=1)
def view_claims() -> tuple[Claim, ...]:
    """What numel × element size says of some tensors, and what their storage takes. x is (1000, 1000) fp32.

    >>> [(one.code, one.claimed_bytes, one.storage_bytes) for one in view_claims()[:3]]
    [('x', 4000000, 4000000), ('x[0, :10]', 40, 4000000), ('x[0, :10].clone()', 40, 40)]
    """
    import torch

    x = torch.zeros(1000, 1000)
    base = _("a view: it keeps all of x's storage alive")
    made = (
        ("x", x, _("it owns its storage")),
        ("x[0, :10]", x[0, :10], base),
        ("x[0, :10].clone()", x[0, :10].clone(), _("a copy: it has a storage of its own")),
        ("x.T", x.T, _("a view: the same elements in another order")),
        ("x[:, ::2]", x[:, ::2], base),
        ("torch.zeros(1).expand(1000, 1000)", torch.zeros(1).expand(1000, 1000),
         _("a view with stride 0: one element, shown a million times")),
        ("x[:1].expand(1000, 1000)", x[:1].expand(1000, 1000), _("a view: stride 0 in its rows, all of x's storage")),
    )  # fmt: skip
    return tuple(
        Claim(code, tuple(one.shape), one.numel() * one.element_size(), one.untyped_storage().nbytes(), why)
        for code, one, why in made
    )


def compare_claim(claim: Claim) -> Comparison:
    """What the shape claims beside what the storage takes.

    >>> c = compare_claim(view_claims()[1])
    >>> c.ratio, c.unexplained
    (100000.0, 0.0)
    """
    sizes = " · ".join(f"{size:,}" for size in claim.shape)
    quantity = _("bytes of {code}").format(code=claim.code)
    conditions = Conditions("cpu", _("untyped_storage().nbytes()"), "fp32", 1, 0, 1, torch_version=torch_version())
    difference = claim.storage_bytes - claim.claimed_bytes
    name = _("held alive, not shown") if difference > 0 else _("shown more than once")
    parts = (Term(name, difference, claim.why),) if difference else ()
    return Comparison(
        Prediction(quantity, claim.claimed_bytes, "B", f"{sizes} · 4 B", source=LECTURE),
        Measurement(quantity, (claim.storage_bytes,), "B", conditions),
        parts,
    )
