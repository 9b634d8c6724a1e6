"""The meter: every live storage of a step, counted once, by category, through each moment.

A dispatch mode sees the result of every operation; each new storage is counted until it is freed, which a weak
reference tells. It does the same over real tensors and over fake ones, which hold no data: a 7B step is then measured
on a laptop. What a kernel allocates and frees inside itself is not seen. While any dispatch mode is on, autograd adds
up two gradients into a third tensor, and not in place.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from core.memory.result import ACTIVATION, BACKWARD, RECOMPUTATION, TEMPORARY
from core.memory.timeline import Timeline

_DEVICE = torch.ops.prim.device.default  # asking a fake tensor for its device is an operation, and a common one


class MemoryMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages that ``add`` is told of and those that operations make while the mode is on.

    >>> meter = MemoryMeter()
    >>> with meter:
    ...     meter.timeline.start("forward")
    ...     y = torch.ones(10) * 2
    ...     meter.timeline.stop()
    >>> meter.timeline.moments[0].highest, meter.timeline.moments[0].end
    ({'activation': 80}, {'activation': 40})
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.timeline = Timeline()
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._category: dict[int, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE:
            return func(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        leaves = (out,) if isinstance(out, Tensor) else tree_leaves(out)
        new = [leaf.untyped_storage() for leaf in leaves if isinstance(leaf, Tensor)]
        if any(id(storage) not in self._known for storage in new):
            self._grow(new, torch.is_grad_enabled())
        return out

    def _grow(self, storages: list[torch.UntypedStorage], forward: bool) -> None:
        """Count new storages; a forward within backward is a recomputation."""
        if forward and self.timeline.kind == BACKWARD:
            self.timeline.start(RECOMPUTATION, self.timeline.block)
        elif not forward and self.timeline.kind == RECOMPUTATION:
            self.timeline.start(BACKWARD, self.timeline.block)
        for storage in storages:
            self._add(storage, ACTIVATION if forward else TEMPORARY)
        self.timeline.mark()

    def add(self, tensors: Iterable[Tensor], category: str) -> None:
        """Count these tensors under that category, whatever they were counted under before."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._add(storage, category)
            key, (_reference, size) = id(storage), self._known[id(storage)]
            if self._category[key] != category:
                self.timeline.count(self._category[key], -size)
                self.timeline.count(category, size)
                self._category[key] = category

    def _add(self, storage: torch.UntypedStorage, category: str) -> None:
        key = id(storage)
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = weakref.ref(storage, lambda _reference: self._remove(key)), size
        self._category[key] = category
        self.timeline.count(category, size)

    def _remove(self, key: int) -> None:
        _reference, size = self._known.pop(key)
        self.timeline.count(self._category.pop(key), -size)
