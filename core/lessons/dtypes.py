"""The lessons of the dtypes page (CS336 lecture 2, §4.1, §4.2, §5.1).

Shapes: R rows, C columns.
"""

from __future__ import annotations

import torch

from core.dtypes.storage import check_shape


def small_numbers(value: float) -> torch.Tensor:
    in_fp32 = torch.tensor([value], dtype=torch.float32)
    in_fp16 = torch.tensor([value], dtype=torch.float16)
    in_bf16 = torch.tensor([value], dtype=torch.bfloat16)
    fp16, bf16 = torch.finfo(torch.float16), torch.finfo(torch.bfloat16)

    if abs(value) <= 2**-25:  # half of fp16's smallest number
        assert in_fp16 == 0
    if 65520 <= abs(value) < 3.389e38:
        assert in_fp16.isinf()
        assert in_bf16.isfinite()
    if value == 1e-8:  # the lecture's number
        assert in_bf16.double().item() == 1.001171767711639404296875e-8
        assert (fp16.max, fp16.smallest_normal, fp16.eps) == (65504, 2**-14, 2**-10)
        assert (bf16.max, bf16.smallest_normal, bf16.eps) == (2**128 - 2**120, 2**-126, 2**-7)
    return torch.cat([in_fp32.double(), in_bf16.double(), in_fp16.double()])


def tensor_memory(shape: tuple[int, ...], dtype: str) -> int:
    check_shape(shape)
    x = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")  # a shape and a dtype, without memory
    numel = x.numel()
    element_size = x.element_size()
    size = numel * element_size
    size_gb = size / 10**9
    size_mib = size / 2**20

    assert size == x.untyped_storage().nbytes()
    if (shape, dtype) == ((4, 8), "float32"):  # the lecture's numbers
        assert size == 128
    if (shape, dtype) == ((49152, 12288), "float32"):
        assert size_mib == 2304
        assert size / 2**30 == 2.25
        assert round(size_gb, 3) == 2.416  # "2.3 GB" is neither
    return size


def new_tensors(rows: int, columns: int) -> torch.Tensor:
    literal = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    zeros_RC = torch.zeros(rows, columns)
    ones_RC = torch.ones(rows, columns)
    normal_RC = torch.randn(rows, columns)
    # empty is whatever the memory held: filled before anybody sees it
    values_RC = torch.nn.init.trunc_normal_(torch.empty(rows, columns), mean=0, std=1, a=-2, b=2)

    assert literal.shape == (2, 3)
    assert zeros_RC.sum() == 0
    assert ones_RC.sum() == rows * columns
    assert normal_RC.dtype == torch.float32  # the default
    assert values_RC.abs().max() <= 2
    return values_RC


def two_matrices(rows: int, columns: int, count: int) -> int:
    check_shape((rows, columns))
    made = [torch.zeros(rows, columns) for _ in range(count)]
    device = made[0].device
    storage = sum(x.untyped_storage().nbytes() for x in made)
    on_a_gpu = sum(-(-x.untyped_storage().nbytes() // 512) * 512 for x in made)  # in blocks of 512 B

    assert device.type == "cpu"  # where torch makes tensors unless told otherwise
    assert storage == count * 4 * rows * columns
    if (rows, columns, count) == (32, 32, 2):  # the lecture's numbers
        assert storage == on_a_gpu == 8192
    return storage
