"""FLOPs, FLOP/s and MFU: counted on a napkin, counted by torch, timed for real (CS336 lecture 2, §5.4)."""

from core.flops.counting import (
    MAX_DIM,
    compare_matmul_flops,
    exact_matmul_flops,
    matmul_flops,
    predict_matmul_flops,
    torch_matmul_flops,
)
from core.flops.explain import (
    Peak,
    choose_peak,
    compare_lecture_method,
    compare_matmul_rate,
    compare_matmul_time,
    predict_matmul_time,
)
from core.flops.matmul import (
    DTYPES,
    MatmulLimits,
    MatmulRun,
    check_matmul,
    matmul_bytes,
    measure_matmul,
    measure_matmuls,
)
from core.flops.scale import (
    GPT3_TRAINING_FLOPS,
    GPT4_TRAINING_FLOPS,
    LANDMARKS,
    budget_flops,
    predict_budget,
    promised_peaks,
    weeks_of_training,
)

__all__ = [
    "DTYPES",
    "GPT3_TRAINING_FLOPS",
    "GPT4_TRAINING_FLOPS",
    "LANDMARKS",
    "MAX_DIM",
    "MatmulLimits",
    "MatmulRun",
    "Peak",
    "budget_flops",
    "check_matmul",
    "choose_peak",
    "compare_lecture_method",
    "compare_matmul_flops",
    "compare_matmul_rate",
    "compare_matmul_time",
    "exact_matmul_flops",
    "matmul_bytes",
    "matmul_flops",
    "measure_matmul",
    "measure_matmuls",
    "predict_budget",
    "predict_matmul_flops",
    "predict_matmul_time",
    "promised_peaks",
    "torch_matmul_flops",
    "weeks_of_training",
]
