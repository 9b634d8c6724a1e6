"""Whose memory is asked for: a listed model's, a shape of one's own, or what a Hugging Face config.json describes."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import units
from core.memory.huggingface import check_huggingface_config
from core.models import MAX_FILE_BYTES, MODEL_TYPES, PRESETS, TransformerConfig, config_from_huggingface
from core.words import _
from pages._ui import inputs, prose

OWN, FILE = "own", "file"
HOUSES = {"napkin": "Napkin", "huggingface": "Hugging Face"}
OWN_FIELDS = {
    "num_layers": (_("Layers"), 4, 10**4),
    "d_model": (_("Width D"), 256, 10**7),
    "num_heads": (_("Heads"), 4, 10**5),
    "d_ff": (_("Feed-forward F"), 1024, 10**8),
    "vocab_size": (_("Vocabulary V"), 8192, 10**8),
}


@dataclass(frozen=True)
class Foreign:
    """A checked config.json of an architecture that has no napkin here: its fields, as JSON."""

    model_type: str
    fields: str


Model = str | TransformerConfig | Foreign


def choose() -> str:
    """The control: a preset's name, ``OWN`` or ``FILE``."""
    labels = {name: one.name for name, one in PRESETS.items()}
    labels |= {OWN: _("your own"), FILE: _("your own config.json")}
    return inputs.select(_("Model"), "mem_model", list(labels), labels.__getitem__)


def of(name: str, row: Any) -> Model:
    """The model of that name; its own controls go behind a button in the row. Raises ValueError for what is none."""
    if name not in (OWN, FILE):
        return name
    with row, st.popover(_("shape") if name == OWN else "config.json", key="mem_source"):
        if name == OWN:
            return _own()
        source = inputs.pasted(
            _("Paste a Hugging Face config.json of any causal language model"), "mem_config", MAX_FILE_BYTES,
            ["json"], placeholder='{"model_type": "llama", "hidden_size": 4096, …}', height=260,
        )  # fmt: skip
    if not source.strip():
        raise ValueError(_("Open “config.json” above and paste a model's file, or choose one."))
    model = read(source)
    st.caption(prose.plain(_in_words(model)))
    return model


def _own() -> TransformerConfig:
    chosen: dict[str, Any] = {
        field: inputs.whole_number(label, f"mem_{field}", default, 1, most)
        for field, (label, default, most) in OWN_FIELDS.items()
    }
    gpt2 = inputs.switch(_("GPT-2 style"), "mem_gpt2")
    style: dict[str, Any] = {"context_length": 2048}
    if gpt2:
        style = {"learned_positions": 1024, "gated_mlp": False, "bias": True, "norm_bias": True, "tied_head": True}
    return TransformerConfig(_("your own"), **chosen, **style)


@functools.lru_cache(maxsize=64)
def read(source: str | bytes) -> TransformerConfig | Foreign:
    """The model that a config.json describes; nothing in it is run or looked up.

    >>> read('{"model_type": "gpt_neox", "hidden_size": 32}').model_type
    'gpt_neox'
    """
    fields = check_huggingface_config(source)
    if fields["model_type"] in MODEL_TYPES:
        return config_from_huggingface(source)
    return Foreign(fields["model_type"], json.dumps(fields, sort_keys=True))


def _in_words(model: TransformerConfig | Foreign) -> str:
    if isinstance(model, Foreign):
        message = _("{kind}: no napkin for it here. Its step is measured with Hugging Face's own modules.")
        return message.format(kind=model.model_type[:40])
    message = _("{name}: {n} parameters, L {layers:,}, D {d:,}, {heads:,} heads, F {f:,}, V {v:,}.")
    told = message.format(
        name=model.name, n=units.si(model.num_params, ""), layers=model.num_layers, d=model.d_model,
        heads=model.num_heads, f=model.d_ff, v=model.vocab_size,
    )  # fmt: skip
    return " ".join([told, *(f"{note[:1].upper()}{note[1:]}." for note in model.notes)])
