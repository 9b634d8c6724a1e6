"""Accelerators and their promised peaks, this machine's devices, and what this machine really reaches.

Importing this is cheap: torch is imported by the functions that need it, and only there.
"""

from core.hardware.calibration import Calibration, calibrate
from core.hardware.machine import (
    Device,
    available_cores,
    cpu_name,
    device_name_of,
    devices,
    memory_bytes,
    torch_devices,
)
from core.hardware.specs import DTYPES, Accelerator, all_accelerators, dtype_name, find

__all__ = [
    "DTYPES",
    "Accelerator",
    "Calibration",
    "Device",
    "all_accelerators",
    "available_cores",
    "calibrate",
    "cpu_name",
    "device_name_of",
    "devices",
    "dtype_name",
    "find",
    "memory_bytes",
    "torch_devices",
]
