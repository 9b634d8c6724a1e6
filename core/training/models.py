"""The networks that are trained, and the optimizers that train them, as a ``TrainConfig`` asks for them.

Letters: B batch, D width, T context, V vocabulary.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from core.models import Cruncher, DeepNetwork, TransformerLM
from core.models.layers import Linear
from core.optimizers import OPTIMIZERS, make
from core.training.config import TrainConfig
from core.words import _

LECTURE_LAYERS = 1  # what a loop that ignores its depth builds
TORCH_NAMES = {
    "sgd": "SGD", "momentum": "SGD", "adagrad": "Adagrad", "rmsprop": "RMSprop", "adam": "Adam", "adamw": "AdamW",
    "adafactor": "Adafactor", "muon": "Muon", "adadelta": "Adadelta", "adamax": "Adamax", "asgd": "ASGD",
    "nadam": "NAdam", "radam": "RAdam", "rprop": "Rprop",
}  # fmt: skip


class DeepRegression(nn.Module):
    """The DeepNetwork of the 2026 lecture, and a head that reads one number off its D features.

    >>> DeepRegression(16, 2)(torch.randn(4, 16)).shape
    torch.Size([4])
    """

    def __init__(self, dim: int, num_layers: int, **factory: Any) -> None:
        super().__init__()
        self.network = DeepNetwork(dim, num_layers, **factory)
        self.head = Linear(dim, 1, **factory)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = rearrange(self.head(self.network(x)), "batch 1 -> batch")
        return y


def parameter_dtype(config: TrainConfig) -> torch.dtype:
    """bf16 where all is in bf16, else fp32."""
    return torch.bfloat16 if config.precision == "bf16" else torch.float32


def build_model(config: TrainConfig, device: str | torch.device | None = None) -> nn.Module:
    """The network with fresh parameters, drawn from torch's generator.

    >>> sum(p.numel() for p in build_model(TrainConfig(dim=16, num_layers=2)).parameters())
    528
    """
    layers = LECTURE_LAYERS if config.bug == "ignored depth" else config.num_layers
    factory: dict[str, Any] = {"device": device or config.device, "dtype": parameter_dtype(config)}
    if config.task == "text":
        shape = config.replace(num_layers=layers).transformer()
        return TransformerLM(shape, **factory)
    kind = Cruncher if config.model == "cruncher" else DeepRegression
    return kind(config.dim, layers, **factory)


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a batch: cross-entropy in nats for tokens, the squared error for numbers.

    Logits in 16 bits are first brought to 32, so that the exponentials are summed there.
    """
    outputs: Tensor = model(inputs)
    if targets.is_floating_point():
        return functional.mse_loss(outputs.float(), targets.float())
    logits = rearrange(outputs, "batch seq vocab -> (batch seq) vocab")
    return functional.cross_entropy(logits.float(), rearrange(targets, "batch seq -> (batch seq)"))


def build_optimizers(config: TrainConfig, model: nn.Module) -> list[torch.optim.Optimizer]:
    """The optimizer: for Muon in a Transformer two, since it is for the hidden matrices and AdamW takes the rest.

    >>> model = build_model(TrainConfig())
    >>> [type(one).__name__ for one in build_optimizers(TrainConfig(optimizer="adamw"), model)]
    ['AdamW']
    """
    if config.optimizer != "muon" or config.task != "text":
        return [_optimizer(config, config.optimizer, list(model.parameters()))]
    hidden: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (hidden if name.startswith("blocks.") and parameter.dim() == 2 else rest).append(parameter)
    return [_optimizer(config, "muon", hidden), _optimizer(config, "adamw", rest)]


def _optimizer(config: TrainConfig, name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    hyper = {} if config.weight_decay is None else {"weight_decay": config.weight_decay}
    if config.implementation == "napkin":
        _check_decay(name, hyper, OPTIMIZERS[name].hyper)
        return make(name, parameters, lr=config.lr, **hyper)
    kind = getattr(torch.optim, TORCH_NAMES[name])
    _check_decay(name, hyper, tuple(inspect.signature(kind).parameters))
    momentum = {"momentum": 0.9} if name == "momentum" else {}
    optimizer: torch.optim.Optimizer = kind(parameters, lr=config.lr, **momentum, **hyper)
    return optimizer


def _check_decay(name: str, hyper: dict[str, float], known: tuple[str, ...]) -> None:
    if hyper and "weight_decay" not in known:
        raise ValueError(_("{name} has no weight decay: leave it out, or use adamw").format(name=name))
