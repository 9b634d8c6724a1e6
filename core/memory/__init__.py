"""Memory of a training step: predicted to the byte from its config, measured by its live storages (CS336 §6.5).

Predictions work without torch; it is imported with the first measurement.
"""

from __future__ import annotations

from core.memory.compare import (
    StepComparison,
    compare_implementations,
    compare_step,
    predict_activations,
    predict_peak,
)
from core.memory.config import (
    ATTENTIONS,
    IMPLEMENTATIONS,
    MAX_ACCUMULATION_STEPS,
    MAX_BATCH_SIZE,
    MAX_SEQ_LEN,
    OPTIMIZER_IMPLEMENTATIONS,
    PRECISIONS,
    SHARDINGS,
    StepConfig,
)
from core.memory.cruncher import measure_cruncher_step, predict_cruncher_step
from core.memory.fits import (
    Checkpointing,
    PeakLine,
    best_checkpointing,
    checkpointing_choices,
    fits,
    largest_batch,
    largest_depth,
    largest_model,
    peak_line,
)
from core.memory.huggingface import (
    HuggingFaceStep,
    check_huggingface_config,
    check_transformers,
    huggingface_step,
    measure_huggingface_config,
    measure_huggingface_step,
)
from core.memory.measure import check_fits_here, measure_step, measured_depths
from core.memory.predict import predict_step
from core.memory.result import CATEGORIES, Moment
from core.memory.rules import korthikanti_activations, sixteen_bytes_per_parameter
from core.memory.step_memory import NAMES, StepMemory

__all__ = [
    "ATTENTIONS",
    "CATEGORIES",
    "IMPLEMENTATIONS",
    "MAX_ACCUMULATION_STEPS",
    "MAX_BATCH_SIZE",
    "MAX_SEQ_LEN",
    "NAMES",
    "OPTIMIZER_IMPLEMENTATIONS",
    "PRECISIONS",
    "SHARDINGS",
    "Checkpointing",
    "HuggingFaceStep",
    "Moment",
    "PeakLine",
    "StepComparison",
    "StepConfig",
    "StepMemory",
    "best_checkpointing",
    "check_fits_here",
    "check_huggingface_config",
    "check_transformers",
    "checkpointing_choices",
    "compare_implementations",
    "compare_step",
    "fits",
    "huggingface_step",
    "korthikanti_activations",
    "largest_batch",
    "largest_depth",
    "largest_model",
    "measure_cruncher_step",
    "measure_huggingface_config",
    "measure_huggingface_step",
    "measure_step",
    "measured_depths",
    "peak_line",
    "predict_activations",
    "predict_cruncher_step",
    "predict_peak",
    "predict_step",
    "sixteen_bytes_per_parameter",
]
