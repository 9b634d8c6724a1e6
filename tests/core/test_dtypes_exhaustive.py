"""Every code of every narrow format, and every fp16 and bf16 value cast into each narrower one, against two libraries.

The oracles are torch and ml_dtypes; for tf32, which neither has, integer arithmetic on the bits of fp32.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
import torch

from core import dtypes

# numpy warns where ml_dtypes casts NaNs and overflows: that is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered in cast:RuntimeWarning")

ML = {
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e8m0fnu": ml_dtypes.float8_e8m0fnu, "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
# ml_dtypes' other formats, as formats of one's own: (exponent bits, mantissa bits, bias, special values)
FREE = {
    ml_dtypes.float8_e3m4: (3, 4, None, "ieee"),
    ml_dtypes.float8_e4m3: (4, 3, None, "ieee"),
    ml_dtypes.float8_e4m3b11fnuz: (4, 3, 11, "fnuz"),
}
IN_TORCH = [name for name in ML if dtypes.FORMATS[name].torch_name]
SOURCES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def all_codes(bits):
    return np.arange(2**bits, dtype=np.uint8 if bits <= 8 else np.uint16)


def torch_dtype(name):
    return getattr(torch, dtypes.FORMATS[name].torch_name)


@functools.cache
def every_value(source):
    """Each value of fp16 or bf16, as fp32 and as floats."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    values = bits.view(SOURCES[source]).float()
    return values, values.tolist()


def between(tensor):
    """Where both libraries cast to e8m0fnu and neither to the nearest: see the test of it."""
    return (tensor > 2.0**-127) & (tensor < 1.5 * 2.0**-127)


@functools.cache
def decoded(name, step=1):
    """What each code of a format means, as floats."""
    fmt = dtypes.FORMATS[name]
    return np.array([float(dtypes.decode(code, fmt)) for code in range(0, 2**fmt.bits, step)])


def same(ours, theirs):
    """Equal bit for bit, -0 told from 0; NaN like NaN."""
    ours = np.asarray(ours)
    nan = np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), nan)
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])
    np.testing.assert_array_equal(np.signbit(ours[~nan]), np.signbit(theirs[~nan]))


def same_codes(fmt, ours, theirs):
    """The same codes; any NaN for a NaN."""
    ours, theirs = np.array(ours, dtype=np.uint64), np.asarray(theirs).astype(np.uint64)
    different = np.flatnonzero(ours != theirs)
    for index in different:
        pair = [dtypes.decode(int(one[index]), fmt).kind for one in (ours, theirs)]
        assert pair == ["nan", "nan"], (index, ours[index], theirs[index])


@pytest.mark.parametrize("name", ML)
def test_every_code_means_what_ml_dtypes_says(name):
    codes = all_codes(dtypes.FORMATS[name].bits)
    same(decoded(name), codes.view(ML[name]).astype(np.float64))


@pytest.mark.parametrize("name", IN_TORCH)
def test_every_code_means_what_torch_says(name):
    codes = all_codes(dtypes.FORMATS[name].bits)
    same(decoded(name), torch.from_numpy(codes).view(torch_dtype(name)).double().numpy())


@pytest.mark.parametrize("name", [*ML, "tf32"])  # of tf32's half million every 31st
def test_every_number_encodes_to_its_own_code(name):
    fmt = dtypes.FORMATS[name]
    step = 1 if fmt.bits <= 16 else 31
    for index, value in enumerate(decoded(name, step).tolist()):
        if value == value:
            assert dtypes.encode(value, fmt) == index * step
        elif fmt.nan_code is not None:
            assert dtypes.encode(value, fmt) == fmt.nan_code


@pytest.mark.parametrize("name", ["int8", "uint8", "int16"])
def test_every_code_of_an_integer(name):
    fmt = dtypes.FORMATS[name]
    codes = all_codes(fmt.bits)
    values = codes.view(name)
    np.testing.assert_array_equal(decoded(name), values)
    assert [dtypes.encode(value, fmt) for value in values.tolist()] == codes.tolist()


@pytest.mark.parametrize("name", [name for name in ML if dtypes.FORMATS[name].bits <= 8])
@pytest.mark.parametrize("source", SOURCES)
def test_every_half_precision_value_cast_as_ml_dtypes_casts(source, name):
    tensor, _values = every_value(source)
    fmt = dtypes.FORMATS[name]
    if name == "e8m0fnu":
        tensor = tensor[~(between(tensor) | (tensor == 0))]
    values = tensor.tolist()
    if name == "e4m3fn":
        fmt = fmt.overflowing("nan")  # the other rule that the specification allows
    numbers = [(index, value) for index, value in enumerate(values) if value == value or fmt.nan_code is not None]
    ours = [dtypes.encode(value, fmt) for _, value in numbers]
    theirs = tensor.numpy().astype(ML[name]).view(np.uint8)[[index for index, _ in numbers]]
    same_codes(fmt, ours, theirs)


@pytest.mark.parametrize("name", [name for name in IN_TORCH if dtypes.FORMATS[name].bits <= 8])
@pytest.mark.parametrize("source", SOURCES)
def test_every_half_precision_value_cast_as_torch_casts(source, name):
    tensor, values = every_value(source)
    if name == "e8m0fnu":
        tensor = tensor[~(between(tensor) | (tensor < 0))]
        values = tensor.tolist()
    ours = [dtypes.encode(value, name) for value in values]
    same_codes(dtypes.FORMATS[name], ours, tensor.to(torch_dtype(name)).view(torch.uint8).numpy())


def test_where_the_libraries_do_not_cast_to_the_nearest_scale():
    """e8m0fnu: just above its smallest number both round up; torch drops signs; ml_dtypes takes no zero."""
    tensor, _values = every_value("bf16")
    odd = tensor[between(tensor)]
    assert len(odd) == 31
    assert {dtypes.encode(value, "e8m0fnu") for value in odd.tolist()} == {0}
    assert set(odd.to(torch.float8_e8m0fnu).view(torch.uint8).tolist()) == {1}
    assert set(odd.numpy().astype(ml_dtypes.float8_e8m0fnu).view(np.uint8).tolist()) == {1}
    signs = torch.tensor([-2.0, 0.0, -0.0])
    assert signs.to(torch.float8_e8m0fnu).double().tolist() == [2.0, 2.0**-127, 2.0**-127]
    assert np.isnan(signs.numpy().astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)).all()
    ours = [dtypes.encode(value, "e8m0fnu") for value in signs.tolist()]
    assert ours == [255, 0, 0]


def test_a_format_without_nan_refuses_it_and_ml_dtypes_makes_it_zero():
    for name in ("e3m2", "e2m3", "e2m1"):
        with pytest.raises(ValueError, match="has no NaN"):
            dtypes.encode("nan", name)
        assert np.array([np.nan], np.float32).astype(ML[name]).astype(np.float32)[0] == 0


@pytest.mark.parametrize(("source", "target"), [("fp16", "bf16"), ("bf16", "fp16")])
def test_every_value_of_one_half_precision_cast_into_the_other(source, target):
    tensor, values = every_value(source)
    ours = [dtypes.encode(value, target) for value in values]
    same_codes(dtypes.FORMATS[target], ours, tensor.to(torch_dtype(target)).view(torch.int16).numpy().view(np.uint16))
    same_codes(dtypes.FORMATS[target], ours, tensor.numpy().astype(ML[target]).view(np.uint16))


@pytest.mark.parametrize("theirs", FREE, ids=lambda one: one.__name__)
def test_a_format_of_ones_own_is_ml_dtypes_other_ones(theirs):
    fmt = dtypes.custom(*FREE[theirs])
    codes = all_codes(8)
    same([float(dtypes.decode(int(code), fmt)) for code in codes], codes.view(theirs).astype(np.float64))
    tensor, values = every_value("fp16")
    same_codes(fmt, [dtypes.encode(value, fmt) for value in values], tensor.numpy().astype(theirs).view(np.uint8))


def test_tf32_is_fp32_with_thirteen_bits_rounded_away():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    kept = values.view(np.uint32).astype(np.uint64)
    rounded = (kept + 0xFFF + ((kept >> np.uint64(13)) & np.uint64(1))) >> np.uint64(13)
    assert [dtypes.encode(float(value), "tf32") for value in values] == rounded.tolist()


@pytest.mark.parametrize(("name", "theirs"), [("fp64", np.float64), ("fp32", np.float32)])
def test_random_codes_of_the_wide_formats(name, theirs):
    width = 8 * np.dtype(theirs).itemsize
    codes = np.random.default_rng(1).integers(0, 2**width, 5_000, dtype=f"u{width // 8}")
    edges = [0, 1, 2 ** (width - 1), 2**width - 1, 2 ** (width - 1) - 1]
    codes = np.concatenate([codes, np.array(edges, dtype=codes.dtype)])
    values = codes.view(theirs)
    same([float(dtypes.decode(int(code), name)) for code in codes], values.astype(np.float64))
    same_codes(dtypes.FORMATS[name], [dtypes.encode(float(value), name) for value in values], codes)
    doubles = np.random.default_rng(2).integers(0, 2**64, 5_000, dtype=np.uint64).view(np.float64)
    with np.errstate(over="ignore"):
        narrow = doubles.astype(np.float32).view(np.uint32)
    same_codes(dtypes.FORMATS["fp32"], [dtypes.encode(float(value), "fp32") for value in doubles], narrow)
