"""Prediction from strides against torch, on 100,000 random chains: ``python -m benchmarks strides``.

The chains are those of ``core.strides.random_chain`` with a fixed seed. A step agrees where kind (view, copy, error),
shape, strides, offset, storage, contiguity and allocated bytes are all the same. What disagrees is printed.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from core import strides

Row = tuple[str, float, str, float | str]

CHAINS = 100_000
SEED = 2025
SHOWN = 10


def outcomes(chains: int, seed: int) -> Counter[str]:
    """How many steps of these chains are a view, a copy and an error, as predicted."""
    generator, kinds = random.Random(seed), Counter[str]()
    for _ in range(chains):
        shape, operations = strides.random_chain(generator)
        kinds.update(step.kind for step in strides.predict_chain(strides.Layout.contiguous(shape), operations))
    return kinds


def main() -> list[Row]:
    """Every figure as (name, value, unit, target)."""
    start = time.perf_counter()
    wrong = [one for one in strides.disagreements(CHAINS, SEED) if one is not None]
    seconds = time.perf_counter() - start
    for one in wrong[:SHOWN]:
        chain = strides.format_chain(one.operations)
        print(f"shape {one.shape}, {chain}: predicted {one.predicted}, torch {one.ran}", file=sys.stderr)
    rows: list[Row] = [
        ("random chains that agree with torch", CHAINS - len(wrong), "chains", ""),
        (f"of {CHAINS:,}: disagreements", len(wrong), "chains", 0.0),
        ("a chain predicted and run", seconds / CHAINS * 1e6, "µs", ""),
    ]
    for kind, count in sorted(outcomes(CHAINS // 10, SEED).items()):
        rows.append((f"steps of kind {kind}, in a tenth of them", count, "steps", ""))
    return rows


if __name__ == "__main__":
    for name, value, unit, target in main():
        print(f"{name:55} {value:9.3f} {unit:6} {target}")
