"""The scripts of the start page: what each is given, and what it prints."""

from core import napkin

CASES = {
    "training_time": (
        (70e9, 15e12, 1024, 989.5e12, 0.5),
        [napkin.predict_training_time(70e9, 15e12, 1024, 989.5e12, 0.5).text],
    ),
    "max_params": ((8, 80e9, "bf16, fp32 moments"), ["53.3 B parameters"]),
    "gpu_hours": (("Llama 3.1 405B", 0.4), ["26.6 M GPU-hours", "30.8 M GPU-hours", "0.345"]),
    "throughput": (("MPT-7B, T = 65,536",), ["8.21 %", "28.6 %", "attention"]),
}
