"""Number formats: bits, rounding, ranges, block scales, and the bytes that tensors take (CS336 lecture 2, §4, §5.1)."""

from core.dtypes.codec import Decoded, decode, encode, flip, neighbour, round_to, spacing
from core.dtypes.exact import Exact, decimal_text, fraction_text, read, scientific_text
from core.dtypes.formats import FLOATS, FORMATS, INTEGERS, OVERFLOWS, SPECIALS, Format, custom, find, two_to

__all__ = [
    "FLOATS",
    "FORMATS",
    "INTEGERS",
    "OVERFLOWS",
    "SPECIALS",
    "Decoded",
    "Exact",
    "Format",
    "custom",
    "decimal_text",
    "decode",
    "encode",
    "find",
    "flip",
    "fraction_text",
    "neighbour",
    "read",
    "round_to",
    "scientific_text",
    "spacing",
    "two_to",
]
