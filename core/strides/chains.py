"""Random chains with a fixed seed: what the agreement with torch is tested and measured on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from core.strides.layout import Layout, contiguous_strides
from core.strides.operation import ELEMENTWISE, NAMES, Operation
from core.strides.rules import predict

MAX_DIM = 5
MAX_NUMEL = 2000
SIZES = (0, *(1, 2, 3) * 4, 4, 4, 5, 6)
# What reorders and what reshapes come up most: most rules are about one after the other.
OFTEN = {"view": 4, "reshape": 4, "flatten": 2, "transpose": 4, "permute": 4, "index": 4, "contiguous": 2, "expand": 2}
WEIGHTS = [OFTEN.get(name, 0.5 if name in ELEMENTWISE else 1) for name in NAMES]


def random_chain(generator: random.Random, length: int = 8) -> tuple[tuple[int, ...], tuple[Operation, ...]]:
    """A shape of up to 5 dimensions and operations that mostly make sense after one another.

    Sizes of 0 and 1, tensors of no dimensions and strides of 0 come up often; one chain in three ends in an
    error, and then there.

    >>> shape, operations = random_chain(random.Random(0))
    >>> len(shape) <= 5, 1 <= len(operations) <= 8
    (True, True)
    """
    shape = tuple(generator.choice(SIZES) for _ in range(generator.randint(0, MAX_DIM)))
    layout = Layout.contiguous(shape)
    operations: list[Operation] = []
    for _ in range(generator.randint(1, length)):
        operation = random_operation(generator, layout)
        try:
            step = predict(layout, operation)
        except ValueError:  # too many dimensions
            continue
        if step.after is not None and (step.after.dim > MAX_DIM or step.after.numel > MAX_NUMEL):
            continue
        operations.append(operation)
        if step.after is None:
            break
        layout = step.after
    return shape, tuple(operations) or (Operation("clone"),)


def random_operation(generator: random.Random, x: Layout) -> Operation:
    """An operation with arguments that suit the layout, or, now and then, do not."""
    name = generator.choices(NAMES, WEIGHTS)[0]
    arguments = _ARGUMENTS.get(name)
    return Operation(name, arguments(generator, x) if arguments else ())


def _dim(generator: random.Random, ndim: int) -> int:
    slack = 1 if generator.random() < 0.03 else 0
    return generator.randint(-max(ndim, 1) - slack, max(ndim, 1) - 1 + slack)


def _place(generator: random.Random, size: int) -> int:
    if size and generator.random() > 0.03:
        return generator.randint(-size, size - 1)
    return generator.randint(-size - 1, size)


def _slice(generator: random.Random, size: int) -> tuple[int | None, int | None, int | None]:
    start, stop = (generator.choice((None, generator.randint(-size - 1, size + 1))) for _ in range(2))
    return start, stop, generator.choice((None, None, 1, 2, 3, 0 if generator.random() < 0.05 else 4))


def _index(generator: random.Random, x: Layout) -> tuple[Any, ...]:
    items: list[Any] = []
    for size in x.shape[: generator.randint(0, x.dim)]:
        kind = generator.random()
        items.append(_place(generator, size) if kind < 0.4 else _slice(generator, size))
    if items and generator.random() < 0.2:
        at = generator.randrange(len(items))
        size = x.shape[at]
        items[at] = ("pick", *(_place(generator, size) for _ in range(generator.randint(1, 4))))
    if generator.random() < 0.2:
        items.insert(generator.randint(0, len(items)), None)
    if generator.random() < 0.2 or not items:
        at = generator.randint(0, len(items))
        items.insert(at, "...")
    return tuple(items)


def _sizes(generator: random.Random, x: Layout) -> tuple[int, ...]:
    """A shape of as many elements: dimensions merged, split, and given a size of 1."""
    sizes = list(x.shape)
    if generator.random() < 0.4 and x.numel:
        sizes = [x.numel]  # merge everything, then split
    for _ in range(generator.randint(0, 4)):
        kind = generator.random()
        if kind < 0.55 and len(sizes) >= 2:
            at = generator.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif kind < 0.8 and sizes:
            at = generator.randrange(len(sizes))
            divisors = [one for one in range(1, sizes[at] + 1) if sizes[at] % one == 0] or [1]
            first = generator.choice(divisors)
            sizes[at : at + 1] = [first, sizes[at] // first]
        elif kind < 0.9:
            sizes.insert(generator.randint(0, len(sizes)), 1)
        elif 1 in sizes:
            sizes.remove(1)
    if sizes and generator.random() < 0.2:
        sizes[generator.randrange(len(sizes))] = -1
    if generator.random() < 0.03:
        sizes.append(generator.choice((0, 2, -1, -2)))
    return tuple(sizes)


def _expand(generator: random.Random, x: Layout) -> tuple[int, ...]:
    sizes = [generator.choice((0, 2, 3, -1)) if size == 1 else generator.choice((size, -1)) for size in x.shape]
    while len(sizes) < MAX_DIM and generator.random() < 0.3:
        sizes.insert(0, generator.choice((0, 1, 1, 2, 3)))
    if sizes and generator.random() < 0.04:
        sizes[generator.randrange(len(sizes))] += 1
    return tuple(sizes)


def _permutation(generator: random.Random, x: Layout) -> tuple[int, ...]:
    order = generator.sample(range(x.dim), x.dim)
    if order and generator.random() < 0.04:
        order[0] = generator.choice((0, x.dim, -1))
    return tuple(one - x.dim if generator.random() < 0.1 else one for one in order)


def _unfold(generator: random.Random, x: Layout) -> tuple[int, ...]:
    dim = _dim(generator, x.dim)
    size = x.shape[dim] if x.dim and -x.dim <= dim < x.dim else 1
    return dim, generator.randint(0, size + (generator.random() < 0.05)), generator.choice((1, 1, 2, 3))


def _as_strided(generator: random.Random, x: Layout) -> tuple[Any, ...]:
    shape = tuple(generator.choice(SIZES[:9]) for _ in range(generator.randint(0, 3)))
    strides: tuple[int, ...] = tuple(generator.randint(0, 4) for _ in shape)
    if generator.random() < 0.3:
        strides = contiguous_strides(shape)
    offset: tuple[int, ...] = generator.choice(((), (0,), (generator.randint(0, max(1, x.storage_size // 2)),)))
    return (shape, strides, *offset)


def _flip(generator: random.Random, x: Layout) -> tuple[int, ...]:
    dims = generator.sample(range(max(x.dim, 1)), generator.randint(1, max(x.dim, 1)))
    return tuple([*dims, dims[0]] if generator.random() < 0.03 else dims)


_ARGUMENTS: dict[str, Callable[[random.Random, Layout], tuple[Any, ...]]] = {
    "index": _index,
    "select": lambda g, x: (d := _dim(g, x.dim), _place(g, x.shape[d] if -x.dim <= d < x.dim else 1)),
    "transpose": lambda g, x: (_dim(g, x.dim), _dim(g, x.dim)),
    "permute": _permutation,
    "view": _sizes,
    "reshape": _sizes,
    "flatten": lambda g, x: tuple(sorted((_dim(g, x.dim), _dim(g, x.dim)))[: g.randint(0, 2)]),
    "expand": _expand,
    "unsqueeze": lambda g, x: (_dim(g, x.dim + 1),),
    "squeeze": lambda g, x: (_dim(g, x.dim),) if g.random() < 0.7 else (),
    "unfold": _unfold,
    "diagonal": lambda g, x: (g.randint(-3, 3), _dim(g, x.dim), _dim(g, x.dim))[: g.randint(0, 3)],
    "flip": _flip,
    "pow": lambda g, x: (g.randint(0, 3),),
    "add": lambda g, x: (g.randint(1, 3),),
    "mul": lambda g, x: (g.randint(1, 3),),
    "div": lambda g, x: (g.randint(1, 3),),
    "triu": lambda g, x: (g.randint(-2, 2),)[: g.randint(0, 1)],
    "as_strided": _as_strided,
}
