"""Estimates that fit on a napkin, and how they fit trainings that were published (CS336 lecture 2, §2). No torch."""

from core.napkin.estimates import (
    MAX_DEVICES,
    RECIPES,
    Recipe,
    max_params,
    predict_cost,
    predict_energy,
    predict_max_params,
    predict_training_time,
    recipe_parts,
    training_days,
    training_flops,
)
from core.napkin.published import (
    PublishedRun,
    compare_gpu_hours,
    flops_per_token,
    mfu_of_throughput,
    published_runs,
    published_table,
)
from core.napkin.throughput import THROUGHPUTS, Throughput, compare_throughput

__all__ = [
    "MAX_DEVICES",
    "RECIPES",
    "THROUGHPUTS",
    "PublishedRun",
    "Recipe",
    "Throughput",
    "compare_gpu_hours",
    "compare_throughput",
    "flops_per_token",
    "max_params",
    "mfu_of_throughput",
    "predict_cost",
    "predict_energy",
    "predict_max_params",
    "predict_training_time",
    "published_runs",
    "published_table",
    "recipe_parts",
    "training_days",
    "training_flops",
]
