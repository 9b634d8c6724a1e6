"""An explanation put to the test: its steps run in torch on arange, beside einops itself."""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.named_dims.contraction import OPERAND_NAMES
from core.named_dims.explain import Explanation
from core.named_dims.parse import MAX_PATTERN_CHARS
from core.named_dims.plan import run
from core.named_dims.sizes import MAX_DIMS, MAX_ELEMENTS, Shape
from core.words import _

if TYPE_CHECKING:
    import torch

_WARNINGS = threading.Lock()  # of Python, which keeps one list of filters for all threads


@dataclass(frozen=True)
class Execution:
    """What torch and einops made of an operation, on tensors that hold 0, 1, 2, …

    ``values`` are einops' own. ``shares_storage`` and ``new_bytes`` were read off einops' result by its storage
    pointer; ``storage_bytes`` are those of all storages, each counted once. ``flops`` is torch's count of what einops
    ran for an einsum; 0 for the other operations, which multiply no matrices.
    """

    explanation: Explanation
    inputs: tuple[torch.Tensor, ...]
    values: torch.Tensor
    shares_storage: bool
    new_bytes: int
    storage_bytes: int
    flops: int

    @functools.cached_property
    def step_values(self) -> tuple[torch.Tensor, ...]:
        """The tensors after each step of the plan."""
        return run(self.explanation.steps, dict(zip(OPERAND_NAMES, self.inputs, strict=False)))

    @functools.cached_property
    def agrees(self) -> bool:
        """Whether the last step of the plan gives what einops gives."""
        import torch

        by_plan = self.step_values[-1] if self.step_values else self.inputs[0]
        tolerance = 0 if self.explanation.contraction is None else 1e-5  # else the same kernels in the same order
        return by_plan.shape == self.values.shape and (
            (by_plan.dtype == self.values.dtype and torch.equal(by_plan, self.values))  # else NaN, or rounded otherwise
            or torch.allclose(
                by_plan.to(torch.float64), self.values.to(torch.float64), rtol=tolerance, atol=0, equal_nan=True
            )
        )


def execute(explanation: Explanation) -> Execution:
    """Run einops, and the plan where its steps are asked for.

    >>> from core.named_dims.explain import explain
    >>> done = execute(explain("a b -> b a", (2, 3)))
    >>> done.values.tolist(), done.agrees, done.shares_storage
    ([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], True, True)
    """
    return _execute(explanation, numbered(explanation.shapes))


def _execute(explanation: Explanation, inputs: tuple[torch.Tensor, ...]) -> Execution:
    from core.flops import count_flops

    results: list[torch.Tensor] = []

    def by_library() -> None:
        pattern, sizes = explanation.pattern.text, dict(explanation.given)
        results.append(call_einops(explanation.operation, pattern, inputs, sizes))

    flops = 0
    if explanation.contraction is None:
        by_library()
    else:
        flops = count_flops(by_library)
    (values,) = results
    shares = any(shares_storage(values, one) for one in inputs)
    new_bytes = 0 if shares else values.untyped_storage().nbytes()
    storage_bytes = sum(one.untyped_storage().nbytes() for one in inputs) + new_bytes
    return Execution(explanation, inputs, values, shares, new_bytes, storage_bytes, flops)


@functools.lru_cache(maxsize=8)
def executed(explanation: Explanation) -> Execution:
    """``execute``, kept for a moment: for all who only read the tensors of one operation.

    >>> from core.named_dims.explain import explain
    >>> done = explain("a b -> b a", (2, 3))
    >>> executed(done) is executed(done)
    True
    """
    return _execute(explanation, _numbered(explanation.shapes))


def numbered(shapes: Sequence[Shape]) -> tuple[torch.Tensor, ...]:
    """A tensor of each shape that holds 0, 1, 2, … in fp32."""
    import torch

    return tuple(torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) for shape in shapes)


_numbered = functools.lru_cache(maxsize=8)(numbered)  # to be read only


def shares_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors lie in one storage: the same object of torch, even where it holds no bytes."""
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def call_einops(
    operation: str, pattern: str, tensors: Sequence[torch.Tensor], sizes: Mapping[str, Any]
) -> torch.Tensor:
    """einops' own result. What it raises passes through; its warnings about names are left to the explanation."""
    import einops

    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if operation == "einsum":
            einsum: Any = einops.einsum
            product: torch.Tensor = einsum(*tensors, pattern, **sizes)
            return product
        if operation in ("rearrange", "repeat"):
            moved: torch.Tensor = getattr(einops, operation)(tensors[0], pattern, **sizes)
            return moved
        reduced: torch.Tensor = einops.reduce(tensors[0], pattern, operation, **sizes)
        return reduced


def einops_says(operation: str, pattern: str, shapes: Sequence[Shape], sizes: Mapping[str, int]) -> str:
    """einops' own message about an operation, in its words; empty where it accepts it.

    It is asked with tensors that hold nothing (torch's meta device), and not asked about what is too long to read.
    Small reductions and einsums run: the meta device loads seconds' worth of modules at the first of them.

    >>> einops_says("rearrange", "a b -> a", [(2, 3)], {}).splitlines()[-1]
    " Identifiers only on one side of expression (should be on both): {'b'}"
    """
    import torch

    if len(pattern) > MAX_PATTERN_CHARS or any(len(shape) > MAX_DIMS for shape in shapes):
        return _("einops was not asked: that is too long to be read")
    try:
        small = math.prod(max(1, size) for shape in shapes for size in shape) <= MAX_ELEMENTS
        device = "cpu" if small and operation not in ("rearrange", "repeat") else "meta"
        tensors = [torch.zeros(shape, dtype=torch.float32, device=device) for shape in shapes]
        if operation != "einsum" and len(tensors) != 1:
            return _("einops was not asked: this operation takes one tensor")
        call_einops(operation, pattern, tensors, sizes)
    except Exception as refused:  # einops passes on what Python and torch raise, of any kind
        return f"{type(refused).__name__}: {refused}"
    return ""
