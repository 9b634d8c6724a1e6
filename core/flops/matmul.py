"""A matrix multiply timed for real: warm, and by the lecture's own method beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import units
from core.checks import one_of, positive_number, whole_number
from core.claims import Measurement
from core.flops.counting import matmul_flops
from core.words import _

if TYPE_CHECKING:
    import torch

DTYPES = ("fp32", "bf16", "fp16", "fp64", "tf32")
ITEM_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
MAX_DIM = 2**20
PROBE_DIM = 128

OnProgress = Callable[[float, str], None]


@dataclass(frozen=True)
class MatmulLimits:
    """The largest multiplication that is measured: bytes of its three matrices, seconds of one call."""

    max_bytes: int
    max_call_seconds: float

    @classmethod
    def from_environment(cls) -> MatmulLimits:
        """NAPKIN_MAX_MATMUL_BYTES (1 GiB unless set) and NAPKIN_MAX_CALL_SECONDS (5 unless set).

        Raises ValueError, naming the variable, where one is set to something else than a positive number.
        """
        return cls(
            int(_from_environment("NAPKIN_MAX_MATMUL_BYTES", 2**30)),
            _from_environment("NAPKIN_MAX_CALL_SECONDS", 5.0),
        )

    def for_device(self, device: str) -> MatmulLimits:
        """The same limits, with a GPU's memory instead of the host's where the device is a GPU."""
        if not device.startswith("cuda") or "NAPKIN_MAX_MATMUL_BYTES" in os.environ:
            return self
        return MatmulLimits(16 * 2**30, self.max_call_seconds)


@dataclass(frozen=True)
class MatmulRun:
    """What one multiplication (B, D) @ (D, K) took: warm (``time``), and by the lecture's method (``lecture_time``).

    Both are Measurements in seconds per call. ``flops`` is 2BDK, ``matrix_bytes`` the three matrices.
    """

    b: int
    d: int
    k: int
    dtype: str
    device: str
    flops: int
    matrix_bytes: int
    time: Measurement
    lecture_time: Measurement

    @property
    def settings(self) -> tuple[int, int, int, str, int]:
        """(B, D, K, device, threads): what a measurement must share with the controls to belong to them."""
        return self.b, self.d, self.k, self.device, self.time.conditions.threads

    @property
    def flop_per_sec(self) -> float:
        """Achieved FLOP/s: 2BDK over the median time of a call."""
        return self.flops / self.time.value

    @property
    def flop_per_byte(self) -> float:
        """Arithmetic intensity when each matrix is moved once."""
        return self.flops / self.matrix_bytes


def matmul_bytes(b: int, d: int, k: int, dtype: str = "fp32") -> int:
    """Bytes of the three matrices of (B, D) @ (D, K).

    >>> matmul_bytes(16384, 32768, 8192, "fp32")
    3758096384
    """
    return (b * d + d * k + b * k) * ITEM_BYTES[one_of("dtype", dtype, DTYPES)]


def check_matmul(
    b: int,
    d: int,
    k: int,
    dtype: str = "fp32",
    device: str = "cpu",
    expected_flop_per_sec: float | None = None,
    limits: MatmulLimits | None = None,
) -> None:
    """Refuse a multiplication that is too large, before anything is allocated.

    Raises ValueError with the bytes (or the seconds, where a rate to expect is given) asked for and the limit.

    >>> check_matmul(16384, 32768, 8192)
    Traceback (most recent call last):
    ValueError: these matrices take 3.50 GiB in fp32; the limit here is 1.00 GiB. Make B, D or K smaller.
    """
    for name, value in (("B", b), ("D", d), ("K", k)):
        whole_number(name, value, 1, MAX_DIM)
    limits = (limits or MatmulLimits.from_environment()).for_device(device)
    asked = matmul_bytes(b, d, k, dtype)
    if asked > limits.max_bytes:
        message = _("these matrices take {asked} in {dtype}; the limit here is {limit}. Make B, D or K smaller.")
        asked_text, limit_text = units.binary_bytes(asked), units.binary_bytes(limits.max_bytes)
        raise ValueError(message.format(asked=asked_text, dtype=dtype, limit=limit_text))
    if expected_flop_per_sec is not None:
        seconds = matmul_flops(b, d, k) / positive_number(_("FLOP/s to expect"), expected_flop_per_sec)
        if seconds > limits.max_call_seconds:
            message = _(
                "one such multiplication would take about {asked} in {dtype}; the limit here is {limit}. "
                "Make B, D or K smaller."
            )
            limit_text = units.seconds(limits.max_call_seconds)
            raise ValueError(message.format(asked=units.seconds(seconds), dtype=dtype, limit=limit_text))


def measure_matmul(
    b: int,
    d: int,
    k: int,
    dtype: str = "fp32",
    device: str = "cpu",
    *,
    min_seconds: float = 1.0,
    threads: int | None = None,
    expected_flop_per_sec: float | None = None,
    on_progress: OnProgress | None = None,
) -> MatmulRun:
    """Time (B, D) @ (D, K) on a device: the lecture's way (mean of 5, cold), then warm for at least a second.

    The first call in a fresh process is a cold one; in a notebook it may not be. Raises ValueError for a size above
    the limits, an unknown dtype, or a device that this machine does not have. Where no rate to expect is given, a
    small multiplication is timed first, so that a call of minutes is refused and not started.

    >>> run = measure_matmul(64, 64, 64, min_seconds=0.01)
    >>> run.flops, run.time.unit, run.time.conditions.dtype
    (524288, 's', 'fp32')
    """
    import torch

    from core import timing

    report = on_progress or (lambda fraction, message: None)
    check_matmul(b, d, k, dtype, device, expected_flop_per_sec)
    _check_device(device, dtype)
    if expected_flop_per_sec is None:
        check_matmul(b, d, k, dtype, device, _probe_flop_per_sec(dtype, device))
    torch.manual_seed(0)
    x_BD, w_DK = _matrices(b, d, k, dtype, device)
    with _Tf32(dtype == "tf32"):
        report(0.0, _("{dtype}: the lecture's way, 5 cold calls").format(dtype=dtype))
        lecture_time = timing.time_like_the_lecture(
            lambda: x_BD @ w_DK, device=device, dtype=dtype, threads=threads, quantity=_("time")
        )
        y_BK = torch.empty(b, k, dtype=x_BD.dtype, device=device)
        message = _("{dtype}: warm").format(dtype=dtype)
        time = timing.time_calls(
            lambda: torch.mm(x_BD, w_DK, out=y_BK),
            device=device,
            dtype=dtype,
            threads=threads,
            quantity=_("time"),
            min_seconds=min_seconds,
            on_progress=lambda fraction: report(fraction, message),
        )
    return MatmulRun(b, d, k, dtype, device, matmul_flops(b, d, k), matmul_bytes(b, d, k, dtype), time, lecture_time)


def measure_matmuls(
    b: int,
    d: int,
    k: int,
    dtypes: tuple[str, ...],
    device: str = "cpu",
    *,
    min_seconds: float = 1.0,
    threads: int | None = None,
    expected_flop_per_sec: Mapping[str, float | None] | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[MatmulRun, ...]:
    """``measure_matmul`` for several dtypes, one after the other. All are checked before the first is run."""
    rates = expected_flop_per_sec or {}
    for dtype in dtypes:
        check_matmul(b, d, k, dtype, device, rates.get(dtype))
    runs = []
    for index, dtype in enumerate(dtypes):

        def report(fraction: float, message: str, done: int = index) -> None:
            if on_progress is not None:
                on_progress((done + fraction) / len(dtypes), message)

        rate = rates.get(dtype)
        run = measure_matmul(
            b,
            d,
            k,
            dtype,
            device,
            min_seconds=min_seconds,
            threads=threads,
            expected_flop_per_sec=rate,
            on_progress=report,
        )
        runs.append(run)
    return tuple(runs)


class _Tf32:
    """Lets fp32 matrices be multiplied in tf32, on a GPU that can, while it is open."""

    def __init__(self, allow: bool) -> None:
        self.allow = allow

    def __enter__(self) -> None:
        import torch

        self.before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.allow

    def __exit__(self, *_exception: object) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self.before


def _matrices(b: int, d: int, k: int, dtype: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    kind = torch_dtype(dtype)
    import torch

    return torch.randn(b, d, dtype=kind, device=device), torch.randn(d, k, dtype=kind, device=device)


def torch_dtype(dtype: str) -> torch.dtype:
    """torch's dtype of that name; tf32 is a way to multiply fp32 matrices."""
    import torch

    return {
        "fp64": torch.float64,
        "fp32": torch.float32,
        "tf32": torch.float32,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
    }[one_of("dtype", dtype, DTYPES)]


def _check_device(device: str, dtype: str) -> None:
    import torch

    available = ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        available.append("mps")
    if device not in (*available, "cuda") or (device == "cuda" and len(available) == 1):
        message = _("this machine has no device {device!r}; it has {available}")
        raise ValueError(message.format(device=device[:40], available=", ".join(available)))
    if dtype == "tf32" and not device.startswith("cuda"):
        raise ValueError(_("tf32 is a mode of NVIDIA GPUs; on {device} choose fp32").format(device=device))
    if dtype == "fp64" and device == "mps":
        raise ValueError(_("{device} has no fp64; choose fp32").format(device=device))


def _probe_flop_per_sec(dtype: str, device: str) -> float:
    from core import timing

    x, w = _matrices(PROBE_DIM, PROBE_DIM, PROBE_DIM, dtype, device)
    taken = timing.time_calls(lambda: x @ w, device=device, dtype=dtype, min_seconds=0.01, warmup_calls=1)
    return matmul_flops(PROBE_DIM, PROBE_DIM, PROBE_DIM) / taken.minimum


def _from_environment(name: str, default: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return positive_number(name, float(text))
    except ValueError:
        message = _("the environment variable {name} must be a positive number; it is {text!r}")
        raise ValueError(message.format(name=name, text=text[:40])) from None
