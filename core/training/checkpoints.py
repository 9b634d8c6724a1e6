"""Checkpoints: all that a run is between two steps, written whole or not at all, loaded without running code (§6.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import torch
from torch import Tensor, nn

from core.training.config import TrainConfig
from core.training.determinism import rng_state, set_rng_state
from core.training.folders import write_atomically
from core.training.inspection import FORMAT_KEY, FORMAT_VERSION, CheckpointError, CheckpointInfo, inspect_checkpoint
from core.training.parallel import Alone, Parallel
from core.words import _

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointInfo",
    "inspect_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
]

Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]


class Stateful(Protocol):
    """Whatever can be put into a dictionary and taken out of it again."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> object: ...


@dataclass(frozen=True)
class Checkpoint:
    """What was loaded: the step that comes next, the settings where the file names them, and all of its content."""

    step: int
    config: TrainConfig | None
    content: dict[str, Any]


def save_checkpoint(
    path_or_file: str | Path | IO[bytes],
    *,
    step: int,
    model: nn.Module,
    optimizer: Optimizers = (),
    scheduler: Stateful | None = None,
    scaler: torch.amp.GradScaler | None = None,
    data: Stateful | None = None,
    config: TrainConfig | None = None,
    parallel: Parallel | None = None,
) -> int:
    """Write model, optimizers, schedule, scaler, data position, every generator's state and the next step; the bytes.

    To a path, the file takes the place of the old one when it is whole and on disk: a kill at any moment leaves one
    good checkpoint. Of several processes all call this, and the first writes; the others return 0.

    >>> import io
    >>> file, model = io.BytesIO(), nn.Linear(2, 1)
    >>> save_checkpoint(file, step=7, model=model) == len(file.getvalue())
    True
    >>> load_checkpoint(file, model=model).step
    7
    """
    parallel = parallel or Alone()
    optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    content: dict[str, Any] = {
        FORMAT_KEY: FORMAT_VERSION,
        "torch": str(torch.__version__),
        "step": int(step),
        "config": None if config is None else config.to_json(),
        "model": _on_cpu(model.state_dict(), parallel),
        "optimizers": [_on_cpu(one.state_dict(), parallel) for one in optimizers],
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "scaler": None if scaler is None else scaler.state_dict(),
        "data": None if data is None else data.state_dict(),
        "rng": rng_state(),
    }
    if parallel.rank != 0:
        return 0
    if isinstance(path_or_file, (str, Path)):
        return write_atomically(Path(path_or_file), lambda file: torch.save(content, file))
    start = path_or_file.tell()
    torch.save(content, path_or_file)
    return path_or_file.tell() - start


def load_checkpoint(
    path_or_file: str | Path | IO[bytes],
    *,
    model: nn.Module | None = None,
    optimizer: Optimizers = (),
    scheduler: Stateful | None = None,
    scaler: torch.amp.GradScaler | None = None,
    data: Stateful | None = None,
    parallel: Parallel | None = None,
    rng: bool = True,
) -> Checkpoint:
    """Put a checkpoint into the objects given, and the generators' states back unless ``rng`` is False.

    The file is inspected first (``inspect_checkpoint``) and loaded with ``weights_only=True``. Nothing is changed
    before the file was found to fit. Raises CheckpointError for a file that is refused or is of another model.
    """
    if isinstance(path_or_file, (str, Path)):
        with Path(path_or_file).open("rb") as file:
            return load_checkpoint(
                file, model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, data=data,
                parallel=parallel, rng=rng,
            )  # fmt: skip
    info = inspect_checkpoint(path_or_file)
    path_or_file.seek(0)
    content: dict[str, Any] = torch.load(path_or_file, map_location="cpu", weights_only=True)
    parallel = parallel or Alone()
    optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    try:
        if model is not None:
            _check_model(model, content["model"])
        _check_optimizers(optimizers, content["optimizers"])
        if model is not None:
            current = model.state_dict()
            model.load_state_dict({name: parallel.like(one, current[name]) for name, one in content["model"].items()})
        for one, state in zip(optimizers, content["optimizers"], strict=False):
            one.load_state_dict(_cut(one, state, parallel))
        for part, name in ((scheduler, "scheduler"), (data, "data")):
            if part is not None:
                part.load_state_dict(content[name])
        if scaler is not None and scaler.is_enabled():
            scaler.load_state_dict(content["scaler"])
        if rng:
            set_rng_state(content["rng"])
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        message = _("this checkpoint does not fit the run: {kind}: {error}")
        raise CheckpointError(message.format(kind=type(error).__name__, error=str(error)[:200])) from error
    return Checkpoint(info.step, info.config, content)


def _on_cpu(state: Any, parallel: Parallel) -> Any:
    """A copy of a state in main memory, every tensor whole and with a storage no larger than itself."""
    if isinstance(state, Tensor):
        whole: Tensor = parallel.whole(state).detach().cpu()
        return whole.clone() if whole.untyped_storage().nbytes() != whole.numel() * whole.element_size() else whole
    if isinstance(state, Mapping):
        return {key: _on_cpu(value, parallel) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_on_cpu(value, parallel) for value in state)
    return state


def _check_model(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    wanted = {name: tuple(one.shape) for name, one in model.state_dict().items()}
    there = {name: tuple(one.shape) for name, one in saved.items()}
    for name in sorted(wanted.keys() | there.keys()):
        if wanted.get(name) != there.get(name):
            message = _("this checkpoint is of another model: {name} has shape {there} in it, and {wanted} here")
            nothing = _("nothing")
            there_text, wanted_text = there.get(name, nothing), wanted.get(name, nothing)
            raise CheckpointError(message.format(name=name[:80], there=there_text, wanted=wanted_text))


def _check_optimizers(optimizers: Sequence[torch.optim.Optimizer], saved: Sequence[Mapping[str, Any]]) -> None:
    if optimizers and len(optimizers) != len(saved):
        message = _("this checkpoint holds the state of {there} optimizers, and the run has {wanted}")
        raise CheckpointError(message.format(there=len(saved), wanted=len(optimizers)))
    for optimizer, state in zip(optimizers, saved, strict=False):
        groups = state["param_groups"]
        wanted = [(len(group["params"]), sorted(group)) for group in optimizer.param_groups]
        if wanted != [(len(group["params"]), sorted(group)) for group in groups]:
            raise CheckpointError(_("this checkpoint's optimizer is another one, or had other parameters"))
        _check_shapes(optimizer, state)


def _check_shapes(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """A state that is as large as its parameter, or smaller (a step, Adafactor's rows and columns)."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, one in state["state"].items():
        for value in one.values():
            if isinstance(value, Tensor) and value.numel() > parameters[index].numel():
                raise CheckpointError(_("this checkpoint's optimizer holds a state larger than its parameter"))


def _cut(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any], parallel: Parallel) -> dict[str, Any]:
    """An optimizer's state with every tensor cut as its parameter is."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    states = {
        index: {
            name: parallel.like(value, parameters[index])
            if isinstance(value, Tensor) and value.shape == parameters[index].shape
            else value
            for name, value in state.items()
        }
        for index, state in saved["state"].items()
    }
    return {"state": states, "param_groups": saved["param_groups"]}
