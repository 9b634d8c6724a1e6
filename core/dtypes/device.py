"""Where a tensor lives: the memory that it takes on a device, and what it costs to move it (CS336 lecture 2, §5.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core import units
from core.checks import positive_number, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.formats import FORMATS
from core.dtypes.storage import MAX_MEASURED_BYTES, check_shape, tensor_bytes, torch_version
from core.words import _

MAX_TENSORS = 16
GPU_BLOCK_BYTES = (
    512  # kMinBlockSize of torch's CUDACachingAllocator: each allocation is rounded up to a multiple of it
)
PROBE_BYTES = 2**26

OnProgress = Callable[[float, str], None]


@dataclass(frozen=True)
class DeviceMemory:
    """What some tensors took on a device: their storage, and on a GPU what its allocator counts before and after."""

    shape: tuple[int, ...]
    dtype: str
    count: int
    device: str
    storage_bytes: int
    before_bytes: int | None
    after_bytes: int | None
    torch_version: str
    device_name: str

    @property
    def settings(self) -> tuple[tuple[int, ...], str, int, str]:
        return self.shape, self.dtype, self.count, self.device


def allocated_bytes(shape: Sequence[int], dtype: str, count: int) -> int:
    """What that many tensors take of a GPU's memory: each is rounded up to 512 B by torch's allocator.

    >>> allocated_bytes((32, 32), "fp32", 2), allocated_bytes((4, 8), "fp32", 2)
    (8192, 1024)
    """
    return count * math.ceil(tensor_bytes(shape, dtype) / GPU_BLOCK_BYTES) * GPU_BLOCK_BYTES


def check_device_memory(shape: Sequence[int], dtype: str, count: int) -> None:
    """Refuse tensors of more than 64 MiB together, before they are made.

    >>> check_device_memory((49152, 12288), "fp32", 1)
    Traceback (most recent call last):
    ValueError: these tensors take 2.25 GiB; here 64.0 MiB are made at most. Make the shape smaller.
    """
    whole_number(_("the number of tensors"), count, 1, MAX_TENSORS)
    asked = count * tensor_bytes(shape, dtype)
    if asked > MAX_MEASURED_BYTES:
        message = _("these tensors take {asked}; here {limit} are made at most. Make the shape smaller.")
        limit = units.binary_bytes(MAX_MEASURED_BYTES)
        raise ValueError(message.format(asked=units.binary_bytes(asked), limit=limit))


def measure_device_memory(
    shape: Sequence[int], dtype: str = "fp32", count: int = 2, device: str = "cpu"
) -> DeviceMemory:
    """Make the tensors on a device and look at the memory before and after. On a GPU in jobs only.

    >>> measure_device_memory((32, 32)).storage_bytes
    8192
    """
    import torch

    from core.hardware import device_name_of

    check_device_memory(shape, dtype, count)
    sizes, fmt = check_shape(shape), FORMATS[dtype]
    kind = getattr(torch, fmt.torch_name or "uint8")
    on_gpu = device.startswith("cuda")
    before = torch.cuda.memory_allocated(device) if on_gpu else None
    if fmt.item_bits < 8:
        sizes = (tensor_bytes(sizes, dtype),)
    made = [torch.empty(sizes, dtype=kind, device=device) for _one in range(count)]
    after = torch.cuda.memory_allocated(device) if on_gpu else None
    stored = sum(one.untyped_storage().nbytes() for one in made)
    name = device_name_of(device)
    return DeviceMemory(tuple(shape), dtype, count, device, stored, before, after, torch_version(), name)


def compare_device_memory(done: DeviceMemory) -> Comparison:
    """numel × element size × tensors beside what the device's memory grew by; on a GPU the rounding is a part.

    >>> c = compare_device_memory(measure_device_memory((32, 32)))
    >>> c.prediction.value, c.measurement.value
    (8192, 8192)
    """
    each = tensor_bytes(done.shape, done.dtype)
    quantity = _("memory taken")
    prediction = Prediction(
        quantity, done.count * each, "B", f"{done.count} · {each:,} B", source="CS336 lecture 2, §5.1"
    )
    parts: tuple[Term, ...] = ()
    if done.before_bytes is None or done.after_bytes is None:
        grown, note = done.storage_bytes, _("sum of the storages")
    else:
        grown, note = done.after_bytes - done.before_bytes, _("torch.cuda.memory_allocated(), after − before")
        rounding = allocated_bytes(done.shape, done.dtype, done.count) - done.count * each
        parts = (Term(_("rounding to 512 B"), rounding, _("the allocator's blocks")),) if rounding else ()
    conditions = Conditions(
        done.device, done.device_name, done.dtype, 1, 0, 1, torch_version=done.torch_version, notes=(note,)
    )
    return Comparison(prediction, Measurement(quantity, (grown,), "B", conditions), parts)


@dataclass(frozen=True)
class MoveRun:
    """A tensor of ``count_bytes`` moved: seconds a call, each measured warm.

    On the CPU ``whole`` is ``clone()`` and ``into_place`` a copy into a tensor that is there already. On a GPU
    ``whole`` is ``.to(device)`` from ordinary host memory, ``into_place`` a copy of it into a tensor that is there,
    and ``pinned`` that from pinned memory. ``tiny`` is the whole with one byte. ``bytes_per_sec`` is the rate of a
    large copy from pinned memory, None on the CPU, whose rate the calibration knows.
    """

    count_bytes: int
    device: str
    whole: Measurement
    into_place: Measurement
    pinned: Measurement | None
    tiny: Measurement
    bytes_per_sec: float | None

    @property
    def settings(self) -> tuple[int, str]:
        return self.count_bytes, self.device


def measure_move(
    count_bytes: int,
    device: str = "cpu",
    *,
    threads: int | None = None,
    min_seconds: float = 0.3,
    on_progress: OnProgress | None = None,
) -> MoveRun:
    """Time the moving of a tensor of that many bytes: within the CPU's memory, or from it to a GPU. In jobs only.

    Raises ValueError for other than 1 byte to 64 MiB.

    >>> run = measure_move(4096, threads=1, min_seconds=0.01)
    >>> run.whole.unit, run.pinned, run.bytes_per_sec
    ('s', None, None)
    """
    import torch

    from core import timing

    count_bytes = whole_number(_("the bytes to move"), count_bytes, 1, MAX_MEASURED_BYTES)
    report, done = on_progress or (lambda fraction, message: None), 0

    def timed(function: Callable[[], object], what: str) -> Measurement:
        nonlocal done
        report(done / 5, what)
        done += 1
        return timing.time_calls(
            function, device=device, dtype="uint8", quantity=_("time to move"), min_seconds=min_seconds, threads=threads
        )

    source, one = torch.ones(count_bytes, dtype=torch.uint8), torch.ones(1, dtype=torch.uint8)
    if device.startswith("cpu"):
        target = torch.empty_like(source)
        into_place = timed(lambda: target.copy_(source), _("into a tensor that is there"))
        whole, tiny = timed(source.clone, _("into a new tensor")), timed(one.clone, _("one byte"))
        return MoveRun(count_bytes, device, whole, into_place, None, tiny, None)
    target = torch.empty_like(source, device=device)
    held = source.pin_memory()
    pinned = timed(lambda: target.copy_(held, non_blocking=True), _("from pinned memory"))
    into_place = timed(lambda: target.copy_(source), _("into a tensor that is there"))
    whole, tiny = timed(lambda: source.to(device), _("into a new tensor")), timed(lambda: one.to(device), _("one byte"))
    large = torch.ones(PROBE_BYTES, dtype=torch.uint8).pin_memory()
    large_target = torch.empty_like(large, device=device)
    probe = timed(lambda: large_target.copy_(large, non_blocking=True), _("a large copy from pinned memory"))
    return MoveRun(count_bytes, device, whole, into_place, pinned, tiny, PROBE_BYTES / probe.minimum)


def predict_move(count_bytes: int, bytes_per_sec: float, device: str = "cpu") -> Prediction:
    """Bytes over bandwidth; within one memory each byte is read and written, so it counts twice.

    >>> predict_move(10**6, 1e10).text, predict_move(10**6, 1e10, "cuda:0").text
    ('200 µs', '100 µs')
    """
    rate = positive_number(_("the bandwidth"), bytes_per_sec)
    times = 2 if device.startswith("cpu") else 1
    formula = f"{'2 · ' if times == 2 else ''}{count_bytes:,} B / {units.quantity(rate, 'B/s')}"
    source = _("calibrated bandwidth, bytes read and written") if times == 2 else _("a large copy from pinned memory")
    return Prediction(_("time to move"), times * count_bytes / rate, "s", formula, source=source)


def compare_move(run: MoveRun, bytes_per_sec: float | None = None) -> Comparison:
    """The predicted time beside the measured one; the parts are each timed alone, by their fastest calls.

    ``bytes_per_sec`` is the calibration's, for a run on the CPU.

    >>> c = compare_move(measure_move(4096, threads=1, min_seconds=0.01), 1e10)
    >>> [part.name for part in c.parts]
    ['call overhead', 'new memory', 'interruptions']
    """
    rate = run.bytes_per_sec if bytes_per_sec is None else bytes_per_sec
    assert rate is not None, "a run on the CPU needs the calibration's bandwidth"
    whole, into_place = run.whole.minimum, run.into_place.minimum
    parts = [
        Term(_("call overhead"), run.tiny.minimum, _("the same with one byte")),
        Term(_("new memory"), whole - into_place, _("against a tensor that is there already")),
    ]
    if run.pinned is not None:
        pageable = _("ordinary memory is copied to a pinned buffer first")
        parts.append(Term(_("not pinned"), into_place - run.pinned.minimum, pageable))
    interrupted = _("the median call over the fastest one: other work, interrupts, clock changes")
    parts.append(Term(_("interruptions"), run.whole.value - whole, interrupted))
    return Comparison(predict_move(run.count_bytes, rate, run.device), run.whole, tuple(parts))
