"""An einsum as the steps that torch runs: sums and diagonals of one operand, then one product of two at a time.

A product that sums over an axis of both operands is a matrix multiply: the kept axes of both are its batch (B), the
rest its rows (M) and columns (N), the summed ones what they have in common (K): 2·B·M·N·K FLOPs. Without such an axis
it is elementwise. The order of the products is opt_einsum's, which torch follows too where it is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

from core.named_dims.parse import MAX_OPERANDS
from core.named_dims.plan import Builder, Step
from core.named_dims.sizes import Shape, Solved
from core.strides.layout import contiguous_strides
from core.words import _

OPERAND_NAMES = ("x", "y", "z", "w", "v", "u")
MAX_FLOPS = 2**28
assert len(OPERAND_NAMES) == MAX_OPERANDS


@dataclass(frozen=True)
class Product:
    """One product of two tensors: their names, the axes of the result, those summed over, FLOPs of the whole."""

    left: str
    right: str
    axes: tuple[str, ...]
    summed: tuple[str, ...]
    result_elements: int
    flops: int


@dataclass(frozen=True)
class Contraction:
    """The order of an einsum's products, and the FLOPs of that order and of others.

    ``naive_flops`` is one loop over every axis: for each point of it a product of all operands and one addition.
    ``in_written_order_flops`` multiplies two at a time, from left to right.
    """

    products: tuple[Product, ...]
    flops: int
    naive_flops: int
    in_written_order_flops: int
    matmul_flops: int


def contract(solved: Solved, shapes: Sequence[Shape]) -> tuple[tuple[Step, ...], Contraction]:
    """The steps of an einsum, and what its order costs. Raises ValueError where that is too much to run here."""
    names = OPERAND_NAMES[: len(shapes)]
    path = _path(solved, shapes)
    output = tuple(key for (key,) in solved.output)
    products, flops = _costs(solved, shapes, path)
    written_order = ([(0, 1)] + [(len(shapes) - 1 - at, 0) for at in range(1, len(shapes) - 1)])[: len(shapes) - 1]
    in_written_order = flops if path == written_order else _costs(solved, shapes, written_order)[1]
    if flops > MAX_FLOPS:
        message = _("this einsum takes {flops:,} FLOPs; at most {most:,} are run here: take smaller sizes")
        raise ValueError(message.format(flops=flops, most=MAX_FLOPS))
    plan = Builder()
    for name, shape, axes in zip(names, shapes, solved.inputs, strict=True):
        plan.begin(name, shape, axes)
        _prepare(plan, name, solved.sizes)
    left = list(names)
    for pair in path:
        operands = [left[at] for at in pair]
        left = [name for at, name in enumerate(left) if at not in pair]
        needed = {*output, *(key for name in left for (key,) in plan.axes[name])}
        a, b = ({key for (key,) in plan.axes[name]} for name in operands)
        if _swapped(a, b, needed, output):
            operands.reverse()
        left.append(_multiply(plan, operands[0], operands[1], needed, output))
    _finish(plan, left[0], output)
    matmul_flops = sum(step.flops for step in plan.steps if step.kind == "matmul")
    return tuple(plan.steps), Contraction(products, flops, _naive(solved, len(shapes)), in_written_order, matmul_flops)


def _naive(solved: Solved, operands: int) -> int:
    """FLOPs of one loop over every axis: operands − 1 multiplies, and an add where something is summed."""
    output = {key for (key,) in solved.output}
    return math.prod(solved.sizes.values()) * (operands - 1 + any(key not in output for key in solved.sizes))


def _path(solved: Solved, shapes: Sequence[Shape]) -> list[tuple[int, int]]:
    """Which two operands are multiplied next; their product goes to the end of the list."""
    if len(shapes) == 1:
        return []
    if len(shapes) == 2:
        return [(0, 1)]
    import opt_einsum  # type: ignore[import-untyped]

    letters = {key: opt_einsum.get_symbol(index) for index, key in enumerate(solved.sizes)}
    words = ["".join(letters[key] for (key,) in axes) for axes in (*solved.inputs, solved.output)]
    equation = f"{','.join(words[:-1])}->{words[-1]}"
    found, _info = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="auto")
    path = [(min(pair), max(pair)) for pair in found]
    assert all(len(pair) == 2 for pair in found), found
    return path


def _costs(solved: Solved, shapes: Sequence[Shape], path: Sequence[tuple[int, int]]) -> tuple[tuple[Product, ...], int]:
    """Each product of a path, and the FLOPs of all of it, in numbers alone: nothing is built."""
    sizes = solved.sizes
    output = [key for (key,) in solved.output]
    operands = [
        (name, frozenset(key for (key,), size in zip(axes, shape, strict=True) if size == sizes[key]))
        for name, axes, shape in zip(OPERAND_NAMES, solved.inputs, shapes, strict=False)
    ]
    products = []
    total = 0
    for pair in path:
        chosen = [operands[at] for at in pair]
        operands = [one for at, one in enumerate(operands) if at not in pair]
        needed = {*output, *(key for _name, keys in operands for key in keys)}
        if _swapped(chosen[0][1], chosen[1][1], needed, output):
            chosen.reverse()
        (left, a), (right, b) = chosen
        before = total
        for own, other in ((a, b), (b, a)):
            total += _sum_flops(own, own - (other | needed), sizes)
        a, b = a & (b | needed), b & (a | needed)
        summed = {key for key in a & b if key not in needed and sizes[key] != 1}
        total += math.prod(sizes[key] for key in a | b) * (2 if summed else 1)
        result = (a | b) & needed
        shown = tuple(key for key in sizes if key in result)
        gone = tuple(key for key in sizes if key in (chosen[0][1] | chosen[1][1]) - needed)
        elements = math.prod(sizes[key] for key in result)
        products.append(Product(left, right, shown, gone, elements, total - before))
        operands.append((left + right, frozenset(result)))
    total += _sum_flops(operands[0][1], operands[0][1].difference(output), sizes)
    return tuple(products), total


def _swapped(a: Set[str], b: Set[str], needed: Set[str], output: Sequence[str]) -> bool:
    """Whether the second operand's own axes come first in the output: then it goes to the left of the product."""

    places = [[output.index(key) for key in own & needed if key in output] for own in (a - b, b - a)]
    return all(places) and min(places[1]) < min(places[0])


def _sum_flops(keys: frozenset[str], gone: frozenset[str] | set[str], sizes: dict[str, int]) -> int:
    """Additions of a sum over some axes of one tensor."""
    if not gone:
        return 0
    return max(0, math.prod(sizes[key] for key in keys) - math.prod(sizes[key] for key in keys - gone))


def _prepare(plan: Builder, name: str, sizes: dict[str, int]) -> None:
    """Take the diagonal of an axis that stands twice, and drop a dimension of 1 that others have larger."""
    keys = [key for (key,) in plan.axes[name]]
    while len(set(keys)) < len(keys):
        key = next(key for key in keys if keys.count(key) > 1)
        first = keys.index(key)
        second = keys.index(key, first + 1)
        shape, strides = plan.shapes[name], plan.strides[name]
        assert strides is not None
        rest = [dim for dim in range(len(keys)) if dim not in (first, second)]
        keys = [*(keys[dim] for dim in rest), key]
        plan.add(
            "diagonal", (first, second), name, (*(shape[dim] for dim in rest), shape[first]),
            tuple((one,) for one in keys), (*(strides[dim] for dim in rest), strides[first] + strides[second]), True,
        )  # fmt: skip
    for key in keys:
        dim = [one for (one,) in plan.axes[name]].index(key)
        if plan.shapes[name][dim] == 1 and sizes[key] != 1:
            _squeeze(plan, name, dim)


def _squeeze(plan: Builder, name: str, dim: int) -> None:
    shape, axes, strides = plan.shapes[name], plan.axes[name], plan.strides[name]
    plan.add(
        "squeeze", (dim,), name, (*shape[:dim], *shape[dim + 1 :]), (*axes[:dim], *axes[dim + 1 :]),
        None if strides is None else (*strides[:dim], *strides[dim + 1 :]), True,
    )  # fmt: skip


def _multiply(plan: Builder, a: str, b: str, needed: set[str], output: Sequence[str]) -> str:
    """One product of two tensors; its name."""
    for name, other in ((a, b), (b, a)):
        others = {key for (key,) in plan.axes[other]}
        alone = [dim for dim, (key,) in enumerate(plan.axes[name]) if key not in needed and key not in others]
        if alone:
            plan.reduce(name, "sum", alone)
    for name in (a, b):
        for key in [key for (key,) in plan.axes[name] if key not in needed]:
            dim = plan.axes[name].index((key,))
            if plan.shapes[name][dim] == 1:
                _squeeze(plan, name, dim)
    a_keys, b_keys = ([key for (key,) in plan.axes[name]] for name in (a, b))
    place = {key: index for index, key in enumerate(output)}
    ordered = sorted([*a_keys, *(key for key in b_keys if key not in a_keys)], key=lambda key: place.get(key, 99))
    summed = [key for key in a_keys if key in b_keys and key not in needed]
    if summed:
        return _matmul(
            plan, a, b, [key for key in ordered if key in a_keys and key in b_keys and key in needed], summed
        )
    return _elementwise(plan, a, b, ordered)


def _matmul(plan: Builder, a: str, b: str, batch: list[str], summed: list[str]) -> str:
    a_keys, b_keys = ([key for (key,) in plan.axes[name]] for name in (a, b))
    rows = [key for key in a_keys if key not in batch and key not in summed]
    columns = [key for key in b_keys if key not in batch and key not in summed]
    size = {key: plan.shapes[name][dim] for name in (a, b) for dim, (key,) in enumerate(plan.axes[name])}
    lead = [batch] if batch else []
    for name, groups in ((a, [*lead, rows, summed]), (b, [*lead, summed, columns])):
        _arrange(plan, name, groups, size)
    groups = [*lead, rows, columns]
    shape = tuple(math.prod(size[key] for key in group) for group in groups)
    flops = 2 * math.prod(shape) * math.prod(size[key] for key in summed)
    axes = tuple(tuple(group) for group in groups)
    target = a + b
    plan.add(
        "matmul", (), a, shape, axes, contiguous_strides(shape), False, flops=flops, other=b, target=target,
        why=_("a result that is computed is new"),
    )  # fmt: skip
    if any(len(group) != 1 for group in groups):
        flat = [key for group in groups for key in group]
        plan.reshape(target, tuple(size[key] for key in flat), tuple((key,) for key in flat))
    return target


def _arrange(plan: Builder, name: str, groups: list[list[str]], size: dict[str, int]) -> None:
    """Bring a tensor's axes into those groups, each one dimension."""
    keys = [key for (key,) in plan.axes[name]]
    order = [keys.index(key) for group in groups for key in group]
    if order != sorted(order):
        plan.permute(name, order)
    if any(len(group) != 1 for group in groups):
        shape = tuple(math.prod(size[key] for key in group) for group in groups)
        plan.reshape(name, shape, tuple(tuple(group) for group in groups))


def _elementwise(plan: Builder, a: str, b: str, ordered: list[str]) -> str:
    """The product of two tensors without a sum: each gets a dimension of 1 for every axis that it lacks."""
    size = {key: plan.shapes[name][dim] for name in (a, b) for dim, (key,) in enumerate(plan.axes[name])}
    for name in (a, b):
        keys = [key for (key,) in plan.axes[name]]
        order = [keys.index(key) for key in ordered if key in keys]
        if order != sorted(order):
            plan.permute(name, order)
        missing = [int(key not in keys) for key in ordered]
        if any(missing):
            strides = plan.strides[name]
            sizes, steps = iter(plan.shapes[name]), iter(strides or ())
            shape = tuple(1 if lacks else next(sizes) for lacks in missing)
            axes = tuple(() if lacks else (key,) for lacks, key in zip(missing, ordered, strict=True))
            after = None if strides is None else tuple(0 if lacks else next(steps) for lacks in missing)
            plan.add("index", missing, name, shape, axes, after, True)
    shape = tuple(size[key] for key in ordered)
    target = a + b
    plan.add(
        "multiply", (), a, shape, tuple((key,) for key in ordered), None, False, flops=math.prod(shape), other=b,
        target=target, why=_("a result that is computed is new"),
    )  # fmt: skip
    return target


def _finish(plan: Builder, name: str, output: Sequence[str]) -> None:
    """Sum what is not wanted, bring the rest into the order wanted."""
    gone = [dim for dim, (key,) in enumerate(plan.axes[name]) if key not in output]
    if gone:
        plan.reduce(name, "sum", gone)
    keys = [key for (key,) in plan.axes[name]]
    order = [keys.index(key) for key in output]
    if order != sorted(order):
        plan.permute(name, order)
