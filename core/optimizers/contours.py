"""Contour lines of a loss surface, as short segments: marching squares on a grid."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from core.checks import whole_number
from core.optimizers.surfaces import Surface, surface

SHARES = (0.04, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.93)  # of the grid's points that lie below each line
MAX_GRID = 512


@functools.lru_cache(maxsize=64)
def contours(name: str, condition: float = 10.0, columns: int = 72, rows: int = 48) -> Any:
    """The lines below which lie 4, 10, … 93 percent of the surface's window, as a numpy record array.

    A record for each segment: from (x, y) to (x2, y2), where the loss is ``level``, up to the grid's resolution.
    Read-only. Raises ValueError for an unknown surface and for a grid that is not from 2 to 512 points wide and high.

    >>> circle = contours("quadratic", condition=1)
    >>> bool(max(abs(circle.x**2 + circle.y**2 - 2 * circle.level)) < 0.05)
    True
    """
    on = surface(name, condition)
    columns, rows = whole_number("columns", columns, 2, MAX_GRID), whole_number("rows", rows, 2, MAX_GRID)
    x_C, y_R = np.linspace(*on.x_range, columns), np.linspace(*on.y_range, rows)
    loss_RC = _loss(on, x_C, y_R)
    lines = _lines(loss_RC, x_C, y_R, np.quantile(loss_RC, SHARES))
    found = np.rec.fromarrays(lines, dtype=[(field, float) for field in ("level", "x", "y", "x2", "y2")])
    found.flags.writeable = False
    return found


def _loss(on: Surface, x_C: Any, y_R: Any) -> Any:
    loss: Callable[[Any, Any], Any] = on.loss
    return loss(x_C[None, :], y_R[:, None])


def _lines(loss_RC: Any, x_C: Any, y_R: Any, level_L: Any) -> tuple[Any, ...]:
    """Where each level crosses a cell's edges, joined in pairs; a saddle's four crossings by what its middle is.

    Level, x, y, x2, y2 of every segment. N cells are crossed; corner 4 of a cell is its corner 0 again.
    """
    above_LRC = loss_RC > level_L[:, None, None]
    across, down = above_LRC[:, :, :-1] != above_LRC[:, :, 1:], above_LRC[:, :-1] != above_LRC[:, 1:]
    line_N, row_N, column_N = np.nonzero(across[:, :-1] | across[:, 1:] | down[:, :, :-1])
    level_N = level_L[line_N]
    rows_N5 = row_N[:, None] + np.array([0, 0, 1, 1, 0])
    columns_N5 = column_N[:, None] + np.array([0, 1, 1, 0, 0])
    loss_N5, x_N5, y_N5 = loss_RC[rows_N5, columns_N5], x_C[columns_N5], y_R[rows_N5]
    above_N5 = loss_N5 > level_N[:, None]
    crossed_N4 = above_N5[:, :-1] != above_N5[:, 1:]
    rise_N4 = np.where(crossed_N4, np.diff(loss_N5), 1.0)
    share_N4 = (level_N[:, None] - loss_N5[:, :-1]) / rise_N4
    at_2N4 = np.stack([one_N5[:, :-1] + share_N4 * np.diff(one_N5) for one_N5 in (x_N5, y_N5)])
    # The lines of a saddle go around its first corner and the one across, where its middle is on the others' side.
    middle_above_N = loss_N5[:, :-1].mean(axis=1) > level_N
    turned_N = crossed_N4.all(axis=1) & (middle_above_N != above_N5[:, 0])
    at_2N4[:, turned_N] = np.roll(at_2N4[:, turned_N], -1, axis=2)
    (x_M, x2_M), (y_M, y2_M) = (at_N4[crossed_N4].reshape(-1, 2).T for at_N4 in at_2N4)  # two crossings, or twice two
    return np.repeat(level_N, crossed_N4.sum(axis=1) // 2), x_M, y_M, x2_M, y2_M
