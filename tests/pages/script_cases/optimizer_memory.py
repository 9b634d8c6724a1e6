"""The scripts of Optimizer memory: what each is given, and what it prints."""

from core.memory.config import StepConfig

CASES = {
    "step": (
        (StepConfig("gpt2", batch_size=4, precision="autocast", checkpointing=2),),
        ["first block's forward", "last block's recomputation: 2,022,641,432 B", "peak: loss backward", "'optimizer_state': 995519248"],
    ),
    "sharding": (
        ("gpt2", "zero3", 8, "adamw", "fp32"),
        ["none: 1,991,037,712 B", "* zero3: 248,891,152 B", "gathered for a moment", "sent a step"],
    ),
    "cruncher": (
        (2, 4, 2, "adagrad"),
        ["the lecture's 496 B = 4 · (36 + 16 + 36 + 36)", "measured 544 B", "the lecture's 432 FLOP = 6 · 2 · 36",
         "measured 368 FLOP", "no gradient for x: -64 FLOP", "entries saved for backward: 28"],
    ),
}  # fmt: skip
