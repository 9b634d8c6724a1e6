"""Controls and results of Low precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core import jobs, units
from core.claims import Comparison, Conditions, Measurement, Prediction, Term
from core.training import PRECISIONS, TrainConfig
from core.words import _
from pages._ui import inputs, jobs_view, tables, training_jobs
from pages._ui.charts import training as training_charts

COUNTED = Conditions("cpu", _("counted"), "any", threads=1, warmup=0, trials=1)
MAX_STEPS = 500
TIMEOUT_SECONDS = 600.0
TASKS = {
    _("regression, D=16"): TrainConfig(lr=0.001, optimizer="adamw", num_steps=1),
    _("text, D=64, 2 layers"): TrainConfig(
        task="text", dim=64, num_layers=2, batch_size=8, context_length=32, lr=0.003, optimizer="adamw", num_steps=1
    ),
}
_LR = {_("regression, D=16"): 0.03, _("text, D=64, 2 layers"): 0.003}


def _task(key: str, default: str | None = None) -> TrainConfig:
    name = inputs.select(_("Task"), key, list(TASKS), default=default)
    return TASKS[name].replace(lr=_LR[name])


# One run in every precision


@dataclass(frozen=True)
class Compared:
    """What is to be compared, the one that the card speaks of, and the runs with these settings, where there are."""

    config: TrainConfig
    wanted: tuple[str, ...]
    followed: str
    runs: tuple[Any, ...]
    prediction: Prediction
    comparison: Comparison | None


def compared() -> Compared:
    """The controls, the button, and the bytes of the followed precision."""
    from core.training import compare_precisions

    first = ["fp32", "bf16 autocast", "fp16 unscaled", "fp16 scaled", "bf16"]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        config = _task("prec_task")
        steps = inputs.whole_number(_("Steps"), "prec_steps", 60, 1, MAX_STEPS, width=110)
        power = inputs.whole_number(_("Loss × 2^"), "prec_scale", 0, -40, 40, width=110)
        followed = inputs.select(_("Bytes of"), "prec_followed", list(PRECISIONS), default="bf16")
    config = config.replace(num_steps=steps, loss_scale_log2=power)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = inputs.several(_("Precisions"), "prec_wanted", list(PRECISIONS), first)
        wanted = tuple(one for one in PRECISIONS if one in chosen or one == followed)
        runs = jobs_view.button_and_progress(
            "prec_job",
            _("Train in each"),
            compare_precisions,
            config,
            wanted,
            timeout=TIMEOUT_SECONDS,
            on_progress=jobs.report,
        )
    prediction = predict_bytes(config, followed)
    runs = runs if runs and _same(runs, config, wanted) else ()
    run = next((one for one in runs if one.precision == followed), None)
    comparison = None
    if run is not None:
        measurement = Measurement(prediction.quantity, (run.total_bytes,), "B", COUNTED)
        note = _("each tensor's moments keep the number of steps, 4 bytes")
        rest = run.total_bytes - (prediction.value or 0)
        count = _num_tensors(config)
        parts = (Term(_("step counters"), 4 * count, note),) if rest else ()
        comparison = Comparison(prediction, measurement, parts)
    return Compared(config, wanted, followed, runs, prediction, comparison)


def _same(runs: tuple[Any, ...], config: TrainConfig, wanted: tuple[str, ...]) -> bool:
    fits = tuple(one.precision for one in runs) == wanted and len(runs[0].losses) == config.num_steps
    tokens = runs[0].parameter_bytes // (2 if runs[0].precision == "bf16" else 4)
    return bool(fits and tokens == config.num_params)


def _num_tensors(config: TrainConfig) -> int:
    """Of the regression a matrix for each layer and the head; of the Transformer 4 + 2 matrices and 2 norms a block."""
    if config.task == "regression":
        return config.num_layers + 1
    from core.training.models import build_model

    return sum(1 for _parameter in build_model(config, device="meta").parameters())


def predict_bytes(config: TrainConfig, precision: str) -> Prediction:
    """Parameters, gradients and AdamW's two moments, in 4 bytes each, in pure bf16 in 2."""
    n, item = config.num_params, 2 if precision == "bf16" else 4
    formula = f"(1 + 1 + 2) · {n:,} · {item} B"
    return Prediction(_("bytes of {precision}").format(precision=precision), 4 * n * item, "B", formula)


def precision_results(asked: Compared) -> None:
    """Losses side by side, and a table of loss, speed and bytes."""
    left, right = st.columns([5, 4])
    lines = {one.precision: list(enumerate(one.losses)) for one in asked.runs}
    log = asked.config.task == "regression"
    with left:
        title = _("loss (log)") if log else _("loss")
        training_charts.curves(lines, _("step"), title, log, _("losses in each precision"), height=112)
    rows = [
        (
            one.precision,
            (units.significant(one.losses[-1]), repr(one.losses[-1])),
            (units.si(one.tokens_per_sec, _("rows/s") if log else _("tokens/s")) + ("*" if one.emulated else "")),
            units.si_bytes(one.total_bytes),
        )
        for one in asked.runs
    ]
    with right:
        head = [_("precision"), _("last loss"), _("speed"), _("bytes")]
        chosen = [one.precision for one in asked.runs].index(asked.followed)
        tables.show(head, rows, _("precisions side by side"), dense=True, marked=chosen)
        if any(one.emulated for one in asked.runs):
            st.caption(_("* Rounded operands, multiplied in fp32: the numbers are the format's, the speed is not."))


# Underflow

LOST = {"fp16 unscaled": "fp16", "bf16 autocast": "bf16", "fp8 matmul": "fp8"}


def underflow() -> tuple[TrainConfig, str, Prediction, Comparison | None, Any]:
    """The share of gradients that a format turns to 0: a bet, then counted layer by layer."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        config = _task("under_task", list(TASKS)[1])
        steps = inputs.whole_number(_("After steps"), "under_steps", 20, 1, MAX_STEPS, width=120)
        power = inputs.whole_number(_("Loss × 2^"), "under_scale", -14, -40, 40, width=120)
        precision = inputs.select(_("Format"), "under_precision", list(LOST), LOST.__getitem__)
        config = config.replace(num_steps=steps, loss_scale_log2=power)
        found = jobs_view.button_and_progress(
            "under_job", _("Look for zeros"), training_jobs.find_underflow, config, precision, timeout=TIMEOUT_SECONDS
        )
    quantity = _("share of gradients that become 0")
    unknown = _("it depends on how small they are: bet, then count. fp16's smallest number is 2⁻²⁴ = 6.0 × 10⁻⁸")
    prediction = Prediction(quantity, None, "", f"{precision} {power}", unknown=unknown)
    if found is None or found[:2] != (config, precision):
        return config, precision, prediction, None, None
    layers = found[2]
    total = sum(one.num_gradients for one in layers)
    share = sum(one.num_gradients * one.zero_share for one in layers) / total
    measurement = Measurement(quantity, (share,), "", replace(COUNTED, dtype=LOST[precision]))
    return config, precision, prediction, Comparison(prediction, measurement), layers


def underflow_results(config: TrainConfig, layers: Any) -> None:
    """A bar for each layer, and how large its gradients are."""
    shares = {one.layer: 100 * one.zero_share for one in layers}
    labels = {
        one.layer: _("{share:.3g}% · median |g| {size}").format(
            share=100 * one.zero_share, size=units.significant(one.median_size)
        )
        for one in layers
    }
    training_charts.bars(shares, _("gradients that are 0 and would not be in fp32 (%)"), labels)
    message = _(
        "The loss is multiplied by 2^{power} before backward: −14 makes gradients as small as a batch of 16,384 times "
        "as many tokens does; a positive power is a loss scale, which brings them back."
    )
    st.caption(message.format(power=config.loss_scale_log2))


# Weights in few bits

BITS = {"fp32": 32, "bf16": 16, "int8": 8, "fp8": 8, "MXFP8 e4m3": 8, "int4": 4, "NVFP4": 4, "MXFP4": 4}


def weight_only() -> tuple[TrainConfig, str, Prediction, Comparison | None, Any]:
    """The bytes of a trained Transformer in one format: predicted, and counted."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = inputs.select(_("Format"), "weights_format", list(BITS), default="int4")
        steps = inputs.whole_number(_("Trained for steps"), "weights_steps", 60, 1, 2000, width=160)
        config = TASKS[list(TASKS)[1]].replace(lr=0.003, num_steps=steps)
        done = jobs_view.button_and_progress(
            "weights_job",
            _("Train and round"),
            training_jobs.train_and_round,
            config,
            timeout=TIMEOUT_SECONDS,
            on_progress=jobs.report,
        )
    prediction = predict_weight_bytes(config, chosen)
    if done is None or done[0] != config:
        return config, chosen, prediction, None, None
    row = next(one for one in done[1] if one.name == chosen)
    measurement = Measurement(prediction.quantity, (row.num_bytes,), "B", replace(COUNTED, dtype=chosen))
    return config, chosen, prediction, Comparison(prediction, measurement, weight_parts(config, chosen)), done[1]


def predict_weight_bytes(config: TrainConfig, name: str) -> Prediction:
    """Every parameter in that many bits."""
    n, bits = config.num_params, BITS[name]
    return Prediction(_("bytes in {format}").format(format=name), n * bits / 8, "B", f"{n:,} · {bits} bits")


def weight_parts(config: TrainConfig, name: str) -> tuple[Term, ...]:
    """What is added: tables in bf16, and scales. A block has 12·D² weights in 6 matrices of 9·D rows together."""
    bits, layers, d = BITS[name], config.num_layers, config.dim
    inner = 12 * layers * d * d
    if bits >= 16:
        return ()
    kept = (config.num_params - inner) * (2 - bits / 8)
    scales = {
        "int8": 2 * 9 * layers * d, "fp8": 2 * 9 * layers * d, "int4": 2 * inner / 32, "MXFP8 e4m3": inner / 32,
        "MXFP4": inner / 32, "NVFP4": inner / 16 + 4 * 6 * layers,
    }[name]  # fmt: skip
    note = _("2 bytes a row") if name in ("int8", "fp8") else _("one for each block of 16 or 32")
    return (
        Term(_("embedding and norms"), kept, _("they stay in bf16")),
        Term(_("scales"), scales, note),
    )


def weight_results(rows: Any, chosen: str) -> None:
    """Loss against bytes, and the same as a table."""
    left, right = st.columns([5, 4])
    with left:
        training_charts.loss_against_bytes([(one.name, one.num_bytes, one.loss) for one in rows])
    exact = rows[0].loss
    lines = [
        (
            one.name,
            (units.significant(one.loss, 5), repr(one.loss)),
            f"{one.loss - exact:+.2g}",
            units.si_bytes(one.num_bytes),
            f"{one.bits_per_parameter:.3g}",
        )
        for one in rows
    ]
    with right:
        head = [_("weights"), _("loss"), _("against fp32"), _("bytes"), _("bits each")]
        names = [one.name for one in rows]
        tables.show(head, lines, _("formats"), dense=True, marked=names.index(chosen))
