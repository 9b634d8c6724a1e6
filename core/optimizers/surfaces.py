"""Loss surfaces of two parameters, each with its gradient by hand: where optimizers can be watched.

A surface works on numbers and on arrays alike. Without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, positive_number
from core.words import _

MAX_CONDITION = 1e6
Point = tuple[float, float]


@dataclass(frozen=True)
class Surface:
    """loss(x, y) and its gradient, a start that is worth a look, the window to draw and the minima in it."""

    name: str
    formula: str
    loss: Callable[[Any, Any], Any]
    gradient: Callable[[Any, Any], tuple[Any, Any]]
    start: Point
    x_range: Point
    y_range: Point
    minima: tuple[Point, ...]
    source: str = ""


def quadratic(condition: float = 10.0) -> Surface:
    """½(x² + κ·y²): a bowl that is κ times steeper along y; κ is its condition number.

    SGD's every step multiplies x by 1 − lr and y by 1 − κ·lr: it diverges from lr = 2/κ on.

    >>> quadratic(25.0).gradient(10.0, 1.0)
    (10.0, 25.0)
    """
    kappa = positive_number(_("the condition number"), condition, MAX_CONDITION)
    return Surface(
        "quadratic",
        f"½(x² + {kappa:g}·y²)",
        lambda x, y: 0.5 * (x * x + kappa * y * y),
        lambda x, y: (x, kappa * y),
        start=(-4.0, 1.5),
        x_range=(-5.0, 5.0),
        y_range=(-2.5, 2.5),
        minima=((0.0, 0.0),),
    )


def _rosenbrock_gradient(x: Any, y: Any) -> tuple[Any, Any]:
    off_valley = y - x * x
    return -2.0 * (1.0 - x) - 400.0 * x * off_valley, 200.0 * off_valley


_BEALE = ((1.5, 1), (2.25, 2), (2.625, 3))


def _beale(x: Any, y: Any) -> Any:
    return sum((c - x + x * y**k) ** 2 for c, k in _BEALE)


def _beale_gradient(x: Any, y: Any) -> tuple[Any, Any]:
    terms = [(c - x + x * y**k, k) for c, k in _BEALE]
    by_x = sum(2.0 * term * (y**k - 1.0) for term, k in terms)
    return by_x, sum(2.0 * term * x * k * y ** (k - 1) for term, k in terms)


ROSENBROCK = Surface(
    "rosenbrock",
    "(1 − x)² + 100(y − x²)²",
    lambda x, y: (1.0 - x) ** 2 + 100.0 * (y - x * x) ** 2,
    _rosenbrock_gradient,
    start=(-1.2, 1.0),
    x_range=(-2.0, 2.0),
    y_range=(-1.0, 3.0),
    minima=((1.0, 1.0),),
    source="Rosenbrock 1960",
)
SADDLE = Surface(
    "saddle",
    "½x² − ½y² + ¼y⁴",
    lambda x, y: 0.5 * x * x - 0.5 * y * y + 0.25 * y**4,
    lambda x, y: (x, y**3 - y),
    start=(-1.5, 0.001),
    x_range=(-2.0, 2.0),
    y_range=(-1.5, 1.5),
    minima=((0.0, -1.0), (0.0, 1.0)),
)
BEALE = Surface(
    "beale",
    "(1.5 − x + xy)² + (2.25 − x + xy²)² + (2.625 − x + xy³)²",
    _beale,
    _beale_gradient,
    start=(1.0, 1.5),
    x_range=(-1.0, 4.5),
    y_range=(-1.5, 2.0),
    minima=((3.0, 0.5),),
    source="Beale 1958",
)
SURFACES = ("quadratic", "rosenbrock", "saddle", "beale")


def surface(name: str, condition: float = 10.0) -> Surface:
    """A surface by its name; ``condition`` is the quadratic's.

    >>> surface("rosenbrock").loss(1.0, 1.0)
    0.0
    """
    one_of("surface", name, SURFACES)
    if name == "quadratic":
        return quadratic(condition)
    return {"rosenbrock": ROSENBROCK, "saddle": SADDLE, "beale": BEALE}[name]
