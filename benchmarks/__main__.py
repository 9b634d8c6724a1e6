"""Measure Napkin: ``python -m benchmarks [NAME ...] [--record]``; without a name, everything.

Each ``bench_NAME.py`` has a ``main()`` that returns rows of (name, value, unit, target), where a target is the most
that a value should be. A target that is missed is printed, never an error: figures depend on the machine and on what
else it does. ``--record`` appends what is printed to RESULTS.md; nothing is written otherwise.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from core.hardware import available_cores
from core.hardware.machine import cpu_name

Target = float | str | None
FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "RESULTS.md"
COLUMNS = ("name", "value", "unit", "target", "")


def names() -> list[str]:
    """Every benchmark of this folder."""
    return sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def load() -> str:
    """The load average of the last minute, which says how busy the machine is."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def machine() -> str:
    """What the figures depend on, in one line."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "streamlit"))
    return (
        f"{cpu_name()}, {available_cores()} cores, {platform.system()} {platform.release()}, load {load()}; "
        f"Python {platform.python_version()}, {packages}; {datetime.date.today().isoformat()}"
    )


def limit(target: Target) -> float | None:
    """The most that a value should be, as a number.

    >>> limit(1.15), limit("at most 5"), limit("")
    (1.15, 5.0, None)
    """
    if not isinstance(target, str):
        return target
    number = re.search(r"\d+(\.\d+)?", target)
    return float(number.group()) if number else None


def figure(value: float) -> str:
    """A value with at least three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def cells(name: str, value: float, unit: str, target: Target) -> tuple[str, ...]:
    """A row of the table."""
    most = limit(target)
    if most is None:
        return name, figure(value), unit, "", ""
    return name, figure(value), unit, f"≤ {figure(most)}", "ok" if value <= most else "miss"


def table(rows: Sequence[tuple[str, float, str, Target]]) -> str:
    """The rows as a Markdown table whose columns line up."""
    lines = [COLUMNS, *(cells(*row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]

    def text(line: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if i in (1, 3) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (width - 1) + ":") if i in (1, 3) else "-" * max(1, width) for i, width in enumerate(widths)]
    return "\n".join([text(lines[0]), text(rule), *map(text, lines[1:])])


def run(name: str) -> str:
    """Run one benchmark; its heading and table, or why there is none."""
    before = load()
    try:
        body = table(importlib.import_module(f"benchmarks.bench_{name}").main())
    except Exception:  # one that cannot run here must not keep the others from running
        traceback.print_exc()
        body = "It did not run."
    return f"### {name}\n\nLoad {before} before, {load()} after.\n\n{body}\n"


def main() -> None:
    """Run what was asked for, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--record", action="store_true", help="append the tables to RESULTS.md")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(names()))
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(names())}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers stop when their blocks are left, so leave them
    here = machine()
    print(f"{here}\n", flush=True)
    parts = []
    for name in arguments.names or names():
        parts.append(run(name))
        print(parts[-1], flush=True)
    if arguments.record:
        title = f"## {datetime.datetime.now().astimezone():%Y-%m-%d %H:%M}, {cpu_name()}"
        with RESULTS.open("a", encoding="utf-8") as results:
            results.write("\n".join(["", title, "", here, "", *parts]))


if __name__ == "__main__":
    main()
