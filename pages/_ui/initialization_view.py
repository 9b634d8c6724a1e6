"""Controls and tables that the sections of Initialization share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core import jobs, models, units
from core.claims import Comparison, Prediction
from core.models import GainRun, TransformerConfig, TruncationRun
from core.models.gains import MAX_BATCH, MAX_DEPTH, MAX_WIDTH
from core.models.initialization import MAX_DIM, MAX_SEED
from core.models.picture import (
    ModelListing,
    WeightBin,
    list_cruncher,
    list_model,
    picture_truncation,
    share_beyond,
    standard_error,
)
from core.words import _
from pages._ui import inputs, jobs_view
from pages._ui.scripts import initialization as scripts

DIMS = (16, 64, 256, 1024)  # measured for every scheme, in 20 ms; the chosen width for the chosen one
MAX_INPUT_DIM, MAX_OUTPUT_DIM = 2**15, 256  # a layer of this size takes about 0.1 s
BATCH_SIZE = 64
MAX_CRUNCHER_LAYERS = 32  # each is built while you type
NUM_WEIGHTS = 2**18
LESSON_LIMIT = 2**19  # entries of a weight, as many as the lecture's: torch's trunc_normal_ takes 25 ms for them
CRUNCHER, OWN = "cruncher", "own"
BOUNDS = {"lecture_truncated": _("±3 (the lecture's)"), "truncated": "±3σ"}
QUANTITIES = {"activations": _("activations"), "gradients": _("gradients")}


def _scheme() -> str:
    names = {key: one.name for key, one in models.SCHEMES.items()}
    return inputs.select(_("Weights"), "init_scheme", list(names), names.__getitem__)


def _seed() -> int:
    return inputs.whole_number(_("Seed"), "init_seed", 0, 0, MAX_SEED, width=130)


# One layer


def one_layer() -> tuple[str, int, int, int]:
    """Scheme, input_dim, output_dim and seed; the lecture's at first."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        scheme = _scheme()
        d = inputs.whole_number("input_dim", "init_d", 16384, 1, MAX_INPUT_DIM, width=150)
        k = inputs.whole_number("output_dim", "init_k", 32, 1, MAX_OUTPUT_DIM, width=150)
        return scheme, d, k, _seed()


@functools.lru_cache(maxsize=4096)
def output_std(scheme: str, input_dim: int, output_dim: int, seed: int) -> Comparison:
    return models.compare_output_std(scheme, input_dim, output_dim, BATCH_SIZE, seed)


@functools.lru_cache(maxsize=64)
def output_stds(output_dim: int, seed: int) -> dict[str, tuple[Comparison, ...]]:
    """Every scheme measured at every width of the chart."""
    return {scheme: tuple(output_std(scheme, d, output_dim, seed) for d in DIMS) for scheme in models.SCHEMES}


def chance(comparison: Comparison, output_dim: int) -> str:
    """How much of a difference chance alone makes."""
    draws = BATCH_SIZE * output_dim
    assert comparison.prediction.value is not None
    message = _("What is unexplained is chance: the std of {n:,} outputs has a standard error of {error}.")
    return message.format(n=draws, error=units.significant(standard_error(comparison.prediction.value, draws)))


def lesson_sizes(d: int, k: int) -> dict[str, int]:
    """What the lesson runs with: the page's sizes, or the lecture's where those take long."""
    if d * k <= LESSON_LIMIT:
        return {"d": d, "k": k}
    st.caption(_("The code below runs while you type: here with the lecture's sizes."))
    return {"d": 16384, "k": 32}


# Truncation


def truncation() -> tuple[str, int, int]:
    """Which bound, input_dim, and the seed."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        bound = inputs.choice(_("Truncated at"), "init_bound", list(BOUNDS), BOUNDS.__getitem__)
        d = inputs.whole_number("input_dim", "init_d", 16384, 1, MAX_INPUT_DIM, width=150)
        return bound, d, _seed()


@functools.lru_cache(maxsize=256)
def truncated(scheme: str, fan_in: int, seed: int) -> tuple[TruncationRun, tuple[WeightBin, ...]]:
    """The weights drawn, and their histogram."""
    return picture_truncation(scheme, fan_in, NUM_WEIGHTS, seed)


def truncation_in_words(run: TruncationRun, bins: Sequence[WeightBin]) -> str:
    """Where the bound is, what lies beyond it, and what was drawn."""
    message = _(
        "The bound is at **{bound}σ**: **{share}** of a normal lies beyond. Of the {n:,} weights drawn, **{measured}** "
        "is beyond ±3σ (predicted {predicted}), the largest at {largest}σ."
    )
    predicted, measured = share_beyond(bins, 3)
    return message.format(
        bound=f"{run.bound_in_sigmas:,.4g}", share=_share(run.share_beyond), predicted=_share(predicted),
        measured=_share(measured), n=NUM_WEIGHTS // run.fan_in * run.fan_in, largest=f"{run.largest_in_sigmas:.3g}",
    )  # fmt: skip


def _share(value: float) -> str:
    return f"{units.significant(100 * value)}%" if value else _("nothing")


# Depth


@dataclass(frozen=True)
class Depth:
    """What is asked for of a deep network, and the runs of all schemes with these very settings, where there are."""

    scheme: str
    dim: int
    num_layers: int
    batch_size: int
    relu: bool
    seed: int
    of: str
    runs: tuple[GainRun, ...]

    @property
    def script(self) -> str:
        settings = (self.dim, self.num_layers, self.batch_size, self.relu, self.seed)
        return scripts.gains(self.scheme, *settings, self.of)

    def claim(self) -> tuple[Prediction, Comparison | None, str]:
        """The gain per layer; the comparison where it was measured, or why it was not."""
        prediction = models.predict_gain(self.scheme, self.dim, self.relu)
        run = next((one for one in self.runs if one.scheme == self.scheme), None)
        if run is None:
            return prediction, None, _("press Measure: every scheme is drawn, and runs forward and backward")
        compare = models.compare_activation_gain if self.of == "activations" else models.compare_gradient_gain
        try:
            return prediction, compare(run), ""
        except ValueError as refused:
            return prediction, None, str(refused)


def depth() -> Depth:
    """The controls of a deep network, its button, and what was measured."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        scheme = _scheme()
        dim = inputs.whole_number(_("Width D"), "init_width", 256, 1, MAX_WIDTH, width=120)
        layers = inputs.whole_number(_("Layers"), "init_layers", 50, 1, MAX_DEPTH, width=120)
        batch = inputs.whole_number(_("Batch B"), "init_batch", 64, 1, MAX_BATCH, width=120)
        seed = _seed()
        relu = inputs.switch("ReLU", "init_relu", default=True)
    with st.container(horizontal=True, vertical_alignment="center"):
        of = inputs.choice(
            _("Gain of"), "init_of", list(QUANTITIES), QUANTITIES.__getitem__, label_visibility="collapsed"
        )
        runs: tuple[GainRun, ...] | None = jobs_view.button_and_progress(
            "init_gains", _("Measure"), models.measure_many_gains, tuple(models.SCHEMES), dim, layers, batch, relu,
            seed, check=lambda: _check(dim, layers, batch), on_progress=jobs.report,
        )  # fmt: skip
    settings = (dim, layers, batch, relu, seed)
    if runs and settings != (runs[0].dim, runs[0].num_layers, runs[0].batch_size, runs[0].relu, runs[0].seed):
        st.caption(_("The settings have changed since the last measurement: measure again."))
        runs = None
    return Depth(scheme, *settings, of, runs or ())


def _check(dim: int, num_layers: int, batch_size: int) -> None:
    models.check_gains(dim, num_layers, batch_size)


# Parameters


@dataclass(frozen=True)
class Model:
    """The model that is asked for, its parameters predicted, and its listing where it has been built."""

    prediction: Prediction
    listing: ModelListing | None
    script: str
    notes: tuple[str, ...] = ()


def model() -> Model | None:
    """The controls of a model; None while there is none to speak of."""
    labels = {CRUNCHER: _("the lecture's Cruncher"), OWN: _("any: its config.json")}
    labels |= {name: one.name for name, one in models.PRESETS.items()}
    left, right = st.columns([2, 5], vertical_alignment="bottom")
    with left:
        chosen = inputs.select(_("Model"), "init_model", [CRUNCHER, *models.PRESETS, OWN], labels.__getitem__)
    with right, st.container(horizontal=True, vertical_alignment="bottom"):
        if chosen == CRUNCHER:
            return _cruncher()
        config = _own() if chosen == OWN else models.preset(chosen)
    if config is None:
        return None
    with left if chosen == OWN else right:
        return _built(config)


def _cruncher() -> Model:
    dim = inputs.whole_number(_("Width D"), "init_cruncher_dim", 64, 1, MAX_DIM, width=160)
    layers = inputs.whole_number(_("Layers"), "init_cruncher_layers", 2, 1, MAX_CRUNCHER_LAYERS, width=160)
    listing = _listed(dim, layers)
    return Model(listing.comparison.prediction, listing, scripts.cruncher_parameters(dim, layers))


@functools.lru_cache(maxsize=64)
def _listed(dim: int, num_layers: int) -> ModelListing:
    return list_cruncher(dim, num_layers)


def _own() -> TransformerConfig | None:
    source = inputs.pasted(
        _("Paste a Hugging Face config.json (GPT-2, Llama, Mistral, Qwen)"), "init_config", models.MAX_FILE_BYTES,
        ["json"], placeholder='{"model_type": "llama", "hidden_size": 4096, …}', height=102,
    )  # fmt: skip
    return models.config_from_huggingface(source) if source.strip() else None


def _built(config: TransformerConfig) -> Model:
    listing = jobs_view.button_and_progress("init_counted", _("Build and count"), list_model, config)
    if listing is not None and listing.config != config:
        listing = None
    return Model(models.predict_parameters(config), listing, scripts.model_parameters(config), config.notes)


def cruncher_sizes(listing: ModelListing) -> dict[str, int] | None:
    """What the lesson runs with: this Cruncher, the lecture's where it is large; None for another model."""
    if not isinstance(listing.config, tuple):
        return None
    dim, num_layers = listing.config
    if num_layers * dim * dim > LESSON_LIMIT or num_layers > 20:
        st.caption(_("The code below runs while you type: here with the lecture's sizes."))
        dim, num_layers = 64, 2
    return {"dim": dim, "num_layers": num_layers, "b": 8}


def parameters_in_words(one: Model) -> str:
    """The exact count, its bytes, and what of a config is left out."""
    assert one.prediction.value is not None
    n = int(one.prediction.value)
    text = _("**{n:,}** parameters: {fp32} in fp32, {bf16} in bf16.")
    text = text.format(n=n, fp32=units.si_bytes(4 * n), bf16=units.si_bytes(2 * n))
    return " ".join([text, *(f"{note[:1].upper()}{note[1:]}." for note in one.notes)])
