"""The scripts of FLOPs & MFU: what each is given, and what it prints."""

from core import flops

CASES = {
    "budget": ((8, 989.5e12, 1.0, 1.0), [flops.predict_budget(8, 989.5e12, 1.0).text]),
    "matmul_count": ((1024, 256, 64), ["33.6 MFLOP", "33488896"]),
    "matmul_time": ((64, 64, 64, "fp32", "cpu", 1), ["predicted", "measured", "fp32", "1 thread", "unexplained"]),
    "half_peak": (("fp32", "cpu", 1), ["predicted", "rows", "GFLOP/s", "measured"]),
    "roofline": (
        (64, 64, 64, "fp32", "cpu", 1),
        ["ridge", "relu", "gelu", "dot", "matrix-vector", "your matmul", "bound"],
    ),
}
