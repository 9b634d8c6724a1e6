"""Block formats: narrow numbers that share a scale, quantised and dequantised.

Sources: OCP Microscaling Formats (MX) 1.0, §5.2 and §6.3 (MXFP8, MXFP6, MXFP4: blocks of 32, a power of two as scale);
NVIDIA, Pretraining Large Language Models with NVFP4 (arXiv 2509.25149), §2 (NVFP4: blocks of 16, an e4m3 scale, and an
fp32 scale for the whole tensor). Shapes: N values, B blocks, E values a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from core.checks import one_of, whole_number
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.dtypes.arrays import Floats, round_array
from core.dtypes.codec import decode
from core.dtypes.exact import power_of_two
from core.dtypes.formats import FORMATS, Format
from core.words import _

DISTRIBUTIONS = ("normal", "uniform", "Laplace", "outliers")
MAX_VALUES = 2**18
OUTLIER_SHARE, OUTLIER_FACTOR = 1 / 1000, 30.0


@dataclass(frozen=True)
class BlockFormat:
    """``element`` numbers in blocks of ``block`` with a ``scale`` each; ``tensor_scale``: and an fp32 one for all."""

    name: str
    element: Format
    block: int
    scale: Format
    tensor_scale: bool
    rule: str

    @property
    def bits_per_value(self) -> float:
        """Bits of a value with its share of the block's scale.

        >>> BLOCK_FORMATS["MXFP4"].bits_per_value, BLOCK_FORMATS["NVFP4"].bits_per_value
        (4.25, 4.5)
        """
        return self.element.bits + self.scale.bits / self.block

    def stored_bytes(self, count: int) -> int:
        """Bytes of that many values, a whole number of blocks: packed elements, scales, the tensor's scale.

        >>> BLOCK_FORMATS["MXFP6 e3m2"].stored_bytes(4096), BLOCK_FORMATS["NVFP4"].stored_bytes(4096)
        (3200, 2308)
        """
        blocks = count // self.block
        return count * self.element.bits // 8 + blocks * self.scale.bits // 8 + (4 if self.tensor_scale else 0)


def _mx(name: str, element: str) -> BlockFormat:
    rule = "2^(floor(log2(max|x|)) − emax)"
    return BlockFormat(name, FORMATS[element], 32, FORMATS["e8m0fnu"], False, rule)


BLOCK_FORMATS: dict[str, BlockFormat] = {
    one.name: one
    for one in (
        _mx("MXFP8 e4m3", "e4m3fn"),
        _mx("MXFP8 e5m2", "e5m2"),
        _mx("MXFP6 e2m3", "e2m3"),
        _mx("MXFP6 e3m2", "e3m2"),
        _mx("MXFP4", "e2m1"),
        BlockFormat("NVFP4", FORMATS["e2m1"], 16, FORMATS["e4m3fn"], True, "e4m3(max|x| / 6 / tensor scale)"),
    )
}


@dataclass(frozen=True)
class Quantised:
    """A tensor in a block format: what it decodes to, and what is stored.

    ``values`` (N) are dequantised. ``scaled`` (N) are the values over their block's scale, before they were rounded;
    ``scales`` (B) are the blocks' scales, the tensor's included. ``packed`` holds the elements' codes, bit by bit, and
    ``scale_codes`` the scales'; ``stored_bytes`` is what both and the tensor's scale take.
    """

    block_format: BlockFormat
    values: Floats
    scaled: Floats
    scales: Floats
    packed: NDArray[np.uint8]
    scale_codes: NDArray[np.uint8]

    @property
    def stored_bytes(self) -> int:
        return self.packed.nbytes + self.scale_codes.nbytes + (4 if self.block_format.tensor_scale else 0)


def quantise(values: Floats, name: str) -> Quantised:
    """Values in a block format, to nearest, saturating.

    MX: the scale is the power of two that brings the block's largest exponent to that of the element's largest number,
    so a largest value of more than that number is clipped. NVFP4: the scale brings the block's largest value to 6.
    Raises ValueError for an unknown format, values that are infinite or NaN, and for other than a whole number of
    blocks, at most 262,144 values.

    >>> quantise(np.array([7.0] + 31 * [0.4]), "MXFP4").values[:2].tolist()
    [6.0, 0.5]
    >>> quantise(np.array([7.0] + 31 * [0.4]), "NVFP4").values[:2].round(4).tolist()
    [7.0, 0.5833]
    """
    block_format = BLOCK_FORMATS[one_of(_("a block format"), name, tuple(BLOCK_FORMATS))]
    x_N = np.asarray(values, dtype=np.float64).ravel()
    whole_number(_("the number of values"), len(x_N), 1, MAX_VALUES)
    if not np.isfinite(x_N).all():
        message = _("a block takes finite values; received {count:,} that are infinite or NaN")
        raise ValueError(message.format(count=int((~np.isfinite(x_N)).sum())))
    if len(x_N) % block_format.block:
        message = _("give a whole number of blocks of {block} values; received {count:,} values")
        raise ValueError(message.format(block=block_format.block, count=len(x_N)))
    x_BE = x_N.reshape(-1, block_format.block)
    largest_B = np.abs(x_BE).max(axis=1)
    scales_B, scale_codes = (_nv_scales if block_format.tensor_scale else _mx_scales)(largest_B, block_format)
    safe_B1 = np.where(scales_B == 0, 1.0, scales_B)[:, None]
    scaled_BE = np.where(scales_B[:, None] == 0, 0.0, x_BE / safe_B1)
    rounded_BE = round_array(scaled_BE, block_format.element.overflowing("saturate"))
    return Quantised(
        block_format,
        (rounded_BE * scales_B[:, None]).ravel(),
        scaled_BE.ravel(),
        scales_B,
        pack(codes_of(rounded_BE.ravel(), block_format.element), block_format.element.bits),
        scale_codes,
    )


def _mx_scales(largest_B: Floats, block_format: BlockFormat) -> tuple[Floats, NDArray[np.uint8]]:
    emax = math.floor(math.log2(block_format.element.max_value))
    exponent_B = np.where(largest_B > 0, np.frexp(largest_B)[1] - 1 - emax, -127)
    exponent_B = np.clip(exponent_B, -127, 127)
    return np.ldexp(1.0, exponent_B), (exponent_B + 127).astype(np.uint8)


def _nv_scales(largest_B: Floats, block_format: BlockFormat) -> tuple[Floats, NDArray[np.uint8]]:
    top, scale_top = float(block_format.element.max_value), float(block_format.scale.max_value)
    with np.errstate(over="ignore"):  # the scale is fp32: beyond it everything saturates
        tensor_scale = (
            min(float(np.float32(largest_B.max() / (top * scale_top))), float(np.finfo(np.float32).max)) or 1.0
        )
    scales_B = round_array(largest_B / top / tensor_scale, block_format.scale)
    return scales_B * tensor_scale, codes_of(scales_B, block_format.scale)


@lru_cache(maxsize=16)
def _numbers(fmt: Format) -> Floats:
    """The non-negative numbers of a format of 8 bits or fewer, by their codes."""
    return np.array([float(decode(code, fmt)) for code in range(fmt.max_code + 1)])


def codes_of(numbers: Floats, fmt: Format) -> NDArray[np.uint8]:
    """The codes of an array of a format's own finite numbers, at most 8 bits wide.

    >>> codes_of(np.array([0.5, -6.0, 0.0]), FORMATS["e2m1"]).tolist()
    [1, 15, 0]
    """
    codes = np.searchsorted(_numbers(fmt), np.abs(numbers)).astype(np.uint8)
    return codes | np.where(np.signbit(numbers), fmt.sign_mask, 0).astype(np.uint8)


def pack(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Codes of that many bits, one after the other without gaps, as bytes.

    >>> pack(np.array([1, 15], dtype=np.uint8), 4).tolist()
    [31]
    """
    return np.packbits(np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :])


def sample(distribution: str = "normal", count: int = 2**16, seed: int = 0) -> Floats:
    """Values of a distribution with mean 0 and standard deviation 1 (with outliers: of the rest), fp32 numbers in fp64.

    "outliers" is the normal distribution with one value in a thousand 30 times as large.

    >>> sample("uniform", 1024).shape, float(np.abs(sample("uniform", 1024)).max() <= 3**0.5)
    ((1024,), 1.0)
    """
    one_of(_("the distribution"), distribution, DISTRIBUTIONS)
    count = whole_number(_("the number of values"), count, 32, MAX_VALUES)
    rng = np.random.default_rng(seed)
    if distribution == "uniform":
        values = rng.uniform(-math.sqrt(3), math.sqrt(3), count)
    elif distribution == "Laplace":
        values = rng.laplace(0, 1 / math.sqrt(2), count)
    else:
        values = rng.standard_normal(count)
    if distribution == "outliers":
        values = np.where(rng.random(count) < OUTLIER_SHARE, OUTLIER_FACTOR * values, values)
    return values.astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class BlockError:
    """How far a block format is off on a tensor: √(Σ error² / Σ x²), and what it is made of.

    ``rounding`` is what the error would be if only the values within the element's normal range were rounded;
    ``small`` is what those below it (subnormals and zeros) add, ``clipped`` what those above its largest number add.
    ``zero_share`` and ``clipped_share`` are shares of the values. ``histogram`` holds, for bins of the error over the
    tensor's standard deviation, the lower and upper edge and the share.
    """

    name: str
    relative_rms: float
    rounding: float
    small: float
    clipped: float
    zero_share: float
    clipped_share: float
    stored_bytes: int
    count: int
    histogram: tuple[tuple[float, float, float], ...]


@lru_cache(maxsize=64)
def block_error(name: str, distribution: str = "normal", count: int = 2**16, seed: int = 0) -> BlockError:
    """Quantise a tensor of a distribution and look at the error.

    >>> [f"{block_error(name).relative_rms:.3f}" for name in ("MXFP8 e4m3", "MXFP4", "NVFP4")]
    ['0.030', '0.116', '0.095']
    """
    x_N = sample(distribution, count, seed)
    done = quantise(x_N, name)
    error_N, element = done.values - x_N, done.block_format.element
    size_N = np.abs(done.scaled)
    small_N = size_N < float(2.0**element.min_exponent)
    over_N = size_N > float(element.max_value)
    power = float(np.sum(x_N**2))
    normal, small, over = (
        float(np.sum(error_N[chosen] ** 2)) / power for chosen in (~small_N & ~over_N, small_N, over_N)
    )
    edge = float(np.abs(error_N).max()) or 1.0
    counts, edges = np.histogram(error_N, bins=41, range=(-edge, edge))
    deviation = float(x_N.std())
    return BlockError(
        name=name,
        relative_rms=math.sqrt(normal + small + over),
        rounding=math.sqrt(normal),
        small=math.sqrt(normal + small) - math.sqrt(normal),
        clipped=math.sqrt(normal + small + over) - math.sqrt(normal + small),
        zero_share=float(np.mean((done.values == 0) & (x_N != 0))),
        clipped_share=float(np.mean(over_N)),
        stored_bytes=done.stored_bytes,
        count=len(x_N),
        histogram=tuple(
            (low / deviation, high / deviation, count / len(x_N))
            for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
        ),
    )


def compare_block_error(name: str, distribution: str = "normal", count: int = 2**16, seed: int = 0) -> Comparison:
    """The relative RMS error by the mantissa bits alone, beside that of a tensor.

    Rounding to m mantissa bits is off by a uniform error within half a spacing, 2^-m·2^e: of variance 4^-m·4^e/12.
    With significands spread evenly over [1, 2), whose mean square is 7/3, the relative RMS is 2^-m/√28.

    >>> c = compare_block_error("NVFP4")
    >>> f"{c.prediction.value:.4f} {c.measurement.value:.4f}", [part.name for part in c.parts]
    ('0.0945 0.0950', ['subnormals and zeros', 'clipped values'])
    """
    error = block_error(name, distribution, count, seed)
    element = BLOCK_FORMATS[name].element
    quantity = _("relative RMS error")
    m = element.mantissa_bits
    source = _("uniform rounding errors, significands spread evenly")
    prediction = Prediction(quantity, 2.0**-m / math.sqrt(28), "", f"{power_of_two(-m)} / √28", source=source)
    parts = (
        Term(_("subnormals and zeros"), error.small, _("values too small for the block's scale have fewer bits")),
        Term(_("clipped values"), error.clipped, _("values above the largest number of the block's scale")),
    )
    note = _("{n:,} values, {distribution}").format(n=count, distribution=_(distribution))
    conditions = Conditions("cpu", note, name, 1, 0, 1)
    return Comparison(prediction, Measurement(quantity, (error.relative_rms,), "", conditions), parts)


def compare_block_bytes(name: str, count: int = 2**16) -> Comparison:
    """Bits a value with its scale, times the values, beside the bytes of the packed codes and scales.

    >>> c = compare_block_bytes("MXFP4", 65536)
    >>> c.prediction.value, c.measurement.value
    (34816.0, 34816)
    """
    one = BLOCK_FORMATS[name]
    quantity = _("bytes stored")
    formula = _("{n:,} · ({bits} + {scale}/{block}) bits / 8").format(
        n=count, bits=one.element.bits, scale=one.scale.bits, block=one.block
    )
    conditions = Conditions("cpu", _("packed codes and scales"), name, 1, 0, 1)
    parts = (Term(_("the tensor's scale"), 4, _("one fp32 number")),) if one.tensor_scale else ()
    return Comparison(
        Prediction(quantity, count * one.bits_per_value / 8, "B", formula),
        Measurement(quantity, (block_error(name, "normal", count).stored_bytes,), "B", conditions),
        parts,
    )
