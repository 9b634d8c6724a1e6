"""Any causal language model that the installed transformers package knows, measured by its config.json.

Nothing is downloaded and no code of the file's is run: the architecture is one of the package's own, or refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core.checks import one_of, whole_number
from core.jobs.reporting import report
from core.memory.config import ATTENTIONS, MAX_BATCH_SIZE, MAX_PARAMETERS, MAX_SEQ_LEN, PRECISIONS
from core.memory.measure import activation_terms, conditions
from core.memory.step_memory import StepMemory
from core.models.config import MAX_LAYERS
from core.models.huggingface import MAX_FILE_BYTES
from core.words import _

MAX_NUMBER = 2**24  # of any whole number in the file: no width, vocabulary or context is larger
MAX_BLOCKS = 256
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_REFUSED = ("auto_map", "quantization_config")
_DROPPED = ("dtype", "torch_dtype", "_name_or_path", "transformers_version", "architectures", "use_cache")


def measure_huggingface_config(
    json_text: str | bytes | Mapping[str, Any],
    batch_size: int,
    seq_len: int,
    attention: str = "sdpa",
    precision: str = "fp32",
    checkpointing: bool = False,
) -> StepMemory:
    """A training step (torch's AdamW in a for-loop) of the model that a config.json describes, under fake tensors.

    Raises ValueError for a file that is none, asks for code of its own, is out of bounds, or describes what the
    package cannot build or run without data; and where transformers is not installed.
    """
    fields = check_huggingface_config(json_text)
    whole_number("batch_size", batch_size, 1, MAX_BATCH_SIZE)
    whole_number("seq_len", seq_len, 1, MAX_SEQ_LEN)
    one_of("attention", attention, ATTENTIONS)
    one_of("precision", precision, PRECISIONS)
    from core.memory import subjects

    transformers = subjects.import_transformers()
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if fields["model_type"] not in known:
        message = _("model_type {value} is no causal language model of transformers {version}")
        raise ValueError(message.format(value=repr(fields["model_type"])[:40], version=transformers.__version__))
    try:
        return _measured(fields, batch_size, seq_len, attention, precision, checkpointing)
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
    elif isinstance(value, int) and not isinstance(value, bool):
        whole_number(name or _("a number"), value, -1, MAX_NUMBER)


def _measured(
    fields: dict[str, Any], batch_size: int, seq_len: int, attention: str, precision: str, checkpointing: bool
) -> StepMemory:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from core.memory import steps, subjects

    with FakeTensorMode(), subjects.quiet():
        subject = subjects.huggingface(fields, attention, precision, checkpointing)
        count = sum(p.numel() for p in subject.model.parameters())
        if count > MAX_PARAMETERS:
            message = _("this model has {count:,} parameters; steps are accounted for up to {most:,} here")
            raise ValueError(message.format(count=count, most=MAX_PARAMETERS))
        tokens, labels = (torch.zeros(batch_size, seq_len, dtype=torch.long) for _input in range(2))
        adamw = torch.optim.AdamW(subject.model.parameters(), lr=subjects.LR, foreach=False)
        autocast = precision == "autocast"
        moments = steps.metered_steps(
            subject, [adamw], tokens, labels, 1, autocast, lambda fraction: report(fraction, _("two steps"))
        )
    depth = len(subject.blocks)
    return StepMemory(depth, moments, activation_terms(moments), conditions=conditions(precision, False, [depth]))
