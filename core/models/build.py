"""Refuse a model that this machine cannot hold, in bytes, before anything is allocated."""

from __future__ import annotations

import functools
import os

import torch
from torch._subclasses.fake_tensor import FakeTensor

from core import units
from core.jobs.limits import physical_memory_bytes
from core.words import _


def check_size(num_params: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
    """Refuse parameters beyond NAPKIN_MAX_MODEL_BYTES, or half of the device's memory where that is not set.

    ``device`` and ``dtype`` are torch's defaults where they are left out. Where nothing is allocated (the meta device,
    FakeTensorMode), nothing is refused.

    >>> check_size(10**12, "meta")
    >>> check_size(10**12, "cpu", torch.float32)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: this model's 1,000,000,000,000 parameters take 4.00 TB; the limit here is ...
    """
    probe = torch.empty(0, device=device, dtype=dtype)
    if probe.is_meta or isinstance(probe, FakeTensor):
        return
    asked, limit = num_params * probe.element_size(), _max_bytes(probe.device)
    if asked > limit:
        message = _(
            "this model's {count:,} parameters take {asked}; the limit here is {limit}. "
            "Make it smaller, or build it on the meta device."
        )
        raise ValueError(message.format(count=num_params, asked=units.si_bytes(asked), limit=units.si_bytes(limit)))


def _max_bytes(device: torch.device) -> int:
    given = os.environ.get("NAPKIN_MAX_MODEL_BYTES", "")
    if given:
        try:
            return int(given)
        except ValueError:
            raise ValueError(f"NAPKIN_MAX_MODEL_BYTES must be a whole number of bytes; it is {given[:40]!r}") from None
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 2
    return _physical_memory_bytes() // 2


_physical_memory_bytes = functools.cache(physical_memory_bytes)  # reading it takes 1 ms
