"""The lessons of the page Strides & views (CS336 lecture 2, §5.2).

Shapes: R rows, C columns; B, S batch dimensions; N entries; M, K, L matrix dimensions.
"""
# Written as torch code is written.
# mypy: disable-error-code="no-untyped-call, return-value"

from __future__ import annotations

import torch

from core.strides.running import shares_storage


def storage_of_a_tensor(rows: int, columns: int, row: int, column: int) -> int:
    x_RC = torch.arange(rows * columns, dtype=torch.float32).view(rows, columns)
    strides = x_RC.stride()
    place = x_RC.storage_offset() + row * strides[0] + column * strides[1]

    flat_N = torch.empty(0, dtype=torch.float32).set_(x_RC.untyped_storage())
    assert flat_N.numel() == rows * columns
    assert flat_N[place] == x_RC[row, column]
    if (rows, columns, row, column) == (4, 4, 1, 2):  # the lecture's
        assert strides == (4, 1)
        assert place == 6
    return place


def views_and_copies() -> torch.Tensor:
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    row, column = x[0], x[:, 1]
    flat_pairs = x.view(3, 2)
    transposed = x.transpose(1, 0)
    layouts = [(one.stride(), one.storage_offset()) for one in (row, column, flat_pairs, transposed)]
    assert layouts == [((1,), 0), ((3,), 1), ((2, 1), 0), ((1, 3), 0)]
    assert all(shares_storage(x, one) for one in (row, column, flat_pairs, transposed))

    x[0][0] = 100  # seen by every view that reaches that place
    assert row[0] == flat_pairs[0][0] == transposed[0][0] == 100
    message = ""
    try:
        transposed.view(2, 3)
    except RuntimeError as refused:
        message = str(refused)
    assert "view size is not compatible" in message
    copied = transposed.contiguous()
    again = copied.view(2, 3)
    assert not shares_storage(x, copied)
    return again


def elementwise() -> torch.Tensor:
    x_N = torch.tensor([1.0, 4, 9])
    squared_N, root_N, inverse_root_N = x_N.pow(2), x_N.sqrt(), x_N.rsqrt()
    assert squared_N.tolist() == [1, 16, 81]
    assert root_N.tolist() == [1, 2, 3]
    assert torch.allclose(inverse_root_N, torch.tensor([1, 1 / 2, 1 / 3]))
    doubled_N, twice_N, halved_N = x_N + x_N, x_N * 2, x_N / 0.5
    assert torch.equal(doubled_N, twice_N)
    assert torch.equal(doubled_N, halved_N)
    results = [squared_N, root_N, inverse_root_N, doubled_N, twice_N, halved_N]
    assert not any(shares_storage(x_N, one) for one in results)
    return halved_N


def causal_mask() -> torch.Tensor:
    mask_MM = torch.ones(3, 3).triu()
    assert mask_MM.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    return mask_MM


def matmuls() -> torch.Tensor:
    x_MK, w_KL = torch.ones(16, 32), torch.ones(32, 2)
    y_ML = x_MK @ w_KL
    assert y_ML.shape == (16, 2)

    x_BSMK = torch.ones(4, 8, 16, 32)  # 4 sequences in a batch, 8 of something in each
    y_BSML = x_BSMK @ w_KL  # one right matrix, shared by all 32 multiplications
    assert y_BSML.shape == (4, 8, 16, 2)
    assert torch.equal(y_BSML[3, 7], x_BSMK[3, 7] @ w_KL)
    return y_BSML
