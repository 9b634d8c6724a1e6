"""Training: data, loop, determinism, checkpoints, runs that survive, low precision, many processes (CS336 §6.3–6.8).

Settings, schedules and the records of runs work without torch; it is imported with the first thing that trains.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from core.training.bpe import bits_per_byte, bpe_is_available, bytes_per_token, tokenizer_of, tokens_of
from core.training.config import BUGS, MODELS, PRECISIONS, TASKS, TORCH_ONLY, TrainConfig
from core.training.data import (
    BYTE_VOCAB,
    STDLIB,
    check_text,
    corpus_tokens,
    get_batch,
    num_windows,
    open_tokens,
    standard_library_text,
    store_text,
    text_name,
    write_tokens,
)
from core.training.records import StepCount, StepRecord, to_csv
from core.training.runs import RunInfo, control, delete_run, find_run, list_runs, read_counted, read_records
from core.training.schedules import SCHEDULES, Schedule, cosine_lr

if TYPE_CHECKING:
    from core.models.functional import cross_entropy
    from core.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
    from core.training.clip import clip_grad_norm, gradient_norm
    from core.training.determinism import deterministic, rng_state, seed_everything, set_rng_state
    from core.training.distributed import (
        PARALLELS,
        ProcessesRun,
        command_for,
        compare_communication,
        predict_communication,
        train_on_processes,
    )
    from core.training.inspection import CheckpointError, CheckpointInfo, inspect_checkpoint
    from core.training.loop import Trainer, promised_peak, train
    from core.training.precision import (
        LayerUnderflow,
        PrecisionRun,
        WeightOnly,
        compare_precisions,
        compare_weight_only,
        evaluate,
        gradient_underflow,
        trained,
    )
    from core.training.predict import (
        compare_initial_loss,
        compare_step_flops,
        compare_step_rate,
        compare_step_seconds,
        memory_step,
        predict_initial_loss,
        predict_run_seconds,
        predict_step_flops,
        predict_step_seconds,
        remaining_seconds,
    )
    from core.training.quantised import WEIGHT_FORMATS, QuantisedMatmuls, quantise_model, quantise_weight
    from core.training.repeats import CHANGES, Repeat, repeat_run
    from core.training.run import reset, resume, start, train_in_folder
    from core.training.sample import sample_run, sample_text, sample_tokens
    from core.training.step_memory import advance_counted, compare_step_memory, predict_step_memory
    from core.training.sweeps import SWEPT, Curve, Evidence, SweepPoint, bug_evidence, sweep
    from core.training.updates import (
        Accumulated,
        ClippedStep,
        Clipping,
        LayerDifference,
        accumulate,
        clipping,
        compare_accumulated,
        compare_clipped,
    )

_WITH_TORCH = {
    "core.models.functional": ("cross_entropy",),
    "core.training.checkpoints": ("Checkpoint", "load_checkpoint", "save_checkpoint"),
    "core.training.clip": ("clip_grad_norm", "gradient_norm"),
    "core.training.determinism": ("deterministic", "rng_state", "seed_everything", "set_rng_state"),
    "core.training.distributed": (
        "PARALLELS",
        "ProcessesRun",
        "command_for",
        "compare_communication",
        "predict_communication",
        "train_on_processes",
    ),
    "core.training.inspection": ("CheckpointError", "CheckpointInfo", "inspect_checkpoint"),
    "core.training.loop": ("Trainer", "promised_peak", "train"),
    "core.training.precision": (
        "LayerUnderflow",
        "PrecisionRun",
        "WeightOnly",
        "compare_precisions",
        "compare_weight_only",
        "evaluate",
        "gradient_underflow",
        "trained",
    ),
    "core.training.quantised": ("WEIGHT_FORMATS", "QuantisedMatmuls", "quantise_model", "quantise_weight"),
    "core.training.predict": (
        "compare_initial_loss",
        "compare_step_flops",
        "compare_step_rate",
        "compare_step_seconds",
        "memory_step",
        "predict_initial_loss",
        "predict_run_seconds",
        "predict_step_flops",
        "predict_step_seconds",
        "remaining_seconds",
    ),
    "core.training.sample": ("sample_run", "sample_text", "sample_tokens"),
    "core.training.sweeps": ("SWEPT", "Curve", "Evidence", "SweepPoint", "bug_evidence", "sweep"),
    "core.training.step_memory": ("advance_counted", "compare_step_memory", "predict_step_memory"),
    "core.training.repeats": ("CHANGES", "Repeat", "repeat_run"),
    "core.training.updates": (
        "Accumulated",
        "ClippedStep",
        "Clipping",
        "LayerDifference",
        "accumulate",
        "clipping",
        "compare_accumulated",
        "compare_clipped",
    ),
    "core.training.run": ("reset", "resume", "start", "train_in_folder"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BUGS",
    "BYTE_VOCAB",
    "CHANGES",
    "MODELS",
    "PARALLELS",
    "PRECISIONS",
    "SCHEDULES",
    "STDLIB",
    "SWEPT",
    "TASKS",
    "TORCH_ONLY",
    "WEIGHT_FORMATS",
    "Accumulated",
    "Checkpoint",
    "CheckpointError",
    "CheckpointInfo",
    "ClippedStep",
    "Clipping",
    "Curve",
    "Evidence",
    "LayerDifference",
    "LayerUnderflow",
    "PrecisionRun",
    "ProcessesRun",
    "QuantisedMatmuls",
    "Repeat",
    "RunInfo",
    "Schedule",
    "StepCount",
    "StepRecord",
    "SweepPoint",
    "TrainConfig",
    "Trainer",
    "WeightOnly",
    "accumulate",
    "advance_counted",
    "bits_per_byte",
    "bpe_is_available",
    "bug_evidence",
    "bytes_per_token",
    "check_text",
    "clip_grad_norm",
    "clipping",
    "command_for",
    "compare_accumulated",
    "compare_clipped",
    "compare_communication",
    "compare_initial_loss",
    "compare_precisions",
    "compare_step_flops",
    "compare_step_memory",
    "compare_step_rate",
    "compare_step_seconds",
    "compare_weight_only",
    "control",
    "corpus_tokens",
    "cosine_lr",
    "cross_entropy",
    "delete_run",
    "deterministic",
    "evaluate",
    "find_run",
    "get_batch",
    "gradient_norm",
    "gradient_underflow",
    "inspect_checkpoint",
    "list_runs",
    "load_checkpoint",
    "memory_step",
    "num_windows",
    "open_tokens",
    "predict_communication",
    "predict_initial_loss",
    "predict_run_seconds",
    "predict_step_flops",
    "predict_step_memory",
    "predict_step_seconds",
    "promised_peak",
    "quantise_model",
    "quantise_weight",
    "read_counted",
    "read_records",
    "remaining_seconds",
    "repeat_run",
    "reset",
    "resume",
    "rng_state",
    "sample_run",
    "sample_text",
    "sample_tokens",
    "save_checkpoint",
    "seed_everything",
    "set_rng_state",
    "standard_library_text",
    "start",
    "store_text",
    "sweep",
    "text_name",
    "to_csv",
    "tokenizer_of",
    "tokens_of",
    "train",
    "train_in_folder",
    "train_on_processes",
    "trained",
    "write_tokens",
]
