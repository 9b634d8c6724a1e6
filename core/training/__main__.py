"""Train from the command line: ``python -m core.training --num-steps 200``, alone or under torchrun.

``torchrun --nproc-per-node 2 -m core.training --parallel fsdp ...`` runs the same settings on two processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import units
from core.training.config import TrainConfig
from core.training.data import store_text


def parser() -> argparse.ArgumentParser:
    """Every setting of a run as an option, and what to write where."""
    made = argparse.ArgumentParser(
        prog="python -m core.training", description=__doc__.split("\n\n")[0] if __doc__ else ""
    )
    for field in dataclasses.fields(TrainConfig):
        flag = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            made.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        else:
            kind: Any = {"int": int, "str": str}.get(str(field.type), float)
            made.add_argument(flag, type=kind, help=f"default {field.default!r}")
    made.add_argument("--settings", type=Path, help="a JSON file of settings; options on the command line come first")
    made.add_argument("--text-file", type=Path, help="train on this text instead of a corpus")
    made.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp", help="under torchrun")
    made.add_argument("--records", type=Path, help="write the records here, one line of JSON a step")
    made.add_argument("--checkpoint", type=Path, help="write checkpoints here, and go on from one that is there")
    made.add_argument("--checkpoint-every", type=int, default=100, metavar="STEPS")
    made.add_argument("--until", type=int, metavar="STEP", help="end after this many steps, with a checkpoint")
    made.add_argument("--summary", type=Path, help=argparse.SUPPRESS)
    made.add_argument("--quiet", action="store_true")
    return made


def config_of(options: argparse.Namespace) -> TrainConfig:
    """The settings that the options ask for. Raises ValueError."""
    values = {} if options.settings is None else json.loads(options.settings.read_text())
    for field in dataclasses.fields(TrainConfig):
        given = getattr(options, field.name)
        if given is not None:
            values[field.name] = given
    if options.text_file is not None:
        values |= {"task": "text", "corpus": store_text(options.text_file.read_bytes())}
    return TrainConfig.from_dict(values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, print and write what was asked for; the exit code."""
    options = parser().parse_args(arguments)
    try:
        run(config_of(options), options)
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def run(config: TrainConfig, options: argparse.Namespace) -> None:
    """Train from the checkpoint that is there, or from the start. Of several processes the first writes and prints."""
    from core.training.distributed import Group
    from core.training.loop import Trainer
    from core.training.parallel import Alone

    group = Group(options.parallel, config) if "WORLD_SIZE" in os.environ else None
    trainer = Trainer(config, parallel=group or Alone())
    first = trainer.parallel.rank == 0
    if options.checkpoint is not None and options.checkpoint.exists():
        trainer.load(options.checkpoint)
    sent = _train(trainer, options, first)
    if options.checkpoint is not None:
        trainer.save(options.checkpoint)
    if first and options.summary is not None:
        options.summary.write_text(json.dumps({"processes": trainer.parallel.world, "sent_bytes": sent}))
    if group is not None:
        group.close()


def _train(trainer: Any, options: argparse.Namespace, first: bool) -> list[float] | None:
    """The steps; bytes sent in each but the first two, on average over the processes."""
    import torch

    from core.training.distributed import WARMUP_STEPS, sent_bytes
    from core.training.records import cut_lines, to_line

    until = min(trainer.config.num_steps, options.until or trainer.config.num_steps)
    records = cut_lines(options.records, trainer.step) if first and options.records is not None else None
    sent: list[int | None] = []
    while trainer.step < until:
        before = sent_bytes()
        record = trainer.advance()
        after = sent_bytes()
        sent.append(None if before is None or after is None else after - before)
        if records is not None:
            records.write(to_line(record))
        if first and not options.quiet:
            rate = units.si(record.tokens_per_sec, "tokens/s")
            print(f"step {record.step:,}  loss {record.loss:.4f}  norm {record.gradient_norm:.3g}  {rate}", flush=True)
        if options.checkpoint is not None and trainer.step % options.checkpoint_every == 0:
            trainer.save(options.checkpoint)
    if records is not None:
        records.close()
    counted = [one for one in sent[WARMUP_STEPS:] if one is not None]
    if trainer.parallel.world == 1 or len(counted) < len(sent[WARMUP_STEPS:]):
        return None
    means: list[float] = trainer.parallel.mean(torch.tensor(counted, dtype=torch.float64)).tolist()
    return means


if __name__ == "__main__":
    sys.exit(main())
