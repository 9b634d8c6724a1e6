"""The lesson of the optimizer memory page (CS336 lecture 2, §6.5): a step on the Cruncher, counted as it goes.

Shapes: B rows, D width.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import torch
from torch.nn.functional import mse_loss
from torch.utils.flop_counter import FlopCounterMode

from core.memory.cruncher import check_cruncher, saved_by_backward
from core.models.lecture import Cruncher
from core.optimizers import AdaGrad, measured_state_bytes


def cruncher_step(b: int, d: int, num_layers: int) -> int:
    check_cruncher(b, d, num_layers)  # refused before anything is allocated
    model = Cruncher(d, num_layers)
    optimizer = AdaGrad(model.parameters(), lr=0.01)
    num_parameters = sum(p.numel() for p in model.parameters())
    num_activations = b * d * num_layers
    num_gradients = num_parameters
    num_states = num_parameters
    num_bytes = 4 * (num_parameters + num_activations + num_gradients + num_states)
    flops = 6 * b * num_parameters

    x_BD, y_B = torch.randn(b, d), torch.randn(b)
    with FlopCounterMode(display=False) as counter, saved_by_backward(model) as saved:
        loss = mse_loss(model(x_BD), y_B)
        loss.backward()
    optimizer.step()
    counted_flops = counter.get_total_flops()
    num_saved = sum(saved.values())  # x, each layer's output, the loss's prediction and target

    assert measured_state_bytes(optimizer) == 4 * num_states
    assert counted_flops == flops - 2 * b * d * d  # nobody needs a gradient for x
    assert num_saved == num_activations + b * d + 2 * b
    if (b, d, num_layers) == (2, 4, 2):  # the lecture's numbers
        assert (num_parameters, num_activations, num_bytes) == (36, 16, 496)
        assert (flops, counted_flops, num_saved) == (432, 368, 28)
    return num_bytes
