"""Tensors and their storage as cells that belong together, on the page Strides & views."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import islice, pairwise, product
from math import prod

import streamlit as st

from core import strides, units
from core.strides import Layout, Operation, Picture
from core.words import _
from pages._ui import cells
from pages._ui.cells import Cell, Grid

STORAGE_ROW = 12
STORAGE_SHOWN = 96
HUES = 7  # the eighth is grey


def number(value: float) -> str:
    """A value as a cell shows it."""
    if value == int(value) if value - value == 0 else False:
        return f"{int(value)}".replace("-", "−")
    return units.significant(value) if value - value == 0 else str(value)


def numbers(values: Sequence[int]) -> str:
    """A shape or strides, as Python writes a tuple.

    >>> numbers((2, 3)), numbers((2,)), numbers(())
    ('(2, 3)', '(2,)', '()')
    """
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def hue_of(origin: int | None, shape: Sequence[int]) -> int | None:
    """A colour for each row of x, the first dimension that has more than one; for each element where x is one row."""
    if origin is None:
        return None
    first = next((d for d, size in enumerate(shape) if size > 1), 0)
    inner = prod(shape[first + 1 :])
    return (origin // max(inner, 1)) % HUES


def tensor(
    key: str,
    shape: tuple[int, ...],
    operations: tuple[Operation, ...],
    tensor_number: int,
    marked: int | None = None,
    on_pick: Callable[[str], None] | None = None,
) -> None:
    """A tensor of a chain, the logical grid beside the flat storage: one name and one colour for each element."""
    layout = draw(shape, operations, tensor_number).layout
    message = _("a tensor of shape {shape} with strides {strides}, and its storage of {count} elements")
    texts = {"shape": numbers(layout.shape), "strides": numbers(layout.strides), "count": layout.storage_size}
    cells.show(key, _grids(shape, operations, tensor_number, marked), message.format(**texts), on_pick)
    if strides.shown_shape(layout.shape) != layout.shape or layout.storage_size > STORAGE_SHOWN:
        st.caption(_("Only a part is drawn: up to 12 rows, 12 columns and {n} places.").format(n=STORAGE_SHOWN))


draw = functools.lru_cache(maxsize=64)(strides.draw)


@functools.lru_cache(maxsize=256)
def _grids(
    shape: tuple[int, ...], operations: tuple[Operation, ...], tensor_number: int, marked: int | None
) -> tuple[Grid, ...]:
    drawn = draw(shape, operations, tensor_number)
    return (*logical_grids(drawn, shape, marked), _storage_grid(drawn, shape, marked))


def logical_grids(drawn: Picture, shape: Sequence[int], marked: int | None) -> list[Grid]:
    """The tensor as it is indexed: a grid for every pair of its last two dimensions."""
    layout = drawn.layout
    title = _("the tensor, shape {shape}, strides {strides}").format(
        shape=numbers(layout.shape), strides=numbers(layout.strides)
    )
    if not layout.numel:
        return [Grid(_("{title}: no elements").format(title=title), ())]
    leading, last = drawn.shown[:-2], drawn.shown[-2:]
    rows, columns = last if len(last) == 2 else (None, last[0] if last else None)
    grids: list[Grid] = []
    for part in product(*map(range, leading)):
        lines = []
        for row in [None] if rows is None else range(rows):
            inner = part if row is None else (*part, row)
            places = [()] if columns is None else [(column,) for column in range(columns)]
            lines.append([_logical_cell(drawn, (*inner, *one), shape, marked) for one in places])
        name = f"[{', '.join(map(str, part))}, :, :]" if part else title
        labels = [] if rows is None else [str(row) for row in range(rows)]
        across = [] if columns is None else [str(column) for column in range(columns)]
        if part and not any(part):
            name = f"{title} · {name}"
        grids.append(Grid(name, lines, labels, across, beside=bool(grids)))
    return grids


def _logical_cell(drawn: Picture, index: tuple[int, ...], shape: Sequence[int], marked: int | None) -> Cell:
    address = strides.address_of(drawn.layout, index)
    place = drawn.places[address.place]
    note = _("[{index}] lies at {sum}, byte {byte}").format(
        index=", ".join(map(str, index)), sum=address.text, byte=address.byte
    )
    name = str(address.place)
    return Cell(number(place.value), name, (), hue_of(place.origin, shape), note, marked=address.place == marked)


def _storage_grid(drawn: Picture, shape: Sequence[int], marked: int | None) -> Grid:
    """The flat storage, in rows of twelve; what the tensor does not reach is faint."""
    shown = []
    for at, place in enumerate(drawn.places[:STORAGE_SHOWN]):
        if place.index is None:
            note = _("place {at}: this tensor does not reach it").format(at=at)
        else:
            address = strides.address_of(drawn.layout, place.index)
            note = _("place {at} is [{index}]: {sum}").format(
                at=at, index=", ".join(map(str, place.index)), sum=address.text
            )
        hue = hue_of(place.origin, shape)
        shown.append(Cell(number(place.value), str(at), (), hue, note, marked=at == marked, faint=place.index is None))
    rows = [shown[start : start + STORAGE_ROW] for start in range(0, len(shown), STORAGE_ROW)]
    labels = [str(start) for start in range(0, len(shown), STORAGE_ROW)] if len(rows) > 1 else []
    across = [f"+{at}" if len(rows) > 1 else str(at) for at in range(min(STORAGE_ROW, len(shown)))]
    title = _("its storage: {count:,} elements, {size}").format(
        count=drawn.layout.storage_size, size=units.binary_bytes(drawn.layout.storage_bytes)
    )
    beside = drawn.layout.dim <= 2 and prod(drawn.shown[-1:]) <= STORAGE_ROW // 2
    return Grid(title, rows, labels, across, beside=beside)


def needed_places(key: str, layout: Layout, new_shape: Sequence[int]) -> None:
    """The rows that the new shape would have, as places in storage, with the steps between them."""
    places = list(islice(layout.addresses(), STORAGE_SHOWN))
    width = max(1, new_shape[-1] if new_shape else 1)
    rows, labels = [], []
    for start in range(0, len(places), width):
        row = places[start : start + width]
        steps = list(dict.fromkeys(after - before for before, after in pairwise(row)))
        rows.append([Cell(str(place), str(place), hue=(start // width) % HUES) for place in row])
        labels.append(
            _("steps {steps}").format(steps=", ".join(f"{one:+d}" for one in steps[:4]).replace("-", "−"))
            if steps
            else ""
        )
    row_of = {place: at // width for at, place in reversed(list(enumerate(places)))}
    storage = [
        Cell(str(at), str(at), hue=row_of[at] % HUES if at in row_of else None, faint=at not in row_of)
        for at in range(max(row_of, default=-1) + 1)
    ]
    lines = [storage[start : start + STORAGE_ROW] for start in range(0, len(storage), STORAGE_ROW)]
    title = _("places that each row of {shape} would need").format(shape=numbers(new_shape))
    grids = [Grid(title, rows[:6], labels[:6])]
    if len(lines) <= 2:  # more would not fit beside the sentences
        grids.append(Grid(_("places in storage"), lines, beside=width <= STORAGE_ROW))
    cells.show(key, grids, title)


def written(key: str, write: strides.Write, on_pick: Callable[[str], None]) -> None:
    """Every tensor of the chain with its values after the write; what changed is framed. A click writes there."""
    title = _("the tensors of the chain after the write; what changed is framed")
    cells.show(key, _grids_after(write), title, on_pick)


@functools.lru_cache(maxsize=64)
def _grids_after(write: strides.Write) -> list[Grid]:
    at_place: dict[tuple[int, int], list[str]] = {}
    for tensor_number, one in enumerate(write.tensors):
        for index, place in zip(one.layout.indices(), one.layout.addresses(), strict=True):
            at_place.setdefault((one.storage, place), []).append(_name(tensor_number, index))
    grids: list[Grid] = []
    for tensor_number, one in enumerate(write.tensors):
        grids += _written_grids(tensor_number, one, at_place, beside=bool(grids))
    return grids


def _name(tensor_number: int, index: Sequence[int]) -> str:
    return f"{tensor_number}: {', '.join(map(str, index))}"


def _written_grids(
    tensor_number: int, one: strides.TensorWrite, at_place: dict[tuple[int, int], list[str]], *, beside: bool
) -> list[Grid]:
    shown = strides.shown_shape(one.layout.shape)
    values = dict(zip(one.layout.indices(), one.values, strict=True))
    places = dict(zip(one.layout.indices(), one.layout.addresses(), strict=True))

    def cell(index: tuple[int, ...]) -> Cell:
        name, place = _name(tensor_number, index), places[index]
        others = tuple(other for other in at_place[one.storage, place] if other != name)
        note = _("[{index}] at place {place}: click to write here").format(
            index=", ".join(map(str, index)), place=place
        )
        changed = index in one.changed
        return Cell(number(values[index]), name, others, 4 if changed else None, note, marked=changed)

    sharing = _("same storage") if one.shares_storage else _("another storage")
    title = f"{tensor_number} · {one.text} · {sharing}"
    if not one.layout.numel:
        return [Grid(title, (), beside=beside)]
    grids: list[Grid] = []
    for part in product(*map(range, shown[:-2])):
        rows = [part] if len(shown) < 2 else [(*part, row) for row in range(shown[-2])]
        lines = [[cell((*row, *last)) for last in product(*map(range, shown[-1:]))] for row in rows]
        grids.append(Grid(title if not any(part) else str(list(part)), lines, beside=beside or bool(grids)))
    return grids


# Backwards, and the mask


def backwards(key: str, n: int) -> None:
    """numpy's view over one storage, and torch's flip with a storage of its own: which place each number lies at."""
    view = [Cell(str(n - 1 - at), f"numpy {n - 1 - at}", hue=(n - 1 - at) % HUES) for at in range(n)]
    storage = [Cell(str(at), f"numpy {at}", hue=at % HUES) for at in range(n)]
    flipped = [Cell(str(n - 1 - at), f"torch {at}", hue=(n - 1 - at) % HUES) for at in range(n)]
    grids = [
        Grid(_("numpy: the view"), [view]),
        Grid(_("its storage, shared with x"), [storage], beside=True),
        Grid(_("torch: the flip"), [flipped], beside=True),
        Grid(_("its storage, of its own"), [flipped], beside=True),
    ]
    cells.show(key, grids, _("the numbers backwards, in numpy and in torch"))


def mask(key: str, made: strides.Mask) -> None:
    """Ones and zeros: row i, column j."""
    cells.show(key, [_mask(made)], _("the upper triangle of ones"))


@functools.lru_cache(maxsize=64)
def _mask(made: strides.Mask) -> Grid:
    heard, unheard = _("{j} hears {i}"), _("{j} does not hear {i}")

    def cell(row: int, column: int) -> Cell:
        kept = made.rows[row][column]
        said = (heard if kept else unheard).format(i=row, j=column)
        note = f"M[{row}, {column}] = {kept}: {said}"
        return Cell(str(kept), f"{row}, {column}", hue=0 if kept else None, note=note, faint=not kept)

    rows = [[cell(row, column) for column in range(made.n)] for row in range(made.n)]
    labels = [str(at) for at in range(made.n)]
    return Grid(_("torch.ones(n, n).triu()"), rows, labels, labels)
