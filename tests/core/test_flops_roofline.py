"""Rooflines and sweeps: the lecture's intensities, torch's tensors as the oracle of bytes, made-up ceilings."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core import flops
from core.claims import Conditions, Measurement
from core.flops.roofline import roofline_n
from core.hardware.calibration import Calibration, Ceiling

H100 = flops.Roof("H100", 989.5e12, 3.35e12, "promised")
CEILING = Ceiling("fp32", 128e9, 1024, (16, 1024), (10e9, 128e9), 1e-6, True, "")
CALIBRATION = Calibration("cpu", "made up", 2, "2.13", "2026-01-01", 0.0, (CEILING,), 10e9, 2**27, None)


def test_the_lectures_intensities_in_bf16():
    large = 2**20
    intensity = {name: one.flop_per_byte(large, "bf16") for name, one in flops.OPERATIONS.items()}
    assert intensity["relu"] == 1 / 4
    assert intensity["gelu"] == 5
    assert intensity["dot"] == pytest.approx(1 / 2, rel=1e-5)
    assert intensity["matrix-vector"] == pytest.approx(1, rel=1e-5)
    assert intensity["matmul"] == pytest.approx(large / 3, rel=1e-5)


def test_the_ridge_of_an_h100():
    assert round(H100.ridge_flop_per_byte) == 295
    assert [H100.bound(one.flop_per_byte(1024)) for one in flops.OPERATIONS.values()] == ["memory-bound"] * 4 + [
        "compute-bound"
    ]
    assert H100.bound(flops.OPERATIONS["matmul"].flop_per_byte(512)) == "memory-bound"


@given(st.integers(1, 300), st.sampled_from(["fp32", "bf16"]))
def test_bytes_are_those_of_the_tensors_that_torch_would_move(n, dtype):
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    vector, matrix, scalar = torch.empty(n, dtype=kind), torch.empty(n, n, dtype=kind), torch.empty((), dtype=kind)
    moved = {
        "relu": (vector, vector),
        "gelu": (vector, vector),
        "dot": (vector, vector, scalar),
        "matrix-vector": (matrix, vector, vector),
        "matmul": (matrix, matrix, matrix),
    }
    for name, operation in flops.OPERATIONS.items():
        assert operation.moved_bytes(n, dtype) == sum(one.nbytes for one in moved[name])


@given(st.floats(1e6, 1e16), st.floats(1e3, 1e13))
def test_the_longer_of_the_two_times_decides(work, moved):
    seconds = H100.seconds(work, moved)
    assert seconds == max(work / 989.5e12, moved / 3.35e12)
    assert work / seconds == pytest.approx(H100.attainable_flop_per_sec(work / moved))
    assert (H100.bound(work / moved) == "memory-bound") == (moved / 3.35e12 > work / 989.5e12 * (1 + 1e-12)) or (
        work / moved == pytest.approx(H100.ridge_flop_per_byte)
    )


def test_every_operation_is_what_its_name_says(monkeypatch):
    calls = {}
    monkeypatch.setattr(
        "core.timing.time_calls", lambda call, **_k: calls.setdefault(len(calls), call) and measured(1e-3)
    )
    torch.manual_seed(0)
    flops.roofline.measure_operations(vector_n=8, matrix_n=4)
    for index, name in enumerate(flops.OPERATIONS):
        call = calls[index]
        cells = dict(zip(call.__code__.co_freevars, (cell.cell_contents for cell in call.__closure__), strict=True))
        result = call()
        expected = {
            "relu": lambda c: torch.relu(c["x_N"]),
            "gelu": lambda c: torch.nn.functional.gelu(c["x_N"], approximate="tanh"),
            "dot": lambda c: (c["a_N"] * c["b_N"]).sum(),
            "matrix-vector": lambda c: (c["a_NN"] * c["x_N"]).sum(1),
            "matmul": lambda c: torch.einsum("ij,jk->ik", c["a_NN"], c["b_NN"]),
        }[name](cells)
        torch.testing.assert_close(result, expected)


def measured(*seconds):
    conditions = Conditions("cpu", "made up", "fp32", 2, 3, len(seconds))
    return Measurement("time", seconds, "s", conditions)


def test_an_operation_is_refused_by_its_bytes(monkeypatch):
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", str(2**20))
    with pytest.raises(ValueError, match=r"relu of n = 16,777,216 moves 128 MiB in fp32; the limit here is 1\.00 MiB"):
        flops.roofline.measure_operations()


def test_a_measured_operation_is_compared_with_the_roof():
    run = flops.RooflineRun("relu", "n = 1,000", "fp32", 1000, 8000, measured(3e-6, 4e-6, 5e-6))
    roof = flops.Roof("here", 128e9, 10e9, "calibrated")
    comparison = flops.compare_operation(run, roof, CALIBRATION)
    assert comparison.prediction.value == 8000 / 10e9
    assert {part.name: part.value for part in comparison.parts} == {
        "call overhead": 1e-6,
        "interruptions": pytest.approx(1e-6),
    }
    assert comparison.unexplained == pytest.approx(4e-6 - 0.8e-6 - 2e-6)


def test_slow_dtypes_get_smaller_operands():
    relu, matmul = flops.OPERATIONS["relu"], flops.OPERATIONS["matmul"]
    assert roofline_n(matmul, 1e9) < roofline_n(matmul, 100e9) == roofline_n(matmul, None)
    assert roofline_n(relu, 1e9) < roofline_n(relu, 100e9)


@given(st.integers(16, 2048), st.integers(1, 4))
def test_skewed_shapes_do_equal_work(n, steps):
    n = 2 ** (n.bit_length() - 1)
    for b, d, k in flops.skewed_shapes(n, steps):
        assert b * d * k == n**3
        assert b == k


def run_of(n, rate):
    seconds = 2 * n**3 / rate
    return flops.MatmulRun(n, n, n, "fp32", "cpu", 2 * n**3, 12 * n * n, measured(seconds), measured(seconds))


def test_half_of_the_peak_is_found_between_two_squares():
    sweep = flops.Sweep((run_of(16, 16e9), run_of(64, 256e9 / 2 * 0.999)), ())
    comparison = flops.compare_half_peak(sweep, CEILING)
    assert comparison.prediction.value == pytest.approx(40)
    assert 16 < comparison.measurement.value < 64
    exact = flops.compare_half_peak(flops.Sweep((run_of(16, 16e9), run_of(32, 64.0001e9)), ()), CEILING)
    assert exact.measurement.value == pytest.approx(32, rel=1e-3)
    assert flops.compare_half_peak(flops.Sweep((run_of(16, 16e9),), ()), CEILING) is None
    first = flops.compare_half_peak(flops.Sweep((run_of(16, 100e9),), ()), CEILING)
    assert first.measurement.value == 16


def test_a_sweep_leaves_out_what_is_too_large_and_says_so(monkeypatch):
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", str(3 * 64 * 64 * 4))
    sweep = flops.sweep_matmul(((32, 32, 32), (64, 64, 64), (65, 64, 64)), min_seconds=0.005, threads=1)
    assert [run.b for run in sweep.runs] == [32, 64]
    assert len(sweep.refused) == 1
    assert "fp32, 65 × 64 × 64: these matrices take" in sweep.refused[0]


def test_more_shapes_than_a_sweep_takes_are_refused():
    with pytest.raises(ValueError, match="number of shapes must be a whole number from 1 to 24; received 25"):
        flops.sweep_matmul(((8, 8, 8),) * 25)


def test_a_calibration_without_the_dtype_names_no_overhead():
    run = flops.RooflineRun("relu", "n", "bf16", 1000, 4000, measured(3e-6))
    comparison = flops.compare_operation(run, H100, dataclasses.replace(CALIBRATION, ceilings=()))
    assert comparison.parts == ()
