"""Parameters listed one tensor at a time, and counted twice: in closed form, and from the model that torch builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.flops.transformer_shapes import TransformerShape
from core.models.config import TransformerConfig
from core.words import _

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model: its name, its shape, its entries, its bytes."""

    name: str
    shape: tuple[int, ...]
    numel: int
    dtype: str
    num_bytes: int


def list_parameters(model: nn.Module) -> tuple[Parameter, ...]:
    """Every parameter of the model once, in the order that torch has them.

    >>> from core.models.lecture import Cruncher
    >>> [(one.name, one.shape, one.numel) for one in list_parameters(Cruncher(64, 2))]
    [('layers.0.weight', (64, 64), 4096), ('layers.1.weight', (64, 64), 4096), ('head.weight', (1, 64), 64)]
    """
    return tuple(
        Parameter(name, tuple(p.shape), p.numel(), str(p.dtype).removeprefix("torch."), p.numel() * p.element_size())
        for name, p in model.named_parameters()
    )


def predict_parameters(config: TransformerShape) -> Prediction:
    """The parameters of a Transformer in closed form: embeddings, blocks, final norm, head.

    >>> from core.models.config import PRESETS
    >>> prediction = predict_parameters(PRESETS["llama3-8b"])
    >>> prediction.text, [term.name for term in prediction.terms]
    ('8.03 B parameters', ['embeddings', 'blocks', 'final norm', 'head'])
    """
    blocks = config.num_layers * config.num_layer_params
    terms = (
        Term(_("embeddings"), config.num_embedding_params, _("tokens, and learned positions where there are any")),
        Term(_("blocks"), blocks, f"{config.num_layers:,} · {config.num_layer_params:,}"),
        Term(_("final norm"), config.num_non_embedding_params - blocks, ""),
        Term(_("head"), config.num_head_params, _("0 where it is the embedding")),
    )
    formula = " + ".join(f"{int(term.value):,}" for term in terms)
    return Prediction(_("parameters"), config.num_params, "parameters", formula, terms, config.source)


def compare_parameters(config: TransformerConfig, listed: Sequence[Parameter] | None = None) -> Comparison:
    """The closed form beside the model as torch builds it, on the meta device: no memory, any size.

    ``listed`` are its parameters where it has been built.

    >>> from core.models.config import PRESETS
    >>> compare_parameters(PRESETS["gpt2"]).difference
    0
    """
    from core.models.transformer import TransformerLM

    listed = listed or list_parameters(TransformerLM(config, device="meta"))
    return Comparison(predict_parameters(config), _count(listed))


def compare_cruncher_parameters(dim: int, num_layers: int, listed: Sequence[Parameter] | None = None) -> Comparison:
    """L·D² + D beside the Cruncher as torch builds it; ``listed`` are its parameters where it has been built.

    >>> comparison = compare_cruncher_parameters(64, 2)
    >>> comparison.prediction.formula, comparison.measurement.value
    ('2 · 64² + 64', 8256)
    """
    from core.models.lecture import Cruncher, check_dims, cruncher_parameters

    dim, num_layers = check_dims(dim, num_layers)
    formula = f"{num_layers:,} · {dim:,}² + {dim:,}"
    terms = (Term(_("hidden layers"), num_layers * dim * dim, "L·D²"), Term(_("head"), dim, "D·1"))
    source = _("CS336 lecture 2, §6.2")
    value = cruncher_parameters(dim, num_layers)
    prediction = Prediction(_("parameters"), value, "parameters", formula, terms, source)
    return Comparison(prediction, _count(listed or list_parameters(Cruncher(dim, num_layers, device="meta"))))


def _count(listed: Sequence[Parameter]) -> Measurement:
    import torch

    counted = sum(one.numel for one in listed)
    conditions = Conditions(
        "meta", _("torch's meta device"), "fp32", threads=1, warmup=0, trials=1, torch_version=str(torch.__version__)
    )
    return Measurement(_("parameters"), (counted,), "parameters", conditions)
