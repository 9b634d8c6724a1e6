"""Grids of cells that belong together: bits, a tensor and its storage, the axes of a pattern.

Pointing at a cell lights up every cell of the same name in all grids, and the cells it is made of; this happens in
the browser alone. A click reports the cell's name to the page. Cells can be reached with the keyboard, too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from pages._ui import binding

# Okabe and Ito's palette, as in charts; the cell's text stays readable on each, on light and on dark.
HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A5BA6", "#8A9099")
MAX_CELLS = 2048
_FOLDER = Path(__file__).parent


class Cell(NamedTuple):  # there are hundreds: a dataclass takes five times as long to make
    """A cell: what it says, and what it belongs to.

    ``name`` links it with the cells of that name in all grids, and is what a click reports; ``made_of`` are the names
    of cells that light up as well when this one is pointed at. ``hue`` is a place in ``HUES``, None for no colour.
    ``note`` is read out and shown when it is pointed at. ``marked`` draws a frame around it: the pointed element.
    ``faint`` is for what exists and is not used.
    """

    text: str
    name: str = ""
    made_of: tuple[str, ...] = ()
    hue: int | None = None
    note: str = ""
    marked: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Grid:
    """Rows of cells under a title; None leaves a gap. ``beside`` puts it to the right of the grid before it."""

    title: str
    rows: Sequence[Sequence[Cell | None]]
    row_labels: Sequence[str] = ()
    column_labels: Sequence[str] = ()
    beside: bool = False


def show(key: str, grids: Sequence[Grid], alt_text: str, on_pick: Callable[[str], None] | None = None) -> None:
    """Show grids of cells; ``on_pick`` is called with the name of a cell that was clicked."""
    cells = sum(len(row) for grid in grids for row in grid.rows)
    assert cells <= MAX_CELLS, f"{cells} cells: show a part"
    data = {"alt": alt_text, "picks": on_pick is not None, "grids": [_grid(grid) for grid in grids]}

    def picked() -> None:
        name = st.session_state[f"np_cells_{key}"].get("picked")
        # The browser may send anything: only names that are on screen count.
        if on_pick is not None and name in {one.name for grid in grids for row in grid.rows for one in row if one}:
            on_pick(name)

    # As bytes, which Streamlit passes on; anything else it looks through for tables, and writes as JSON twice.
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    binding.component(f"np_cells_{key}", written, _component(), picked)


def _grid(grid: Grid) -> dict[str, Any]:
    return {
        "title": grid.title,
        "beside": grid.beside,
        "rowLabels": list(grid.row_labels),
        "columnLabels": list(grid.column_labels),
        "rows": [[_cell(one) for one in row] for row in grid.rows],
    }


def _cell(cell: Cell | None) -> list[Any] | None:
    if cell is None:
        return None
    color = "" if cell.hue is None else HUES[cell.hue % len(HUES)]
    return [cell.text, cell.name, list(cell.made_of), color, cell.note, cell.marked, cell.faint]


@functools.cache
def _component() -> Any:
    return st.components.v2.component(
        "napkin_cells", css=(_FOLDER / "cells.css").read_text(), js=(_FOLDER / "cells.js").read_text()
    )
