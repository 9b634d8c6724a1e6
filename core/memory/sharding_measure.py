"""ZeRO run for real: gloo processes on this machine train a small Transformer, and every rank counts what it holds.

Seen: bytes of the storages of parameters, gradients and optimizer state between two steps; gathered parameters and
whole gradients inside a step, from the operators that make them; every collective with its size; and the bytes that
really went over the sockets, from the kernel (TCP_INFO, Linux). Not seen: a GPU's streams, whose allocator may keep a
buffer longer than the program does, and NCCL's own buffers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import units
from core.checks import one_of, whole_number
from core.memory.config import StepConfig
from core.memory.sharding import DTYPE_BYTES, STAGES, Sharding, shard, transformer_units
from core.models import TransformerConfig
from core.words import _

MAX_PROCESSES = 4
MAX_MEASURED_BYTES = 2 * 10**9  # of all processes together
WARMUP_STEPS = 2  # DDP orders its buckets anew after the first step
MEASURED_OPTIMIZERS = ("sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw")
_ROOT = Path(__file__).resolve().parents[2]
_LAUNCH = "from core.memory.sharding_ranks import launch; launch()"


@dataclass(frozen=True)
class ShardingCase:
    """One step to run: which model, how it is sharded, who updates it."""

    config: TransformerConfig
    stage: str
    optimizer: str = "adamw"
    dtype: str = "fp32"
    implementation: str = "napkin"


@dataclass(frozen=True)
class RankBytes:
    """What one rank counted.

    The first three are between two steps, the next two the most at any moment of a step (see ``Sharding``).
    ``collectives`` are those of one step in order, each with the bytes of the whole tensor that it works on.
    ``sent_bytes`` and ``received_bytes`` went over this rank's sockets in it; None where the kernel tells nothing.
    """

    rank: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_state_bytes: int
    gathered_bytes: int
    reduce_bytes: int
    collectives: tuple[tuple[str, int], ...]
    sent_bytes: int | None
    received_bytes: int | None


@dataclass(frozen=True)
class ShardingRun:
    """One case as every rank ran it, and the prediction that it is held against."""

    case: ShardingCase
    sharding: Sharding
    ranks: tuple[RankBytes, ...]
    warmup_steps: int
    torch_version: str


def measure_sharding(case: ShardingCase, num_devices: int = 2, *, timeout_seconds: float = 120.0) -> ShardingRun:
    """Run one case on ``num_devices`` processes. See ``measure_shardings``."""
    return measure_shardings((case,), num_devices, timeout_seconds=timeout_seconds)[0]


def measure_shardings(
    cases: Sequence[ShardingCase], num_devices: int = 2, *, timeout_seconds: float = 120.0
) -> tuple[ShardingRun, ...]:
    """Run every case, one after the other, on the same ``num_devices`` gloo processes (2 to 4); on the CPU.

    Loading torch takes the processes some seconds, a small case a fraction of one. Raises ValueError for a case that is
    too large or cannot be run, before anything starts, and RuntimeError where a rank fails or the time is up. All
    processes end with this call, and with the process that made it.
    """
    num_devices = whole_number("num_devices", num_devices, 2, MAX_PROCESSES)
    whole_number(_("the number of cases"), len(cases), 1, 64)
    shardings = [check_case(case, num_devices) for case in cases]
    asked = {"num_devices": num_devices, "timeout_seconds": timeout_seconds}
    with tempfile.TemporaryDirectory(prefix="napkin-sharding-") as folder:
        request = {**asked, "folder": folder, "cases": [dataclasses.asdict(case) for case in cases]}
        _run(json.dumps(request), Path(folder), timeout_seconds)
        answers = [_answer(Path(folder), rank) for rank in range(num_devices)]
    runs = []
    for index, (case, sharding) in enumerate(zip(cases, shardings, strict=True)):
        ranks = [answer["cases"][index] for answer in answers]
        counted = tuple(
            RankBytes(**{**one, "collectives": tuple((name, size) for name, size in one["collectives"])})
            for one in ranks
        )
        runs.append(ShardingRun(case, sharding, counted, WARMUP_STEPS, answers[0]["torch_version"]))
    return tuple(runs)


def small_twin(model: TransformerConfig) -> TransformerConfig:
    """A model of the same make that the processes have room for: narrower, with fewer blocks, heads and tokens.

    Its vocabulary is odd where the model's is, so that its rows are dealt out as unevenly.

    >>> from core.models import PRESETS
    >>> twin = small_twin(PRESETS["llama3-70b"])
    >>> twin.num_params, twin.num_heads // twin.num_kv_heads, twin.d_ff / twin.d_model
    (4434176, 4, 3.5)
    """
    assert model.head_dim is not None
    assert model.num_kv_heads is not None
    kv_heads, group = min(model.num_kv_heads, 4), min(model.num_heads // model.num_kv_heads, 4)
    head_dim = min(model.head_dim, 16)
    width = kv_heads * group * head_dim
    positions = min(model.learned_positions, 128)
    return dataclasses.replace(
        model, name=_("a small {name}").format(name=model.name), num_layers=min(model.num_layers, 4), d_model=width,
        num_heads=kv_heads * group, num_kv_heads=kv_heads, head_dim=head_dim,
        d_ff=max(1, min(4 * width, width * model.d_ff // model.d_model)),
        vocab_size=min(model.vocab_size, 2000 + model.vocab_size % 2), learned_positions=positions,
        context_length=positions or min(model.context_length, 128),
    )  # fmt: skip


def measurable_cases(config: StepConfig, num_devices: int = 2) -> tuple[ShardingCase, ...]:
    """The step's model under every stage, or its small twin where it is too large for the processes.

    Raises ValueError for an optimizer that is not measured here.
    """
    dtype = "bf16" if config.precision == "bf16" else "fp32"
    house = "napkin" if config.optimizer_implementation == "napkin" else "torch"
    asked = 8 * num_devices * config.model.num_params * DTYPE_BYTES[dtype]
    model = config.model if asked <= MAX_MEASURED_BYTES else small_twin(config.model)
    cases = tuple(ShardingCase(model, stage, config.optimizer, dtype, house) for stage in STAGES)
    for case in cases:
        check_case(case, num_devices)
    return cases


def check_case(case: ShardingCase, num_devices: int = 2) -> Sharding:
    """How a case is dealt out to the processes. Raises ValueError for one that is too large or cannot be run."""
    one_of("dtype", case.dtype, ("fp32", "bf16"))
    one_of("optimizer", case.optimizer, MEASURED_OPTIMIZERS)
    units_of_case = transformer_units(case.config)
    sharding = shard(units_of_case, case.stage, num_devices, case.optimizer, case.dtype, case.implementation)
    # parameters, their copy while the model is wrapped, gradients twice, four times for the optimizer
    asked = num_devices * 8 * sharding.param_bytes
    if asked > MAX_MEASURED_BYTES:
        message = _(
            "{n} processes with this model take about {asked}; the limit here is {limit}. Make the model smaller."
        )
        limit = units.si_bytes(MAX_MEASURED_BYTES)
        raise ValueError(message.format(n=num_devices, asked=units.si_bytes(asked), limit=limit))
    return sharding


def _run(request: str, folder: Path, timeout_seconds: float) -> None:
    """Start the launcher and wait for it. It ends when its standard input does: with this process, at the latest."""
    search_path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search_path, "GLOO_SOCKET_IFNAME": _loopback()}
    errors = folder / "errors"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 (our own module)
            [sys.executable, "-c", _LAUNCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=_ROOT,
            env=environment,
        )
    assert process.stdin is not None
    try:
        with contextlib.suppress(OSError):
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        message = _("the processes did not finish within {limit}")
        raise RuntimeError(message.format(limit=units.seconds(timeout_seconds))) from None
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            process.stdin.close()
    if process.returncode:
        raise RuntimeError(_("a process failed: {text}").format(text=errors.read_text(errors="replace")[-2000:]))


def _answer(folder: Path, rank: int) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / f"rank{rank}.json").read_text())
    return answer


def _loopback() -> str:
    names = {name for _index, name in socket.if_nameindex()} if hasattr(socket, "if_nameindex") else set()
    return "lo0" if "lo0" in names else "lo"
