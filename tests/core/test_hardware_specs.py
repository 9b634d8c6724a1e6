"""The table of accelerators: names that resolve, names that must not, and figures that agree with each other."""

from __future__ import annotations

import csv
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core import hardware
from core.hardware import DTYPES, all_accelerators, dtype_name, find

TABLE = all_accelerators()
PATTERNS = [(pattern, accelerator) for accelerator in TABLE for pattern in accelerator.patterns]
REAL_NAMES = [pattern for pattern, _ in PATTERNS]
CSV = Path(hardware.__file__).parent / "specs.csv"


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA H200", 989.4e12),
        ("NVIDIA H200 NVL", 835.5e12),
        ("NVIDIA GH200 480GB", 989.4e12),
        ("NVIDIA H800", 989.4e12),
        ("NVIDIA H20", 148e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835.5e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("A100-SXM4-40GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA RTX A6000", 154.8e12),
        ("NVIDIA RTX 6000 Ada Generation", 364.2e12),
        ("NVIDIA GeForce RTX 3090", 71e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("NVIDIA GeForce RTX 5090", 209.5e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GB200", 2500e12),
        ("NVIDIA B300 SXM6 AC", 2250e12),
        ("AMD Instinct MI300X", 1307.4e12),
        ("AMD Instinct MI300X OAM", 1307.4e12),
        ("AMD Instinct MI250X", 191.5e12),
        ("AMD Instinct MI250", 181.05e12),
        ("TPU v4", 275e12),
        ("TPU v5 lite", 197e12),
        ("TPU v5", 459e12),
        ("Tesla T4", None),
        ("Tesla V100-SXM2-16GB", None),
    ],
)
def test_bf16_peak_of_a_real_name(name, bf16):
    for spelling in (name, name.lower(), name.upper(), f"  {name.replace(' ', '   ')}\n"):
        accelerator = find(spelling)
        assert accelerator is not None
        assert accelerator.peak_flop_per_sec("bf16") == bf16


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "NVIDIA",
        "NVIDIA RTX A1000",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 3080",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA A100X",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA L40S-48Q",
        "NVIDIA A10-24Q",
        "NVIDIA L40G",
        "GRID A100-7-40C",
        "GRID T4-16Q",
        "NVIDIA H20-3e",
        "NVIDIA H100",
        "NVIDIA H100 64GB HBM2",
        "NVIDIA H800 PCIe",
        "NVIDIA GH200 144G HBM3e",
        "NVIDIA RTX 6000",
        "Quadro RTX 6000",
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "Tesla V100S-PCIE-32GB",
        "AMD Instinct MI300A",
        "AMD Instinct MI300X VF",
        "AMD Instinct MI250X / MI250",
        "AMD H100 PCIe",
        "TPU v4 lite",
        "TPU",
        "AMD EPYC",
        "Apple M1 Max",
        "The quick brown fox",
        "🦆",
        "NVIDIA L4" * 1000,
    ],
)
def test_unknown_names_are_unknown(name):
    assert find(name) is None


@pytest.mark.parametrize("name", [None, 5, b"NVIDIA L4", ["NVIDIA L4"]])
def test_what_is_no_text_is_refused_in_words(name):
    with pytest.raises(TypeError, match="must be text"):
        find(name)


def test_every_pattern_and_every_row_name_resolves_to_its_own_row():
    for pattern, accelerator in PATTERNS:
        assert find(pattern) is accelerator
    for accelerator in TABLE:
        assert find(accelerator.name) is accelerator


def test_no_name_and_no_pattern_appears_twice():
    names = [accelerator.name.lower() for accelerator in TABLE]
    assert len(names) == len(set(names)) == 52
    patterns = [pattern.lower() for pattern in REAL_NAMES]
    assert len(patterns) == len(set(patterns))


TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=6)
KNOWN = {word.lower() for name in (*REAL_NAMES, *(a.name for a in TABLE)) for word in name.replace("-", " ").split()}


@given(st.sampled_from(PATTERNS), TOKEN, st.integers(0, 8), st.sampled_from([" ", "-", "_", "  "]))
def test_one_word_more_makes_a_name_unknown(known, token, position, separator):
    name, _ = known
    words = name.split()
    words.insert(min(position, len(words)), token)
    if token not in KNOWN:
        assert find(separator.join(words)) is None


@given(st.sampled_from(PATTERNS), TOKEN)
def test_letters_glued_to_a_name_make_it_another_name(known, glued):
    name, accelerator = known
    found = find(name + glued)
    assert found is None or (found is not accelerator and found.name != accelerator.name)


@given(st.text(max_size=40))
def test_made_up_names_never_fail(name):
    accelerator = find(name)
    assert accelerator is None or accelerator in TABLE


@pytest.mark.parametrize("accelerator", TABLE, ids=lambda a: a.name)
class TestRow:
    def test_has_a_source_a_status_and_sane_units(self, accelerator):
        assert accelerator.source
        assert accelerator.num_sources >= 1
        assert accelerator.status in ("ok", "disputed", "partly unverified")
        assert accelerator.devices_per_package in (1, 2)
        assert accelerator.year in range(2016, 2027)
        for _, peak in accelerator.peaks:
            assert 1e11 < peak < 1e17
        assert 10e9 <= accelerator.memory_bytes <= 300e9
        assert 1e11 < accelerator.memory_bytes_per_sec < 1e13
        assert accelerator.interconnect_bytes_per_sec is None or 1e10 < accelerator.interconnect_bytes_per_sec < 1e12
        assert accelerator.tdp_watts is None or 50 < accelerator.tdp_watts <= 1500

    def test_a_doubt_has_a_status_and_a_status_a_doubt(self, accelerator):
        serious = [why for _, why in accelerator.doubts if not why.startswith("rounding")]
        assert bool(serious) == (accelerator.status != "ok")
        if accelerator.status == "disputed":
            assert any(" or " in why or "e12" in why for why in serious)

    def test_doubts_are_about_fields_that_exist(self, accelerator):
        for field, why in accelerator.doubts:
            assert accelerator.doubt(field) == why

    def test_fp16_equals_bf16(self, accelerator):
        if accelerator.name == "Intel Gaudi 3":  # 459 against 1677 in the source
            return
        given = {accelerator.peak_flop_per_sec(dtype) for dtype in ("fp16", "bf16")} - {None}
        assert len(given) <= 1

    def test_fp8_is_twice_bf16(self, accelerator):
        # Equal in the source: Gaudi 3, TPU v5p and v6e, which compute fp8 at the rate of bf16 or by converting.
        if accelerator.name in ("Intel Gaudi 3", "Google TPU v5p", "Google TPU v6e (Trillium)"):
            return
        bf16, fp8 = accelerator.peak_flop_per_sec("bf16"), accelerator.peak_flop_per_sec("fp8")
        if bf16 and fp8:
            assert fp8 / bf16 == pytest.approx(2, rel=0.03)

    def test_tf32_is_half_of_bf16(self, accelerator):
        if accelerator.name in ("Intel Gaudi 3", "AWS Trainium2 (chip)"):  # 459 of 1677; tf32 at the rate of bf16
            return
        tf32, bf16 = accelerator.peak_flop_per_sec("tf32"), accelerator.peak_flop_per_sec("bf16")
        if tf32 and bf16:
            assert bf16 / tf32 == pytest.approx(2, rel=0.03)

    def test_sparse_is_twice_the_dense_where_documented_and_never_the_dense_itself(self, accelerator):
        for dtype in DTYPES:
            dense, sparse = accelerator.peak_flop_per_sec(dtype), accelerator.peak_flop_per_sec(dtype, sparse=True)
            if dtype in accelerator.sparse_dtypes and dense is not None:
                assert sparse == 2 * dense
            else:
                assert sparse is None
        assert bool(accelerator.sparse_dtypes) == (accelerator.sparse_factor is not None)

    def test_vector_peaks_are_below_matrix_peaks(self, accelerator):
        fp32, fp64 = accelerator.peak_flop_per_sec("fp32"), accelerator.peak_flop_per_sec("fp64")
        bf16 = accelerator.peak_flop_per_sec("bf16")
        assert not (fp32 and bf16) or fp32 < bf16
        assert not (fp32 and fp64) or fp64 <= fp32
        if accelerator.fp64_tensor_flop_per_sec is not None:
            assert accelerator.fp64_tensor_flop_per_sec == pytest.approx(2 * fp64, rel=0.01)

    def test_ridge(self, accelerator):
        peak, ridge = accelerator.peak_flop_per_sec("bf16"), accelerator.ridge_flop_per_byte("bf16")
        assert (peak is None) == (ridge is None)
        if ridge is not None:
            assert ridge == peak / accelerator.memory_bytes_per_sec

    def test_can_be_pickled_and_hashed(self, accelerator):
        assert pickle.loads(pickle.dumps(accelerator)) == accelerator
        assert hash(accelerator) is not None


def test_published_figures():
    h100 = find("NVIDIA H100 80GB HBM3")
    assert [h100.peak_flop_per_sec(d) for d in ("fp64", "fp32", "tf32", "fp8")] == [
        33.5e12,
        66.9e12,
        494.7e12,
        1978.9e12,
    ]
    assert h100.fp64_tensor_flop_per_sec == 66.9e12
    assert h100.peak_flop_per_sec("bf16", sparse=True) == 1978.8e12  # the datasheet prints this one, 1,979
    assert (h100.memory_bytes, h100.memory_bytes_per_sec, h100.tdp_watts) == (80_000_000_000, 3.35e12, 700)
    assert find("Tesla T4").peak_flop_per_sec("fp16") == 65e12
    assert find("NVIDIA A100-SXM4-80GB").fp64_tensor_flop_per_sec == 19.5e12
    assert find("Tesla V100-SXM2-16GB").memory_bytes == 16_000_000_000
    assert find("Tesla V100-SXM2-32GB").memory_bytes == 32_000_000_000


def test_half_a_package_is_half_of_everything():
    gcd = find("AMD Instinct MI250X")
    assert gcd.devices_per_package == 2
    assert (gcd.memory_bytes, gcd.memory_bytes_per_sec, gcd.tdp_watts) == (64_000_000_000, 1.6385e12, 280)
    assert {a.name for a in TABLE if a.devices_per_package == 2} == {
        "AMD Instinct MI250",
        "AMD Instinct MI250X (package, 2 GCDs)",
    }


def test_doubts():
    assert "181.05e12" in find("NVIDIA L40S").doubt(torch.bfloat16)
    assert find("NVIDIA L40S").doubt("tf32") is None
    assert "7.7e12" in find("NVIDIA B200").doubt("bandwidth")
    with pytest.raises(ValueError, match="unknown dtype 'colour'"):
        find("NVIDIA L40S").doubt("colour")


def test_the_file_has_the_columns_that_its_reader_reads():
    rows = list(csv.DictReader(CSV.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(TABLE)
    assert all(None not in row and None not in row.values() for row in rows), "a comma without quotes"


# dtypes


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("fp32", "fp32"),
        ("float32", "fp32"),
        ("torch.float32", "fp32"),
        (" BF16 ", "bf16"),
        ("half", "fp16"),
        ("double", "fp64"),
        (torch.float32, "fp32"),
        (torch.bfloat16, "bf16"),
        (torch.float16, "fp16"),
        (torch.float64, "fp64"),
        (torch.int8, "int8"),
        (torch.float8_e4m3fn, "fp8"),
        (torch.float8_e5m2, "fp8"),
        (torch.float4_e2m1fn_x2, "fp4"),
    ],
)
def test_dtype_names(given, name):
    assert dtype_name(given) == name
    assert dtype_name(dtype_name(given)) == name


@pytest.mark.parametrize("given", ["", "fp33", None, 32, torch.complex64, torch.int64, torch, []])
def test_unknown_dtypes_are_named_with_what_is_accepted(given):
    with pytest.raises(ValueError, match=r"accepted are fp64, fp32"):
        dtype_name(given)


def test_importing_is_cheap():
    code = "import sys, core.hardware; sys.exit(bool({'torch', 'pandas', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
