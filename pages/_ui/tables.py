"""Tables that cut no cell short, scroll sideways where the screen is narrow, and are read out by their label."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

from pages._ui import markup

Cell = str | tuple[str, str]  # its text; or its text, and what pointing at it says


def show(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    label: str,
    *,
    sentences: bool = False,
    code: Sequence[int] = (),
    marked: int | None = None,
    dense: bool = False,
    width: int | Literal["stretch"] = "stretch",
) -> None:
    """Show a table.

    ``sentences``: the last column holds sentences, which are broken into lines. ``code``: the columns that are code.
    ``marked``: the row that is the chosen one. ``dense``: less air between the rows. ``width`` is in px.
    """
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines = []
    for number, row in enumerate(rows):
        cells = [
            _cell(one, at in code, "np-note" if sentences and at == len(row) - 1 else "") for at, one in enumerate(row)
        ]
        chosen = ' class="np-chosen"' if number == marked else ""
        lines.append(f"<tr{chosen}>{''.join(cells)}</tr>")
    kinds = "".join(name for name, on in ((" np-told", sentences), (" np-dense", dense)) if on)
    markup.show(
        f'<div class="np-scroll" role="region" aria-label="{escape(label)}" tabindex="0">'
        f'<table class="np-why np-wide{kinds}"><tr>{top}</tr>{"".join(lines)}</table></div>',
        width=width,
    )


def _cell(cell: Cell, code: bool, kind: str) -> str:
    text, exact = (cell, "") if isinstance(cell, str) else cell
    shown = f"<code>{escape(text)}</code>" if code and text else escape(text)
    title = f' title="{escape(exact)}"' if exact else ""
    named = f' class="{kind}"' if kind else ""
    return f"<td{named}{title}>{shown}</td>"
