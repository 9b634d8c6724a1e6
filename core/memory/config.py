"""What a training step's memory depends on, checked once. Works without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, whole_number
from core.models.config import MAX_LAYERS, TransformerConfig, preset
from core.optimizers.registry import OPTIMIZERS
from core.words import _

IMPLEMENTATIONS = ("napkin", "huggingface")
ATTENTIONS = ("sdpa", "eager")
PRECISIONS = ("fp32", "autocast", "bf16")
SHARDINGS = ("zero1", "zero2", "zero3")
OPTIMIZER_IMPLEMENTATIONS = ("napkin", "for-loop", "foreach", "fused")
TORCH_OPTIMIZERS = ("adam", "adamw")  # those whose implementations in torch are told apart here
MAX_BATCH_SIZE = 2**20
MAX_SEQ_LEN = 2**24
MAX_ACCUMULATION_STEPS = 2**20
MAX_DEVICES = 2**17
MAX_PARAMETERS = 10**12
MAX_ELEMENTS = 2**53  # in one tensor: beyond it torch's and Python's own counts of bytes come near their ends


@dataclass(frozen=True)
class StepConfig:
    """One training step: forward, loss, backward, optimizer.

    ``model`` is a preset's name or a TransformerConfig, and is a TransformerConfig afterwards; ``num_layers`` changes
    its depth. ``batch_size`` is the sequences of one forward (the micro-batch): with ``accumulation_steps`` an update
    sees that many times more. ``precision`` is "fp32", "autocast" (fp32 parameters, bf16 matrix products) or "bf16"
    (all of it). ``checkpointing=k`` keeps the input of every k blocks and computes the rest again. ``implementation``
    is "napkin" (``core.models``) or "huggingface" (transformers' GPT-2 and Llama). ``optimizer_implementation`` is
    "napkin" (``core.optimizers``) or torch's own "for-loop", "foreach" or "fused"; where it is left out, the model's
    house decides: ours, or torch's for-loop.

    Raises ValueError for what cannot be a step, with the value received and what would be right.

    >>> StepConfig("gpt2", batch_size=4, seq_len=1024).model.num_params
    124439808
    >>> StepConfig("gpt2", batch_size=4, seq_len=2048)
    Traceback (most recent call last):
    ValueError: seq_len must be a whole number from 1 to 1,024; received 2048
    """

    model: TransformerConfig
    implementation: str
    batch_size: int
    seq_len: int
    attention: str
    precision: str
    checkpointing: int | None
    accumulation_steps: int
    optimizer: str
    optimizer_implementation: str
    sharding: str | None
    num_devices: int

    def __init__(
        self,
        model: str | TransformerConfig,
        implementation: str = "napkin",
        batch_size: int = 1,
        seq_len: int = 1024,
        num_layers: int | None = None,
        attention: str = "sdpa",
        precision: str = "fp32",
        checkpointing: int | None = None,
        accumulation_steps: int = 1,
        optimizer: str = "adamw",
        sharding: str | None = None,
        num_devices: int = 1,
        optimizer_implementation: str | None = None,
    ) -> None:
        shape = _model(model, num_layers)
        positions = shape.learned_positions or MAX_SEQ_LEN
        house = "napkin" if implementation == "napkin" else "for-loop"
        checked = {
            "model": shape,
            "implementation": one_of("implementation", implementation, IMPLEMENTATIONS),
            "batch_size": whole_number("batch_size", batch_size, 1, MAX_BATCH_SIZE),
            "seq_len": whole_number("seq_len", seq_len, 1, positions),
            "attention": one_of("attention", attention, ATTENTIONS),
            "precision": one_of("precision", precision, PRECISIONS),
            "checkpointing": _optional("checkpointing", checkpointing, shape.num_layers),
            "accumulation_steps": whole_number("accumulation_steps", accumulation_steps, 1, MAX_ACCUMULATION_STEPS),
            "optimizer": one_of("optimizer", optimizer, tuple(OPTIMIZERS)),
            "optimizer_implementation": one_of(
                "optimizer_implementation", optimizer_implementation or house, OPTIMIZER_IMPLEMENTATIONS
            ),
            "sharding": None if sharding is None else one_of("sharding", sharding, SHARDINGS),
            "num_devices": whole_number("num_devices", num_devices, 1, MAX_DEVICES),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _check_tensors(self)
        _check_support(self)

    @property
    def num_layers(self) -> int:
        return self.model.num_layers

    @property
    def num_tokens(self) -> int:
        """N = B·T, the tokens of one forward."""
        return self.batch_size * self.seq_len

    def change(self, **fields: Any) -> StepConfig:
        """The same step but for these fields.

        >>> StepConfig("gpt2", batch_size=4, seq_len=1024).change(batch_size=8).num_tokens
        8192
        """
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return StepConfig(**kept | fields)


def _model(model: object, num_layers: int | None) -> TransformerConfig:
    if isinstance(model, str):
        model = preset(model)
    if not isinstance(model, TransformerConfig):
        message = _("model must be a preset's name or a TransformerConfig; received {value}")
        raise ValueError(message.format(value=repr(model)[:40]))
    if num_layers is not None:
        model = dataclasses.replace(model, num_layers=whole_number("num_layers", num_layers, 1, MAX_LAYERS))
    if model.num_params > MAX_PARAMETERS:
        message = _("this model has {count:,} parameters; steps are accounted for up to {most:,} here")
        raise ValueError(message.format(count=model.num_params, most=MAX_PARAMETERS))
    return model


def _optional(name: str, value: object, high: int) -> int | None:
    return None if value is None else whole_number(name, value, 1, high)


def _check_tensors(config: StepConfig) -> None:
    """No tensor of the step may have more elements than can be counted."""
    model, tokens = config.model, config.num_tokens
    widest = max(model.vocab_size, model.d_ff, model.q_dim, model.d_model)
    scores = config.num_tokens * config.seq_len * model.num_heads if config.attention == "eager" else 0
    largest = max(tokens * widest, scores)
    if largest > MAX_ELEMENTS:
        message = _("batch_size · seq_len is too large: one tensor of this step would have {count:,} elements")
        raise ValueError(message.format(count=largest))


def _check_support(config: StepConfig) -> None:
    if config.optimizer_implementation != "napkin" and config.optimizer not in TORCH_OPTIMIZERS:
        message = _("torch's {implementation} optimizers here are {right}; received {value}")
        texts = {"implementation": config.optimizer_implementation, "right": ", ".join(TORCH_OPTIMIZERS)}
        raise ValueError(message.format(value=config.optimizer, **texts))
    if not config.model.learned_positions and (config.model.head_dim or 0) < 4:
        message = _("rotary positions turn heads of at least 4 numbers here; received head_dim {value}")
        raise ValueError(message.format(value=config.model.head_dim))
    if config.sharding is None and config.num_devices != 1:
        raise ValueError(_("num_devices is for sharded steps: give sharding, or num_devices=1"))
    if config.implementation == "huggingface" and config.checkpointing not in (None, 1):
        message = _("Hugging Face checkpoints every block: checkpointing must be 1 or None; received {value}")
        raise ValueError(message.format(value=config.checkpointing))
