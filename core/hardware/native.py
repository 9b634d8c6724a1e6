"""Which dtypes a processor or GPU computes itself, and why not where it does not."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NativeDtypes:
    """For each dtype that can be told: whether the hardware has instructions for it, and the reason in a sentence."""

    facts: tuple[tuple[str, bool, str], ...]
    otherwise: str = "unknown"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that the hardware computes itself."""
        return tuple(dtype for dtype, has, _ in self.facts if has)

    def has(self, dtype: str) -> bool | None:
        """None where it is unknown."""
        return next((has for name, has, _ in self.facts if name == dtype), None)

    def reason(self, dtype: str) -> str:
        """One sentence, to be shown as it is."""
        return next((reason for name, _, reason in self.facts if name == dtype), self.otherwise)


def unknown(reason: str) -> NativeDtypes:
    """Nothing is known but that every GPU multiplies fp32.

    >>> unknown("unknown for this GPU").has("bf16") is None
    True
    """
    return NativeDtypes((("fp32", True, "every GPU computes fp32"),), reason)


# dtype -> the names under which Linux lists the instructions. Sources: Linux arch/x86/include/asm/cpufeatures.h and
# Documentation/arch/arm64/elf_hwcaps.rst. f16c only converts, so it does not count.
_X86 = {
    "fp16": ("avx512_fp16", "amx_fp16"),
    "bf16": ("avx512_bf16", "amx_bf16"),
    "int8": ("avx512_vnni", "avx_vnni", "amx_int8"),
}
_ARM = {"fp16": ("asimdhp",), "bf16": ("bf16", "svebf16"), "int8": ("asimddp", "i8mm")}
_APPLE = {"fp16": ("FEAT_FP16",), "bf16": ("FEAT_BF16",), "int8": ("FEAT_DotProd", "FEAT_I8MM")}


def cpu() -> NativeDtypes:
    """What this machine's processor computes itself; what the system does not tell is unknown (Windows tells nothing).

    >>> cpu().has("fp32"), cpu().has("fp8")
    (True, False)
    """
    if platform.system() == "Darwin":
        features = {name for names in _APPLE.values() for name in names if sysctl(f"hw.optional.arm.{name}") == "1"}
        table = _APPLE if platform.machine() == "arm64" else {}
        return cpu_with(features, table)
    flags = cpuinfo_field("flags")
    if flags:
        return cpu_with(set(flags.split()), _X86)
    features_text = cpuinfo_field("Features")
    return cpu_with(set(features_text.split()), _ARM if features_text else {})


def cpu_with(features: set[str], table: dict[str, tuple[str, ...]]) -> NativeDtypes:
    """A processor with those features, read by that table.

    >>> cpu_with({"avx2"}, _X86).reason("bf16")
    'this processor has no bf16 instructions (avx512_bf16, amx_bf16)'
    >>> cpu_with({"avx2", "avx512_bf16"}, _X86).reason("bf16")
    'this processor has bf16 instructions (avx512_bf16)'
    """
    always = "every processor computes it"
    facts = [("fp64", True, always), ("fp32", True, always)]
    for dtype, names in table.items():
        present = [name for name in names if name in features]
        verb, shown = ("has", present) if present else ("has no", names)
        facts.append((dtype, bool(present), f"this processor {verb} {dtype} instructions ({', '.join(shown)})"))
    for dtype, what in (
        ("tf32", "a format of GPUs"),
        ("fp8", "no processor computes it"),
        ("fp4", "no processor computes it"),
    ):
        facts.append((dtype, False, what))
    return NativeDtypes(tuple(facts), "the system does not tell which instructions this processor has")


# dtype -> the first compute capability whose tensor cores take it. Source: NVIDIA CUDA C++ Programming Guide, the
# arithmetic tables of "Compute Capabilities"; fp4: Blackwell (10.0).
_NVIDIA = {"fp16": (7, 0), "int8": (7, 2), "tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "fp4": (10, 0)}


def nvidia(capability: tuple[int, int]) -> NativeDtypes:
    """What an NVIDIA GPU of that compute capability computes itself.

    >>> nvidia((8, 0)).dtypes
    ('fp64', 'fp32', 'fp16', 'int8', 'tf32', 'bf16')
    >>> nvidia((7, 5)).reason("bf16")
    'bf16 needs compute capability 8.0; this GPU has 7.5'
    """
    always = "every GPU of this make computes it"
    facts = [("fp64", True, always), ("fp32", True, always)]
    for dtype, needed in _NVIDIA.items():
        text = f"{dtype} needs compute capability {needed[0]}.{needed[1]}; this GPU has {capability[0]}.{capability[1]}"
        facts.append((dtype, capability >= needed, text))
    return NativeDtypes(tuple(facts))


def apple_gpu() -> NativeDtypes:
    """Apple's GPUs: fp32 and fp16, and no fp64. Source: Metal Shading Language Specification, scalar types.

    >>> apple_gpu().dtypes
    ('fp32', 'fp16')
    """
    return NativeDtypes(
        (
            ("fp64", False, "Metal has no fp64"),
            ("fp32", True, "every Apple GPU computes it"),
            ("fp16", True, "every Apple GPU computes it"),
        ),
        "unknown for this GPU",
    )


def cpuinfo_field(field: str) -> str:
    """The first line of that name in Linux's /proc/cpuinfo; empty where there is none.

    >>> cpuinfo_field("no such field")
    ''
    """
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def sysctl(name: str) -> str:
    """A value of macOS's sysctl; empty on other systems.

    >>> sysctl("no.such.name")
    ''
    """
    if platform.system() != "Darwin":
        return ""
    try:
        return subprocess.run(  # noqa: S603 (fixed arguments)
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
