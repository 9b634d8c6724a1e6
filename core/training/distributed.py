"""The same run on several processes: torchrun starts them, DDP or FSDP2 brings their gradients together.

Every process draws the whole batch's numbers and takes its own rows, so that the loss curve is that of one process up
to the order of sums, and a checkpoint, which holds whole tensors, is resumed on any number of processes.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.hardware import device_name_of
from core.memory.sharding import Unit, shard, transformer_units
from core.memory.sharding_claims import predict_sent_bytes
from core.optimizers import OPTIMIZERS
from core.training.config import TrainConfig
from core.training.loop import train
from core.training.parallel import check_shares
from core.training.records import StepRecord, read_lines
from core.words import _

PARALLELS = ("ddp", "fsdp")
MAX_PROCESSES, MAX_HERE = 4096, 16
TIMEOUT = timedelta(seconds=120)
WARMUP_STEPS = 2  # DDP makes its buckets anew after the first step, FSDP learns its order
_ROOT = Path(__file__).resolve().parents[2]
_IO = Path("/proc/self/io")


class Group:
    """The processes of a torchrun, this one among them; a ``Parallel``.

    Raises ValueError for what cannot be sharded: Adafactor and Muon need whole matrices, GradScaler whole gradients.
    """

    def __init__(self, kind: str, config: TrainConfig) -> None:
        self.kind = one_of("parallel", kind, PARALLELS)
        if kind == "fsdp" and (config.optimizer in ("adafactor", "muon") or config.precision == "fp16 scaled"):
            message = _("{what} needs whole tensors, and fsdp shards them: use ddp")
            what = config.precision if config.precision == "fp16 scaled" else config.optimizer
            raise ValueError(message.format(what=what))
        self.device = torch.device(config.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=TIMEOUT)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Replicas whose gradients are averaged (DDP), or every tensor dealt out (FSDP2), a unit a block."""
        if self.kind == "ddp":
            return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.world,))
        for block in getattr(model, "blocks", ()):
            fully_shard(block, mesh=mesh, reshard_after_forward=True)
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        return model

    def gathering(self, model: nn.Module, last: bool) -> AbstractContextManager[object]:
        """Gradients travel with the last part of a batch alone."""
        if isinstance(model, nn.parallel.DistributedDataParallel):
            return nullcontext() if last else model.no_sync()
        return _synchronizing(model, last)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of the processes' values."""
        summed = value.clone()
        dist.all_reduce(summed)
        return summed / self.world

    def whole(self, tensor: Any) -> Any:
        """All shards of a tensor, on every process."""
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

    def like(self, whole: Any, parameter: Any) -> Any:
        """This process's shard of a whole tensor."""
        if not hasattr(parameter, "placements"):
            return whole
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(whole.to(parameter.device), parameter.device_mesh, parameter.placements)

    def close(self) -> None:
        """Leave the group, when all have come so far."""
        dist.barrier()
        dist.destroy_process_group()


@contextmanager
def _synchronizing(model: Any, last: bool) -> Iterator[None]:
    model.set_requires_gradient_sync(last)
    yield


def sent_bytes() -> int | None:
    """Bytes that this process has written so far, to sockets and files; None where the system does not say.

    >>> sent_bytes() is None or sent_bytes() > 0
    True
    """
    try:
        return next(int(line.split()[1]) for line in _IO.read_text().splitlines() if line.startswith("wchar"))
    except (OSError, StopIteration):
        return None


def command_for(config: TrainConfig, processes: int, parallel: str = "ddp", machines: int = 1) -> str:
    """The command that runs these settings on that many processes a machine, to be typed in the project's folder.

    >>> command_for(TrainConfig(lr=0.002, num_steps=50), 2)
    'torchrun --standalone --nproc-per-node 2 -m core.training --parallel ddp --num-steps 50 --lr 0.002'
    >>> command_for(TrainConfig(), 1)
    'python -m core.training'
    """
    processes = whole_number(_("processes"), processes, 1, MAX_PROCESSES)
    machines = whole_number(_("machines"), machines, 1, MAX_PROCESSES)
    one_of("parallel", parallel, PARALLELS)
    if processes * machines == 1:
        return shlex.join(["python", "-m", "core.training", *arguments_of(config)])
    where = ["--standalone"]
    if machines > 1:
        where = ["--nnodes", str(machines), "--node-rank", "0", "--master-addr", "HOST", "--master-port", "29500"]
    start = ["torchrun", *where, "--nproc-per-node", str(processes), "-m", "core.training", "--parallel", parallel]
    return shlex.join([*start, *arguments_of(config)])


def arguments_of(config: TrainConfig) -> list[str]:
    """The settings that are not the defaults, as arguments of ``python -m core.training``."""
    words: list[str] = []
    for name, value in config.changed().items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag if value else f"--no-{flag[2:]}"] if isinstance(value, bool) else [flag, str(value)]
    return words


@dataclass(frozen=True)
class ProcessesRun:
    """A run on several processes. ``sent_bytes`` is what each process sent in each step but the first two, on average
    over the processes; None where the system does not say. ``alone`` are the records of the same steps on one process,
    with the same global batch, where they were asked for."""

    config: TrainConfig
    processes: int
    parallel: str
    records: tuple[StepRecord, ...]
    sent_bytes: tuple[float, ...] | None
    alone: tuple[StepRecord, ...] = ()

    @property
    def step_seconds(self) -> float:
        """The median of the steps after the first two."""
        return _median_seconds(self.records)

    @property
    def alone_seconds(self) -> float | None:
        """The same of one process."""
        return _median_seconds(self.alone) if self.alone else None

    @property
    def largest_difference(self) -> float | None:
        """The largest difference of two losses of the same step, as a share of them; None without ``alone``."""
        pairs = zip(self.records, self.alone, strict=False)
        return max((abs(a.loss - b.loss) / max(abs(a.loss), abs(b.loss), 1e-300) for a, b in pairs), default=None)


def _median_seconds(records: tuple[StepRecord, ...]) -> float:
    return statistics.median(r.step_seconds for r in records[min(WARMUP_STEPS, len(records) - 1) :])


def train_on_processes(
    config: TrainConfig,
    processes: int,
    parallel: str = "ddp",
    timeout_seconds: float = 600.0,
    *,
    until: int | None = None,
    alone: bool = False,
) -> ProcessesRun:
    """Run the settings by torchrun on this machine, up to step ``until``; with ``alone`` on one process too.

    Raises ValueError with what the processes said where they fail.

    For a job: the processes are its children and end with it.
    """
    processes = whole_number(_("processes"), processes, 1, MAX_HERE)
    one_of("parallel", parallel, PARALLELS)
    check_shares(config, processes)
    single = tuple(itertools.islice(train(config), until)) if alone else ()
    with tempfile.TemporaryDirectory() as folder:
        records, summary = Path(folder) / "records.jsonl", Path(folder) / "summary.json"
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes),
            "-m", "core.training", "--parallel", parallel, *arguments_of(config),
            "--records", str(records), "--summary", str(summary), "--quiet", "--until", str(until or config.num_steps),
        ]  # fmt: skip
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        ended = subprocess.run(  # noqa: S603 - our own module, arguments that a TrainConfig has checked
            command, cwd=_ROOT, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True,
            timeout=timeout_seconds, check=False,
        )  # fmt: skip
        if ended.returncode or not summary.exists():
            lines = [line for line in ended.stderr.splitlines() if "Error" in line] or ended.stderr.splitlines()
            message = _("the processes ended with an error: {error}")
            raise ValueError(message.format(error=lines[0][-300:] if lines else ended.returncode))
        sent = json.loads(summary.read_text())["sent_bytes"]
        return ProcessesRun(
            config, processes, parallel, read_lines(records), None if sent is None else tuple(sent), single
        )


def predict_communication(config: TrainConfig, processes: int, parallel: str = "ddp") -> Prediction:
    """What a process sends a step for parameters and gradients; see ``core.memory.sharding_claims``.

    >>> predict_communication(TrainConfig(dim=16, num_layers=2), 2).value
    2112
    """
    one_of("parallel", parallel, PARALLELS)
    d = config.dim
    units: tuple[Unit, ...] = (Unit("root", ((d, d),) * config.num_layers + ((1, d),)),)
    if config.task == "text":
        units = transformer_units(config.transformer())
    dtype = "bf16" if config.precision == "bf16" else "fp32"
    optimizer = config.optimizer if config.optimizer in OPTIMIZERS else "adamw"
    return predict_sent_bytes(shard(units, "zero3" if parallel == "fsdp" else "none", processes, optimizer, dtype))


def compare_communication(run: ProcessesRun) -> Comparison | None:
    """Bytes sent a step, predicted and seen at the sockets; None where the system tells nothing."""
    if not run.sent_bytes:
        return None
    prediction = predict_communication(run.config, run.processes, run.parallel)
    notes = (_("gloo, {n} processes on this machine; every byte written to a socket").format(n=run.processes),)
    conditions = Conditions(
        run.config.device, device_name_of("cpu"), run.config.precision, 1, WARMUP_STEPS, len(run.sent_bytes),
        torch_version=str(torch.__version__), notes=notes,
    )  # fmt: skip
    parts: tuple[Term, ...] = ()
    if run.parallel == "fsdp" and prediction.terms:
        scattered = prediction.terms[-1].value
        note = _("torch runs an all-reduce in its place, which sends twice as much")
        parts = (Term(_("no reduce-scatter in gloo"), scattered, note),)
    return Comparison(prediction, Measurement(prediction.quantity, run.sent_bytes, "B", conditions), parts)
