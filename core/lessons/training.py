"""The lessons of the training page (CS336 lecture 2, §6.3–6.8).

Shapes: B rows, D features, T context. The 2025 lecture's loop takes a learning rate and a depth and ignores both; this
one obeys them.
"""
# Written as torch code is written: without a check at each line that .grad, which torch types as optional, is there.
# mypy: disable-error-code="no-untyped-call, union-attr, arg-type, operator"

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from core.checks import positive_number, whole_number
from core.models import Cruncher
from core.optimizers import SGD
from core.training import get_batch, load_checkpoint, open_tokens, save_checkpoint, seed_everything, write_tokens

D, B = 16, 4


def train(num_layers: int = 1, lr: float = 0.003, num_steps: int = 20, seed: int = 0) -> list[float]:
    num_layers, num_steps = whole_number("num_layers", num_layers, 1, 8), whole_number("num_steps", num_steps, 1, 50)
    lr = positive_number("lr", lr, 1.0)
    seed_everything(seed)
    w_true_D = torch.arange(D, dtype=torch.float32)
    model = Cruncher(D, num_layers)
    optimizer = SGD(model.parameters(), lr=lr)
    losses = []
    for _step in range(num_steps):
        x_BD = torch.randn(B, D)
        y_B = x_BD @ w_true_D
        pred_y_B = model(x_BD)
        loss = functional.mse_loss(pred_y_B, y_B)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    assert sum(p.numel() for p in model.parameters()) == num_layers * D * D + D  # the depth is obeyed
    assert optimizer.param_groups[0]["lr"] == lr  # and so is the rate
    return losses


def batches() -> torch.Tensor:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.bin"
        tokens = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], dtype=np.int32)
        write_tokens(path, tokens)
        num_bytes = path.stat().st_size
        assert num_bytes == 2 * 10

        data = open_tokens(path)  # np.memmap, read-only: nothing is read yet
        assert np.array_equal(data, tokens)

        inputs_BT, targets_BT = get_batch(data, batch_size=2, context_length=4)
        assert inputs_BT.shape == targets_BT.shape == (2, 4)
        assert torch.equal(inputs_BT[:, 1:], targets_BT[:, :-1])  # the target is the next token

        many_BT, _targets = get_batch(data, batch_size=1000, context_length=4)
        starts = sorted(set(many_BT[:, 0].tolist()))
        assert starts == [1, 2, 3, 4, 5, 6]  # 10 − 4 windows: the last one, too
        del data
    return inputs_BT


def checkpoint(num_steps: int = 6) -> list[float]:
    num_steps = whole_number("num_steps", num_steps, 2, 20)
    half = num_steps // 2
    uninterrupted = train(num_steps=num_steps)

    seed_everything(0)
    model = Cruncher(D, 1)
    optimizer = SGD(model.parameters(), lr=0.003)
    losses = _steps(model, optimizer, half)
    file = io.BytesIO()
    num_bytes = save_checkpoint(file, step=half, model=model, optimizer=optimizer)

    seed_everything(1)  # another process: other weights, other numbers to come
    model = Cruncher(D, 1)
    optimizer = SGD(model.parameters(), lr=1.0)
    step = load_checkpoint(file, model=model, optimizer=optimizer).step
    assert step == half
    losses += _steps(model, optimizer, num_steps - half)
    assert losses == uninterrupted  # to the bit
    assert num_bytes > 4 * (D * D + D)
    return losses


def _steps(model: Cruncher, optimizer: torch.optim.Optimizer, count: int) -> list[float]:
    losses = []
    for _step in range(count):
        x_BD = torch.randn(B, D)
        loss = functional.mse_loss(model(x_BD), x_BD @ torch.arange(D, dtype=torch.float32))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def mixed_precision() -> float:
    torch.manual_seed(0)
    model = Cruncher(D, 2)
    x_BD = torch.randn(B, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y_B = model(x_BD)
        assert y_B.dtype == torch.bfloat16
    y_B.float().pow(2).mean().backward()
    dtypes = {p.dtype for p in model.parameters()} | {p.grad.dtype for p in model.parameters()}
    assert dtypes == {torch.float32}  # parameters and gradients stay as they were

    small = torch.tensor(2.0**-26)
    lost = small.half()  # fp16 has nothing this small
    assert lost == 0
    scale = 2.0**16
    kept = (small * scale).half().float() / scale  # what GradScaler does
    assert kept == small
    return kept.item()
