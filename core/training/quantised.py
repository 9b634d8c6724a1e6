"""Numbers of 8 and 4 bits: matrix products on rounded operands, and weights stored in few bits (CS336 §6.8).

Nothing here is fast: operands are rounded to what the narrow format can hold and multiplied in fp32, which gives the
numbers that such hardware gives (it too sums in fp32), at the speed of fp32 and less. Formats and their rounding are
those of ``core.dtypes``. Shapes: R rows, C columns, G groups, E values of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from core.checks import one_of
from core.dtypes import BLOCK_FORMATS
from core.dtypes.blocks import BlockFormat
from core.words import _

E4M3_MAX, E5M2_MAX = 448.0, 57344.0
INT4_GROUP = 32
WEIGHT_FORMATS = ("fp32", "bf16", "int8", "fp8", "MXFP8 e4m3", "int4", "NVFP4", "MXFP4")
BLOCK_NAMES = ("MXFP8 e4m3", "MXFP8 e5m2", "MXFP4", "NVFP4")  # torch has no 6-bit numbers
MATMUL_FORMATS = ("fp8", "fp4")
# Kept in 16 bits, as in practice: they are few in a large model, and what they lose, every layer sees.
_KEPT = ("embedding.", "positions.", "head.")


def round_to_fp8(x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> Tensor:
    """x on a grid of fp8 numbers scaled so that the largest |x| is the largest of them; the scale is one fp32 number.

    >>> round_to_fp8(torch.tensor([448.0, 17.1])).tolist()
    [448.0, 18.0]
    """
    scale = _safe(x.abs().amax() / (E5M2_MAX if dtype == torch.float8_e5m2 else E4M3_MAX))
    return (x / scale).to(dtype).to(x.dtype) * scale


def round_to_blocks(x: Tensor, name: str) -> Tensor:
    """x in one of ``BLOCK_NAMES`` and back, blocks along the last axis; a last block that is not full
    is filled with zeros.

    >>> round_to_blocks(torch.tensor([[7.0] + 31 * [0.4]]), "MXFP4")[0, :2].tolist()
    [6.0, 0.5]
    """
    block_format = BLOCK_FORMATS[one_of(_("a block format"), name, BLOCK_NAMES)]
    missing = -x.shape[-1] % block_format.block
    padded = functional.pad(x.double(), (0, missing))
    x_GE = padded.reshape(-1, block_format.block)
    scale_G1 = _block_scales(x_GE.abs().amax(1, keepdim=True), block_format)
    top = float(block_format.element.max_value)
    scaled_GE = (x_GE / _safe(scale_G1)).clamp(-top, top)
    rounded_GE = _round_elements(scaled_GE, block_format) * scale_G1
    return rounded_GE.reshape(padded.shape)[..., : x.shape[-1]].to(x.dtype)


def _block_scales(largest_G1: Tensor, block_format: BlockFormat) -> Tensor:
    top = float(block_format.element.max_value)
    if not block_format.tensor_scale:  # a power of two, by the exponents
        exponent = largest_G1.frexp().exponent - 1 - math.floor(math.log2(top))
        return torch.ldexp(torch.ones_like(largest_G1), exponent.clamp(-127, 127))
    tensor_scale = _safe((largest_G1.amax() / (top * E4M3_MAX)).float()).double()
    scale = (largest_G1 / top / tensor_scale).clamp(max=E4M3_MAX).float()
    return scale.to(torch.float8_e4m3fn).double() * tensor_scale


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _round_elements(x: Tensor, block_format: BlockFormat) -> Tensor:
    """To the nearest number of the element's format, ties to even."""
    if block_format.element.bits == 8:
        return x.float().to(getattr(torch, str(block_format.element.torch_name))).double()
    numbers = torch.tensor(_E2M1, dtype=x.dtype, device=x.device)
    middles = (numbers[1:] + numbers[:-1]) / 2
    size = x.abs()
    # A tie goes to the number whose last bit is 0: those at even places.
    up, down = torch.bucketize(size, middles, right=True), torch.bucketize(size, middles, right=False)
    nearest: Tensor = numbers[torch.where(up % 2 == 0, up, down)].copysign(x)
    return nearest


def round_to_integers(x_RC: Tensor, bits: int, group: int | None = None) -> Tensor:
    """x as integers of −(2^(bits−1) − 1) to 2^(bits−1) − 1 with an fp16 scale a row, or a group of a row, and back.

    >>> round_to_integers(torch.tensor([[127.0, 3.4]]), bits=8).tolist()
    [[127.0, 3.0]]
    """
    columns, top = x_RC.shape[-1], float(2 ** (bits - 1) - 1)
    width = group or columns
    padded = functional.pad(x_RC.float(), (0, -columns % width))
    x_GE = padded.reshape(-1, width)
    scale_G1 = (x_GE.abs().amax(1, keepdim=True) / top).half().float()
    rounded_GE = (x_GE / _safe(scale_G1)).round().clamp(-top, top) * scale_G1
    return rounded_GE.reshape(padded.shape)[..., :columns].to(x_RC.dtype)


def quantise_weight(weight_RC: Tensor, name: str) -> tuple[Tensor, int]:
    """A matrix in one of ``WEIGHT_FORMATS``: what it decodes to, in its own dtype, and the bytes that are stored.

    int8 and fp8 have an fp16 scale a row, int4 one for every 32 values of a row.

    >>> weight = torch.randn(64, 64)
    >>> [quantise_weight(weight, name)[1] for name in ("fp32", "bf16", "int8", "int4", "NVFP4", "MXFP4")]
    [16384, 8192, 4224, 2304, 2308, 2176]
    """
    one_of(_("a weight format"), name, WEIGHT_FORMATS)
    rows, columns = weight_RC.shape
    if name == "fp32":
        return weight_RC.float().to(weight_RC.dtype), 4 * rows * columns
    if name == "bf16":
        return weight_RC.bfloat16().to(weight_RC.dtype), 2 * rows * columns
    if name == "int8":
        return round_to_integers(weight_RC, 8), rows * columns + 2 * rows
    if name == "int4":
        groups = rows * math.ceil(columns / INT4_GROUP)
        return round_to_integers(weight_RC, 4, INT4_GROUP), groups * (INT4_GROUP // 2 + 2)
    if name == "fp8":
        scale_R1 = (weight_RC.float().abs().amax(1, keepdim=True) / E4M3_MAX).half().float()
        scaled_RC = (weight_RC / _safe(scale_R1)).clamp(-E4M3_MAX, E4M3_MAX)
        decoded = scaled_RC.to(torch.float8_e4m3fn).float() * scale_R1
        return decoded.to(weight_RC.dtype), rows * columns + 2 * rows
    block_format = BLOCK_FORMATS[name]
    count = rows * math.ceil(columns / block_format.block) * block_format.block
    return round_to_blocks(weight_RC, name), block_format.stored_bytes(count)


@torch.no_grad()
def quantise_model(model: nn.Module, name: str) -> int:
    """Round a model's matrices in place, embedding and head kept in bf16 (with "fp32": all as it is); bytes of it all.

    >>> from core.models import Cruncher
    >>> quantise_model(Cruncher(64, 2), "int8")
    8576
    """
    total = 0
    for parameter_name, parameter in model.named_parameters():
        kept = parameter.dim() != 2 or parameter_name.startswith(_KEPT)
        matrix = parameter if parameter.dim() == 2 else parameter.reshape(1, -1)
        decoded, num_bytes = quantise_weight(matrix, name if name == "fp32" or not kept else "bf16")
        parameter.copy_(decoded.reshape(parameter.shape))
        total += num_bytes
    return total


class QuantisedMatmuls(TorchFunctionMode):
    """Inside the block, every linear layer multiplies rounded operands, forward and backward.

    "fp8": e4m3 for x and W, e5m2 for the gradient, a scale for each tensor. "fp4": NVFP4 for all three, to nearest
    (recipes for training in fp4 also round the gradient stochastically and rotate it first).
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = one_of(_("a matmul format"), name, MATMUL_FORMATS)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Torch's own, but for the linear layer."""
        if func is not functional.linear:
            return func(*args, **(kwargs or {}))
        x, weight, bias = (*args, None)[:3]
        y: Tensor = _Product.apply(x, weight, self.name)  # type: ignore[no-untyped-call]
        return y if bias is None else y + bias


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, name: str) -> Tensor:
        ctx.name = name
        x, weight = operand(name)(x), operand(name)(weight)
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        gradient = gradient_operand(ctx.name)(gradient)
        of_weight = gradient.flatten(0, -2).T @ x.flatten(0, -2)
        return gradient @ weight, of_weight, None


def operand(name: str) -> Callable[[Tensor], Tensor]:
    """How x and W are rounded."""
    return round_to_fp8 if name == "fp8" else lambda x: round_to_blocks(x, "NVFP4")


def gradient_operand(name: str) -> Callable[[Tensor], Tensor]:
    """How the gradient is rounded: in fp8 with more range and fewer digits."""
    return (lambda g: round_to_fp8(g, torch.float8_e5m2)) if name == "fp8" else operand(name)


def _safe(scale: Tensor) -> Tensor:
    """A scale to divide by: 1 where all is 0."""
    return torch.where(scale == 0, torch.ones_like(scale), scale)
