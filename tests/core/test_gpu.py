"""What only a CUDA device can show. Deselected where there is none: `pytest -m gpu` runs them on a GPU machine."""

import pytest
import torch

from core import flops, hardware, jobs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16"])
def test_a_multiplication_is_measured_with_events_and_held_against_the_sheet(dtype):
    (*_updates, run) = jobs.run(flops.measure_matmul, 4096, 4096, 4096, dtype, "cuda:0", device="cuda:0", timeout=120)
    assert run.time.conditions.device == "cuda:0"
    device = next(one for one in hardware.devices() if one.id == "cuda:0")
    peak = flops.choose_peak(device, dtype, None)
    if device.accelerator is None:
        assert peak.flop_per_sec is None
    else:
        assert peak.kind == "promised"
        mfu = flops.compare_matmul_rate(run, peak, None).ratio
        assert 0.02 < mfu < 1.3  # boost clocks may exceed the sheet


def test_the_web_process_lists_devices_without_a_cuda_context():
    listed = {device.id: device.name for device in hardware.devices() if device.id.startswith("cuda")}
    (*_updates, seen) = jobs.run(hardware.torch_devices, device="cuda:0", timeout=120)
    assert listed == {device.id: device.name for device in seen if device.id.startswith("cuda")}


def test_the_lectures_gpu_sizes_fit():
    (*_updates, run) = jobs.run(
        flops.measure_matmul, 16384, 32768, 8192, "bf16", "cuda:0", device="cuda:0", timeout=120
    )
    assert run.flops == 8_796_093_022_208


def test_the_calibration_of_a_gpu_explains_a_small_matmul():
    (*_updates, calibration) = jobs.run(hardware.calibrate, "cuda:0", ("fp32", "bf16"), device="cuda:0", timeout=120)
    assert calibration.peak_flop_per_sec("bf16") > calibration.peak_flop_per_sec("fp32")
    (*_updates, run) = jobs.run(flops.measure_matmul, 256, 256, 256, "bf16", "cuda:0", device="cuda:0", timeout=120)
    device = next(one for one in hardware.devices() if one.id == "cuda:0")
    peak = flops.choose_peak(device, "bf16", calibration)
    names = {part.name for part in flops.compare_matmul_time(run, peak, calibration).parts}
    assert {"small size", "call overhead"} <= names
