"""Arguments that make sense for a layout: what a page offers where the student has typed none."""

from __future__ import annotations

from collections.abc import Iterable

from core.checks import one_of
from core.strides.layout import Layout
from core.strides.operation import NAMES


def suggest(name: str, x: Layout) -> str:
    """The text of arguments with which the operation does something to a tensor of that layout, where that can be.

    >>> x = Layout.contiguous((2, 3))
    >>> [suggest(name, x) for name in ("transpose", "view", "index", "expand", "clone")]
    ['0, 1', '3, 2', '0', '2, 2, 3', '']
    """
    one_of("operation", name, NAMES)
    last = max(x.dim - 1, 0)
    size = x.shape[last] if x.dim else 1
    texts = {
        "index": "0" if x.dim else "None",
        "select": f"{last}, 0",
        "transpose": f"{max(last - 1, 0)}, {last}",
        "permute": _joined(range(x.dim - 1, -1, -1)),
        "view": _joined(reversed(x.shape)),
        "reshape": "-1" if x.numel else _joined(reversed(x.shape)),
        "expand": _joined((2, *x.shape)),
        "unsqueeze": "0",
        "unfold": f"{last}, {min(2, size)}, 1",
        "flip": str(last),
        "pow": "2",
        "add": "1",
        "mul": "2",
        "div": "2",
        "as_strided": f"({min(2, x.storage_size)}, {min(2, x.storage_size)}), (0, 1), 0",
    }
    return texts.get(name, "")


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "()"
