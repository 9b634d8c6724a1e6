"""A step's memory predicted and measured, configuration by configuration: ``python -m benchmarks memory``.

Prints a table of its own (activations and peak, predicted and measured, the error, the peak's moment, and what the same
steps of Hugging Face's modules were known to take), then the largest errors and the time that each side takes.
"""

from __future__ import annotations

import json
import pickle
import statistics
import subprocess
import sys
import time
import warnings

from core.memory import StepConfig, measure_cruncher_step, measure_step, predict_cruncher_step, predict_step
from core.memory.step_memory import StepMemory

Row = tuple[str, float, str, float | str]
Known = tuple[int, int] | None

HF = "huggingface"
CONFIGS: list[tuple[StepConfig, Known]] = [
    (StepConfig("gpt2", HF, 4, 1024), (5_079_654_408, 8_219_786_840)),
    (StepConfig("gpt2", HF, 4, 1024, attention="eager"), (7_493_214_216, 10_633_346_648)),
    (StepConfig("gpt2", HF, 4, 1024, checkpointing=1), (999_645_192, 4_139_777_624)),
    (StepConfig("gpt2", HF, 8, 1024, precision="autocast"), (6_467_913_224, 11_254_899_800)),
    (StepConfig("llama2-7b", HF, 1, 2048, precision="bf16"), (12_553_052_176, 54_431_655_564)),
    (StepConfig("llama2-7b", HF, 1, 2048, attention="eager", precision="bf16"), (38_314_467_344, 79_539_799_700)),
    (StepConfig("llama2-7b", HF, 1, 4096, precision="bf16", checkpointing=1), (1_734_426_640, 54_431_688_332)),
    (StepConfig("llama3-8b", HF, 1, 2048, precision="autocast", checkpointing=1), None),
    (StepConfig("gpt2", batch_size=4), None),
    (StepConfig("gpt2", batch_size=4, attention="eager"), None),
    (StepConfig("gpt2", batch_size=4, checkpointing=1), None),
    (StepConfig("gpt2", batch_size=4, checkpointing=4), None),
    (StepConfig("gpt2", batch_size=8, precision="autocast"), None),
    (StepConfig("gpt2", batch_size=8, precision="autocast", checkpointing=3), None),
    (StepConfig("gpt2", batch_size=4, accumulation_steps=8), None),
    (StepConfig("gpt2-medium", batch_size=2, precision="bf16", optimizer="adafactor"), None),
    (StepConfig("gpt2-large", batch_size=1, optimizer="muon"), None),
    (StepConfig("gpt2-xl", batch_size=1, attention="eager"), None),
    (StepConfig("gpt2-xl", batch_size=1, checkpointing=7, optimizer="sgd"), None),
    (StepConfig("cs336-xl", batch_size=4, attention="eager"), None),
    (StepConfig("llama2-7b", batch_size=1, seq_len=2048, precision="bf16"), None),
    (StepConfig("llama2-7b", batch_size=1, seq_len=4096, precision="bf16", checkpointing=1), None),
    (StepConfig("llama3-8b", batch_size=1, seq_len=4096, precision="autocast", optimizer="momentum"), None),
    (StepConfig("llama3-70b", batch_size=1, seq_len=8192, precision="bf16", checkpointing=1), None),
    (StepConfig("mistral-7b", batch_size=2, seq_len=2048, precision="bf16", attention="eager"), None),
    (StepConfig("qwen2.5-7b", batch_size=1, seq_len=2048, precision="bf16", optimizer="rmsprop"), None),
    (StepConfig("qwen3-0.6b", batch_size=4, seq_len=2048, precision="autocast", accumulation_steps=4), None),
    (StepConfig("qwen3-8b", batch_size=1, seq_len=2048, precision="bf16", optimizer_implementation="foreach"), None),
]


ALONE = [
    ("GPT-2 124M", StepConfig("gpt2", batch_size=4), 5.0),
    ("Llama 2 7B", StepConfig("llama2-7b", seq_len=2048, precision="bf16"), 20.0),
    ("Llama 2 7B, Hugging Face's", StepConfig("llama2-7b", HF, seq_len=2048, precision="bf16"), 20.0),
]
_ALONE = """
import json, pathlib, pickle, resource, sys, time, warnings
warnings.simplefilter("ignore")
from core.memory import measure_step, predict_step
import torch
config = pickle.load(sys.stdin.buffer)
def peak():
    status = pathlib.Path("/proc/self/status")  # ru_maxrss begins with that of the process this one was forked from
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before, start = peak(), time.perf_counter()
measure_step(config)
print(json.dumps([time.perf_counter() - start, before, peak()]))
"""


def alone(name: str, config: StepConfig, most_seconds: float) -> list[Row]:
    """A measurement in a process of its own: its time, the process's largest memory, and what of it torch alone is."""
    done = subprocess.run([sys.executable, "-c", _ALONE], input=pickle.dumps(config), capture_output=True, check=True)
    seconds, torch_alone, most = json.loads(done.stdout.splitlines()[-1])
    return [
        (f"{name} measured alone", seconds, "s", most_seconds),
        (f"{name} measured alone: host memory", most / 1e9, "GB", 1.0),
        (f"{name} measured alone: torch imported, nothing run", torch_alone / 1e9, "GB", ""),
    ]


def text(config: StepConfig) -> str:
    """The config in a few words."""
    parts = [config.model.name, f"B{config.batch_size} T{config.seq_len}", config.attention, config.precision]
    parts += [f"checkpoints every {config.checkpointing}"] if config.checkpointing else []
    parts += [f"{config.accumulation_steps} micro-batches"] if config.accumulation_steps > 1 else []
    parts += [config.optimizer] if config.optimizer != "adamw" else []
    parts += [config.optimizer_implementation] if config.optimizer_implementation in ("foreach", "fused") else []
    return ", ".join(parts) + (" (Hugging Face)" if config.implementation == HF else "")


def line(name: str, predicted: StepMemory, measured: StepMemory, known: Known) -> str:
    """A row of the table."""
    cells = [name]
    for number, key in enumerate(("activation_bytes", "peak_bytes")):
        ours, theirs = getattr(predicted, key), getattr(measured, key)
        cells += [f"{ours:,}", f"{theirs:,}", f"{theirs - ours:+,}", f"{known[number]:,}" if known else ""]
    return f"| {' | '.join([*cells, measured.peak_moment])} |"


def main() -> list[Row]:
    """Every figure as (name, value, unit, target); the table goes to standard output."""
    warnings.simplefilter("ignore")  # what transformers warns of while it is imported
    print(
        "| configuration | activations predicted | measured | error | known | peak predicted | measured | error |",
        end="",
    )
    print(f" known | moment |\n|{' --- |' * 10}")
    off_activations, off_peak, off_known, seconds, milliseconds, again = [], [], [], [], [], []
    cruncher = predict_cruncher_step(2, 4, 2, "adamw", "for-loop"), measure_cruncher_step(2, 4, 2, "adamw", "for-loop")
    print(line("Cruncher B2 D4 L2 fp32, torch's AdamW", *cruncher, (76, 812)))
    for config, known in CONFIGS:
        start = time.perf_counter()
        predicted = predict_step(config)
        middle = time.perf_counter()
        predict_step(config.change(batch_size=config.batch_size + 1))
        again.append((time.perf_counter() - middle) * 1e3)
        middle_again = time.perf_counter()
        measured = measure_step(config)
        seconds.append(time.perf_counter() - middle_again)
        milliseconds.append((middle - start) * 1e3)
        off_activations.append(abs(predicted.activation_bytes - measured.activation_bytes))
        off_peak.append(abs(predicted.peak_bytes / measured.peak_bytes - 1) * 100)
        if known:
            off_known.append(max(abs(measured.activation_bytes - known[0]), abs(measured.peak_bytes - known[1])))
        print(line(text(config), predicted, measured, known), flush=True)
    return [
        ("configurations", len(CONFIGS) + 1, "", ""),
        ("largest error of the activations", max(off_activations), "B", 8.0),
        ("largest error of the peak", max(off_peak), "%", 0.5),
        ("largest distance of a measurement from the known value", max(off_known), "B", 8.0),
        ("a model's first prediction, median", statistics.median(milliseconds), "ms", 5.0),
        ("a model's first prediction, longest", max(milliseconds), "ms", ""),
        ("the same with another batch, median", statistics.median(again), "ms", 5.0),
        ("the same with another batch, longest", max(again), "ms", 5.0),
        ("a measurement, median", statistics.median(seconds), "s", ""),
        ("a measurement, longest", max(seconds), "s", 20.0),
        *(row for name, config, target in ALONE for row in alone(name, config, target)),
    ]


if __name__ == "__main__":
    for row_name, value, unit, target in main():
        print(f"{row_name:60} {value:12.3f} {unit:4} {target}", file=sys.stderr)
