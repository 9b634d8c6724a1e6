"""The scripts of Training: what each is given, and what it prints."""

from core.training import TrainConfig

SMALL = TrainConfig(num_steps=20)

CASES = {
    "run": ((SMALL,), ["loss at step 0 | predicted 1,240", "FLOPs | predicted 10.6 kFLOP | measured 10.6 kFLOP",
                       "peak memory of a step | predicted 4.74 kB | measured 4.77 kB",
                       "step 18: loss", "loss at step 19:"]),
    "hunt": (("ignored lr", 0), ["no bug\n", "ignored lr\n", "windows drawn"]),
    "windows": (("to be, or not to be", 2, 4, 40, 0, False), ["->", "windows 15 | expected to be reached 14.9"]),
    "repeat": ((SMALL, "stopped and resumed"), ["steps that differ 0 | first None | largest 0.0"]),
    "accumulation": ((TrainConfig(batch_size=8), -4), ["loss 876.4", "in parts 876.4", "equal to the bit"]),
    "clipping": ((SMALL, 50.0), ["steps clipped", "step 0: norm 306.6 -> 50", "clip_grad_norm_ differs 0\n"]),
    "schedule": ((1.0, 0.1, 2, 7), ["first 0.5 highest 1.0 last 0.1", "mean learning rate 0.607"]),
    "sweep": ((SMALL, "lr", (1e-6, 1e-3)), ["lr = 1e-06: loss", "lr = 0.001: loss"]),
    "checkpoint": ((SMALL,), ["bytes: predicted", "'optimizers'", "bit-identical: True"]),
    "devices": ((TrainConfig(), 2, "ddp"), ["torchrun --standalone --nproc-per-node 2", "predicted 2.11 kB"]),
    "sample": ((TrainConfig(task="text", dim=16, num_layers=1, num_steps=5), "def ", 8, 0.0, 0), ["def "]),
}  # fmt: skip
