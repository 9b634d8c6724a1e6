"""The scripts of Transformer FLOPs: what each is given, and what it prints."""

from core import flops

CASES = {
    "transformer": ((flops.PRESETS["GPT-2 small"], 1, 1024, "sdpa"), ["875 GFLOP", "874,944,921,600"]),
    "attention": ((flops.PRESETS["GPT-2 XL"], 1, 16384, False), ["61.8 %"]),
    "six_nd": ((flops.TransformerShape("tiny", 2, 64, 4, 256, 1000), 1, 128), ["6ND", "attention", "embedding"]),
}
