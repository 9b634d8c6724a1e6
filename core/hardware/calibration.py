"""What this machine really reaches: measured ceilings, beside the promised ones or where none is promised."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import psutil

from core.hardware import native
from core.hardware.load import busy_fraction, snapshot
from core.hardware.machine import available_cores, device_name_of
from core.hardware.specs import dtype_name

TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
SMALL_SIZES = (32, 128, 256)  # at 1 GFLOP/s, a 256³ matmul takes 34 ms
CPU_SIZES = (32, 64, 128, 256, 512, 1024)
MANY_CORES_SIZES = (32, 128, 512, 1024, 2048, 4096)
GPU_SIZES = (128, 512, 2048, 4096, 8192)
LONGEST_CALL_SECONDS = 0.25  # a matmul that would take longer, judged by the next smaller one, is left out
PASSES = 4  # a burst of other work rarely lasts through all of them
BUSY = 0.15  # of the processor: beyond it a ceiling is no ceiling
# Rounds of those passes where others keep the processor busy; one where its answer matters less than the time.
MAX_ROUNDS = 1 if os.environ.get("NAPKIN_CALIBRATE_ONCE") else 2
WINDOW_SECONDS = 0.08
LARGEST_ARRAY_BYTES = 2**28
SMALLEST_ARRAY_BYTES = 2**26

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Ceiling:
    """The best of one dtype: FLOP/s of an n×n by n×n matmul, at ``size`` n out of the ``sizes`` tried.

    ``rates`` are the FLOP/s at each of the ``sizes``. ``call_overhead_seconds`` is a 1×1 by 1×1 matmul. ``is_native``
    says whether the hardware computes the dtype itself (None: unknown) and ``why`` the reason.
    """

    dtype: str
    flop_per_sec: float
    size: int
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    call_overhead_seconds: float
    is_native: bool | None
    why: str

    def flop_per_sec_at(self, size: int) -> float:
        """What a square of that size reaches: straight lines between the measured sizes, on logarithmic axes.

        Where the hardware computes the dtype itself, a larger square is taken to be no slower than a smaller one: where
        it was measured so, other work interfered. Without instructions for it, larger squares really are slower.

        >>> ceiling = Ceiling("fp32", 8e9, 1000, (10, 1000), (2e9, 8e9), 1e-6, True, "")
        >>> [round(ceiling.flop_per_sec_at(n) / 1e9, 2) for n in (10, 100, 1000, 5000)]
        [2.0, 4.0, 8.0, 8.0]
        """
        sizes = (1, *self.sizes)
        rates: tuple[float, ...] = (2 / self.call_overhead_seconds, *self.rates)
        if self.is_native is not False:
            rates = tuple(accumulate(rates, max))
        if size >= sizes[-1]:
            return rates[-1]
        above = next(index for index, one in enumerate(sizes) if one > size)
        share = math.log(size / sizes[above - 1]) / math.log(sizes[above] / sizes[above - 1])
        return math.exp((1 - share) * math.log(rates[above - 1]) + share * math.log(rates[above]))


@dataclass(frozen=True)
class Calibration:
    """Measured ceilings of one device, and the conditions that they hold under.

    ``bytes_per_sec`` counts bytes read and bytes written by an elementwise operation from one array of
    ``array_bytes`` into another. ``busy_fraction`` is the share of the processor that went to others meanwhile: well
    above 0, the ceilings may be low. ``date`` is UTC, ISO 8601.
    """

    device: str
    device_name: str
    threads: int
    torch_version: str
    date: str
    busy_fraction: float | None
    ceilings: tuple[Ceiling, ...]
    bytes_per_sec: float
    array_bytes: int
    last_cache_bytes: int | None
    notes: tuple[str, ...] = ()

    def ceiling(self, dtype: object) -> Ceiling | None:
        """What was measured of a dtype; None where it was not calibrated."""
        name = dtype_name(dtype)
        return next((ceiling for ceiling in self.ceilings if ceiling.dtype == name), None)

    def peak_flop_per_sec(self, dtype: object) -> float | None:
        """The best FLOP/s reached ("calibrated", not promised); None where the dtype was not calibrated."""
        ceiling = self.ceiling(dtype)
        return None if ceiling is None else ceiling.flop_per_sec

    def call_overhead_seconds(self, dtype: object) -> float | None:
        """What a matmul costs before it multiplies anything; None where the dtype was not calibrated."""
        ceiling = self.ceiling(dtype)
        return None if ceiling is None else ceiling.call_overhead_seconds

    def ridge_flop_per_byte(self, dtype: object) -> float | None:
        """Calibrated FLOP/s over calibrated bandwidth; None where the dtype was not calibrated."""
        peak = self.peak_flop_per_sec(dtype)
        return None if peak is None else peak / self.bytes_per_sec


def calibrate(
    device: str = "cpu",
    dtypes: Sequence[str] = ("fp32", "bf16", "fp16"),
    on_progress: Progress | None = None,
    *,
    threads: int | None = None,
    window_seconds: float = WINDOW_SECONDS,
) -> Calibration:
    """Measures the device's ceilings, in about 5 s: run it as a job, never in the web process.

    Every figure is the best of four windows spread over the whole run, so that a burst of other work spoils none of
    them for good. Where more than 15% of the processor went to other work meanwhile, all windows are opened a
    second time; ``busy_fraction`` is that of the quieter round. A dtype that the processor does not compute itself
    is tried at small sizes only. ``threads`` is the cores available to this process unless given. ``on_progress``
    receives a fraction and what is measured next. Errors: ValueError for a dtype that torch cannot multiply there.

    >>> c = calibrate(dtypes=("fp32",), window_seconds=0.001)
    >>> c.peak_flop_per_sec("fp32") > 1e6, c.peak_flop_per_sec("bf16"), c.bytes_per_sec > 1e6
    (True, None, True)
    """
    import torch

    names = _checked(dtypes)
    threads = available_cores() if threads is None else threads
    support = _native(device)
    sizes = {name: _sizes(device, threads, support.has(name)) for name in names}
    array_bytes = _array_bytes(device)
    tasks = _tasks(device, sizes, array_bytes)
    best: dict[tuple[str, int], float] = {}
    busy: float | None = None
    for number in range(MAX_ROUNDS):
        before = snapshot()
        _improve(best, tasks, device, threads, window_seconds, on_progress, number)
        now = busy_fraction(before, snapshot()) if device.startswith("cpu") else None
        busy = now if busy is None or now is None else min(busy, now)
        if busy is None or busy < BUSY:
            break
    if on_progress is not None:
        on_progress(1.0, "done")
    return Calibration(
        device=device,
        device_name=device_name_of(device),
        threads=threads,
        torch_version=str(torch.__version__),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        busy_fraction=busy,
        ceilings=tuple(_ceiling(name, sizes[name], best, support) for name in names),
        bytes_per_sec=2 * array_bytes / best["memory bandwidth", 0],
        array_bytes=array_bytes,
        last_cache_bytes=last_cache_bytes() if device.startswith("cpu") else None,
        notes=_notes(device),
    )


def _checked(dtypes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(dtype_name(dtype) for dtype in dtypes))
    for name in names:
        if name not in TORCH_NAMES:
            raise ValueError(f"torch.matmul cannot be calibrated in {name!r}; accepted are {', '.join(TORCH_NAMES)}")
    return names


def _native(device: str) -> native.NativeDtypes:
    if device.startswith("cpu"):
        return native.cpu()
    if device.startswith("mps"):
        return native.apple_gpu()
    import torch

    if device.startswith("cuda") and not torch.version.hip:
        return native.nvidia(torch.cuda.get_device_capability(device))
    return native.unknown("unknown for this GPU")


def _sizes(device: str, threads: int, is_native: bool | None) -> tuple[int, ...]:
    if not device.startswith("cpu"):
        return tuple(n for n in GPU_SIZES if 3 * 4 * n**2 <= _gpu_bytes(device) / 16)
    # Where nothing is known, the small sizes: without its instructions a dtype runs about a hundred times slower.
    if not is_native:
        return SMALL_SIZES
    return CPU_SIZES if threads < 8 else MANY_CORES_SIZES


def _gpu_bytes(device: str) -> int:
    """Memory of the GPU; 8 GB where torch does not tell, which leaves out the largest matmul."""
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory) if device.startswith("cuda") else 8 * 10**9


def _array_bytes(device: str) -> int:
    """At least four times the last cache, within 64 to 256 MiB and an eighth of the free memory."""
    if not device.startswith("cpu"):
        return LARGEST_ARRAY_BYTES
    cache = last_cache_bytes()
    wanted = LARGEST_ARRAY_BYTES if cache is None else min(max(4 * cache, SMALLEST_ARRAY_BYTES), LARGEST_ARRAY_BYTES)
    return min(wanted, psutil.virtual_memory().available // 8 // 4 * 4)


def last_cache_bytes() -> int | None:
    """The size of the processor's last cache; None where the system does not tell.

    >>> last_cache_bytes() is None or last_cache_bytes() > 0
    True
    """
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        if text[:-1].isdigit():
            sizes.append(int(text[:-1]) * {"K": 2**10, "M": 2**20}.get(text[-1], 1))
    apple = [native.sysctl(name) for name in ("hw.l3cachesize", "hw.perflevel0.l2cachesize")]
    return max([*sizes, *(int(text) for text in apple if text.isdigit())], default=None)


def _improve(
    best: dict[tuple[str, int], float],
    tasks: list[Task],
    device: str,
    threads: int,
    window_seconds: float,
    on_progress: Progress | None,
    number: int,
) -> None:
    """Lower the least seconds a call, by (what, size), over one round of passes; ``number`` is the round's, from 0."""
    again = " (again: other work kept the processor busy)" if number else ""
    steps = PASSES * len(tasks)
    for step in range(steps):
        task = tasks[step % len(tasks)]
        if on_progress is not None:
            what = f"{task.what}, {task.size} × {task.size}" if task.size else task.what
            on_progress((step if number == 0 else steps - 1) / steps, what + again)
        if _expected_seconds(task, best) > LONGEST_CALL_SECONDS:
            continue
        seconds = _window(task.call, device, threads, window_seconds / 4 if task.is_steady else window_seconds)
        best[task.what, task.size] = min(seconds, best.get((task.what, task.size), seconds))


def _expected_seconds(task: Task, best: dict[tuple[str, int], float]) -> float:
    """Seconds of a matmul by the rate of the largest smaller one; 0 where there is none."""
    smaller = max((size for what, size in best if what == task.what and 1 < size < task.size), default=None)
    return 0.0 if smaller is None else best[task.what, smaller] * (task.size / smaller) ** 3


@dataclass(frozen=True)
class Task:
    """One thing to measure: an n×n matmul of a dtype, or the memory bandwidth (size 0).

    ``is_steady``: it hardly varies (overheads, slow dtypes), so the time goes to the others.
    """

    what: str
    size: int
    call: Callable[[], object]
    is_steady: bool = False


def _tasks(device: str, sizes: dict[str, tuple[int, ...]], array_bytes: int) -> list[Task]:
    """A matmul for every dtype and size, 1×1 for the overhead among them, and the bandwidth."""
    import torch

    def matmul(dtype: str, n: int) -> Callable[[], object]:
        a_NN, b_NN = (torch.rand(n, n, device=device).to(getattr(torch, TORCH_NAMES[dtype])) for _ in range(2))
        c_NN = torch.empty_like(a_NN)
        return lambda: torch.matmul(a_NN, b_NN, out=c_NN)

    source = torch.ones(array_bytes // 4, device=device)
    target = torch.zeros_like(source)  # written once, so that no page fault is timed

    tasks = [
        Task(dtype, n, matmul(dtype, n), is_steady=n == 1 or several == SMALL_SIZES)
        for dtype, several in sizes.items()
        for n in (1, *several)
    ]
    return [*tasks, Task("memory bandwidth", 0, lambda: torch.add(source, 1.0, out=target))]


def _window(call: Callable[[], object], device: str, threads: int, seconds: float) -> float:
    from core.timing import time_calls  # core.timing needs this package to be imported first

    return time_calls(
        call, device=device, min_seconds=seconds, max_seconds=1.5 * seconds, warmup_calls=1, threads=threads
    ).minimum


def _ceiling(
    dtype: str, sizes: tuple[int, ...], best: dict[tuple[str, int], float], support: native.NativeDtypes
) -> Ceiling:
    done = tuple(n for n in sizes if (dtype, n) in best)
    rates = tuple(2 * n**3 / best[dtype, n] for n in done)
    rate, size = max(zip(rates, done, strict=True))
    return Ceiling(dtype, rate, size, done, rates, best[dtype, 1], support.has(dtype), support.reason(dtype))


def _notes(device: str) -> tuple[str, ...]:
    notes = [f"best of {PASSES} windows", "matmul written to a warm output"]
    if device.startswith("cuda"):
        import torch

        notes.append(f"fp32 matmul precision {torch.get_float32_matmul_precision()!r}")
    cache = last_cache_bytes() if device.startswith("cpu") else None
    if cache is not None:
        notes.append(f"arrays within the last cache ({cache // 2**20} MiB) move faster than the bandwidth here")
    return tuple(notes)
