"""The scripts of Optimizer memory: what each is given, and what it prints."""

from core.memory.config import StepConfig
from core.memory.huggingface import huggingface_step
from core.models import TransformerConfig

TINY = TransformerConfig("tiny", num_layers=2, d_model=16, num_heads=2, d_ff=32, vocab_size=50)
FIELDS = {"model_type": "gpt_neox", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 64, "vocab_size": 101, "max_position_embeddings": 32}  # fmt: skip

CASES = {
    "step": (
        (StepConfig(TINY, batch_size=2, seq_len=8, precision="autocast", checkpointing=1),),
        ["first block's forward: ", "last block's backward: ", ", measured ", "peak: ", "blocks: residual stream: "],
    ),
    "sharding": (
        (StepConfig("gpt2"), 8),
        ["None: peak", "states 1,991,037,712 B", "zero3: peak", "states 248,891,152 B", "gathered for a moment"],
    ),
    "sharding_here": (
        (StepConfig(TINY, seq_len=8),),
        ["none\n", "zero1\n", "zero3\n  parameters on one device: ", "no reduce-scatter in gloo: +"],
    ),
    "file_step": (
        (huggingface_step(FIELDS, 2, 8, precision="bf16"),),
        ["embedding: ", "first block's forward: ", "peak: "],
    ),
    "fits": (
        (StepConfig("gpt2", batch_size=4), 80 * 10**9),
        ["peak 6,407,847,704 B of 80,000,000,000 B: fits True", "largest batch: 63", "largest listed model: "],
    ),
    "exercise": (
        (StepConfig("gpt2-xl", attention="eager"), 80 * 10**9),
        ["peak = 10,697,805,824 * B + 18,741,677,336 B, at loss backward", "largest batch 5", "5,115 days"],
    ),
    "checkpoints": ((StepConfig("gpt2", batch_size=4),), ["every None: peak 6,407,847,704 B", "best: every "]),
    "rules": (
        (StepConfig("gpt2", batch_size=4),),
        ["16 bytes a parameter: 1,991,036,928 B", "a layer: 4,303,355,904 B; exactly 3,267,682,312 B", "loss backward"],
    ),
    "cruncher": (
        (2, 4, 2, "adagrad"),
        ["the lecture's 496 B = 4 · (36 + 16 + 36 + 36)", "measured 544 B", "the lecture's 432 FLOP = 6 · 2 · 36",
         "measured 368 FLOP", "no gradient for x: -64 FLOP", "entries saved for backward: 28"],
    ),
}  # fmt: skip
