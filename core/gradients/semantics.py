"""What backward, zero_grad, retain_grad, detach and no_grad do: run step by step on ½(x·w − y)², with the values.

Each result is a ``Trace``: what was done, step by step ("new loss" is a new forward pass), what each name held after
it, and torch's own message where a step raised. Shapes: N entries in x and in w.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.checks import whole_number
from core.gradients.graph import kept_grad
from core.gradients.inputs import check_quadratic
from core.words import _

if TYPE_CHECKING:
    import torch

MAX_BACKWARDS = 10
LECTURE_X, LECTURE_W, LECTURE_Y = (1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0
HeldValue = tuple[float, ...] | bool | int | str | None


@dataclass(frozen=True)
class Held:
    """What a name held after a step: its entries (one for a scalar), a bool, a count, a text, or None as in torch."""

    name: str
    value: HeldValue


@dataclass(frozen=True)
class TraceStep:
    """What was done, in words, and what it left; ``error`` is torch's message (its first sentence) where it raised."""

    action: str
    held: tuple[Held, ...]
    error: str = ""


@dataclass(frozen=True)
class Trace:
    """Steps that ran one after the other, and in one sentence what they show."""

    question: str
    steps: tuple[TraceStep, ...]
    answer: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that some step looks at, in order: the columns of a table."""
        return tuple(dict.fromkeys(held.name for step in self.steps for held in step.held))

    def values(self, name: str) -> tuple[HeldValue, ...]:
        """What the name held after each of the steps that look at it."""
        return tuple(held.value for step in self.steps for held in step.held if held.name == name)


def accumulation(
    x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y, times: int = 3
) -> Trace:
    """Backward several times without clearing .grad: g, 2g, 3g, … ``times`` is from 1 to 10.

    >>> accumulation().values("w.grad")
    (None, (1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (3.0, 6.0, 9.0))
    """
    times = whole_number("times", times, 1, MAX_BACKWARDS)
    x_N, w_N, y = _tensors(x, w, target)
    steps = [_step(_("w requires a gradient"), w_N)]
    for _time in range(times):
        _backward(_loss(x_N, w_N, y))
        steps.append(_step(_("new loss, backward()"), w_N))
    answer = _("backward() adds to .grad: after {times} calls it holds the sum of {times} gradients.")
    return Trace(_("What happens without zero_grad()?"), tuple(steps), answer.format(times=times))


def zero_grad(
    set_to_none: bool = True,
    x: Iterable[float] = LECTURE_X,
    w: Iterable[float] = LECTURE_W,
    target: float = LECTURE_Y,
) -> Trace:
    """Clear .grad between two backwards: freed (set_to_none, torch's default) or filled with zeros.

    ``zero_grad`` is that of torch.nn.Module; an optimizer's does the same to its parameters.

    >>> zero_grad().values("w.grad")[2], zero_grad(set_to_none=False).values("w.grad")[2]
    (None, (0.0, 0.0, 0.0))
    >>> zero_grad().values("bytes of w.grad"), zero_grad(set_to_none=False).values("bytes of w.grad")
    ((0, 12, 0, 12), (0, 12, 12, 12))
    """
    import torch

    x_N, w_N, y = _tensors(x, w, target)
    module = torch.nn.Module()
    module.w = w_N = torch.nn.Parameter(w_N.detach())

    def look(action: str) -> TraceStep:
        held = Held("bytes of w.grad", 0 if w_N.grad is None else w_N.grad.nbytes)
        return TraceStep(action, (_grad("w.grad", w_N), held))

    steps = [look(_("w is a parameter"))]
    _backward(_loss(x_N, w_N, y))
    steps.append(look(_("new loss, backward()")))
    module.zero_grad(set_to_none=set_to_none)
    steps.append(look(f"zero_grad(set_to_none={set_to_none})"))
    _backward(_loss(x_N, w_N, y))
    steps.append(look(_("new loss, backward()")))
    if set_to_none:
        answer = _("None: the gradient's memory is freed, and the next backward() writes instead of adding.")
    else:
        answer = _("Zeros: the memory stays, and the next backward() reads the zeros and adds to them.")
    return Trace(_("What does zero_grad() leave?"), tuple(steps), answer)


def retain_grad(x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y) -> Trace:
    """The gradient of pred_y, which is no leaf: None, unless retain_grad() was called before backward.

    >>> retain_grad().values("pred_y.grad")
    (None, (1.0,))
    """
    x_N, w_N, y = _tensors(x, w, target)
    steps = []
    for keep in (False, True):
        pred_y = x_N @ w_N
        if keep:
            pred_y.retain_grad()
        _backward(0.5 * (pred_y - y).pow(2))
        action = _("pred_y.retain_grad(), backward()") if keep else _("backward()")
        held = (Held("pred_y.is_leaf", pred_y.is_leaf), _grad("pred_y.grad", pred_y))
        steps.append(TraceStep(action, held))
    answer = _("The gradient passed through pred_y both times; only retain_grad() kept it.")
    return Trace(_("Where did pred_y's gradient go?"), tuple(steps), answer)


def second_backward(x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y) -> Trace:
    """Backward twice through one graph: refused, as its saved tensors are freed; allowed with retain_graph=True.

    >>> trace = second_backward()
    >>> trace.steps[2].error
    'Trying to backward through the graph a second time'
    >>> trace.values("w.grad")
    (None, (1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (3.0, 6.0, 9.0))
    """
    x_N, w_N, y = _tensors(x, w, target)
    loss = _loss(x_N, w_N, y)
    steps = [_step(_("new loss"), w_N)]
    _backward(loss)
    steps.append(_step(_("backward()"), w_N))
    steps.append(_step(_("backward() again"), w_N, _refusal(loss)))
    loss = _loss(x_N, w_N, y)
    _backward(loss, retain_graph=True)
    steps.append(_step(_("new loss, backward(retain_graph=True)"), w_N))
    _backward(loss)
    steps.append(_step(_("backward() again"), w_N))
    answer = _(
        "The first backward() frees what forward saved for it, so a second one has nothing to work with; "
        "retain_graph=True keeps it, and the gradients add up."
    )
    return Trace(_("Can backward() run twice on one graph?"), tuple(steps), answer)


def detach(x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y) -> Trace:
    """detach() gives the same storage outside the graph: no gradient passes, and backward from there is refused.

    >>> trace = detach()
    >>> trace.values("requires_grad"), trace.values("same storage")
    ((True, False, False), (True,))
    >>> trace.steps[2].error
    'element 0 of tensors does not require grad and does not have a grad_fn'
    """
    x_N, w_N, y = _tensors(x, w, target)
    pred_y = x_N @ w_N
    steps = [TraceStep(_("pred_y from x and w"), _record(pred_y))]
    cut = pred_y.detach()
    same = cut.untyped_storage().data_ptr() == pred_y.untyped_storage().data_ptr()
    steps.append(TraceStep(_("pred_y.detach()"), (*_record(cut), Held("same storage", same))))
    loss = 0.5 * (cut - y).pow(2)
    action = _("loss of what detach() gave, backward()")
    steps.append(TraceStep(action, (*_record(loss), _grad("w.grad", w_N)), _refusal(loss)))
    answer = _("detach() copies nothing: the same number, without the way back to w.")
    return Trace(_("What does detach() cut?"), tuple(steps), answer)


def no_grad(x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y) -> Trace:
    """Inside no_grad() nothing is recorded, though w requires a gradient; the values are the same.

    >>> trace = no_grad()
    >>> trace.values("value"), trace.values("grad_fn")
    (((6.0,), (6.0,)), ('DotBackward0', None))
    """
    import torch

    x_N, w_N, _y = _tensors(x, w, target)
    recorded = x_N @ w_N
    with torch.no_grad():
        unrecorded = x_N @ w_N
    steps = [
        TraceStep(_("pred_y, recorded"), (Held("value", _entries(recorded)), *_record(recorded))),
        TraceStep(_("pred_y inside no_grad()"), (Held("value", _entries(unrecorded)), *_record(unrecorded))),
    ]
    answer = _(
        "The same number; without a record there is nothing to save for backward, so evaluation needs less memory."
    )
    return Trace(_("What does no_grad() save?"), tuple(steps), answer)


def all_traces(
    x: Iterable[float] = LECTURE_X, w: Iterable[float] = LECTURE_W, target: float = LECTURE_Y
) -> tuple[Trace, ...]:
    """Every trace of this module, for these values.

    >>> len(all_traces())
    7
    """
    x_N, w_N, y = check_quadratic(x, w, target)
    clearing = (zero_grad(True, x_N, w_N, y), zero_grad(False, x_N, w_N, y))
    graphs = (retain_grad(x_N, w_N, y), second_backward(x_N, w_N, y), detach(x_N, w_N, y), no_grad(x_N, w_N, y))
    return (accumulation(x_N, w_N, y), *clearing, *graphs)


def _tensors(x: Iterable[float], w: Iterable[float], target: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x (N,), w (N,) that requires a gradient, and y (), in fp32."""
    import torch

    x_N, w_N, y = check_quadratic(x, w, target)
    return torch.tensor(x_N), torch.tensor(w_N, requires_grad=True), torch.tensor(y)


def _loss(x_N: torch.Tensor, w_N: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 0.5 * (x_N @ w_N - y).pow(2)


def _backward(loss: torch.Tensor, retain_graph: bool = False) -> None:
    loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]


def _refusal(loss: torch.Tensor) -> str:
    """The first sentence of what torch says when backward is refused, without what it has in brackets."""
    try:
        _backward(loss)
    except RuntimeError as refused:
        return str(refused).split(". ")[0].split(" (")[0].splitlines()[0]
    raise AssertionError("torch ran a backward that it should refuse")


def _step(action: str, w_N: torch.Tensor, error: str = "") -> TraceStep:
    return TraceStep(action, (_grad("w.grad", w_N),), error)


def _grad(name: str, tensor: torch.Tensor) -> Held:
    grad = kept_grad(tensor)
    return Held(name, None if grad is None else _entries(grad))


def _record(tensor: torch.Tensor) -> tuple[Held, Held]:
    """What autograd recorded of a tensor."""
    function = None if tensor.grad_fn is None else tensor.grad_fn.name()
    return Held("requires_grad", tensor.requires_grad), Held("grad_fn", function)


def _entries(tensor: torch.Tensor) -> tuple[float, ...]:
    return tuple(float(value) for value in tensor.detach().reshape(-1).tolist())
