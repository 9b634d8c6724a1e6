"""Tensors as cells whose links go from every cell of the output to those of the input that make it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import streamlit as st

from core import named_dims
from core.named_dims import Explanation, Packed
from core.words import _
from pages._ui import cells
from pages._ui.cells import Cell, Grid

Shape = tuple[int, ...]
MAX_CELLS = 500
MAX_LINKS = 4000
MAX_COLUMNS = 30


def shape_text(shape: Sequence[int]) -> str:
    return f"({', '.join(f'{size:,}' for size in shape)}{',' if len(shape) == 1 else ''})"


def axes_text(dims: Sequence[tuple[str, ...]]) -> str:
    """The dimensions as a pattern writes them."""
    words = [" ".join(named_dims.label(key) for key in keys) for keys in dims]
    return " ".join(word if len(keys) == 1 else f"({word})" for word, keys in zip(words, dims, strict=True))


def tensors(key: str, done: Explanation, color: str) -> None:
    """The inputs and the output of an operation on 0, 1, 2, …"""
    number = sum(math.prod(shape) for shape in (*done.shapes, done.output_shape))
    if number > MAX_CELLS or named_dims.number_of_sources(done) > MAX_LINKS:
        st.caption(_("{n:,} cells are too many to draw: take smaller sizes to see them.").format(n=number))
        return
    alt_text = _("{call}: each cell of the output with the cells of the input that make it").format(call=done.call)
    cells.show(key, [*_input_grids(done, color), _output_grid(done, color)], alt_text)


class _Links(NamedTuple):
    """Of each output cell its name and the names of the cells that make it; of each input cell those that it makes."""

    owns: list[str]
    made_of: list[tuple[str, ...]]
    makes: dict[str, list[str]]


@functools.lru_cache(maxsize=32)
def _links(done: Explanation) -> _Links:
    found, makes = named_dims.sources(done), dict[str, list[str]]()
    if _only_moves(done):  # a cell of the output is one of the input, and has its name
        return _Links([f"x{one.cells[0][0]}" for one in found], [()] * len(found), makes)
    owns = [f"out{place}" for place in range(len(found))]
    made_of = [
        tuple(dict.fromkeys(f"{name}{cell}" for name, cells_ in zip(named_dims.OPERAND_NAMES, one.cells, strict=False)
                            for cell in cells_))
        for one in found
    ]  # fmt: skip
    for own, sources in zip(owns, made_of, strict=True):
        for source in sources:
            makes.setdefault(source, []).append(own)
    return _Links(owns, made_of, makes)


def _only_moves(done: Explanation) -> bool:
    return done.contraction is None and done.operation in ("rearrange", "repeat")


@functools.lru_cache(maxsize=128)
def _input_grids(done: Explanation, color: str) -> tuple[Grid, ...]:
    ran, makes, grids = named_dims.executed(done), _links(done).makes, []
    for index, (name, shape, dims) in enumerate(zip(named_dims.OPERAND_NAMES, done.shapes, done.inputs, strict=False)):
        told = zip(ran.inputs[index].flatten().tolist(), _hues(done, dims, shape, color), _indices(shape), strict=True)
        made = []
        for place, (value, hue, at) in enumerate(told):
            cell = f"{name}{place}"
            made.append(Cell(f"{value:g}", cell, tuple(makes.get(cell, ())), hue, f"{name}{at}"))
        title = f"{name} {shape_text(shape)} · {axes_text(dims)}"
        grids.append(Grid(title, block(made, shape), beside=index > 0))
    return tuple(grids)


@functools.lru_cache(maxsize=128)
def _output_grid(done: Explanation, color: str) -> Grid:
    links, shape = _links(done), done.output_shape
    values = named_dims.executed(done).values.flatten().tolist()
    places = zip(_indices(shape), _origins(done, named_dims.sources(done)), strict=True)
    notes = [f"{_('output')}{at} {origin}" for at, origin in places]
    hues = _hues(done, done.output, shape, color)
    made = [
        Cell(_short(value), own, made_of, hue, note)
        for value, own, made_of, hue, note in zip(values, links.owns, links.made_of, hues, notes, strict=True)
    ]
    title = f"{_('output')} {shape_text(shape)} · {axes_text(done.output)}"
    return Grid(title, block(made, shape), beside=True)


def _origins(done: Explanation, found: Sequence[named_dims.CellSources]) -> list[str]:
    """Where each cell of the output comes from, in words."""
    indices = [_indices(shape) for shape in done.shapes]
    if _only_moves(done):
        return [f"= x{indices[0][one.cells[0][0]]}" for one in found]
    if done.contraction is None:
        message = _("= {operation} of {n:,} cells")
        return [message.format(operation=done.operation, n=len(one.cells[0])) for one in found]
    factors = [
        " · ".join(
            f"{name}{index[cells_[0]]}"
            for name, cells_, index in zip(named_dims.OPERAND_NAMES, one.cells, indices, strict=False)
            if cells_
        )
        for one in found
    ]
    message, sizes = _("= {first} + …, {n:,} products"), dict(done.sizes)
    products = math.prod(sizes[key] for key in done.gone)
    return [
        f"= {first}" if len(one.cells[0]) == 1 else message.format(first=first, n=products)
        for first, one in zip(factors, found, strict=True)
    ]


def _short(value: float) -> str:
    return str(value) if isinstance(value, bool) else f"{value:.4g}" if value % 1 else f"{value:g}"


def _indices(shape: Shape) -> list[str]:
    """The index of each element of a tensor, in the order in which they lie."""
    return [f"[{', '.join(at)}]" for at in product(*([str(number) for number in range(size)] for size in shape))]


def _hues(done: Explanation, dims: Sequence[tuple[str, ...]], shape: Shape, color: str) -> list[int | None]:
    """For each cell of a tensor the index along the axis that colours; no colour where it has no such axis."""
    sizes = dict(done.sizes)
    keys = [key for group in dims for key in group]
    if color not in keys or math.prod(shape) != math.prod(sizes[key] for key in keys):
        return [None] * math.prod(shape)
    at = keys.index(color)
    return [place[at] for place in product(*(range(sizes[key]) for key in keys))]


def block(made: Sequence[Cell], shape: Shape) -> list[list[Cell | None]]:
    """The cells of a tensor of any number of dimensions in one rectangle.

    The last two dimensions are rows and columns. Those before them go side by side where that is not too wide, else
    the first of them goes downwards; gaps lie between.
    """
    if len(shape) <= 1:
        return [list(made)]
    if len(shape) == 2:
        return [list(made[row * shape[1] : (row + 1) * shape[1]]) for row in range(shape[0])]
    inner = math.prod(shape[1:])
    parts = [block(made[index * inner : (index + 1) * inner], shape[1:]) for index in range(shape[0])]
    rows: list[list[Cell | None]] = []
    if sum(len(part[0]) for part in parts if part) + len(parts) <= MAX_COLUMNS:
        for row in range(len(parts[0]) if parts else 0):
            line: list[Cell | None] = []
            for number, part in enumerate(parts):
                line += [None] if number else []
                line += part[row]
            rows.append(line)
        return rows
    for number, part in enumerate(parts):
        rows += [[None]] if number else []
        rows += part
    return rows


def two_orders(key: str, one: Explanation, other: Explanation, color: str) -> None:
    """One input and what two patterns make of it."""
    number = 3 * math.prod(one.output_shape)
    if number > MAX_CELLS:
        st.caption(_("{n:,} cells are too many to draw: take smaller sizes to see them.").format(n=number))
        return
    (taken,) = _input_grids(one, color)
    hue = {cell.name: cell.hue for row in taken.rows for cell in row if cell is not None}
    followed = [
        [None if cell is None else cell._replace(hue=hue[cell.name]) for cell in row]
        for row in _output_grid(other, color).rows
    ]  # a cell keeps the colour that it has in the input
    outputs = [Grid(one.pattern.text, _output_grid(one, color).rows), Grid(other.pattern.text, followed, beside=True)]
    cells.show(key, [taken, *outputs], _("an input and what two patterns make of it"))


def mean_and_sum(key: str, mean: Explanation, total: Explanation) -> None:
    """One input, its mean and its sum."""
    number = math.prod(mean.shapes[0]) + 2 * math.prod(mean.output_shape)
    if number > MAX_CELLS or named_dims.number_of_sources(mean) > MAX_LINKS:
        st.caption(_("{n:,} cells are too many to draw: take smaller sizes to see them.").format(n=number))
        return
    color = mean.kept[0] if mean.kept else ""
    (taken,) = _input_grids(mean, color)
    outputs = [_output_grid(mean, color), _output_grid(total, color)]
    shown = [replace(one, title=f"{done.operation} · {one.title}")
             for one, done in zip(outputs, (mean, total), strict=True)]  # fmt: skip
    cells.show(key, [taken, *shown], _("an input, its mean and its sum, each cell with those that make it"))


def packed(key: str, done: Packed) -> None:
    """The tensors, each in its colour, and the one that they were packed into."""
    if 2 * math.prod(done.shape) > MAX_CELLS:
        st.caption(_("{n:,} cells are too many to draw: take smaller sizes to see them.").format(
            n=2 * math.prod(done.shape)))  # fmt: skip
        return
    cells.show(key, _packed_grids(done), _("tensors, and the one that they were packed into"))


@functools.lru_cache(maxsize=64)
def _packed_grids(done: Packed) -> tuple[Grid, ...]:
    grids: list[Grid] = []
    outer = math.prod(done.shape[: done.axis])
    after = math.prod(done.shape[done.axis + 1 :])
    joined: list[list[Cell]] = [[] for _row in range(outer)]
    for number, (shape, flat) in enumerate(zip(done.shapes, done.flat_shapes, strict=True)):
        made = [
            Cell(str(place), f"t{number}_{place}", (), number, f"{_('tensor')} {number} {at}")
            for place, at in enumerate(_indices(shape))
        ]
        grids.append(Grid(f"{_('tensor')} {number} {shape_text(shape)}", block(made, shape), beside=number > 0))
        run = flat[done.axis] * after
        for row in range(outer):
            joined[row] += made[row * run : (row + 1) * run]
    title = f"{_('packed')} {shape_text(done.shape)}"
    return (*grids, Grid(title, block([one for row in joined for one in row], done.shape)))
