"""Controls of Training's smaller sections: data, seeds, checkpoints, samples."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from core import jobs, training, units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.training import CHANGES, RunInfo, TrainConfig, runs
from core.words import _
from pages._ui import cards, inputs, jobs_view, tables
from pages._ui.charts import training as training_charts
from pages._ui.scripts import training as scripts

COUNTED = Conditions("cpu", _("counted"), "int64", threads=1, warmup=0, trials=1)

# Data

TEXT = "to be, or not to be"
BATCHES = 40


@dataclass(frozen=True)
class Drawn:
    """Batches drawn from a text: the first one, and how often each window was taken."""

    inputs: tuple[bytes, ...]
    targets: tuple[bytes, ...]
    counts: tuple[int, ...]
    comparison: Comparison


def data() -> tuple[tuple[str, int, int, int, int, bool], Drawn]:
    """The controls of the data section, and what was drawn."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = inputs.text(_("Text"), "data_text", TEXT, 60, width=300)
        batch = inputs.whole_number(_("Batch B"), "data_batch", 2, 1, 16, width=110)
        context = inputs.whole_number(_("Context T"), "data_context", 4, 1, 32, width=110)
        batches = inputs.whole_number(_("Batches"), "data_batches", BATCHES, 1, 2000, width=110)
        seed = inputs.whole_number(_("Seed"), "data_seed", 0, 0, 2**32 - 1, width=110)
        short = inputs.switch(_("randint one short"), "data_short")
    values = (text, batch, context, batches, seed, short)
    return values, draw(*values)


@functools.lru_cache(maxsize=128)
def draw(text: str, batch: int, context: int, batches: int, seed: int, short: bool) -> Drawn:
    """Draw batches from the bytes of a text; ``short`` leaves the last window out, as a common mistake does."""
    import numpy as np
    import torch

    tokens = np.frombuffer(text.encode(), dtype=np.uint8)
    windows = training.num_windows(len(tokens), context)
    generator = torch.Generator().manual_seed(seed)
    reachable = tokens[: len(tokens) - short] if windows > 1 else tokens
    places = np.arange(len(tokens))[: len(reachable)]
    x, y = training.get_batch(reachable, batch, context, generator=generator)
    first = tuple(bytes(row) for row in x.tolist()), tuple(bytes(row) for row in y.tolist())
    generator.manual_seed(seed)
    counts = [0] * windows
    for _batch in range(batches):
        starts, _targets = training.get_batch(places, batch, context, generator=generator)
        for start in starts[:, 0].tolist():
            counts[start] += 1
    expected = windows * (1 - (1 - 1 / windows) ** (batch * batches))
    quantity = _("windows reached")
    formula = f"n·(1 − (1 − 1/n)^k), n = {len(tokens)} − {context} = {windows}, k = {batch}·{batches}"
    prediction = Prediction(
        quantity, expected, "", formula, source=_("draws with replacement, each window equally likely")
    )
    reached = sum(1 for count in counts if count)
    parts: tuple[Term, ...] = ()
    if short and windows > 1:
        parts = (Term(_("the last window"), -(1 - (1 - 1 / windows) ** (batch * batches)), _("it is never drawn")),)
    return Drawn(*first, tuple(counts), Comparison(prediction, Measurement(quantity, (reached,), "", COUNTED), parts))


def batch_table(drawn: Drawn) -> None:
    """The first batch: each window's inputs, and under them the token that comes next."""

    def readable(row: bytes) -> str:
        return row.decode("utf-8", "replace").replace(" ", "␣")

    rows = [
        (readable(x), readable(y), (" ".join(map(str, x)), repr(x)), (" ".join(map(str, y)), repr(y)))
        for x, y in zip(drawn.inputs[:4], drawn.targets[:4], strict=True)
    ]
    head = [_("inputs"), _("targets: the next token"), _("input tokens"), _("target tokens")]
    tables.show(head, rows, _("the first batch"), code=(0, 1), dense=True)


# Seeds

STEPS = 40


def repeated() -> tuple[TrainConfig, str, Prediction, Comparison | None, Any]:
    """Two runs, the second with something changed: how many steps should differ, and how many do."""
    shown = {change: _(change) for change in CHANGES}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        change = inputs.select(_("Between the two runs"), "seeds_change", list(CHANGES), shown.__getitem__)
        optimizer = inputs.choice(_("Optimizer"), "seeds_optimizer", ["adam", "sgd"])
        seed = inputs.whole_number(_("Seed"), "seeds_seed", 0, 0, 2**32 - 2, width=120)
        config = TrainConfig(optimizer=optimizer, lr=0.01 if optimizer == "adam" else 0.001, num_steps=STEPS, seed=seed)
        twice = jobs_view.button_and_progress(
            "seeds_job", _("Run twice"), training.repeat_run, config, change, on_progress=jobs.report
        )
    prediction = predict_differences(config, change)
    if twice is None or twice.change != change:
        return config, change, prediction, None, None
    differ = sum(one.hex() != other.hex() for one, other in zip(twice.first, twice.second, strict=True))
    measurement = Measurement(prediction.quantity, (differ,), "", replace(COUNTED, dtype="fp32"))
    return config, change, prediction, Comparison(prediction, measurement), twice


def predict_differences(config: TrainConfig, change: str) -> Prediction:
    """How many losses of the second run differ in any bit."""
    half, all_steps = config.num_steps // 2, config.num_steps
    known = {
        "nothing": (0, _("the same seed: the same bits")),
        "stopped and resumed": (0, _("a whole checkpoint: the same bits")),
        "resumed without the data position": (half, _("other batches from step {step} on").format(step=half)),
        "resumed without the optimizer": (
            0 if config.optimizer == "sgd" else half - 1,
            _("SGD keeps nothing")
            if config.optimizer == "sgd"
            else _("other steps after step {step}").format(step=half),
        ),
        "data drawn without a seed": (all_steps, _("other batches from the first step on")),
        "another seed": (all_steps, _("other weights and other batches")),
    }
    quantity = _("steps whose loss differs")
    if change not in known:
        unknown = _("sums in another order: they may round otherwise, or not")
        return Prediction(quantity, None, "", change, unknown=unknown)
    value, formula = known[change]
    return Prediction(quantity, value, "", f"{formula} ({change})")


def difference_chart(twice: Any) -> None:
    """Both runs, and by how much they differ."""
    left, right = st.columns(2)
    lines = {_("first run"): list(enumerate(twice.first)), _("second run"): list(enumerate(twice.second))}
    apart = [(step, abs(a - b) / max(abs(a), abs(b), 1e-300))
             for step, (a, b) in enumerate(zip(twice.first, twice.second, strict=True))]  # fmt: skip
    with left:
        training_charts.curves(lines, _("step"), _("loss (log)"), True, _("two runs"), height=140)
    with right:
        if twice.equal:
            st.markdown(_("**Equal to the bit:** every loss of the {n} steps.").format(n=len(twice.first)))
            return
        name = {_("relative difference"): apart}
        training_charts.curves(name, _("step"), _("relative difference (log)"), True, _("differences"), height=140)
    at = twice.first_difference
    message = _("They part at step **{step}**: {one!r} against {other!r}.")
    st.caption(message.format(step=at, one=twice.first[at], other=twice.second[at]))


# Checkpoints


def checkpoint(run_id: str) -> tuple[TrainConfig, Prediction, Comparison | None, str]:
    """Bytes of the current run's checkpoint, predicted and on disk."""
    config, size = TrainConfig(), None
    waiting = _("start a run in Run: its checkpoint is weighed here")
    if run_id:
        info = training.find_run(run_id)
        config, path = info.config, runs.run_folder(run_id) / "checkpoint.pt"
        size = path.stat().st_size if path.exists() else None
        waiting = _("the run has no checkpoint yet")
    quantity, predicted = _("checkpoint"), runs.checkpoint_bytes(config)
    formula = _("{n:,} parameters and {optimizer}'s state, and 22 kB of generators").format(
        n=config.num_params, optimizer=config.optimizer
    )
    prediction = Prediction(quantity, predicted, "B", formula)
    if size is None:
        return config, prediction, None, waiting
    conditions = Conditions("cpu", _("the file on disk"), config.precision, 1, 0, 1)
    return config, prediction, Comparison(prediction, Measurement(quantity, (size,), "B", conditions)), ""


MAX_UPLOAD_MB = 20


def inspect_upload() -> None:
    """A checkpoint of anybody's, looked at in a job with little memory: nothing in it runs, nothing is loaded."""
    given = st.file_uploader(
        _("Inspect a checkpoint (up to {n} MB)").format(n=MAX_UPLOAD_MB),
        key="checkpoint_file",
        max_upload_size=MAX_UPLOAD_MB,
        on_change=lambda: inputs.set_values(checkpoint_job=""),  # what was found is said of another file
    )
    if given is None:
        return
    info = jobs_view.button_and_progress(
        "checkpoint_job", _("Inspect"), training.inspect_checkpoint, io.BytesIO(given.getvalue()), timeout=60.0
    )
    if info is not None:
        message = _("A checkpoint before step **{step:,}**: {n} tensors, {size} of numbers, beside the model {parts}.")
        size = units.si_bytes(info.tensor_bytes)
        st.success(message.format(step=info.step, n=info.num_tensors, size=size, parts=", ".join(info.parts)))


# Samples


def sampled(info: RunInfo) -> None:
    """What the run's last checkpoint writes after a prompt."""
    from core.training.sample import sample_text

    st.markdown(_("**What the model writes**, from the run's last checkpoint, one token drawn after another:"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        prompt = inputs.text(_("Prompt"), "sample_prompt", "def ", 200, width=300)
        count = inputs.whole_number(_("Tokens"), "sample_count", 300, 1, 2000, width=120)
        temperature = inputs.real_number(
            _("Temperature"), "sample_temperature", 0.8, 0.0, 10.0, step=0.1, format="%g", width=130
        )
        seed = inputs.whole_number(_("Seed"), "sample_seed", 0, 0, 2**31, width=110)
        path = str(runs.run_folder(info.id) / "checkpoint.pt")
        text = jobs_view.button_and_progress(
            "sample_job", _("Write"), sample_text, info.config, path, prompt, count,
            temperature=temperature, seed=seed, check=lambda: _check_there(path),
        )  # fmt: skip
    if text is not None:
        st.code(text, language=None, wrap_lines=True)
    cards.copy_as_python("sample", scripts.sample(info.config, prompt, count, temperature, seed))


def _check_there(path: str) -> None:
    if not Path(path).exists():
        raise ValueError(_("the run has no checkpoint yet"))
