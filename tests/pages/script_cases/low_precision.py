"""The scripts of Low precision: what each is given, and what it prints."""

from core.training import TrainConfig

SMALL = TrainConfig(num_steps=3)

CASES = {
    "precisions": ((SMALL, ("fp32", "bf16")), ["fp32: loss", "4,224 bytes", "bf16: loss", "2,112 bytes"]),
    "underflow": ((TrainConfig(num_steps=1, loss_scale_log2=-36), "fp16 unscaled"), ["head: 100% become 0"]),
    "weights": ((SMALL,), ["fp32: loss", "2,112 bytes", "int4: loss", "608 bytes"]),
}
