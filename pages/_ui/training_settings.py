"""The settings of a run on screen, shared by the sections of Training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from core import training
from core.optimizers import OPTIMIZERS
from core.training import PRECISIONS, SCHEDULES, STDLIB, TrainConfig
from core.words import _
from pages._ui import inputs, machine

TASKS = {"regression": _("regression"), "text": _("text")}
# Small enough for a laptop: a step takes a millisecond to a tenth of a second.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "regression": {
        _("Cruncher D=16, 2 layers"): {"dim": 16, "num_layers": 2, "model": "cruncher"},
        _("Cruncher D=64, 4 layers"): {"dim": 64, "num_layers": 4, "model": "cruncher"},
        _("DeepNetwork D=16, 3 layers"): {"dim": 16, "num_layers": 3, "model": "deep network"},
        _("DeepNetwork D=256, 4 layers"): {"dim": 256, "num_layers": 4, "model": "deep network"},
    },
    "text": {
        _("D=32, 1 layer"): {"dim": 32, "num_layers": 1, "num_heads": 2},
        _("D=64, 2 layers"): {"dim": 64, "num_layers": 2, "num_heads": 4},
        _("D=128, 4 layers"): {"dim": 128, "num_layers": 4, "num_heads": 4},
        _("D=256, 6 layers"): {"dim": 256, "num_layers": 6, "num_heads": 8},
    },
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "regression": {"optimizer": "sgd", "lr": 0.001, "batch": 4, "steps": 200},
    "text": {"optimizer": "adamw", "lr": 0.003, "batch": 16, "steps": 300},
}
MAX_BATCH, MAX_CONTEXT, MAX_STEPS = 4096, 1024, 20_000
WARMUP_SHARE = 10  # a cosine rises for a tenth of its steps
OWN = "own"
CORPORA = {STDLIB: _("Python's standard library"), OWN: _("a text of yours")}
VOCABULARIES = {"256": _("256: bytes"), "512": _("512: BPE"), "1024": _("1,024: BPE"), "4096": _("4,096: BPE")}
MAX_PASTED = 200_000
FILES = ["txt", "md", "py", "csv", "tex", "json", "html"]
KEPT = "_train_settings"  # of this visit, for the sections that run the same settings


@dataclass(frozen=True)
class Settings:
    """What is asked for: the run, the text that goes with it where it is the student's own, and what is wrong."""

    config: TrainConfig
    text: str | bytes | None = None
    refused: str = ""


def settings() -> Settings:
    """The controls of a run, in one row and what folds out of it, and what they ask for."""
    context, vocab, text, name, refused = 64, 256, None, STDLIB, ""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        task = inputs.choice(_("Task"), "train_task", list(TASKS), TASKS.__getitem__)
        default = DEFAULTS[task]
        size = inputs.select(_("Model"), f"train_size_{task}", list(SIZES[task]))
        optimizers = {name: kind.class_name for name, kind in OPTIMIZERS.items()}
        optimizer = inputs.select(
            _("Optimizer"), f"train_opt_{task}", list(optimizers), optimizers.__getitem__, default["optimizer"]
        )
        lr = inputs.real_number(
            _("Learning rate"), f"train_lr_{task}", default["lr"], 1e-9, 1e3, step=default["lr"], format="%g", width=130
        )
        batch = inputs.whole_number(_("Batch B"), f"train_batch_{task}", default["batch"], 1, MAX_BATCH, width=90)
        if task == "text":
            context = inputs.whole_number(_("Context T"), "train_context", 64, 2, MAX_CONTEXT, width=90)
        steps = inputs.whole_number(_("Steps"), f"train_steps_{task}", default["steps"], 1, MAX_STEPS, width=100)
        if task == "text":
            with st.popover(_("Text"), key="np_train_text"):
                vocab, text = _text()
            name, refused = _named(text, context)
        with st.popover(_("More"), key="np_train_more"):
            schedule = inputs.select(_("Schedule"), "train_schedule", list(SCHEDULES))
            precision = inputs.select(_("Precision"), "train_precision", list(PRECISIONS))
            clip = inputs.real_number(_("Clip at norm (0: never)"), "train_clip", 0.0, 0.0, 1e9, step=1.0, format="%g")
            seed = inputs.whole_number(_("Seed"), "train_seed", 0, 0, 2**32 - 1)
            device = machine.choose_device()
    rise = steps // WARMUP_SHARE if schedule == "cosine" else 0
    config = TrainConfig(
        task=task, optimizer=optimizer, lr=lr, schedule=schedule, warmup_steps=rise, batch_size=batch,
        context_length=context, num_steps=steps, precision=precision, seed=seed, max_grad_norm=clip or None,
        device=device.id, corpus=name, vocab_size=vocab, **SIZES[task][size],
    )  # fmt: skip
    st.session_state[KEPT] = config
    return Settings(config, text, refused)


def kept() -> TrainConfig:
    """The settings that Run shows, or showed last in this visit, or that the link asks for; else its defaults."""
    known: TrainConfig | None = st.session_state.get(KEPT)
    if known is None and any(key.startswith("train_") for key in st.query_params):
        with st.container(key="np_hidden_train_settings"):
            known = settings().config
    return known or TrainConfig(num_steps=DEFAULTS["regression"]["steps"])


def _text() -> tuple[int, str | bytes | None]:
    """Which text, and in how many different tokens. A text of one's own is None while the library's is chosen."""
    corpus = inputs.choice(_("Text"), "train_corpus", list(CORPORA), CORPORA.__getitem__)
    given: str | bytes | None = None
    if corpus == OWN:
        given = inputs.pasted(
            _("Paste a text"), "train_text", MAX_PASTED, ["txt", "md", "py", "csv", "tex"], height=160
        )
        st.caption(_("Each run keeps a copy on this machine. Beyond 1 MB, the command line takes --text-file."))
    offered = list(VOCABULARIES) if training.bpe_is_available() else ["256"]
    vocab = inputs.select(_("Vocabulary V"), "train_vocab", offered, VOCABULARIES.__getitem__)
    if len(offered) == 1:
        st.caption(_("More than bytes needs the tokenizers package, which is not installed here."))
    elif vocab != "256":
        st.caption(_("Its merges are learned from the text when the run starts: some seconds, once."))
    return int(vocab), given


def _named(text: str | bytes | None, context: int) -> tuple[str, str]:
    """The corpus's name, and what is wrong with a text of one's own."""
    if text is None:
        return STDLIB, ""
    try:
        name = training.text_name(text)
        training.num_windows(len(training.check_text(text)), context)
    except ValueError as wrong:
        return STDLIB, str(wrong)
    return name, ""


PACES = {"full": 0.0, "slow": 0.05, "steps": 0.5}
PACE_NAMES = {"full": _("full speed"), "slow": _("20 steps/s"), "steps": _("2 steps/s")}
_PACE = {"regression": "slow", "text": "full"}


def pace_seconds(task: str) -> float:
    """The pace's control; what a run waits after each step."""
    pace = inputs.choice(
        _("Pace"), f"train_pace_{task}", list(PACES), PACE_NAMES.__getitem__, _PACE[task], label_visibility="collapsed"
    )
    return PACES[pace]
