"""Models: the lecture's Cruncher and DeepNetwork, and a Transformer from GPT-2 to Llama (CS336 §6.1, §6.2).

Configs, presets and counts work without torch; it is imported with the first network that is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from core.models.config import MAX_LAYERS, PRESETS, TransformerConfig, count_parameters, preset
from core.models.gains import (
    GainRun,
    check_gains,
    compare_activation_gain,
    compare_gradient_gain,
    measure_gains,
    measure_many_gains,
    predict_gain,
)
from core.models.huggingface import LLAMA_LIKE, MAX_FILE_BYTES, MODEL_TYPES, config_from_huggingface
from core.models.initialization import (
    SCHEMES,
    Scheme,
    TruncationRun,
    compare_output_std,
    compare_output_stds,
    compare_truncation,
    initialize,
    predict_output_std,
    share_truncated,
    truncated_normal_std,
)
from core.models.parameters import (
    Parameter,
    compare_cruncher_parameters,
    compare_parameters,
    list_parameters,
    predict_parameters,
)

if TYPE_CHECKING:
    from core.models.attention import ATTENTIONS, MultiHeadSelfAttention, causal_attention
    from core.models.blocks import run_blocks
    from core.models.build import check_size
    from core.models.functional import cross_entropy, softmax
    from core.models.layers import Embedding, FeedForward, Linear, RMSNorm, RotaryEmbedding, SwiGLU, rotate
    from core.models.lecture import Cruncher, DeepNetwork, ReluLayer, cruncher_parameters
    from core.models.transformer import TransformerBlock, TransformerLM

_WITH_TORCH = {
    "attention": ("ATTENTIONS", "MultiHeadSelfAttention", "causal_attention"),
    "blocks": ("run_blocks",),
    "build": ("check_size",),
    "functional": ("cross_entropy", "softmax"),
    "layers": ("Embedding", "FeedForward", "Linear", "RMSNorm", "RotaryEmbedding", "SwiGLU", "rotate"),
    "lecture": ("Cruncher", "DeepNetwork", "ReluLayer", "cruncher_parameters"),
    "transformer": ("TransformerBlock", "TransformerLM"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(importlib.import_module(f"core.models.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ATTENTIONS",
    "LLAMA_LIKE",
    "MAX_FILE_BYTES",
    "MAX_LAYERS",
    "MODEL_TYPES",
    "PRESETS",
    "SCHEMES",
    "Cruncher",
    "DeepNetwork",
    "Embedding",
    "FeedForward",
    "GainRun",
    "Linear",
    "MultiHeadSelfAttention",
    "Parameter",
    "RMSNorm",
    "ReluLayer",
    "RotaryEmbedding",
    "Scheme",
    "SwiGLU",
    "TransformerBlock",
    "TransformerConfig",
    "TransformerLM",
    "TruncationRun",
    "causal_attention",
    "check_gains",
    "check_size",
    "compare_activation_gain",
    "compare_cruncher_parameters",
    "compare_gradient_gain",
    "compare_output_std",
    "compare_output_stds",
    "compare_parameters",
    "compare_truncation",
    "config_from_huggingface",
    "count_parameters",
    "cross_entropy",
    "cruncher_parameters",
    "initialize",
    "list_parameters",
    "measure_gains",
    "measure_many_gains",
    "predict_gain",
    "predict_output_std",
    "predict_parameters",
    "preset",
    "rotate",
    "run_blocks",
    "share_truncated",
    "softmax",
    "truncated_normal_std",
]
