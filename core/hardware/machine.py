"""The devices of this machine: names, memory, cores, and which dtypes the hardware itself computes.

``devices()`` and everything on the CPU are safe anywhere, the web process included: no torch import, no CUDA
context. ``torch_devices()`` and ``device_name_of("cuda:0")`` ask torch and so initialise CUDA: call them in jobs only.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from core.hardware import native
from core.hardware.specs import Accelerator, dtype_name, find

# What torch.matmul accepts on each kind of device (torch 2.13). The CPU's is tested; on GPUs fp8 and fp4 need calls of
# their own (torch._scaled_mm) and int8 has none.
_MATMUL = {
    "cpu": ("fp64", "fp32", "fp16", "bf16", "fp8", "int8"),
    "cuda": ("fp64", "fp32", "tf32", "fp16", "bf16"),
    "xpu": ("fp64", "fp32", "fp16", "bf16"),
    "mps": ("fp32", "fp16", "bf16"),
}


@dataclass(frozen=True)
class Device:
    """One torch device of this machine.

    ``id`` is torch's name ("cpu", "cuda:0"); ``cores`` are those available to this process, None off the CPU;
    ``accelerator`` is its row in the table, None where there is none. ``supported_dtypes`` is what torch.matmul takes
    there, ``native_dtypes`` what the hardware computes itself.
    """

    id: str
    name: str
    memory_bytes: int | None
    cores: int | None
    accelerator: Accelerator | None
    native: native.NativeDtypes
    supported_dtypes: tuple[str, ...]

    @property
    def native_dtypes(self) -> tuple[str, ...]:
        return self.native.dtypes

    def is_native(self, dtype: object) -> bool | None:
        """Whether the hardware computes that dtype itself; None where that is unknown.

        >>> devices()[0].is_native("fp32")
        True
        """
        return self.native.has(dtype_name(dtype))

    def why(self, dtype: object) -> str:
        """The reason in one sentence, for example "this processor has no bf16 instructions (…)"."""
        return self.native.reason(dtype_name(dtype))


def devices() -> tuple[Device, ...]:
    """This machine's devices, the CPU first. Safe in the web process: NVIDIA GPUs are asked of nvidia-smi.

    It sees no AMD or Intel GPU (``torch_devices`` does). The order is that of the PCI bus, which is torch's where
    CUDA_DEVICE_ORDER=PCI_BUS_ID or all GPUs are of one model. A GPU cut into MIG slices is named so, and unknown.

    >>> devices()[0].id
    'cpu'
    """
    found = [_cpu(), *_nvidia_smi_devices()]
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        found.append(_mps())
    return tuple(found)


def torch_devices() -> tuple[Device, ...]:
    """The same, asked of torch: exact, every backend, but it initialises CUDA. In jobs only.

    >>> torch_devices()[0].id
    'cpu'
    """
    import torch

    found = [_cpu()]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            # On ROCm the capability numbers are AMD's own, so they say nothing about NVIDIA's features.
            capability = None if torch.version.hip else (properties.major, properties.minor)
            found.append(_cuda(index, properties.name, properties.total_memory, capability))
    if torch.xpu.is_available():
        for index in range(torch.xpu.device_count()):
            name, total = torch.xpu.get_device_name(index), torch.xpu.get_device_properties(index).total_memory
            unknown = native.unknown("unknown for this GPU")
            found.append(Device(f"xpu:{index}", name, int(total), None, find(name), unknown, _MATMUL["xpu"]))
    if torch.backends.mps.is_available():
        found.append(_mps())
    return tuple(found)


def device_name_of(device: str) -> str:
    """The hardware's name of a torch device. For "cuda" and "xpu" it asks torch: in jobs only.

    >>> device_name_of("cpu") == cpu_name()
    True
    """
    kind = device.split(":")[0]
    if kind in ("cuda", "xpu"):
        import torch

        return str(getattr(torch, kind).get_device_name(device))
    if kind in ("cpu", "mps"):
        return cpu_name()
    raise ValueError(f"device must be cpu, cuda, xpu or mps, with an index or without; received {device!r}")


@cache
def cpu_name() -> str:
    """The processor's model name, or its architecture where the system does not tell.

    >>> bool(cpu_name())
    True
    """
    return (
        native.cpuinfo_field("model name")
        or native.sysctl("machdep.cpu.brand_string")
        or _registry_name()
        or (platform.processor() or platform.machine() or "unknown processor")
    )


def available_cores() -> int:
    """Cores this process may use: its affinity mask, and the CPU quota of its container, whichever is smaller.

    >>> 1 <= available_cores() <= (os.cpu_count() or 1)
    True
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no such call
        allowed = os.cpu_count() or 1
    quota = _cgroup_cores()
    return max(1, allowed if quota is None else min(allowed, math.floor(quota)))


def memory_bytes() -> int:
    """Main memory that this process may use: the machine's, or its container's limit.

    >>> memory_bytes() > 0
    True
    """
    total = psutil.virtual_memory().total
    limits = [int(text) for text in _cgroup_values("memory.max") if text.isdigit()]
    return min([total, *limits])


def _cgroup_folders() -> list[Path]:
    """This process's control group (version 2) and its parents, whose limits hold too."""
    root = Path("/sys/fs/cgroup")
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = next((line[3:].lstrip("/") for line in lines if line.startswith("0::")), "")
    folder = root / own
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def _cgroup_values(file: str) -> list[str]:
    values = []
    for folder in _cgroup_folders():
        try:
            values.append((folder / file).read_text().strip())
        except OSError:
            continue
    return values


def _cgroup_cores() -> float | None:
    """The CPU quota in cores; None without one."""
    quotas = []
    for text in _cgroup_values("cpu.max"):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit():
            quotas.append(int(quota) / int(period))
    try:  # version 1 of control groups
        quota_us = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        period_us = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text())
        if quota_us > 0:
            quotas.append(quota_us / period_us)
    except (OSError, ValueError):
        pass
    return min(quotas, default=None)


def _cpu() -> Device:
    return Device("cpu", cpu_name(), memory_bytes(), available_cores(), None, native.cpu(), _MATMUL["cpu"])


def _mps() -> Device:
    # Apple's GPU has no name of its own, and its core count, which decides its peak, cannot be told: no row.
    return Device("mps", f"{cpu_name()} GPU", memory_bytes(), None, None, native.apple_gpu(), _MATMUL["mps"])


def _cuda(index: int, name: str, total_bytes: int | None, capability: tuple[int, int] | None) -> Device:
    if capability is None:
        return Device(
            f"cuda:{index}", name, total_bytes, None, find(name), native.unknown("unknown for this GPU"), _MATMUL["xpu"]
        )
    has_tf32 = capability >= (8, 0)
    supported = tuple(dtype for dtype in _MATMUL["cuda"] if has_tf32 or dtype != "tf32")
    return Device(f"cuda:{index}", name, total_bytes, None, find(name), native.nvidia(capability), supported)


def _nvidia_smi_devices() -> list[Device]:
    """NVIDIA GPUs without touching CUDA; none where there is no nvidia-smi or it does not answer."""
    query = "--query-gpu=index,uuid,name,memory.total,compute_cap,mig.mode.current"
    try:
        answer = subprocess.run(  # noqa: S603 (fixed arguments)
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],  # noqa: S607 (wherever PATH has it)
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[field.strip() for field in line.split(",")] for line in answer.splitlines() if line.count(",") == 5]
    found = []
    for position, (_, _, name, mebibytes, capability, mig) in enumerate(_visible(rows)):
        major, _, minor = capability.partition(".")
        known = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
        total = int(mebibytes) * 2**20 if mebibytes.isdigit() else None
        if mig == "Enabled":
            name, total = f"{name} MIG", None
        found.append(_cuda(position, name, total, known))
    return found


def _visible(rows: list[list[str]]) -> list[list[str]]:
    """The rows that CUDA_VISIBLE_DEVICES lets through, in its order; like CUDA, it stops at the first bad entry."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return rows
    chosen = []
    for entry in (text.strip() for text in wanted.split(",")):
        match = [row for row in rows if entry and (row[0] == entry or (entry[0] == "G" and row[1].startswith(entry)))]
        if len(match) != 1:
            break
        chosen += match
    return chosen


def _registry_name() -> str:
    """The processor's name from the Windows registry; empty elsewhere."""
    try:
        import winreg
    except ImportError:
        return ""
    path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return ""
