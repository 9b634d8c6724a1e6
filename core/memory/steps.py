"""Two training steps under the meter; the second, with the optimizer's state in place, is the steady state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from core.memory import result
from core.memory.meter import MemoryMeter
from core.memory.result import Moment
from core.memory.subjects import Subject

OnProgress = Callable[[float], None]


def metered_steps(
    subject: Subject,
    optimizers: list[torch.optim.Optimizer],
    tokens: Tensor,
    labels: Tensor,
    micro_batches: int,
    autocast: bool,
    on_progress: OnProgress = lambda fraction: None,
) -> tuple[Moment, ...]:
    """The moments of the second step. Each micro-batch has the same tokens: only their number matters."""
    meter, hooks = MemoryMeter(), _Hooks(subject)
    timeline = meter.timeline
    with meter, hooks.on(meter):
        meter.add(subject.model.parameters(), result.PARAMETER)
        meter.add(subject.model.buffers(), result.BUFFER)
        meter.add((tokens, labels), result.INPUT)
        for step in range(2):
            timeline.moments.clear()
            for micro_batch in range(micro_batches):
                timeline.micro_batch = micro_batch
                hooks.forward = True
                timeline.start(result.EMBEDDING if subject.blocks else result.HEAD)
                with torch.autocast(tokens.device.type, torch.bfloat16, enabled=autocast):
                    loss = subject.loss(tokens, labels)
                timeline.start(result.LOSS_BACKWARD)
                hooks.forward = False
                loss.backward()  # type: ignore[no-untyped-call]
                del loss
                on_progress((step + (micro_batch + 1) / (micro_batches + 1)) / 2)
            timeline.start(result.OPTIMIZER)
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
                meter.add(_state(optimizer), result.OPTIMIZER_STATE)
            timeline.stop()
            on_progress((step + 1) / 2)
    return tuple(timeline.moments)


def _state(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [one for state in optimizer.state.values() for one in state.values() if isinstance(one, Tensor)]


class _Hooks:
    """Tells the meter where a step is. A block's gradient is complete when the hook on what it went into says so."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.forward = subject, True
        self.handles: list[Any] = []

    def on(self, meter: MemoryMeter) -> _Hooks:
        subject, timeline, last = self.subject, meter.timeline, len(self.subject.blocks) - 1
        for p in subject.model.parameters():
            done = p.register_post_accumulate_grad_hook(lambda p: meter.add([p.grad], result.GRADIENT))  # type: ignore[no-untyped-call]
            self.handles.append(done)

        def before(block: int) -> Callable[..., None]:
            def start(_module: nn.Module, args: Any, kwargs: Any) -> None:
                if self.forward:  # a checkpointed block runs again in backward, as a part of it
                    timeline.start(result.FORWARD, block)
                    if block == 0:
                        _on_gradient((args, kwargs), lambda: timeline.start(result.END_OF_BACKWARD))

            return start

        def after(block: int) -> Callable[..., None]:
            def stop(_module: nn.Module, _args: Any, out: Any) -> None:
                if self.forward:
                    if block == last:
                        timeline.start(result.HEAD)
                    _on_gradient(out, lambda: timeline.start(result.BACKWARD, block))

            return stop

        def logits(_module: nn.Module, _args: Any, out: Any) -> None:
            _on_gradient(out, lambda: timeline.start(result.HEAD_BACKWARD))

        for number, block in enumerate(subject.blocks):
            self.handles.append(block.register_forward_pre_hook(before(number), with_kwargs=True))
            self.handles.append(block.register_forward_hook(after(number)))
        self.handles.append(subject.head.register_forward_hook(logits))
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_exception: object) -> None:
        for handle in self.handles:
            handle.remove()


def _on_gradient(values: Any, call: Callable[[], None]) -> None:
    """Call when the gradient of the first tensor that has one is complete."""
    tensor = next(one for one in tree_leaves(values) if isinstance(one, Tensor) and one.requires_grad)
    tensor.register_hook(lambda _grad: call())  # type: ignore[no-untyped-call]
