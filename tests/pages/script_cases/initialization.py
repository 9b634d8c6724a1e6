"""The scripts of Initialization: what each is given, and what it prints."""

from core.models import config_from_huggingface

CONFIG = """{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
"vocab_size": 100, "intermediate_size": 96, "_name_or_path": "my'own"}"""

CASES = {
    "output_std": (
        ("standard_normal", 16384, 32, 64, 0),
        ["input_dim 16,384: predicted 128, measured 12", "input_dim 16: predicted 4", "the weights drawn"],
    ),
    "truncation": (
        ("lecture_truncated", 16384, 2**18, 0),
        ["std predicted 0.00781 measured 0.0078", "at 384 sigma", "beyond 3 sigma: predicted 0.270%, measured 0.2"],
    ),
    "gains": (
        ("kaiming", 64, 4, 16, True, 0, "gradients"),
        ["layer 4: activations", "beyond fp32 at layer None", "gain per layer: predicted 1 "],
    ),
    "cruncher_parameters": (
        (64, 2),
        [
            "predicted 8256 = 2 · 64² + 64",
            "counted 8256",
            "hidden layers: 8,192 in 2 tensors",
            "head.weight (1, 64) 64",
        ],
    ),
    "model_parameters": (
        (config_from_huggingface(CONFIG),),
        ["predicted 82752", "counted 82752", "embeddings: 6,400 in 1 tensors", "blocks.1.mlp.down.weight (64, 96)"],
    ),
}
