"""The modes and trackers of torch that a count of FLOPs goes through."""

from __future__ import annotations

import functools
import threading
from typing import Any

# Filling, copying and taking views: nothing is added or multiplied.
_NO_ARITHMETIC = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros",
    "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill", "fill_", "zero_", "arange",
    "scalar_tensor", "clone", "copy", "copy_", "_to_copy", "lift_fresh", "lift_fresh_copy", "_unsafe_view",
    "_reshape_copy", "resize_", "set_", "squeeze_", "unsqueeze_", "t_", "transpose_", "detach_", "_local_scalar_dense",
    "device", "_linalg_check_errors", "cat", "stack",
}  # fmt: skip


@functools.cache
def counting_mode() -> type[Any]:
    """torch's counting mode, which asks of an operator only once whether it is made of others.

    Asking took half the time of counting a small function. Operators that torch handles in another way go to torch.
    """
    from torch._ops import OpOverload
    from torch.utils.flop_counter import _FlopCounterMode

    whole: set[OpOverload] = set()

    class CountingMode(_FlopCounterMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # nothing is compiled here; else each operator goes through a wrapper that says so

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            if func in whole:
                return self.counter._count_flops(func._overloadpacket, func(*args, **kwargs), args, kwargs)  # type: ignore[no-untyped-call]
            result = super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
            is_operator = isinstance(func, OpOverload) and func.namespace == "aten"
            if result is not NotImplemented and is_operator and not func._can_decompose():
                whole.add(func)
            return result

    return CountingMode


@functools.cache
def operator_log() -> type[Any]:
    """A dispatch mode that notes every operator that runs without a formula; made here, so that torch loads late."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OperatorLog(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self, counted: dict[Any, Any]) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.counted = counted
            self.uncounted: set[str] = set()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            packet = getattr(func, "overloadpacket", func)
            name = packet.__name__
            if packet not in self.counted and not getattr(func, "is_view", False) and name not in _NO_ARITHMETIC:
                self.uncounted.add(name)
            return func(*args, **(kwargs or {}))

    return OperatorLog


@functools.cache
def module_tracker() -> type[Any]:
    """torch's ModuleTracker for this thread alone: its hooks are global, and other sessions run modules too."""
    from torch.utils.module_tracker import ModuleTracker

    class ThreadModuleTracker(ModuleTracker):
        def __init__(self) -> None:
            super().__init__()
            self.thread = threading.get_ident()

        def _fw_pre_hook(self, mod: Any, input: Any) -> None:  # noqa: A002  # torch's names
            if threading.get_ident() == self.thread:
                super()._fw_pre_hook(mod, input)

        def _fw_post_hook(self, mod: Any, input: Any, output: Any) -> None:  # noqa: A002
            if threading.get_ident() == self.thread:
                super()._fw_post_hook(mod, input, output)

    return ThreadModuleTracker
