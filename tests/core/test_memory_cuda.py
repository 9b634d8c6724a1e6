"""A step on a GPU without one: torch runs on the CPU, and its CUDA allocator answers what it is told to."""

import pytest
import torch

from core import memory
from core.memory import StepConfig, cuda, measure_step, predict_step
from tests.core.test_memory import GPT2, LLAMA

GIB = 2**30
WORKSPACE = 8_519_680


class Allocator:
    """What torch.cuda is asked for, in the order that it was; its peaks are made up."""

    def __init__(self, free=70 * GIB, requested=10**6):
        self.free, self.requested, self.calls, self.workspace = free, requested, [], WORKSPACE

    def stats(self, _device):
        now = self.workspace
        return {
            "requested_bytes.all.peak": self.requested + WORKSPACE, "requested_bytes.all.current": now,
            "allocated_bytes.all.peak": self.requested + WORKSPACE + 300, "reserved_bytes.all.peak": 20 * 2**20,
            "reserved_bytes.all.current": 20 * 2**20,
        }  # fmt: skip

    def clear(self):
        self.workspace = 0


@pytest.fixture
def gpu(monkeypatch):
    allocator = Allocator()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (allocator.free, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_stats", allocator.stats)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a GPU")
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", allocator.clear, raising=False)
    for name in ("synchronize", "reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_device, name=name: allocator.calls.append(name))
    monkeypatch.setattr(cuda, "_torch_device", lambda _name: torch.device("cpu"))
    return allocator


@pytest.mark.parametrize("config", [
    StepConfig(GPT2, batch_size=2, seq_len=5), StepConfig(LLAMA, batch_size=2, seq_len=5, precision="autocast"),
    StepConfig(LLAMA, batch_size=1, seq_len=4, precision="bf16", checkpointing=1, accumulation_steps=10**6),
])  # fmt: skip
def test_the_meter_sees_the_step_and_the_allocator_tells_the_rest(gpu, config):
    step = measure_step(config, device="cuda:0")
    assert step.moments == predict_step(config).moments
    assert (step.conditions.device, step.conditions.device_name) == ("cuda:0", "a GPU")
    assert {term.name: term.value for term in step.allocator_terms} == {
        "tensors": 10**6, "cuBLAS's workspace": WORKSPACE, "rounding": 300,
        "fragmentation": 20 * 2**20 - 10**6 - WORKSPACE - 300, "context": 10 * GIB - 20 * 2**20,
    }  # fmt: skip
    assert gpu.calls == ["synchronize", "reset_peak_memory_stats"] * 2 + ["synchronize", "empty_cache"]


def test_the_allocator_s_parts_are_the_difference(gpu):
    config = StepConfig(GPT2, batch_size=2, seq_len=5)
    gpu.requested = predict_step(config).peak_bytes + 77
    peak = memory.compare_step(config, measure_step(config, device="cuda:0")).peak
    assert peak.measurement.value == 10 * GIB
    assert [part.name for part in peak.parts] == ["cuBLAS's workspace", "rounding", "fragmentation", "context"]
    assert peak.unexplained == 77


def test_what_does_not_fit_the_free_memory_is_refused(gpu):
    gpu.free = 10**6
    with pytest.raises(ValueError, match=r"this step takes 6.41 GB; 1.00 MB are free on cuda:0"):
        measure_step(StepConfig("gpt2", batch_size=4), device="cuda:0")
    assert gpu.calls == []


def test_another_device_is_refused(gpu):
    with pytest.raises(ValueError, match="there is no device mps here"):
        measure_step(StepConfig(GPT2, seq_len=5), device="mps")
