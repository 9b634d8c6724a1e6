"""Estimates that fit on a napkin, and how well they fit trainings that were published (CS336 lecture 2, §2). No torch."""

from core.napkin.estimates import (
    RECIPES,
    Recipe,
    max_params,
    predict_max_params,
    predict_training_time,
    recipe_parts,
    training_days,
    training_energy,
    training_flops,
)
from core.napkin.published import PublishedRun, compare_gpu_hours, flops_per_token, mfu_of_throughput, published_runs

__all__ = [
    "RECIPES",
    "PublishedRun",
    "Recipe",
    "compare_gpu_hours",
    "flops_per_token",
    "max_params",
    "mfu_of_throughput",
    "predict_max_params",
    "predict_training_time",
    "published_runs",
    "recipe_parts",
    "training_days",
    "training_energy",
    "training_flops",
]
