"""What the libraries' own casts make of a number: torch's and ml_dtypes'."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from core.dtypes.codec import Decoded, decode
from core.dtypes.exact import Exact, read
from core.dtypes.formats import Format, find

ML_DTYPES_NAMES = {
    "bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz", "e8m0fnu": "float8_e8m0fnu", "e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
}  # fmt: skip


@dataclass(frozen=True)
class LibraryCast:
    """What a library's own cast from fp64 makes of a value, and the version that made it."""

    library: str
    version: str
    decoded: Decoded


def torch_cast(value: object, fmt: Format | str) -> LibraryCast | None:
    """The value as an fp64 tensor cast by torch; None where torch has no such dtype.

    >>> float(torch_cast("1e-8", "bf16").decoded), float(torch_cast(1000, "e4m3fn").decoded)
    (1.0011717677116394e-08, 448.0)
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    if not fmt.torch_name:
        return None
    import torch

    cast = _in_torch(read(value)).to(getattr(torch, fmt.torch_name))
    return LibraryCast("torch", str(torch.__version__), decode(_code(cast.view(torch.uint8).tolist()), fmt))


@lru_cache(maxsize=8)  # a number is cast to a dozen formats
def _in_torch(exact: Exact) -> Any:
    import torch

    return torch.tensor([float(exact)], dtype=torch.float64)


@lru_cache(maxsize=8)
def _in_numpy(exact: Exact) -> Any:
    import numpy as np

    return np.array([float(exact)])


def ml_dtypes_cast(value: object, fmt: Format | str) -> LibraryCast | None:
    """The value as an fp64 array cast by ml_dtypes (JAX's formats); None where it is not installed or has no such one.

    >>> one = ml_dtypes_cast(1000, "e4m3fn")
    >>> one is None or one.decoded.kind
    'nan'
    """
    fmt = find(fmt) if isinstance(fmt, str) else fmt
    library = _ml_dtypes()
    if fmt.name not in ML_DTYPES_NAMES or library is None:
        return None
    import numpy as np

    with np.errstate(all="ignore"):
        cast = _in_numpy(read(value)).astype(getattr(library, ML_DTYPES_NAMES[fmt.name]))
    return LibraryCast("ml_dtypes", str(library.__version__), decode(_code(cast.view(np.uint8).tolist()), fmt))


@cache  # a module that is not there is looked for in every folder, each time anew
def _ml_dtypes() -> Any:
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError:
        return None


def library_casts(value: object, fmt: Format | str) -> tuple[LibraryCast, ...]:
    """The casts of the libraries that are here and have the format; they disagree on e4m3fn's overflow, for one.

    >>> [one.library for one in library_casts(1, "fp16")]
    ['torch']
    """
    casts = (torch_cast(value, fmt), ml_dtypes_cast(value, fmt))
    return tuple(one for one in casts if one is not None)


def casts_that_differ(value: object, formats: Iterable[Format | str]) -> dict[str, tuple[LibraryCast, ...]]:
    """By the format's name, torch's cast and ml_dtypes' where both have it and give other codes, but for two NaNs.

    >>> casts_that_differ(1, ["bf16", "e4m3fn"])
    {}
    """
    exact, library = read(value), _ml_dtypes()
    if library is None:
        return {}
    import numpy as np
    import torch

    in_torch, in_numpy = _in_torch(exact), _in_numpy(exact)
    found = {}
    with np.errstate(all="ignore"):
        for one in formats:
            fmt = find(one) if isinstance(one, str) else one
            if not fmt.torch_name or fmt.name not in ML_DTYPES_NAMES:
                continue
            ours = in_torch.to(getattr(torch, fmt.torch_name)).view(torch.uint8).tolist()
            if ours != in_numpy.astype(getattr(library, ML_DTYPES_NAMES[fmt.name])).view(np.uint8).tolist():
                casts = library_casts(exact, fmt)
                if any(cast.decoded.kind != "nan" for cast in casts):
                    found[fmt.name] = casts
    return found


def _code(little_endian: list[int]) -> int:
    return int.from_bytes(bytes(little_endian), "little")
