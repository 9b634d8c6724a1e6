"""What makes two runs equal to the bit, and what breaks it (CS336 §6.3)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the generators of torch (on every device), numpy and Python.

    >>> seed_everything(0); first = torch.rand(1), np.random.rand(), random.random()
    >>> seed_everything(0); first == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    if torch.accelerator.current_accelerator() is None:  # torch was built for the CPU alone
        torch.default_generator.manual_seed(seed)  # manual_seed also notes the call's stack, for a GPU to come: 1 ms
    else:
        torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def deterministic() -> Iterator[None]:
    """torch's switches for kernels that give the same bits every time, inside the block.

    On the CPU the kernels that the loop uses do so anyway. On a GPU, cuBLAS needs its workspace set before its first
    use (CUBLAS_WORKSPACE_CONFIG) and cuDNN must not choose its kernels by timing them.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def rng_state() -> dict[str, Any]:
    """The state of every generator, as tensors and plain numbers, so that it can be loaded without running code."""
    legacy: Any = np.random.get_state(legacy=True)
    kind, keys, position, has_gauss, cached = legacy
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Go on where the generators were. GPUs that are not there are passed over.

    >>> state = rng_state(); first = torch.rand(1), np.random.rand(), random.random()
    >>> set_rng_state(state); first == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    torch.set_rng_state(state["torch"])
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    for device, one in enumerate(state.get("cuda", ())[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(one, device)
