"""What a run is: every setting, checked once. Works without torch, and goes to JSON and back."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, positive_number, whole_number
from core.flops.transformer import transformer_flops
from core.models.config import MAX_LAYERS, TransformerConfig
from core.optimizers.registry import IMPLEMENTATIONS, OPTIMIZERS
from core.training.data import BYTE_VOCAB, MAX_BATCH_TOKENS, MAX_VOCAB, STDLIB, check_corpus
from core.training.schedules import SCHEDULES
from core.words import _

TASKS = ("regression", "text")
MODELS = {"regression": ("cruncher", "deep network"), "text": ("transformer",)}
# Beyond our own, torch has these, with nothing of ours beside them. LBFGS and SparseAdam need another loop.
TORCH_ONLY = ("adadelta", "adamax", "asgd", "nadam", "radam", "rprop")
PRECISIONS = ("fp32", "bf16 autocast", "fp16 scaled", "fp16 unscaled", "bf16", "fp8 matmul", "fp4 matmul")
BUGS = ("ignored lr", "ignored depth", "no zero_grad", "no optimizer restored", "last window missing", "mean for sum")
MAX_STEPS = 100_000
MAX_LOSS_SCALE_LOG2 = 40
MAX_JSON_CHARS = 20_000


@dataclass(frozen=True)
class TrainConfig:
    """A training run, from the data to the last step.

    ``task`` "regression" is the lecture's y = x·(0 … dim − 1) on random x, read off by a "cruncher" or a "deep
    network" with a head; "text" trains a Transformer on the ``corpus``, in bytes or, with a ``vocab_size`` above 256,
    in tokens of a BPE (``core.training.bpe``). ``batch_size`` is that of an update, over all devices, drawn at once
    and worked off in ``num_accumulation_steps`` equal parts.

    ``optimizer`` is one of ``core.optimizers`` ("napkin" or "torch" ``implementation``), or one that torch alone has;
    ``weight_decay`` goes to those that have it. ``max_grad_norm`` None clips nothing. ``precision``: "bf16" keeps all
    in bf16; "autocast", "scaled" and "unscaled" keep parameters in fp32 and run products in 16 bits; "fp8 matmul" and
    "fp4 matmul" round the operands of products and multiply in fp32. ``bug`` switches one mistake of ``BUGS`` on.

    The loss is multiplied by 2^``loss_scale_log2`` before backward and the gradients divided by it afterwards, which
    changes nothing but what underflows meanwhile. −14 makes gradients as small as a batch of 16,384 times as many
    tokens does; a positive one is a loss scale by hand.

    Raises ValueError for what cannot be a run, with the value received and what would be right.

    >>> config = TrainConfig(num_steps=200, lr=0.005)
    >>> TrainConfig.from_json(config.to_json()) == config
    True
    >>> TrainConfig(batch_size=4, num_accumulation_steps=3)
    Traceback (most recent call last):
    ValueError: batch_size must be a multiple of num_accumulation_steps, 3; received 4
    """

    task: str = "regression"
    model: str = ""
    num_layers: int = 2
    dim: int = 16
    num_heads: int = 4
    d_ff: int = 0
    context_length: int = 64
    tied_head: bool = True
    corpus: str = STDLIB
    vocab_size: int = BYTE_VOCAB
    batch_size: int = 4
    num_accumulation_steps: int = 1
    num_steps: int = 100
    optimizer: str = "sgd"
    implementation: str = "napkin"
    lr: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    min_lr: float = 0.0
    weight_decay: float | None = None
    max_grad_norm: float | None = None
    precision: str = "fp32"
    loss_scale_log2: int = 0
    device: str = "cpu"
    seed: int = 0
    bug: str = ""

    def __post_init__(self) -> None:
        one_of("task", self.task, TASKS)
        self._set("model", one_of("model", self.model or MODELS[self.task][0], MODELS[self.task]))
        whole = {
            "num_layers": (1, MAX_LAYERS), "dim": (1, 2**16), "num_heads": (1, 2**16), "d_ff": (0, 2**20),
            "context_length": (1, 2**16), "batch_size": (1, 2**20), "num_accumulation_steps": (1, 2**20),
            "num_steps": (1, MAX_STEPS), "warmup_steps": (0, MAX_STEPS), "seed": (0, 2**32 - 1),
            "loss_scale_log2": (-MAX_LOSS_SCALE_LOG2, MAX_LOSS_SCALE_LOG2), "vocab_size": (BYTE_VOCAB, MAX_VOCAB),
        }  # fmt: skip
        for name, (low, high) in whole.items():
            self._set(name, whole_number(name, getattr(self, name), low, high))
        self._set("d_ff", self.d_ff or 4 * self.dim)
        if self.batch_size % self.num_accumulation_steps:
            message = _("batch_size must be a multiple of num_accumulation_steps, {parts:,}; received {value:,}")
            raise ValueError(message.format(parts=self.num_accumulation_steps, value=self.batch_size))
        self._check_update()
        one_of("precision", self.precision, PRECISIONS)
        self._check_bug()
        if not (isinstance(self.device, str) and self.device.split(":")[0] in ("cpu", "cuda", "mps", "xpu")):
            message = _("device must be cpu, cuda, mps or xpu, with an index or without; received {value}")
            raise ValueError(message.format(value=repr(self.device)[:40]))
        if self.task == "text":
            check_corpus(self.corpus)
            whole_number("batch_size · context_length", self.batch_size * self.context_length, 1, MAX_BATCH_TOKENS)
            self.transformer()
        else:
            whole_number("batch_size · dim", self.batch_size * self.dim, 1, MAX_BATCH_TOKENS)

    def _check_bug(self) -> None:
        if self.bug:
            one_of("bug", self.bug, BUGS)
        if self.bug == "last window missing" and self.task != "text":
            raise ValueError(_("the last window can only be missing where there are windows: choose the text"))
        if self.bug == "mean for sum" and self.num_accumulation_steps == 1:
            raise ValueError(_("a mean for a sum shows only with 2 accumulation steps or more"))

    def _check_update(self) -> None:
        one_of("schedule", self.schedule, SCHEDULES)
        one_of("implementation", self.implementation, IMPLEMENTATIONS)
        allowed = (*OPTIMIZERS, *(TORCH_ONLY if self.implementation == "torch" else ()))
        one_of("optimizer", self.optimizer, allowed)
        self._set("lr", positive_number("lr", self.lr, 1e6))
        for name in ("min_lr", "weight_decay"):
            value = getattr(self, name)
            if value is not None and value != 0:
                positive_number(name, value, 1e6)
        if self.min_lr > self.lr:
            message = _("min_lr must be at most lr, {lr:g}; received {value:g}")
            raise ValueError(message.format(lr=self.lr, value=self.min_lr))
        if self.max_grad_norm is not None:
            self._set("max_grad_norm", positive_number("max_grad_norm", self.max_grad_norm))
        if not isinstance(self.tied_head, bool):
            raise ValueError(_("tied_head must be true or false; received {value}").format(value=repr(self.tied_head)))

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def transformer(self) -> TransformerConfig:
        """The Transformer of the text task: Llama's layers, GPT-2's width of feed-forward."""
        return TransformerConfig(
            "training",
            self.num_layers,
            self.dim,
            self.num_heads,
            self.d_ff,
            self.vocab_size,
            gated_mlp=False,
            tied_head=self.tied_head,
            context_length=self.context_length,
        )

    @property
    def tokens_per_step(self) -> int:
        """Tokens of an update; rows, where the task is the regression.

        >>> TrainConfig(task="text", dim=32, batch_size=8, context_length=64).tokens_per_step
        512
        """
        return self.batch_size * (self.context_length if self.task == "text" else 1)

    @property
    def num_params(self) -> int:
        """Parameters of the model.

        >>> TrainConfig(dim=16, num_layers=2).num_params
        528
        """
        if self.task == "text":
            return self.transformer().num_params
        return self.num_layers * self.dim**2 + self.dim

    @property
    def flops_per_step(self) -> int:
        """FLOPs of forward and backward of an update, a multiply-add being 2, no gradient being computed for x.

        Of the regression that is 6·B·N less the first layer's gradient for x, 2·B·D² (CS336 §5.6). Of the Transformer
        see ``core.flops.transformer_flops``.

        >>> TrainConfig(dim=4, num_layers=2, batch_size=2).flops_per_step
        368
        """
        if self.task == "text":
            return transformer_flops(self.transformer(), self.batch_size, self.context_length).total_flops
        return 6 * self.batch_size * self.num_params - 2 * self.batch_size * self.dim**2

    def replace(self, **changes: Any) -> TrainConfig:
        """The same run with other settings.

        >>> TrainConfig().replace(lr=0.1).lr
        0.1
        """
        if changes.get("task", self.task) != self.task:
            changes = {"model": "", **changes}
        if "dim" in changes and not self._own_width():
            changes = {"d_ff": 0, **changes}
        return dataclasses.replace(self, **changes)

    def changed(self) -> dict[str, Any]:
        """The settings that are not the defaults.

        >>> TrainConfig(lr=0.1, seed=3).changed()
        {'lr': 0.1, 'seed': 3}
        """
        default, values = _default(self.task), vars(self)
        changed = {k: v for k, v in values.items() if v != getattr(default, k) and k != "d_ff"}
        return ({"task": self.task} if self.task != "regression" else {}) | changed | self._own_width()

    def _own_width(self) -> dict[str, int]:
        return {} if self.d_ff == 4 * self.dim else {"d_ff": self.d_ff}

    def to_json(self) -> str:
        """The settings as one line of JSON."""
        return json.dumps(vars(self))  # in the order of the fields; none of them holds another dataclass

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        """The run of such a line. Raises ValueError for any other text."""
        if len(text) > MAX_JSON_CHARS:
            message = _("settings must have at most {limit:,} characters; received {size:,}")
            raise ValueError(message.format(limit=MAX_JSON_CHARS, size=len(text)))
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                _("settings must be JSON, one level of names and values: {error}").format(error=error)
            ) from error
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: object) -> TrainConfig:
        """The run of a dictionary of settings; those left out are the defaults. Raises ValueError for unknown ones."""
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise ValueError(_("settings must be names with values; received {value}").format(value=repr(values)[:40]))
        for unknown in (key for key in values if key not in known):
            message = _("there is no setting {unknown}; there are {known}")
            raise ValueError(message.format(unknown=unknown[:40], known=", ".join(sorted(known))))
        try:
            return cls(**values)
        except (TypeError, OverflowError) as error:  # a list where a number belongs
            raise ValueError(_("a setting has the wrong kind of value: {error}").format(error=error)) from error


@functools.cache
def _default(task: str) -> TrainConfig:
    return TrainConfig(task=task)
