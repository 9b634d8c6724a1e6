"""What runs in the processes of ``core.memory.sharding_measure``: the launcher, and one rank."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import stat
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore, Store
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from core.memory.sharding_measure import WARMUP_STEPS
from core.models import TransformerConfig, TransformerLM, cross_entropy
from core.optimizers import OPTIMIZERS

_LEARNING_RATE = 1e-3
_BATCH_SIZE, _SEQ_LEN = 2, 8
_TORCH_OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adagrad": (torch.optim.Adagrad, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
}
_COLLECTIVES = {
    "c10d._allgather_base_": "all-gather",
    "c10d._reduce_scatter_base_": "reduce-scatter",
    "c10d.allreduce_": "all-reduce",
    "c10d.broadcast_": "broadcast",
}
# struct tcp_info of Linux 4.19 and later: where the counts of bytes are.
_RECEIVED, _SENT, _SENT_AGAIN, _ESTABLISHED = 128, 200, 208, 1


def launch() -> None:
    """Read the request, start the ranks, wait for them; end with the standard input. torch is loaded once, here."""
    request = json.loads(sys.stdin.readline())
    _zero_redundancy_optimizer()
    # On Linux a rank is forked from here, where torch has been loaded and never run.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ranks = [
        context.Process(target=_run_rank, args=(request, rank), daemon=True) for rank in range(request["num_devices"])
    ]
    for process in ranks:
        process.start()
    threading.Thread(target=_end_with_input, name="end with input", daemon=True).start()
    deadline = time.monotonic() + request["timeout_seconds"]
    for process in ranks:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode != 0:  # the others would wait for this rank in vain
            for other in ranks:
                other.kill()
    os._exit(0 if all(process.exitcode == 0 for process in ranks) else 1)


def _end_with_input() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock a forked rank would wait for
        pass
    os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_rank(request: dict[str, Any], rank: int) -> None:
    """Run every case as this rank and write what it counted."""
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    torch.set_num_threads(1)
    folder, n = Path(request["folder"]), request["num_devices"]
    try:
        store = FileStore(str(folder / "store"), n)
        timeout = timedelta(seconds=request["timeout_seconds"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=timeout)
        wire = Wire(store, rank, n)
        mesh = init_device_mesh("cpu", (n,))
        counted = [_run_case(case, mesh, wire, rank) for case in request["cases"]]
        answer = {"cases": counted, "torch_version": str(torch.__version__)}
        (folder / f"rank{rank}.json").write_text(json.dumps(answer))
        dist.barrier()  # nobody hangs up while another still waits for its last bytes
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _run_case(case: dict[str, Any], mesh: DeviceMesh, wire: Wire, rank: int) -> dict[str, Any]:
    torch.manual_seed(0)
    config = TransformerConfig(**case["config"])
    model = TransformerLM(config, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]])
    runner, optimizer = _wrap(model, case, mesh)
    tokens = torch.randint(config.vocab_size, (_BATCH_SIZE, min(_SEQ_LEN, config.context_length)))
    watch = Watch()
    for _step in range(WARMUP_STEPS):
        _train(runner, optimizer, tokens)
        optimizer.zero_grad()
    before = wire.settle()
    with watch:
        _train(runner, optimizer, tokens)
    after = wire.settle()
    sent, received = (
        (None, None) if before is None or after is None else (a - b for a, b in zip(after, before, strict=True))
    )
    inner = getattr(optimizer, "optim", optimizer)  # the optimizer that ZeroRedundancyOptimizer runs on its part
    return {
        "rank": rank,
        "parameter_bytes": _held_bytes(model.parameters()),
        "gradient_bytes": _held_bytes(p.grad for p in model.parameters()),
        "optimizer_state_bytes": _held_bytes(one for state in inner.state.values() for one in state.values()),
        "gathered_bytes": watch.gathered_bytes,
        "reduce_bytes": watch.reduce_bytes,
        "collectives": watch.collectives,
        "sent_bytes": sent,
        "received_bytes": received,
    }


def _train(runner: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor) -> None:
    cross_entropy(runner(tokens), tokens).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _wrap(model: TransformerLM, case: dict[str, Any], mesh: DeviceMesh) -> tuple[nn.Module, torch.optim.Optimizer]:
    kind, settings = _optimizer(case)
    if case["stage"] in ("none", "zero1"):
        data_parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
        if case["stage"] == "none":
            return data_parallel, kind(model.parameters(), **settings)
        return data_parallel, _zero_redundancy_optimizer()(model.parameters(), kind, **settings)
    keep = {"zero2": False, "zero3": True}[case["stage"]]
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=keep)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)  # used from the first layer to the last: torch's default
    return model, kind(model.parameters(), **settings)


def _zero_redundancy_optimizer() -> Any:
    """The class, loaded here: its package warns (torch.jit.script), and only a launcher's process should hear it."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer


def _optimizer(case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    settings: dict[str, Any] = {"lr": _LEARNING_RATE}
    if case["implementation"] == "torch":
        kind, own = _TORCH_OPTIMIZERS[case["optimizer"]]
        return kind, settings | own
    from core import optimizers

    return getattr(optimizers, OPTIMIZERS[case["optimizer"]].class_name), settings


def _held_bytes(tensors: Iterable[Any]) -> int:
    """Bytes of the storages that these tensors live in on this rank, each once."""
    local = [one.to_local() if isinstance(one, DTensor) else one for one in tensors if isinstance(one, Tensor)]
    storages = {storage._cdata: storage.nbytes() for storage in (one.untyped_storage() for one in local)}
    return sum(storages.values())


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the collectives of a step, and the bytes gathered and reduced by FSDP2 at the moment of most.

    ``fsdp.all_gather_copy_in`` fills the flat buffer, ``fsdp.split_with_sizes_copy`` the whole parameters, whose
    storages FSDP2 empties when it is done; ``fsdp.chunk_cat`` copies a unit's gradients into one flat buffer.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.collectives: list[tuple[str, int]] = []
        self.gathered_bytes = self.reduce_bytes = 0
        self._gathered: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = str(func).removesuffix(".default"), kwargs or {}
        if name == "fsdp.all_gather_copy_in":
            self._keep([args[1]])
        elif name == "fsdp.split_with_sizes_copy":
            self._keep(kwargs["out"])
        elif name == "fsdp.chunk_cat":
            self.reduce_bytes = max(self.reduce_bytes, _held_bytes([*args[0], kwargs["out"]]))
        elif name.startswith("c10d."):
            self.collectives.append((_COLLECTIVES.get(name, name), _payload_bytes(name, args)))
        self._look()
        result = func(*args, **kwargs)
        self._look()
        return result

    def _keep(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._gathered[reference.cdata] = reference

    def _look(self) -> None:
        alive = 0
        for key, reference in list(self._gathered.items()):
            storage: Any = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._gathered[key]
            else:
                alive += storage.nbytes()
        self.gathered_bytes = max(self.gathered_bytes, alive)


def _payload_bytes(name: str, args: Any) -> int:
    """Bytes of the whole tensor: an all-gather's output, a reduce-scatter's input, all tensors of the others."""
    whole = args[1] if name == "c10d._reduce_scatter_base_" else args[0]
    tensors = whole if isinstance(whole, list | tuple) else [whole]
    return sum(one.numel() * one.element_size() for one in tensors if isinstance(one, Tensor))


class Wire:
    """The bytes that this process's TCP sockets have sent and received: gloo's alone, since it has no others."""

    def __init__(self, store: Store, rank: int, n: int) -> None:
        self._store, self._rank, self._n, self._rounds = store, rank, n, 0

    def settle(self) -> tuple[int, int] | None:
        """Bytes sent and received by this rank, once all that the ranks sent has arrived; None where none can tell."""
        while True:
            mine = _socket_bytes()
            self._rounds += 1
            self._store.set(f"wire {self._rounds} {self._rank}", json.dumps(mine))
            every = [json.loads(self._store.get(f"wire {self._rounds} {rank}")) for rank in range(self._n)]
            if None in every:
                return None
            if sum(sent for sent, _received in every) == sum(received for _sent, received in every):
                return mine
            time.sleep(0.002)


def _socket_bytes() -> tuple[int, int] | None:
    if sys.platform != "linux":
        return None
    sent = received = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (numbers, no paths)
        told = _tcp_info(int(name))
        if 0 < len(told) < _SENT_AGAIN + 8:
            return None
        if told and told[0] == _ESTABLISHED:
            sent += _count(told, _SENT) - _count(told, _SENT_AGAIN)
            received += _count(told, _RECEIVED)
    return sent, received


def _tcp_info(descriptor: int) -> bytes:
    """What the kernel tells about a socket; nothing where it is no TCP socket."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as one:
                return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return b""


def _count(told: bytes, offset: int) -> int:
    value: int = struct.unpack_from("Q", told, offset)[0]
    return value
