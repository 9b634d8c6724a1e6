"""Controls of Training's smaller sections: the hunt, data, seeds, schedule, sweeps, checkpoints, devices, samples."""

from __future__ import annotations

import functools
import io
import math
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core import jobs, training, units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.training import BUGS, CHANGES, TrainConfig, runs
from core.words import _
from pages._ui import inputs, jobs_view, tables
from pages._ui.charts import training as training_charts

COUNTED = Conditions("cpu", _("counted"), "int64", threads=1, warmup=0, trials=1)

# Bug hunt

# What each bug does, and where it shows.
EXPLAINED = {
    "ignored lr": _("The loop uses 0.01 whatever it is given: two learning rates give one curve."),
    "ignored depth": _("The loop always builds one layer: two depths give one curve."),
    "no zero_grad": _("Every backward adds to the last one's gradient: the norms grow, and the loss swings up again."),
    "no optimizer restored": _("After the restart Adam has forgotten its moments: the loss jumps where it resumed."),
    "last window missing": _("randint stops one short: the last window is never drawn, so nobody trains on it."),
    "mean for sum": _("The parts' losses are not divided by their number: four parts give four times the gradient."),
}
_SECRET = (3, 0, 5, 2, 4, 1)  # which bug each loop has; the loops are called A to F
_UNKNOWN = "?"


def hunt() -> tuple[str, Any]:
    """The loop that is hunted, and its evidence beside that of the right loop, once it has been run."""
    from core.training.sweeps import bug_evidence

    names = [chr(ord("A") + at) for at in range(len(BUGS))]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        loop = inputs.choice(_("Loop"), "hunt_loop", names)
        bug = BUGS[_SECRET[names.index(loop)]]
        evidence = jobs_view.button_and_progress(
            "hunt_job", _("Run the loop"), bug_evidence, bug, on_progress=jobs.report
        )
    return bug, evidence if evidence is not None and evidence.bug == bug else None


def hunt_evidence(evidence: Any) -> None:
    """Small charts, a pair of runs each: loss, and the windows of the text."""
    groups = dict.fromkeys(curve.group for curve in evidence.curves)
    columns = st.columns(len(groups))
    for column, group in zip(columns, groups, strict=True):
        pair = [curve for curve in evidence.curves if curve.group == group]
        lines = {curve.label: list(enumerate(curve.losses)) for curve in pair}
        with column:
            training_charts.curves(lines, _("step"), _("loss (log)"), True, group, height=120)
    left, right = st.columns(2)
    with left:
        lines = {curve.label: list(enumerate(curve.gradient_norms)) for curve in evidence.curves[:2]}
        training_charts.curves(lines, _("step"), _("gradient norm (log)"), True, _("gradient norms"), height=110)
    with right:
        training_charts.counts(evidence.windows, evidence.expected)


def name_the_bug(bug: str) -> None:
    """The student's answer, and what is right and wrong with it."""
    named = {_UNKNOWN: _("not yet named"), **{one: one for one in BUGS}}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        answer = inputs.select(_("The bug is"), "hunt_answer", list(named), named.__getitem__)
        shown = inputs.switch(_("Show the answer"), "hunt_shown")
    if shown or answer == bug:
        st.success(f"**{bug}**: {EXPLAINED[bug]}")
    elif answer != _UNKNOWN:
        st.warning(_("Not this one. It would show so: {sign}").format(sign=EXPLAINED[answer]))


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
        training_charts.curves(lines, _("step"), _("loss (log)"), True, _("two runs"), height=190)
    with right:
        if twice.equal:
            st.markdown(_("**Equal to the bit:** every loss of the {n} steps.").format(n=len(twice.first)))
            return
        name = {_("relative difference"): apart}
        training_charts.curves(name, _("step"), _("relative difference (log)"), True, _("differences"), height=190)
    at = twice.first_difference
    message = _("They part at step **{step}**: {one!r} against {other!r}.")
    st.caption(message.format(step=at, one=twice.first[at], other=twice.second[at]))


# Schedule


def schedule() -> tuple[tuple[float, float, int, int], Comparison]:
    """The cosine's controls, and its mean learning rate: predicted in closed form, and averaged."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        highest = inputs.real_number("max_lr", "cosine_max", 0.001, 1e-9, 1e3, step=0.001, format="%g", width=130)
        lowest = inputs.real_number("min_lr", "cosine_min", 0.0001, 0.0, 1e3, step=0.0001, format="%g", width=130)
        warmup = inputs.whole_number("warmup_steps", "cosine_warmup", 100, 0, 20_000, width=140)
        total = inputs.whole_number("total_steps", "cosine_total", 1000, 1, 20_000, width=140)
    if lowest > highest:
        message = _("min_lr must be at most max_lr, {high:g}; received {low:g}")
        raise ValueError(message.format(high=highest, low=lowest))
    if warmup >= total - 1:
        message = _("the rise must end before the last step: warmup_steps below {limit:,}; received {value:,}")
        raise ValueError(message.format(limit=total - 1, value=warmup))
    return (highest, lowest, warmup, total), compare_mean_lr(highest, lowest, warmup, total)


@functools.lru_cache(maxsize=64)
def rates(highest: float, lowest: float, warmup: int, total: int) -> tuple[float, ...]:
    return tuple(training.cosine_lr(step, highest, lowest, warmup, total) for step in range(total))


@functools.lru_cache(maxsize=64)
def compare_mean_lr(highest: float, lowest: float, warmup: int, total: int) -> Comparison:
    """The rise has a mean of max·(w + 1)/2w, the fall, the half cosine being odd about its middle, of (max + min)/2."""
    quantity = _("mean learning rate")
    value = (highest * (warmup + 1) / 2 + (total - warmup) * (highest + lowest) / 2) / total
    formula = f"({warmup:,} + 1)/2 · {highest:g} + {total - warmup:,} · ({highest:g} + {lowest:g})/2, / {total:,}"
    if not warmup:
        value, formula = (highest + lowest) / 2, f"({highest:g} + {lowest:g})/2"
    every = rates(highest, lowest, warmup, total)
    measurement = Measurement(quantity, (math.fsum(every) / total,), "", replace(COUNTED, dtype="fp64"))
    return Comparison(Prediction(quantity, value, "", formula), measurement)


# Sweep

_LRS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
_BATCHES = (1, 2, 4, 8, 16, 32)
SWEPT = {"lr": _("learning rate"), "batch_size": _("batch size")}


def swept() -> tuple[TrainConfig, str, tuple[float, ...], Any]:
    """The sweep that is asked for, and its points once it has been run."""
    from core.training.sweeps import sweep

    with st.container(horizontal=True, vertical_alignment="bottom"):
        setting = inputs.choice(_("Swept"), "sweep_setting", list(SWEPT), SWEPT.__getitem__)
        optimizer = inputs.choice(_("Optimizer"), "sweep_optimizer", ["sgd", "momentum", "adam"])
        steps = inputs.whole_number(_("Steps"), "sweep_steps", 100, 10, 1000, width=120)
        lr = inputs.real_number(_("Learning rate"), "sweep_lr", 0.001, 1e-9, 1e3, step=0.001, format="%g", width=130)
        config = TrainConfig(optimizer=optimizer, lr=lr, num_steps=steps)
        values = _LRS if setting == "lr" else _BATCHES
        points = jobs_view.button_and_progress(
            "sweep_job", _("Sweep"), sweep, config, setting, values, on_progress=jobs.report
        )
    if points is not None and tuple(point.value for point in points) != values:
        points = None
    return config, setting, values, points


def sweep_claim(setting: str, points: Any) -> tuple[Prediction, Comparison | None]:
    """Which value ends lowest: nobody has a formula, so it is a bet."""
    quantity = _("the best {setting}").format(setting=SWEPT[setting])
    prediction = Prediction(quantity, None, "", f"sweep {setting}", unknown=_("no formula tells it: bet, then sweep"))
    if points is None:
        return prediction, None
    best = min(points, key=lambda point: point.final_loss)
    note = _("the lowest mean loss of the last tenth, of {n} runs").format(n=len(points))
    conditions = Conditions("cpu", _("this machine"), "fp32", 1, 0, 1, notes=(note,))
    return prediction, Comparison(prediction, Measurement(quantity, (best.value,), "", conditions))


def sweep_chart(setting: str, points: Any) -> None:
    """The loss at the end against the value, and what diverged."""
    line = {_("loss at the end"): [(point.value, point.final_loss) for point in points]}
    title = _("{setting} (log)").format(setting=SWEPT[setting])
    training_charts.curves(line, title, _("loss at the end (log)"), True, title, height=230, log_x=True)
    gone = ", ".join(f"{point.value:g}" for point in points if point.final_loss == float("inf"))
    if gone:
        st.caption(_("Diverged, so not on the chart: {values}.").format(values=gone))
    if setting == "batch_size":
        st.caption(_("Each saw the same number of rows: half the batch, twice the steps."))


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


def sampled(config: TrainConfig | None, run_id: str) -> tuple[tuple[str, int, float, int], str | None]:
    """What the run's last checkpoint writes after a prompt."""
    from core.training.sample import sample_run

    with st.container(horizontal=True, vertical_alignment="bottom"):
        prompt = inputs.text(_("Prompt"), "sample_prompt", "def ", 200, width=300)
        count = inputs.whole_number(_("Tokens"), "sample_count", 300, 1, 2000, width=120)
        temperature = inputs.real_number(
            _("Temperature"), "sample_temperature", 0.8, 0.0, 10.0, step=0.1, format="%g", width=130
        )
        seed = inputs.whole_number(_("Seed"), "sample_seed", 0, 0, 2**31, width=110)
        values = (prompt, count, temperature, seed)
        if config is None or config.task != "text":
            st.info(_("In Run, start a run with the task “text”: what it has learned to write stands here."))
            return values, None
        text = jobs_view.button_and_progress(
            "sample_job", _("Write"), sample_run, run_id, prompt, count, temperature=temperature, seed=seed
        )
    return values, text
