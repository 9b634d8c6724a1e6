"""The training loop beside bare torch, checkpoints, and data larger than memory.

``python -m benchmarks training``. Ours and bare torch take turns, step by step, in one process: what else the machine
does meets both. NAPKIN_BENCH_TRAINING_SECONDS (120) is how long our half of the long run lasts.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.nn import functional

from core.models import TransformerLM
from core.training import (
    TrainConfig,
    Trainer,
    bpe_is_available,
    bytes_per_token,
    corpus_tokens,
    get_batch,
    inspect_checkpoint,
    open_tokens,
    tokens_of,
)
from core.training.models import build_model

Row = tuple[str, float, str, float | str | None]

TEXT = TrainConfig(
    task="text", num_layers=2, dim=64, num_heads=4, context_length=64, batch_size=16, num_steps=100_000,
    optimizer="adamw", implementation="torch", lr=3e-3, max_grad_norm=1.0,
)  # fmt: skip
REGRESSION = TrainConfig(num_steps=100_000, optimizer="adam", implementation="torch", lr=1e-3)
LARGE = TEXT.replace(dim=256, num_layers=4)
LARGE_FILE_BYTES = 4 * 2**30


def bare_text(config: TrainConfig) -> Iterator[float]:
    """The same run in bare torch: the loss of every step."""
    torch.manual_seed(config.seed)
    model = TransformerLM(config.transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
    generator = torch.Generator().manual_seed(config.seed)
    data, t = np.asarray(corpus_tokens()), config.context_length
    while True:
        starts = torch.randint(len(data) - t, (config.batch_size,), generator=generator).numpy()
        windows = torch.from_numpy(data[starts[:, None] + np.arange(t + 1)].astype(np.int64))
        inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
        logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        optimizer.zero_grad()
        norm.item()
        yield loss.item()


def bare_regression(config: TrainConfig) -> Iterator[float]:
    """The lecture's loop in bare torch."""
    torch.manual_seed(config.seed)
    model = build_model(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    generator = torch.Generator().manual_seed(config.seed)
    w_true_D = torch.arange(config.dim, dtype=torch.float32)
    while True:
        x_BD = torch.randn(config.batch_size, config.dim, generator=generator)
        loss = functional.mse_loss(model(x_BD), x_BD @ w_true_D)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None], foreach=False)
        optimizer.step()
        optimizer.zero_grad()
        norm.item()
        yield loss.item()


def side_by_side(config: TrainConfig, bare: Iterator[float], seconds: float) -> dict[str, Any]:
    """Both in turns until ours has run that long: losses and seconds of every step."""
    trainer = Trainer(config)
    ours: list[float] = []
    theirs: list[float] = []
    our_losses, their_losses = [], []

    def step_ours() -> None:
        start = time.perf_counter()
        our_losses.append(trainer.advance().loss)
        ours.append(time.perf_counter() - start)

    def step_theirs() -> None:
        start = time.perf_counter()
        their_losses.append(next(bare))
        theirs.append(time.perf_counter() - start)

    while sum(ours) < seconds:
        first, second = (step_ours, step_theirs) if len(ours) % 2 else (step_theirs, step_ours)
        first()
        second()
    return {"ours": ours[5:], "theirs": theirs[5:], "our_losses": our_losses, "their_losses": their_losses}


def overhead(run: dict[str, Any]) -> float:
    """Our fastest tenth of steps over theirs, less 1, in percent."""

    def fast(samples: list[float]) -> float:
        return statistics.quantiles(samples, n=10)[0]

    return (fast(run["ours"]) / fast(run["theirs"]) - 1) * 100


def best_ms(function: Callable[[], object], times: int = 5) -> float:
    """Milliseconds of the fastest of a few calls."""
    seconds = []
    for _call in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds)


def checkpoint_rows(folder: Path) -> list[Row]:
    """Writing, inspecting and loading a checkpoint of a few million parameters and their moments."""
    trainer = Trainer(LARGE)
    trainer.advance()
    path = folder / "checkpoint.pt"
    size = trainer.save(path) / 1e6
    name = f"checkpoint of {LARGE.num_params / 1e6:.1f} M parameters, {size:.0f} MB"
    plain = folder / "plain.pt"
    return [
        (f"{name}: write, atomic and on disk", best_ms(lambda: trainer.save(path)), "ms", None),
        (
            "torch.save of the parameters alone",
            best_ms(lambda: torch.save(trainer.model.state_dict(), plain)),
            "ms",
            None,
        ),
        ("inspect, every checksum", best_ms(lambda: inspect_checkpoint(path)), "ms", None),
        ("inspect and load", best_ms(lambda: trainer.load(path)), "ms", None),
    ]


def vocabulary_rows(folder: Path) -> list[Row]:
    """A BPE of the standard library, learned and applied; nothing where tokenizers is not installed."""
    if not bpe_is_available():
        return []
    place = folder / "texts"
    before = os.environ.get("NAPKIN_CACHE_DIR")
    os.environ["NAPKIN_CACHE_DIR"] = str(place)
    try:
        size = corpus_tokens().size
        start = time.perf_counter()
        tokens_of("stdlib", 1024)
        seconds = time.perf_counter() - start
        length = bytes_per_token("stdlib", 1024)
    finally:
        os.environ.pop("NAPKIN_CACHE_DIR")
        if before is not None:
            os.environ["NAPKIN_CACHE_DIR"] = before
    return [
        (f"a vocabulary of 1,024 learned and {size / 1e6:.1f} MB turned into its tokens", seconds, "s", None),
        ("bytes that one of its tokens stands for", length or 0.0, "B", None),
    ]


def large_file_rows(folder: Path) -> list[Row]:
    """Batches all over a sparse file of 4 GB: what the process holds more after 2,000 of them."""
    path = folder / "large.bin"
    with path.open("wb") as file:
        file.truncate(LARGE_FILE_BYTES)
    data, process = open_tokens(path), psutil.Process()
    get_batch(data, 64, 256)
    before, start = process.memory_info().rss, time.perf_counter()
    for _batch in range(2000):
        get_batch(data, 64, 256)
    seconds = time.perf_counter() - start
    grown = (process.memory_info().rss - before) / 1e6
    return [
        ("4.29 GB of tokens on disk: memory after 2,000 batches of 64 × 256", grown, "MB more", 64.0),
        ("tokens read a second", 2000 * 64 * 256 / seconds / 1e6, "M/s", None),
    ]


def main() -> list[Row]:
    """Every figure as (name, value, unit, target)."""
    seconds = float(os.environ.get("NAPKIN_BENCH_TRAINING_SECONDS", "120"))
    torch.set_num_threads(1)  # threads that wait for each other suffer most from what else the machine does
    long = side_by_side(TEXT, bare_text(TEXT), seconds)
    ours, theirs = (TEXT.tokens_per_step / statistics.median(long[name]) for name in ("ours", "theirs"))
    differences = [abs(a - b) for a, b in zip(long["our_losses"], long["their_losses"], strict=True)]
    name = f"Transformer of {TEXT.num_params / 1000:.0f} K parameters, 1 thread"
    rows: list[Row] = [
        (f"{name}: loss at step 0 (log 256 = 5.545)", long["our_losses"][0], "nats", None),
        (
            f"loss after {seconds:g} s, {len(long['our_losses']):,} steps",
            statistics.fmean(long["our_losses"][-20:]),
            "nats",
            None,
        ),
        ("bare torch, same seed and steps", statistics.fmean(long["their_losses"][-20:]), "nats", None),
        ("largest difference of the two curves", max(differences), "nats", 0.0),
        ("tokens a second, ours", ours, "tokens/s", None),
        ("tokens a second, bare torch", theirs, "tokens/s", None),
        ("loop overhead, Transformer", overhead(long), "%", 3.0),
    ]
    short = side_by_side(REGRESSION, bare_regression(REGRESSION), min(5.0, seconds))
    fastest = 1e6 * statistics.quantiles(short["theirs"], n=10)[0]
    rows.append((f"loop overhead, the lecture's regression, a step of {fastest:.0f} µs", overhead(short), "%", 3.0))
    cost = 1e6 * (statistics.quantiles(short["ours"], n=10)[0]) - fastest
    rows.append(("that a step", cost, "µs", None))
    with tempfile.TemporaryDirectory() as folder:
        return rows + checkpoint_rows(Path(folder)) + vocabulary_rows(Path(folder)) + large_file_rows(Path(folder))


if __name__ == "__main__":
    for row in main():
        print(f"{row[0]:70} {row[1]:12.3f} {row[2]:9} {'' if row[3] is None else row[3]}")
