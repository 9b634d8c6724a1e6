"""FLOPs against torch's counter, a machine that counts for itself, and the lecture's numbers (§5.4)."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from core import flops, hardware
from core.claims import Conditions, Measurement
from core.flops.explain import Peak
from core.flops.matmul import MatmulLimits
from core.hardware.calibration import Calibration, Ceiling

dims = st.integers(1, 300)


class Counted:
    """A number that counts what is done to it."""

    multiplies = adds = 0

    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        Counted.multiplies += 1
        return Counted(self.value * other.value)

    def __add__(self, other):
        Counted.adds += 1
        return Counted(self.value + other.value)


@given(dims, dims, dims)
def test_the_napkin_agrees_with_torchs_counter_on_real_tensors(b, d, k):
    with FlopCounterMode(display=False) as counter:
        torch.ones(b, d) @ torch.ones(d, k)
    assert flops.matmul_flops(b, d, k) == counter.get_total_flops() == flops.torch_matmul_flops(b, d, k)


@settings(max_examples=40)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 7))
def test_the_exact_count_is_what_a_multiplication_really_does(b, d, k):
    x = np.array([[Counted(1) for _ in range(d)] for _ in range(b)], dtype=object)
    w = np.array([[Counted(1) for _ in range(k)] for _ in range(d)], dtype=object)
    Counted.multiplies = Counted.adds = 0
    x.dot(w)
    assert Counted.multiplies == b * d * k
    assert Counted.multiplies + Counted.adds == flops.exact_matmul_flops(b, d, k)


def test_the_lectures_counts():
    assert flops.matmul_flops(1024, 256, 64) == 33_554_432
    assert flops.exact_matmul_flops(1024, 256, 64) == 33_488_896
    assert flops.matmul_flops(16384, 32768, 8192) == 8_796_093_022_208


def test_the_scale_of_things_as_in_the_lecture():
    h100 = flops.promised_peaks("bf16")["H100 (the lecture's)"].flop_per_sec
    a100 = flops.promised_peaks("bf16")["A100 (the lecture's)"].flop_per_sec
    assert (flops.GPT3_TRAINING_FLOPS, flops.GPT4_TRAINING_FLOPS) == (3.14e23, 2e25)
    assert (a100, h100) == (312e12, 989.5e12)
    week = 7 * 86400
    assert flops.budget_flops(8, h100, week) == pytest.approx(4.7876e21, rel=1e-4)
    assert flops.budget_flops(8, h100, 2 * week) == pytest.approx(9.5752e21, rel=1e-4)
    assert flops.predict_budget(8, h100, 1).value == flops.budget_flops(8, h100, week)
    weeks = flops.weeks_of_training(3.14e23, 8, h100)
    assert weeks == pytest.approx(65.59, abs=0.005)
    assert round(7 * weeks) == 459
    assert round(7 * flops.weeks_of_training(3.14e23, 8, h100, mfu=0.5)) == 918


def test_a_budget_without_a_peak_is_unknown():
    prediction = flops.predict_budget(8, None, 1)
    assert prediction.value is None
    assert "no sourced dense peak" in prediction.unknown


@pytest.mark.parametrize(
    "bad",
    [(0, 1, 1), (1, -5, 1), (1, 1, 1.5), (1, 1, math.nan), (math.inf, 1, 1), (True, 1, 1), ("3", 1, 1), (1, 1, 2**40)],
)
def test_dimensions_that_are_no_whole_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="must be a whole number from 1 to"):
        flops.matmul_flops(*bad)


def test_a_size_above_the_limit_is_refused_in_bytes_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(torch, "randn", lambda *_a, **_k: pytest.fail("allocated"))
    with pytest.raises(ValueError, match=r"3\.50 GiB in fp32; the limit here is 1\.00 GiB"):
        flops.measure_matmul(16384, 32768, 8192)
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", "1000")
    with pytest.raises(ValueError, match=r"the limit here is 1000 B"):
        flops.measure_matmul(100, 100, 100)


def test_a_call_of_minutes_is_refused_by_the_rate_to_expect():
    with pytest.raises(ValueError, match=r"about 17\.2 s in bf16; the limit here is 5\.00 s"):
        flops.check_matmul(2048, 2048, 2048, "bf16", expected_flop_per_sec=1e9)
    flops.check_matmul(2048, 2048, 2048, "fp32", expected_flop_per_sec=100e9)


@pytest.mark.parametrize("value", ["many", "-1", "0", "nan", ""])
def test_a_limit_that_is_no_number_names_its_variable(monkeypatch, value):
    monkeypatch.setenv("NAPKIN_MAX_CALL_SECONDS", value)
    with pytest.raises(ValueError, match="NAPKIN_MAX_CALL_SECONDS"):
        MatmulLimits.from_environment()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "fp7"}, "dtype must be one of fp32, bf16"),
        ({"device": "cuda:9"}, "no device 'cuda:9'"),
        ({"device": "toaster"}, "no device 'toaster'"),
        ({"dtype": "tf32"}, "tf32 is a mode of NVIDIA GPUs"),
    ],
)
def test_an_unknown_dtype_or_device_is_refused_in_words(arguments, message):
    with pytest.raises(ValueError, match=message):
        flops.measure_matmul(8, 8, 8, **arguments)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "fp64"])
def test_a_measured_run_knows_its_conditions(dtype):
    seen = []
    run = flops.measure_matmul(
        32, 48, 16, dtype, min_seconds=0.01, threads=1, on_progress=lambda *now: seen.append(now)
    )
    assert run.settings == (32, 48, 16, "cpu", 1)
    item_bytes = {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}[dtype]
    assert (run.flops, run.matrix_bytes) == (2 * 32 * 48 * 16, (32 * 48 + 48 * 16 + 32 * 16) * item_bytes)
    assert run.time.conditions.dtype == dtype
    assert run.time.conditions.threads == 1
    assert run.time.conditions.warmup >= 1
    assert len(run.lecture_time.samples) == 5
    assert run.lecture_time.statistic == "mean"
    assert run.lecture_time.conditions.warmup == 0
    assert run.flop_per_sec == run.flops / run.time.median
    assert seen[0][0] == 0.0
    assert dtype in seen[0][1]


def test_several_dtypes_are_all_checked_before_the_first_runs(monkeypatch):
    monkeypatch.setattr(flops.matmul, "measure_matmul", lambda *_a, **_k: pytest.fail("ran"))
    with pytest.raises(ValueError, match="the limit here"):
        flops.measure_matmuls(2048, 2048, 2048, ("fp32", "bf16"), expected_flop_per_sec={"fp32": 1e12, "bf16": 1e8})


# A machine made up: fp32 at 100 GFLOP/s for large squares, half of that at 32; bf16 without instructions.
CALIBRATION = Calibration(
    device="cpu", device_name="made up", threads=2, torch_version="2.13", date="2026-01-01T00:00:00", busy_fraction=0.0,
    ceilings=(
        Ceiling("fp32", 100e9, 1024, (32, 1024), (50e9, 100e9), 1e-6, True, "every processor computes it"),
        Ceiling("bf16", 2e9, 128, (128,), (2e9,), 1e-6, False, "this processor has no bf16 instructions"),
    ),
    bytes_per_sec=10e9, array_bytes=2**27, last_cache_bytes=2**25,
)  # fmt: skip


def run_of(b, d, k, dtype, seconds, busy=0.0):
    conditions = Conditions("cpu", "made up", dtype, threads=2, warmup=3, trials=len(seconds), busy_fraction=busy)
    time = Measurement("time", tuple(seconds), "s", conditions)
    lecture = Measurement("time", (0.5, 0.1, 0.1, 0.1, 0.1), "s", conditions, "mean")
    return flops.MatmulRun(b, d, k, dtype, "cpu", 2 * b * d * k, flops.matmul_bytes(b, d, k, dtype), time, lecture)


def parts_of(comparison):
    return {part.name: part.value for part in comparison.parts}


def test_every_part_of_the_difference_comes_from_its_own_measurement():
    n = 1024
    run = run_of(n, n, n, "fp32", [0.03, 0.04, 0.05])
    peak = Peak(100e9, "calibrated", "fp32", "")
    comparison = flops.compare_matmul_time(run, peak, CALIBRATION)
    at_peak = 2 * n**3 / 100e9
    assert comparison.prediction.value == at_peak
    assert parts_of(comparison) == {"call overhead": 1e-6, "interruptions": pytest.approx(0.01)}
    assert comparison.unexplained == pytest.approx(0.04 - at_peak - 1e-6 - 0.01)


def test_a_small_square_is_explained_by_the_rate_of_small_squares():
    run = run_of(32, 32, 32, "fp32", [3e-6])
    comparison = flops.compare_matmul_time(run, Peak(100e9, "calibrated", "fp32", ""), CALIBRATION)
    work = 2 * 32**3
    # at 50 GFLOP/s instead of 100, less the microsecond of any call (which that rate already holds)
    assert parts_of(comparison).get("small size", 0.0) == pytest.approx(max(0.0, work / 50e9 - work / 100e9 - 1e-6))
    assert parts_of(comparison)["call overhead"] == 1e-6


def test_a_dtype_without_instructions_is_predicted_as_fp32_and_named():
    device = hardware.devices()[0]
    made_up = type(device)(
        **{
            **device.__dict__,
            "accelerator": None,
            "native": hardware.machine.native.cpu_with(set(), {"bf16": ("amx_bf16",)}),
        }
    )
    peak = flops.choose_peak(made_up, "bf16", CALIBRATION)
    assert (peak.flop_per_sec, peak.kind, peak.dtype) == (100e9, "calibrated", "fp32")
    run = run_of(128, 128, 128, "bf16", [2.2e-3])
    comparison = flops.compare_matmul_time(run, peak, CALIBRATION)
    work = 2 * 128**3
    assert parts_of(comparison)["no bf16 instructions"] == pytest.approx(work / 2e9 - work / 100e9)
    assert abs(comparison.unexplained) < 0.1 * comparison.difference


def test_memory_traffic_counts_only_beyond_the_cache_and_the_arithmetic():
    inside = run_of(1, 1024, 1024, "fp32", [1e-3])
    outside = run_of(1, 8192, 8192, "fp32", [0.1])
    peak = Peak(100e9, "calibrated", "fp32", "")
    assert "memory traffic" not in parts_of(flops.compare_matmul_time(inside, peak, CALIBRATION))
    moving = flops.matmul_bytes(1, 8192, 8192) / 10e9
    part = parts_of(flops.compare_matmul_time(outside, peak, CALIBRATION))
    arithmetic = 2 * 8192**2 / 100e9 + part.get("small size", 0.0)
    assert part["memory traffic"] == pytest.approx(moving - arithmetic)


def test_the_promise_of_a_sheet_that_is_not_reached_is_named():
    run = run_of(1024, 1024, 1024, "fp32", [0.03])
    comparison = flops.compare_matmul_time(run, Peak(400e9, "promised", "fp32", "a sheet"), CALIBRATION)
    assert parts_of(comparison)["promise not reached"] == pytest.approx(2 * 1024**3 * (1 / 100e9 - 1 / 400e9))


def test_an_unknown_peak_leaves_time_and_mfu_unknown():
    device = hardware.devices()[0]
    peak = flops.choose_peak(device, "fp32", None)
    assert peak.flop_per_sec is None
    run = run_of(8, 8, 8, "fp32", [1e-5])
    assert flops.compare_matmul_time(run, peak, None).ratio is None
    assert flops.compare_matmul_rate(run, peak, None).ratio is None


@given(st.floats(1e-4, 1.0), st.floats(1e9, 1e13))
def test_the_parts_of_a_rate_are_those_of_the_time(seconds, peak_rate):
    run = run_of(512, 512, 512, "fp32", [seconds, 2 * seconds, 3 * seconds])
    peak = Peak(peak_rate, "promised", "fp32", "a sheet")
    time = flops.compare_matmul_time(run, peak, CALIBRATION)
    rate = flops.compare_matmul_rate(run, peak, CALIBRATION)
    assert rate.ratio == pytest.approx(1 / time.ratio)  # the MFU; above 1 it is not clamped
    share = time.unexplained / time.difference if time.difference else 0
    assert rate.unexplained == pytest.approx(share * rate.difference, rel=1e-6, abs=1e-3 * abs(rate.difference))


def test_the_lectures_method_is_taken_apart():
    run = run_of(8, 8, 8, "fp32", [0.09, 0.09, 0.09])
    comparison = flops.compare_lecture_method(run)
    assert comparison.measurement.value == pytest.approx(0.18)
    assert parts_of(comparison) == {
        "cold first call": pytest.approx(0.08),
        "not warm yet, new output": pytest.approx(0.01),
    }
    assert comparison.unexplained == pytest.approx(0.0, abs=1e-12)


def test_a_run_that_beats_its_calibrated_peak_says_so():
    run = run_of(8, 8, 8, "fp32", [1e-5])
    low, high = (Peak(factor * run.flops / 1e-5, "calibrated", "fp32", "") for factor in (0.5, 0.95))
    (warning,) = flops.compare_matmul_time(run, low, None).warnings
    assert "This is 2.00× the calibrated peak" in warning
    assert flops.beats_ceiling(run, low)
    assert flops.compare_matmul_time(run, high, None).warnings == ()
    promised = Peak(low.flop_per_sec, "promised", "fp32", "a sheet")
    assert not flops.beats_ceiling(run, promised)


def test_a_busy_machine_is_warned_of():
    peak = Peak(100e9, "calibrated", "fp32", "")
    assert flops.compare_matmul_time(run_of(8, 8, 8, "fp32", [1e-5], busy=0.05), peak, None).warnings == ()
    warnings = flops.compare_matmul_time(run_of(8, 8, 8, "fp32", [1e-5], busy=0.4), peak, None).warnings
    assert "40% of the processor went to other work" in warnings[0]
