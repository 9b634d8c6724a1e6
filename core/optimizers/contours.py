"""Contour lines of a loss surface, as short segments: marching squares on a grid."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.checks import whole_number
from core.optimizers.surfaces import Surface, surface

SHARES = (0.04, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.93)  # of the grid's points that lie below each line
MAX_GRID = 512


@dataclass(frozen=True)
class Segment:
    """From (x, y) to (x2, y2), where the loss is ``level``, up to the grid's resolution."""

    level: float
    x: float
    y: float
    x2: float
    y2: float


@functools.lru_cache(maxsize=64)
def contours(name: str, condition: float = 10.0, columns: int = 72, rows: int = 48) -> tuple[Segment, ...]:
    """The lines below which lie 4, 10, … 93 percent of the surface's window.

    Raises ValueError for an unknown surface and for a grid that is not from 2 to 512 points wide and high.

    >>> circle = contours("quadratic", condition=1)
    >>> max(abs(one.x**2 + one.y**2 - 2 * one.level) for one in circle) < 0.05
    True
    """
    on = surface(name, condition)
    columns, rows = whole_number("columns", columns, 2, MAX_GRID), whole_number("rows", rows, 2, MAX_GRID)
    x_C, y_R = np.linspace(*on.x_range, columns), np.linspace(*on.y_range, rows)
    loss_RC = _loss(on, x_C, y_R)
    levels = np.quantile(loss_RC, SHARES)
    return tuple(segment for level in levels for segment in _line(loss_RC, x_C, y_R, float(level)))


def _loss(on: Surface, x_C: Any, y_R: Any) -> Any:
    loss: Callable[[Any, Any], Any] = on.loss
    return loss(x_C[None, :], y_R[:, None])


def _line(loss_RC: Any, x_C: Any, y_R: Any, level: float) -> list[Segment]:
    """Where the level crosses a cell's edges, joined in pairs; a saddle's four crossings by what its middle is."""
    above_RC = loss_RC > level
    count = above_RC[:-1, :-1].astype(int) + above_RC[1:, :-1] + above_RC[:-1, 1:] + above_RC[1:, 1:]
    segments = []
    for row, column in np.argwhere((count > 0) & (count < 4)).tolist():
        corners = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)]  # around the cell
        crossings = [
            _crossing(loss_RC, x_C, y_R, level, corners[side], corners[(side + 1) % 4])
            for side in range(4)
            if above_RC[corners[side]] != above_RC[corners[(side + 1) % 4]]
        ]
        if len(crossings) == 4:
            middle = float(np.mean([loss_RC[corner] for corner in corners])) > level
            if middle != bool(above_RC[corners[0]]):  # the lines go around the first corner and the one across
                crossings = [*crossings[1:], crossings[0]]
        for (x, y), (x2, y2) in zip(crossings[::2], crossings[1::2], strict=True):
            segments.append(Segment(level, x, y, x2, y2))
    return segments


def _crossing(
    loss_RC: Any, x_C: Any, y_R: Any, level: float, one: tuple[int, int], other: tuple[int, int]
) -> tuple[float, float]:
    low, high = float(loss_RC[one]), float(loss_RC[other])
    share = (level - low) / (high - low)
    x, y = float(x_C[one[1]]), float(y_R[one[0]])
    return x + share * (float(x_C[other[1]]) - x), y + share * (float(y_R[other[0]]) - y)
