"""Block formats against ml_dtypes: the scales computed anew with frexp, the elements cast by the library."""

import ml_dtypes
import numpy as np
import pytest

from core import dtypes

ELEMENTS = {
    "MXFP8 e4m3": ml_dtypes.float8_e4m3fn, "MXFP8 e5m2": ml_dtypes.float8_e5m2, "MXFP6 e2m3": ml_dtypes.float6_e2m3fn,
    "MXFP6 e3m2": ml_dtypes.float6_e3m2fn, "MXFP4": ml_dtypes.float4_e2m1fn, "NVFP4": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


def by_ml_dtypes(values, name):
    """The same quantisation: dequantised values, element codes, scale codes."""
    element, block = ELEMENTS[name], 16 if name == "NVFP4" else 32
    top = float(ml_dtypes.finfo(element).max)
    blocks = values.reshape(-1, block)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    if name == "NVFP4":
        tensor = np.float64(np.float32(largest.max() / (6 * 448)))
        stored = (largest / 6 / tensor).astype(ml_dtypes.float8_e4m3fn)
        scale = stored.astype(np.float64) * tensor
    else:
        scale = 2.0 ** (np.floor(np.log2(largest)) - np.floor(np.log2(top)))
        stored = scale.astype(ml_dtypes.float8_e8m0fnu)
    codes = np.clip(blocks / scale, -top, top).astype(element)
    return (codes.astype(np.float64) * scale).ravel(), codes.view(np.uint8).ravel(), stored.view(np.uint8).ravel()


def unpack(packed, bits, count):
    """The codes back out of their bytes, one bit at a time."""
    stream = "".join(f"{byte:08b}" for byte in packed.tolist())
    return [int(stream[index * bits : (index + 1) * bits], 2) for index in range(count)]


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("distribution", dtypes.DISTRIBUTIONS)
def test_quantised_as_by_ml_dtypes(name, distribution):
    values = dtypes.sample(distribution, 4096, seed=3)
    ours = dtypes.quantise(values, name)
    expected, codes, scales = by_ml_dtypes(values, name)
    np.testing.assert_array_equal(ours.values, expected)
    np.testing.assert_array_equal(ours.scale_codes, scales)
    bits = ours.block_format.element.bits
    mask = (1 << bits) - 1
    assert unpack(ours.packed, bits, 4096) == (codes & mask).tolist()
    assert ours.stored_bytes == ours.block_format.stored_bytes(4096)


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_error_is_that_of_ml_dtypes(name):
    values = dtypes.sample("normal", 2**16)
    expected = by_ml_dtypes(values, name)[0]
    rms = np.sqrt(np.mean((expected - values) ** 2) / np.mean(values**2))
    error = dtypes.block_error(name)
    assert error.relative_rms == pytest.approx(rms, rel=1e-12)
    comparison = dtypes.compare_block_error(name)
    assert comparison.measurement.value == error.relative_rms
    assert abs(comparison.unexplained) < 0.12 * comparison.prediction.value
    assert sum(share for _low, _high, share in error.histogram) == pytest.approx(1)


def test_relative_rms_on_a_normal_distribution():
    rms = {name: dtypes.block_error(name).relative_rms for name in ELEMENTS}
    assert rms["NVFP4"] == pytest.approx(0.095, abs=5e-4)
    assert rms["MXFP4"] == pytest.approx(0.115, abs=1e-3)  # a power of two as scale: largest values are clipped
    assert rms["MXFP8 e4m3"] == pytest.approx(0.0295, abs=1e-3)
    assert rms["MXFP8 e4m3"] < rms["MXFP8 e5m2"] < rms["NVFP4"] < rms["MXFP4"]


def test_bytes_with_scales():
    per_value = {name: one.bits_per_value / 8 for name, one in dtypes.BLOCK_FORMATS.items()}
    assert per_value == {
        "MXFP8 e4m3": 1.03125, "MXFP8 e5m2": 1.03125, "MXFP6 e2m3": 0.78125, "MXFP6 e3m2": 0.78125,
        "MXFP4": 0.53125, "NVFP4": 0.5625,
    }  # fmt: skip
    for name in ELEMENTS:
        comparison = dtypes.compare_block_bytes(name)
        assert comparison.unexplained == 0
        assert comparison.difference == (4 if name == "NVFP4" else 0)


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("values", [np.zeros(64), np.full(64, 1e-44), np.full(64, -3e38), np.full(64, 2.0**-126)])
def test_extreme_blocks_stay_finite(name, values):
    done = dtypes.quantise(values, name)
    assert np.isfinite(done.values).all()
    assert (np.abs(done.values) <= np.abs(values) * 2).all()


def test_what_cannot_be_quantised_is_refused():
    with pytest.raises(ValueError, match="a whole number of blocks of 32 values; received 33"):
        dtypes.quantise(np.ones(33), "MXFP4")
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="a block takes finite values; received 2 that are infinite or NaN"):
            dtypes.quantise(np.array([bad] * 2 + [1.0] * 30), "MXFP4")
    with pytest.raises(ValueError, match="the number of values must be a whole number from 1 to 262,144"):
        dtypes.quantise(np.ones(2**18 + 32), "MXFP4")
    with pytest.raises(ValueError, match="a block format must be one of MXFP8 e4m3"):
        dtypes.quantise(np.ones(32), "MXFP5")
    with pytest.raises(ValueError, match="the distribution must be one of"):
        dtypes.sample("Cauchy")


def test_beyond_what_the_scale_of_a_tensor_holds_everything_saturates():
    largest = float(np.finfo(np.float32).max) * 448 * 6
    assert dtypes.quantise(np.full(16, 1e42), "NVFP4").values == pytest.approx(np.full(16, largest))
