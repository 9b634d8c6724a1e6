"""Any causal language model that the installed transformers package knows, measured by its config.json.

Nothing is downloaded and no code of the file's is run: the architecture is one of the package's own, or refused.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.checks import one_of, whole_number
from core.jobs.reporting import report
from core.memory.config import (
    ATTENTIONS,
    MAX_ACCUMULATION_STEPS,
    MAX_BATCH_SIZE,
    MAX_PARAMETERS,
    MAX_SEQ_LEN,
    PRECISIONS,
    TORCH_OPTIMIZERS,
)
from core.memory.measure import activation_terms, conditions
from core.memory.step_memory import StepMemory
from core.models.config import MAX_LAYERS
from core.models.huggingface import MAX_FILE_BYTES
from core.optimizers.registry import OPTIMIZERS
from core.words import _

MAX_NUMBER = 2**24  # of any whole number in the file: no width, vocabulary or context is larger
MAX_BLOCKS = 256
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_SIZES = (
    *_LAYERS, "hidden_size", "n_embd", "d_model", "vocab_size", "intermediate_size", "num_attention_heads", "n_head",
    "num_key_value_heads", "max_position_embeddings", "n_positions",
)  # fmt: skip
_LARGE = ("theta", "freq")  # in the names of numbers that are no sizes
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_REFUSED = ("auto_map", "quantization_config")
_DROPPED = ("dtype", "torch_dtype", "_name_or_path", "transformers_version", "architectures", "use_cache")


@dataclass(frozen=True)
class HuggingFaceStep:
    """A training step of the model that a config.json describes, whatever its architecture: it can only be measured.

    ``fields`` is the checked file as JSON again, in one order, without what changes nothing here.
    """

    fields: str
    batch_size: int
    seq_len: int
    attention: str = "sdpa"
    precision: str = "fp32"
    checkpointing: int | None = None
    accumulation_steps: int = 1
    optimizer: str = "adamw"

    @property
    def model_type(self) -> str:
        return str(json.loads(self.fields)["model_type"])

    @property
    def optimizer_implementation(self) -> str:
        """torch's own loop where torch's are told apart here, else ours."""
        return "for-loop" if self.optimizer in TORCH_OPTIMIZERS else "napkin"


def huggingface_step(
    source: str | bytes | Mapping[str, Any], batch_size: int, seq_len: int, **how: Any
) -> HuggingFaceStep:
    """The step of a config.json (its text, or its fields), checked. ``how`` are the other fields of the step.

    Raises ValueError for a file that is none, asks for code of its own, or is out of bounds.

    >>> huggingface_step('{"n_layer": 2, "model_type": "gpt2"}', 4, 128).fields
    '{"model_type": "gpt2", "n_layer": 2}'
    """
    fields = check_huggingface_config(source)
    step = HuggingFaceStep(
        json.dumps(fields, sort_keys=True),
        whole_number("batch_size", batch_size, 1, MAX_BATCH_SIZE),
        whole_number("seq_len", seq_len, 1, MAX_SEQ_LEN),
        **how,
    )
    one_of("attention", step.attention, ATTENTIONS)
    one_of("precision", step.precision, PRECISIONS)
    one_of("optimizer", step.optimizer, tuple(OPTIMIZERS))
    whole_number("accumulation_steps", step.accumulation_steps, 1, MAX_ACCUMULATION_STEPS)
    if step.checkpointing not in (None, 1):
        message = _("Hugging Face checkpoints every block: checkpointing must be 1 or None; received {value}")
        raise ValueError(message.format(value=step.checkpointing))
    return step


def check_transformers() -> None:
    """Raise ValueError, saying how to get it, where the transformers package is not installed; without importing it."""
    if importlib.util.find_spec("transformers") is None:
        message = _("measuring Hugging Face's models needs the transformers package: pip install transformers")
        raise ValueError(message)


def measure_huggingface_config(
    json_text: str | bytes | Mapping[str, Any],
    batch_size: int,
    seq_len: int,
    attention: str = "sdpa",
    precision: str = "fp32",
    checkpointing: bool = False,
) -> StepMemory:
    """A training step with torch's AdamW, under fake tensors. See ``measure_huggingface_step``."""
    every = 1 if checkpointing else None
    step = huggingface_step(
        json_text, batch_size, seq_len, attention=attention, precision=precision, checkpointing=every
    )
    return measure_huggingface_step(step)


def measure_huggingface_step(step: HuggingFaceStep) -> StepMemory:
    """The step of a config.json's model under the meter, over fake tensors.

    Raises ValueError for what the package does not know as a causal language model, or cannot build or run without
    data; and where transformers is not installed.
    """
    from core.memory import subjects

    transformers = subjects.import_transformers()
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if step.model_type not in known:
        message = _("model_type {value} is no causal language model of transformers {version}")
        raise ValueError(message.format(value=repr(step.model_type)[:40], version=transformers.__version__))
    try:
        return _measured(step)
    except ValueError:
        raise
    except Exception as error:  # whatever the package's own code raises for such a file
        message = _("transformers cannot build or run this model without data: {kind}: {error}")
        raise ValueError(message.format(kind=type(error).__name__, error=str(error)[:200])) from None


def check_huggingface_config(source: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    """The file's fields, if it is a config.json within bounds.

    >>> check_huggingface_config('{"model_type": "gpt2", "auto_map": {"AutoModel": "evil.Model"}}')
    Traceback (most recent call last):
    ValueError: auto_map is not supported: only what the transformers package has itself is measured
    """
    fields = source if isinstance(source, Mapping) else _parsed(source)
    if not isinstance(fields, Mapping) or not isinstance(fields.get("model_type"), str):
        raise ValueError(_('a config.json holds an object with a model_type, for example "gpt2"'))
    for name in (one for one in _REFUSED if fields.get(one)):
        message = _("{name} is not supported: only what the transformers package has itself is measured")
        raise ValueError(message.format(name=name))
    _check_numbers(fields, depth=0)
    for name in (one for one in _SIZES if fields.get(one) is not None and not isinstance(fields[one], list)):
        whole_number(name, fields[name], 1, MAX_NUMBER)
    blocks = max((fields[name] for name in _LAYERS if isinstance(fields.get(name), int)), default=1)
    experts = max((fields[name] for name in _EXPERTS if isinstance(fields.get(name), int)), default=1)
    whole_number(_("the number of blocks"), blocks, 1, MAX_BLOCKS)
    whole_number(_("experts · blocks"), experts * blocks, 1, 16 * MAX_LAYERS)
    return {name: value for name, value in fields.items() if name not in _DROPPED}


def _parsed(source: str | bytes) -> Any:
    if len(source) > MAX_FILE_BYTES:
        message = _("a config.json has at most {most:,} bytes; this one has {size:,}")
        raise ValueError(message.format(most=MAX_FILE_BYTES, size=len(source)))
    try:
        return json.loads(source)
    except RecursionError:
        raise ValueError(_("this config.json is nested too deeply")) from None
    except ValueError as error:
        raise ValueError(_("this is not a config.json: {error}").format(error=str(error)[:100])) from None


def _check_numbers(value: Any, depth: int, name: str = "") -> None:
    if depth > 20:
        raise ValueError(_("this config.json is nested too deeply"))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_numbers(inner, depth + 1, str(key)[:40])
    elif isinstance(value, list):
        for inner in value:
            _check_numbers(inner, depth + 1, name)
    elif isinstance(value, int) and not isinstance(value, bool) and not any(one in name for one in _LARGE):
        whole_number(name or _("a number"), value, -1, MAX_NUMBER)


def _measured(step: HuggingFaceStep) -> StepMemory:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from core.memory import steps, subjects

    with FakeTensorMode(), subjects.quiet():
        subject = subjects.huggingface(
            json.loads(step.fields), step.attention, step.precision, step.checkpointing is not None
        )
        count = sum(p.numel() for p in subject.model.parameters())
        if count > MAX_PARAMETERS:
            message = _("this model has {count:,} parameters; steps are accounted for up to {most:,} here")
            raise ValueError(message.format(count=count, most=MAX_PARAMETERS))
        tokens, labels = (torch.zeros(step.batch_size, step.seq_len, dtype=torch.long) for _input in range(2))
        moments = steps.metered_steps(
            subject, subjects.optimizers(step, subject.model), tokens, labels, min(2, step.accumulation_steps),
            step.precision == "autocast", lambda fraction: report(fraction, _("two steps")),
        )  # fmt: skip
    depth = len(subject.blocks)
    told = conditions(step.precision, False, [depth])
    return StepMemory(depth, moments, activation_terms(moments), config=step, conditions=told)
