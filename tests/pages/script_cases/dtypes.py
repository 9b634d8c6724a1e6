"""The scripts of Number formats: what each is given, and what it prints."""

from core.dtypes import FORMATS, custom

CASES = {
    "one_number": (
        ("1e-8", FORMATS["bf16"]),
        ["exactly 0.00000001001171767711639404296875", "measured torch", "1.0011717677116394e-08"],
    ),
    "every_format": (("0.1", custom(4, 3)), ["fp16: 0.1,", "fp4 e2m1: 0,", "underflows to 0", "torch has no fp8 e4m3"]),
    "threshold": (
        (FORMATS["e5m2fnuz"], "ε"),
        ["predicted 0.25", "(0.125,", "torch.finfo is wrong: fp8 e5m2fnuz eps 0.125, in truth 0.25"],
    ),
    "updates": (("bf16", 1e-4, 1000, False), ["predicted 1.10", "measured 1.0", "nearest 1.0", "0.003936767578125"]),
    "loss_scaling": (("fp16", -20, 5, 0), ["predicted 0.159", "20,000 gradients", "fewest lost at 2^"]),
    "block_format": (("NVFP4", "normal"), ["2⁻¹ / √28", "measured 0.0950", "predicted 36.9 kB"]),
}
