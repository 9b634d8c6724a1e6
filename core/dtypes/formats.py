"""Number formats: which bits mean what, and what happens at the edges.

Sources: IEEE 754-2019 (fp64, fp32, fp16); OCP 8-bit Floating Point Specification 1.0 (e4m3fn, e5m2); OCP Microscaling
Formats (MX) 1.0 (e8m0fnu, e2m3, e3m2, e2m1); Noune et al. 2022 (the fnuz formats); NVIDIA's A100 white paper (tf32).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from core.checks import one_of, whole_number
from core.dtypes.exact import floor_log2
from core.words import _

# ieee: the top exponent holds infinities and NaNs. fn: finite, the top code alone is NaN. fnuz: finite, an unsigned
# zero, and NaN where -0 would be. finite: every code is a number.
SPECIALS = ("ieee", "fn", "fnuz", "finite")
OVERFLOWS = ("infinity", "nan", "saturate")
MAX_EXPONENT_BITS, MAX_MANTISSA_BITS, MAX_BIAS = 11, 52, 2047


@dataclass(frozen=True)
class Format:
    """A number format of ``bits`` bits: sign, exponent, mantissa, from the left.

    A normal number is (-1)^sign · 2^(exponent field - bias) · 1.mantissa. Field 0 holds zero and the subnormals
    2^(1 - bias) · 0.mantissa, unless ``subnormals`` is False. ``overflow`` is what rounding gives beyond the largest
    number. ``storage_bits`` is what a value takes in memory where that is more than ``bits`` (tf32). An ``integer``
    has its value bits in ``mantissa_bits``, as two's complement where it is signed. ``torch_name`` is empty where torch
    has no such dtype.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int = 0
    specials: str = "ieee"
    overflow: str = "infinity"
    signed: bool = True
    subnormals: bool = True
    integer: bool = False
    torch_name: str = ""
    storage_bits: int = 0

    def __post_init__(self) -> None:
        assert self.specials in SPECIALS, self.specials
        assert self.overflow in OVERFLOWS, self.overflow
        assert not self.storage_bits or self.storage_bits >= self.bits

    def __hash__(self) -> int:  # of the fields that tell most apart: a page looks formats up a hundred times
        return hash((self.name, self.exponent_bits, self.mantissa_bits, self.bias))

    @cached_property
    def bits(self) -> int:
        return int(self.signed) + self.exponent_bits + self.mantissa_bits

    @property
    def item_bits(self) -> int:
        """Bits that one value takes in memory."""
        return self.storage_bits or self.bits

    @property
    def label(self) -> str:
        """The name with its width.

        >>> FORMATS["e4m3fn"].label, FORMATS["bf16"].label
        ('fp8 e4m3fn', 'bf16')
        """
        return f"fp{self.bits} {self.name}" if self.name.startswith("e") else self.name

    @cached_property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return (1 if self.subnormals else 0) - self.bias

    @cached_property
    def max_code(self) -> int:
        """The code of the largest finite number, without its sign."""
        top = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        if self.integer or self.specials in ("fnuz", "finite"):
            return top
        return top - 1 if self.specials == "fn" else top - (1 << self.mantissa_bits)

    @cached_property
    def nan_code(self) -> int | None:
        """The NaN that rounding gives; None where the format has none."""
        if self.integer or self.specials == "finite":
            return None
        if self.specials == "fnuz":
            return self.sign_mask
        if self.specials == "fn":
            return self.max_code + 1
        return self.max_code + 1 + (1 << (self.mantissa_bits - 1))  # quiet: the first mantissa bit is set

    @cached_property
    def infinity_code(self) -> int | None:
        return self.max_code + 1 if self.specials == "ieee" and not self.integer else None

    @cached_property
    def sign_mask(self) -> int:
        return 1 << (self.bits - 1) if self.signed else 0

    @cached_property
    def max_value(self) -> Fraction:
        """The largest finite number."""
        if self.integer:
            return Fraction(self.max_code)
        mantissa = self.max_code & ((1 << self.mantissa_bits) - 1)
        field = self.max_code >> self.mantissa_bits
        hidden = 0 if field == 0 and self.subnormals else 1 << self.mantissa_bits
        exponent = max(field - self.bias, self.min_exponent)
        return (hidden + mantissa) * two_to(exponent - self.mantissa_bits)

    @cached_property
    def max_exponent(self) -> int:
        """The exponent of the largest finite number."""
        return floor_log2(self.max_value)

    @cached_property
    def overflows_from(self) -> Fraction:
        """Half way between the largest number and the one that would come next."""
        exponent = max((self.max_code >> self.mantissa_bits) - self.bias, self.min_exponent)
        return self.max_value + two_to(exponent - self.mantissa_bits) / 2

    @property
    def overflow_includes_it(self) -> bool:
        """Whether that number itself overflows: of two equally near numbers the one with the even code wins."""
        return bool(self.max_code & 1) or not self.subnormals

    def is_beyond(self, magnitude: Fraction) -> bool:
        """Whether a magnitude is beyond what rounds to the largest number.

        >>> [FORMATS["fp16"].is_beyond(Fraction(one)) for one in (65504, 65519, 65520)]
        [False, False, True]
        """
        if magnitude <= self.max_value:
            return False
        return magnitude > self.overflows_from or (self.overflow_includes_it and magnitude == self.overflows_from)

    @cached_property
    def epsilon(self) -> Fraction:
        """The spacing just above 1: what ``torch.finfo(...).eps`` means."""
        return two_to(max(0, self.min_exponent) - self.mantissa_bits) if not self.integer else Fraction(1)

    @cached_property
    def half_epsilon(self) -> float:
        """The largest relative error of rounding to nearest in the normal range."""
        return float(two_to(-self.mantissa_bits - 1))

    def overflowing(self, overflow: str) -> Format:
        """The same format with another overflow rule.

        >>> FORMATS["e4m3fn"].overflowing("nan").overflow
        'nan'
        """
        _check_overflow(self, one_of("overflow", overflow, OVERFLOWS))
        return replace(self, overflow=overflow)


@lru_cache(maxsize=512)
def two_to(power: int) -> Fraction:
    """2^power, exactly.

    >>> two_to(-3)
    Fraction(1, 8)
    """
    return Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power)


def _integer(name: str, bits: int, signed: bool) -> Format:
    torch_name = {"int": "int", "uint": "uint"}["int" if signed else "uint"] + str(bits)
    return Format(name, 0, bits - signed, 0, "finite", "saturate", signed, integer=True, torch_name=torch_name)


_ALL = (
    Format("fp64", 11, 52, 1023, torch_name="float64"),
    Format("fp32", 8, 23, 127, torch_name="float32"),
    Format("tf32", 8, 10, 127, storage_bits=32),
    Format("bf16", 8, 7, 127, torch_name="bfloat16"),
    Format("fp16", 5, 10, 15, torch_name="float16"),
    # torch 2.13 saturates a cast to e4m3fn, ml_dtypes gives NaN; the specification allows both.
    Format("e4m3fn", 4, 3, 7, "fn", "saturate", torch_name="float8_e4m3fn"),
    Format("e5m2", 5, 2, 15, torch_name="float8_e5m2"),
    Format("e4m3fnuz", 4, 3, 8, "fnuz", "nan", torch_name="float8_e4m3fnuz"),
    Format("e5m2fnuz", 5, 2, 16, "fnuz", "nan", torch_name="float8_e5m2fnuz"),
    Format("e8m0fnu", 8, 0, 127, "fn", "nan", signed=False, subnormals=False, torch_name="float8_e8m0fnu"),
    Format("e3m2", 3, 2, 3, "finite", "saturate"),
    Format("e2m3", 2, 3, 1, "finite", "saturate"),
    Format("e2m1", 2, 1, 1, "finite", "saturate"),
    _integer("int64", 64, True),
    _integer("int32", 32, True),
    _integer("int16", 16, True),
    _integer("int8", 8, True),
    _integer("uint8", 8, False),
)
FORMATS: dict[str, Format] = {one.name: one for one in _ALL}
FLOATS = tuple(one.name for one in _ALL if not one.integer)
INTEGERS = tuple(one.name for one in _ALL if one.integer)


def find(name: object) -> Format:
    """A format by its name here or in torch; ValueError for a name that is not known.

    >>> find("fp16").bias, find("float8_e4m3fn").max_value, find("torch.bfloat16").bits
    (15, Fraction(448, 1), 16)
    >>> find("fp7")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a format must be one of fp64, fp32, tf32, bf16, ...; received 'fp7'
    """
    short = str(name).removeprefix("torch.")[:40]
    for one in _ALL:
        if short and short in (one.name, one.torch_name):
            return one
    return FORMATS[one_of(_("a format"), name if isinstance(name, str) else str(name), tuple(FORMATS))]


def custom(
    exponent_bits: int,
    mantissa_bits: int,
    bias: int | None = None,
    specials: str = "ieee",
    *,
    overflow: str | None = None,
    signed: bool = True,
) -> Format:
    """A format of your own: up to 11 exponent bits and 52 mantissa bits; the usual bias unless one is given.

    ``specials`` is "ieee" (infinities and NaNs), "fn" (the top code is NaN), "fnuz" (NaN where -0 would be) or
    "finite" (every code a number). Raises ValueError for what cannot be (an infinity and a NaN need a mantissa bit) and
    for numbers that fp64 does not have.

    >>> one = custom(3, 4)
    >>> one.name, one.bits, one.bias, one.max_value
    ('e3m4', 8, 3, Fraction(31, 2))
    >>> custom(5, 2).max_value == FORMATS["e5m2"].max_value
    True
    """
    exponent_bits = whole_number(_("exponent bits"), exponent_bits, 1, MAX_EXPONENT_BITS)
    mantissa_bits = whole_number(_("mantissa bits"), mantissa_bits, 0, MAX_MANTISSA_BITS)
    one_of(_("special values"), specials, SPECIALS)
    usual = 2 ** (exponent_bits - 1) - (0 if specials == "fnuz" else 1)
    bias = whole_number(_("the bias"), usual if bias is None else bias, -MAX_BIAS, MAX_BIAS)
    if specials == "ieee" and (mantissa_bits < 1 or exponent_bits < 2):
        message = _("infinities and NaNs need at least 2 exponent bits and 1 mantissa bit; received {e} and {m}")
        raise ValueError(message.format(e=exponent_bits, m=mantissa_bits))
    if specials == "fnuz" and not signed:
        raise ValueError(_("NaN in the place of -0 needs a sign bit; choose other special values, or a sign"))
    if overflow is None:
        overflow = {"ieee": "infinity", "fn": "saturate", "fnuz": "nan", "finite": "saturate"}[specials]
    made = Format(f"e{exponent_bits}m{mantissa_bits}", exponent_bits, mantissa_bits, bias, specials, "saturate", signed)
    if not made.max_value:
        message = _(
            "a format of your own needs a number besides 0; with {e} exponent and {m} mantissa bits it has none"
        )
        raise ValueError(message.format(e=exponent_bits, m=mantissa_bits))
    if made.max_value >= two_to(1024) or made.min_exponent - mantissa_bits < -1074:
        message = _("a format of your own must lie within fp64, 2^-1074 to 2^1024; choose another bias than {bias}")
        raise ValueError(message.format(bias=bias))
    return made.overflowing(overflow)


def _check_overflow(fmt: Format, overflow: str) -> None:
    if overflow == "infinity" and fmt.infinity_code is None:
        raise ValueError(_("{name} has no infinity; choose saturate").format(name=fmt.name))
    if overflow == "nan" and fmt.nan_code is None:
        raise ValueError(_("{name} has no NaN; choose saturate").format(name=fmt.name))
