"""This machine's devices: on the CPU for real, on GPUs by what nvidia-smi and torch would answer."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from core import hardware
from core.hardware import machine as module
from core.hardware import native

SMI = """\
0, GPU-aaaa, NVIDIA H100 80GB HBM3, 81559, 9.0, Disabled
1, GPU-bbbb, NVIDIA A100-SXM4-80GB, 81920, 8.0, Enabled
2, GPU-cccc, Tesla T4, 15360, 7.5, [N/A]
"""


def answer(monkeypatch, text: str) -> None:
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=text))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def gpus(found):
    return [device for device in found if device.id.startswith("cuda")]


def test_the_cpu_comes_first():
    cpu = hardware.devices()[0]
    assert cpu.id == "cpu"
    assert cpu.name == hardware.cpu_name() == hardware.device_name_of("cpu") != ""
    assert 1 <= cpu.cores <= os.cpu_count()
    assert cpu.memory_bytes > 2**28
    assert cpu.is_native("fp32") is True
    assert cpu.is_native(torch.float64) is True
    assert cpu.accelerator is None
    assert pickle.loads(pickle.dumps(cpu)) == cpu


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int8", "float8_e4m3fn", "float4_e2m1fn_x2"]
)
def test_supported_on_the_cpu_is_what_matmul_takes(dtype):
    if hardware.dtype_name(dtype) in hardware.devices()[0].supported_dtypes:
        x = torch.ones(4, 4).to(getattr(torch, dtype))
        assert (x @ x).float()[0, 0] == 4
    else:
        x = torch.empty(4, 4, dtype=getattr(torch, dtype))
        with pytest.raises(RuntimeError):
            x @ x


def test_listing_in_the_web_process_imports_no_torch():
    code = "import sys, core.hardware; core.hardware.devices(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_torch_devices_begin_with_the_same_cpu():
    assert hardware.torch_devices()[0] == hardware.devices()[0]


def test_nvidia_gpus_by_nvidia_smi(monkeypatch):
    answer(monkeypatch, SMI)
    h100, slices, t4 = gpus(hardware.devices())
    assert (h100.id, h100.name, h100.memory_bytes) == ("cuda:0", "NVIDIA H100 80GB HBM3", 81559 * 2**20)
    assert h100.accelerator.peak_flop_per_sec("bf16") == 989.4e12
    assert h100.cores is None
    assert h100.is_native("fp8") is True
    # A GPU cut into slices is not the whole GPU.
    assert (slices.name, slices.accelerator, slices.memory_bytes) == ("NVIDIA A100-SXM4-80GB MIG", None, None)
    assert t4.is_native("bf16") is False
    assert t4.why("bf16") == "bf16 needs compute capability 8.0; this GPU has 7.5"
    assert "tf32" in h100.supported_dtypes
    assert "tf32" not in t4.supported_dtypes


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("", []),
        ("-1", []),
        ("2", ["Tesla T4"]),
        ("2,0", ["Tesla T4", "NVIDIA H100 80GB HBM3"]),
        ("GPU-cc", ["Tesla T4"]),
        ("0, 7, 2", ["NVIDIA H100 80GB HBM3"]),
        ("MIG-1234", []),
    ],
)
def test_visible_devices_are_obeyed(monkeypatch, visible, names):
    answer(monkeypatch, SMI)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = gpus(hardware.devices())
    assert [gpu.name for gpu in found] == names
    assert [gpu.id for gpu in found] == [f"cuda:{index}" for index in range(len(names))]


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "Failed to initialize NVML: Driver/library mismatch\n"]
)
def test_no_answer_no_gpu(monkeypatch, text):
    answer(monkeypatch, text)
    assert gpus(hardware.devices()) == []


def test_fields_that_a_driver_does_not_know_stay_unknown(monkeypatch):
    answer(monkeypatch, "0, GPU-aaaa, NVIDIA Thing, [N/A], [N/A], [N/A]\n")
    (gpu,) = gpus(hardware.devices())
    assert (gpu.memory_bytes, gpu.accelerator, gpu.is_native("bf16")) == (None, None, None)
    assert gpu.is_native("fp32") is True


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 5)])
def test_no_nvidia_smi_no_gpu(monkeypatch, error):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(module.subprocess, "run", fail)
    assert gpus(hardware.devices()) == []


@pytest.mark.parametrize("hip", [None, "6.2"])
def test_gpus_by_torch(monkeypatch, hip):
    name = "AMD Instinct MI250X" if hip else "NVIDIA L40S"
    properties = SimpleNamespace(name=name, total_memory=48 * 10**9, major=8, minor=9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch.version, "hip", hip)
    (gpu,) = gpus(hardware.torch_devices())
    assert gpu.accelerator.name.startswith(name)
    # AMD's numbers are no compute capabilities of NVIDIA's.
    assert gpu.is_native("fp8") is (None if hip else True)


def test_device_name_of_an_unknown_kind():
    with pytest.raises(ValueError, match="abacus"):
        hardware.device_name_of("abacus:0")


# Cores and memory of a container


@pytest.fixture
def cgroup(monkeypatch, tmp_path):
    (tmp_path / "box").mkdir()
    monkeypatch.setattr(module, "_cgroup_folders", lambda: [tmp_path / "box", tmp_path])
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("inner", "outer", "cores"),
    [
        ("max 100000", "max 100000", 8),
        ("200000 100000", "max 100000", 2),
        ("max 100000", "300000 100000", 3),
        ("250000 100000", "400000 100000", 2),
        ("50000 100000", "max 100000", 1),
        ("9900000 100000", None, 8),
        (None, None, 8),
    ],
)
def test_cores_are_the_smaller_of_affinity_and_quota(cgroup, inner, outer, cores):
    for folder, text in ((cgroup / "box", inner), (cgroup, outer)):
        if text is not None:
            (folder / "cpu.max").write_text(text + "\n")
    assert hardware.available_cores() == cores


def test_memory_is_the_containers_where_it_has_a_limit(cgroup):
    (cgroup / "memory.max").write_text("max\n")
    unlimited = hardware.memory_bytes()
    (cgroup / "box" / "memory.max").write_text("1073741824\n")
    assert hardware.memory_bytes() == 2**30 < unlimited


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="Linux only")
def test_control_groups_end_at_their_root():
    assert all(folder.is_relative_to("/sys/fs/cgroup") for folder in module._cgroup_folders())


# Instructions


def test_a_processor_without_bf16():
    facts = native.cpu_with({"avx2", "f16c"}, native._X86)
    assert facts.dtypes == ("fp64", "fp32")
    assert facts.reason("bf16") == "this processor has no bf16 instructions (avx512_bf16, amx_bf16)"
    assert facts.has("fp16") is False  # f16c converts, it does not compute


def test_a_processor_with_amx():
    facts = native.cpu_with({"amx_bf16", "avx512_fp16", "avx512_vnni"}, native._X86)
    assert facts.dtypes == ("fp64", "fp32", "fp16", "bf16", "int8")
    assert "amx_bf16" in facts.reason("bf16")


@pytest.mark.parametrize(
    ("system", "machine", "cpuinfo", "bf16", "fp16"),
    [
        ("Linux", "x86_64", {"flags": "fpu avx512_bf16"}, True, False),
        ("Linux", "aarch64", {"Features": "fp asimd asimdhp"}, False, True),
        ("Linux", "aarch64", {"Features": "fp asimd asimdhp bf16"}, True, True),
        ("Linux", "riscv64", {}, None, None),
        ("Windows", "AMD64", {}, None, None),
    ],
)
def test_each_system_in_its_own_words(monkeypatch, system, machine, cpuinfo, bf16, fp16):
    monkeypatch.setattr(native.platform, "system", lambda: system)
    monkeypatch.setattr(native.platform, "machine", lambda: machine)
    monkeypatch.setattr(native, "cpuinfo_field", lambda field: cpuinfo.get(field, ""))
    facts = native.cpu()
    assert (facts.has("bf16"), facts.has("fp16"), facts.has("fp32")) == (bf16, fp16, True)
    assert facts.reason("bf16")


def test_a_mac(monkeypatch):
    monkeypatch.setattr(native.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(native.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(native, "sysctl", lambda name: "1" if name.endswith("FEAT_FP16") else "0")
    facts = native.cpu()
    assert (facts.has("fp16"), facts.has("bf16")) == (True, False)


GENERATIONS = [
    ((6, 1), set()),
    ((7, 0), {"fp16"}),
    ((7, 5), {"int8"}),
    ((8, 0), {"tf32", "bf16"}),
    ((8, 6), set()),
    ((8, 9), {"fp8"}),
    ((9, 0), set()),
    ((10, 0), {"fp4"}),
    ((12, 0), set()),
]


@pytest.mark.parametrize("index", range(1, len(GENERATIONS)))
def test_each_generation_adds_its_dtypes(index):
    before, (capability, new) = GENERATIONS[index - 1][0], GENERATIONS[index]
    assert set(native.nvidia(capability).dtypes) - set(native.nvidia(before).dtypes) == new
