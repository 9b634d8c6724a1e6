"""What accelerators promise: specs.csv, and the lookup by the name that torch reports.

specs.csv: dense peaks in FLOP/s (OP/s for int8); ``fp32`` and ``fp64`` are those of the vector units (CUDA cores),
``fp64_tensor`` and the others those of the matrix units where the device has them. Figures are those of a package;
``devices_per_package`` is how many torch devices share it. ``doubts`` says which fields the sources disagree on.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")

_SPELLINGS = {
    "fp64": ("float64", "double"),
    "fp32": ("float32", "float"),
    "tf32": ("tensorfloat32",),
    "fp16": ("float16", "half"),
    "bf16": ("bfloat16",),
    "fp8": ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "fp4": ("float4_e2m1fn_x2",),
    "int8": (),
}
_NAME_OF = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others)}

# A driver may leave the maker out ("A100-SXM4-40GB", "GeForce RTX 3090") without it being another device.
_MAKERS = ("nvidia", "tesla", "amd", "google")


def dtype_name(dtype: object) -> str:
    """The short name of a dtype given as text or as a torch.dtype.

    Errors: ValueError with the value received and the names accepted.

    >>> dtype_name("torch.bfloat16"), dtype_name("float32"), dtype_name("FP8"), dtype_name("float8_e4m3fn")
    ('bf16', 'fp32', 'fp8', 'fp8')
    >>> import torch
    >>> dtype_name(torch.float16)
    'fp16'
    """
    is_dtype = isinstance(dtype, str) or type(dtype).__name__ == "dtype"
    name = _NAME_OF.get(str(dtype).strip().lower().removeprefix("torch.")) if is_dtype else None
    if name is None:
        raise ValueError(
            f"unknown dtype {dtype!r}; accepted are {', '.join(DTYPES)} and torch's names for them (bfloat16, ...)"
        )
    return name


@dataclass(frozen=True)
class Accelerator:
    """One row of the table, for one torch device: where two devices share a package, half of everything.

    Peaks are ``peak_flop_per_sec(dtype)``. ``interconnect_bytes_per_sec`` is one way. ``status`` is "ok", "disputed"
    or "partly unverified"; ``doubt(field)`` says why. ``num_sources`` is how many sources agree. Unknown is None.
    """

    name: str
    patterns: tuple[str, ...]
    devices_per_package: int
    peaks: tuple[tuple[str, float], ...]
    fp64_tensor_flop_per_sec: float | None
    sparse_factor: float | None
    sparse_dtypes: tuple[str, ...]
    memory_bytes: int | None
    memory_bytes_per_sec: float | None
    interconnect_bytes_per_sec: float | None
    tdp_watts: float | None
    year: int | None
    status: str
    doubts: tuple[tuple[str, str], ...]
    source: str
    num_sources: int
    notes: str

    def peak_flop_per_sec(self, dtype: object, sparse: bool = False) -> float | None:
        """The promised FLOP/s (OP/s for int8) for that dtype, dense unless ``sparse``; None where unknown.

        Sparse is known only where the vendor documents structured sparsity (two of four weights zero) for that
        dtype. Errors: ValueError for an unknown dtype.

        >>> h100 = find("NVIDIA H100 80GB HBM3")
        >>> h100.peak_flop_per_sec("bf16"), h100.peak_flop_per_sec("bf16", sparse=True), h100.peak_flop_per_sec("fp4")
        (989400000000000.0, 1978800000000000.0, None)
        """
        name = dtype_name(dtype)
        dense = dict(self.peaks).get(name)
        if dense is None or not sparse:
            return dense
        return dense * self.sparse_factor if self.sparse_factor is not None and name in self.sparse_dtypes else None

    def ridge_flop_per_byte(self, dtype: object) -> float | None:
        """The arithmetic intensity from which the peak, not the memory bandwidth, is the limit; None where unknown.

        >>> round(find("NVIDIA H100 80GB HBM3").ridge_flop_per_byte("bf16"))
        295
        """
        peak = self.peak_flop_per_sec(dtype)
        return None if peak is None or self.memory_bytes_per_sec is None else peak / self.memory_bytes_per_sec

    def doubt(self, field: object) -> str | None:
        """Why a figure is in doubt, in a sentence with the alternatives; None where nothing speaks against it.

        ``field`` is a dtype, or "memory", "bandwidth", "interconnect" or "tdp".

        >>> find("NVIDIA L40S").doubt("bf16")
        '362e12 in three sources, 181.05e12 by ray#64315'
        >>> find("NVIDIA L40S").doubt("memory") is None
        True
        """
        name = field if field in ("memory", "bandwidth", "interconnect", "tdp") else dtype_name(field)
        return dict(self.doubts).get(str(name))


def find(name: str) -> Accelerator | None:
    """The accelerator that torch reports under that name; None for every name that is not exactly in the table.

    Whole words are compared, whatever their case and whether spaces, hyphens or underscores divide them; the maker
    may be left out. Nothing is guessed: a laptop part, a variant (Ti, SUPER, D), a MIG slice or a virtual GPU has
    other figures than its namesake, so one word more or less makes a name unknown. Errors: TypeError for what is
    not text.

    >>> find("NVIDIA L40S").name, find("nvidia  l40").name
    ('NVIDIA L40S', 'NVIDIA L40')
    >>> find("NVIDIA GeForce RTX 4090 Laptop GPU"), find("NVIDIA A100-SXM4-80GB MIG 1g.10gb"), find("")
    (None, None, None)
    """
    if not isinstance(name, str):
        raise TypeError(f"a device name must be text, for example 'NVIDIA L4'; received {name!r}")
    return _by_words().get(_words(name))


@cache
def all_accelerators() -> tuple[Accelerator, ...]:
    """Every row of the table, in its order.

    >>> all_accelerators()[0].name
    'NVIDIA A100 SXM4 80GB'
    """
    text = files("core.hardware").joinpath("specs.csv").read_text(encoding="utf-8")
    return tuple(_accelerator(row) for row in csv.DictReader(text.splitlines()))


@cache
def _by_words() -> dict[tuple[str, ...], Accelerator]:
    table: dict[tuple[str, ...], Accelerator] = {}
    for accelerator in all_accelerators():
        for words in map(_words, (*accelerator.patterns, accelerator.name)):
            for key in (words, words[1:]) if words[0] in _MAKERS else (words,):
                other = table.setdefault(key, accelerator)
                assert other is accelerator, f"{key} names both {other.name} and {accelerator.name}"
    return table


def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[\s_-]+", name.lower()) if word)


def _accelerator(row: dict[str, str]) -> Accelerator:
    share = int(row["devices_per_package"])

    def number(column: str) -> float | None:
        return float(row[column]) / share if row[column] else None

    memory = number("memory_bytes")
    peaks = ((dtype, number(dtype)) for dtype in DTYPES)
    return Accelerator(
        name=row["name"],
        patterns=tuple(pattern for pattern in row["patterns"].split("|") if pattern),
        devices_per_package=share,
        peaks=tuple((dtype, peak) for dtype, peak in peaks if peak is not None),
        fp64_tensor_flop_per_sec=number("fp64_tensor"),
        sparse_factor=float(row["sparse_factor"]) if row["sparse_factor"] else None,
        sparse_dtypes=tuple(row["sparse_dtypes"].split()),
        memory_bytes=None if memory is None else int(memory),
        memory_bytes_per_sec=number("mem_bytes_per_sec"),
        interconnect_bytes_per_sec=number("interconnect_bytes_per_sec"),
        tdp_watts=number("tdp_watts"),
        year=int(row["year"]) if row["year"] else None,
        status=row["status"],
        doubts=_doubts(row["doubts"]),
        source=row["source"],
        num_sources=int(row["num_sources"]),
        notes=row["notes"],
    )


def _doubts(text: str) -> tuple[tuple[str, str], ...]:
    """The column "fp16 bf16: why | tdp: why" as (field, why) pairs."""
    pairs = []
    for entry in filter(None, text.split(" | ")):
        fields, _, why = entry.partition(": ")
        pairs += [(field, why) for field in fields.split()]
    return tuple(pairs)
