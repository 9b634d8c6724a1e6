"""Chains of operations on the page Strides & views: the controls that build one, what ran, and the guesses."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import strides
from core.strides import Layout, Operation, Ran, Step
from core.words import _
from pages._ui import cards, inputs, prose, strides_cells
from pages._ui.charts import strides_views as charts

Shape = tuple[int, ...]
LECTURE_CHAIN = "x.transpose(1, 0).contiguous().view(2, 3)"
CHAINS = {
    _("lecture"): {"strides_shape": "2, 3", "strides_chain": LECTURE_CHAIN},
    _("view of a transpose"): {"strides_shape": "2, 3", "strides_chain": "x.transpose(1, 0).view(2, 3)"},
    _("heads"): {"strides_shape": "2, 3, 8", "strides_chain": "x.view(2, 3, 2, 4).transpose(1, 2).flatten(2)"},
    _("windows"): {"strides_shape": "8", "strides_chain": "x.unfold(0, 3, 1).flip(1)"},
    _("expand"): {"strides_shape": "1, 3", "strides_chain": "x.expand(4, 3).sqrt()"},
    _("every other"): {"strides_shape": "4, 6", "strides_chain": "x[::2, 1::2].clone()"},
}
WIDE = 640  # pixels: the buttons beside the operation
_GUESSES, _REFUSED = "_strides_guesses", "_strides_refused"


@dataclass(frozen=True)
class Chain:
    """A chain as it was predicted, and as torch ran it."""

    shape: Shape
    operations: tuple[Operation, ...]
    steps: tuple[Step, ...]
    ran: tuple[Ran, ...]

    @property
    def tensors(self) -> int:
        """How many tensors there are: x, and one for each step that gave one."""
        return 1 + sum(one.after is not None for one in self.steps)

    def text(self, operations: int | None = None) -> str:
        return strides.format_chain(self.operations[:operations])


@functools.lru_cache(maxsize=256)
def run(shape: Shape, operations: tuple[Operation, ...]) -> Chain:
    """Predict and run; the tensors themselves are not kept."""
    steps = strides.predict_chain(Layout.contiguous(shape), operations)
    ran = tuple(replace(one, tensor=None) for one in strides.run_chain(shape, operations))
    assert len(ran) == len(steps), (steps, ran)
    return Chain(shape, operations, steps, ran)


def chain() -> tuple[Chain, DeltaGenerator]:
    """The controls that build a chain, the chain, and the place beside the buttons for what depends on it."""
    shape_text, text = _shape_and_chain()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.select(_("Operation"), "strides_op", strides.NAMES, strides.usage, default="transpose")
        suggested = _suggested(name, shape_text, text)
        inputs.text(_("Arguments"), "strides_args", "", 60, placeholder=suggested, width=200)
        with st.container(width=WIDE):
            inputs.presets(CHAINS)
            beside = st.container(horizontal=True, vertical_alignment="center", gap="small")
    with beside:
        inputs.button(_("Append"), "strides_append", _append, type="primary")
        inputs.button(_("Undo"), "strides_undo", _undo)
        inputs.button(_("Reset"), "strides_reset", inputs.set_values, values={"strides_chain": "x"})
    if st.session_state.get(_REFUSED):
        st.warning(prose.plain(st.session_state.pop(_REFUSED)))
    return run(strides.parse_shape(shape_text), strides.parse_chain(text)), beside


def same_chain() -> Chain:
    """The chain of this page where it is looked at and not built."""
    shape_text, text = _shape_and_chain()
    return run(strides.parse_shape(shape_text), strides.parse_chain(text))


def _shape_and_chain() -> tuple[str, str]:
    with st.container(horizontal=True):
        shape = inputs.text(_("Shape of x"), "strides_shape", "2, 3", 60, width=190)
        return shape, inputs.text(_("Chain"), "strides_chain", LECTURE_CHAIN, strides.MAX_TEXT)


def _suggested(name: str, shape_text: str, text: str) -> str:
    """Arguments that suit the chain's last tensor; none where there is no such chain."""
    try:
        made = run(strides.parse_shape(shape_text), strides.parse_chain(text))
    except ValueError:
        return ""
    return strides.suggest(name, _last_layout(made))


def _last_layout(made: Chain) -> Layout:
    layouts = [one.after for one in made.steps if one.after is not None]
    return layouts[-1] if layouts else Layout.contiguous(made.shape)


def _append() -> None:
    """Append the chosen operation, with the arguments that were typed or, if there are none, the suggested ones."""
    state = st.session_state
    try:
        made = run(strides.parse_shape(state["strides_shape"]), strides.parse_chain(state["strides_chain"]))
        if made.steps and made.steps[-1].after is None:
            raise ValueError(_("The chain ends with an error, and nothing follows it: undo that step first."))
        if len(made.operations) >= strides.MAX_OPERATIONS:
            raise ValueError(_("At most {most} operations, please.").format(most=strides.MAX_OPERATIONS))
        name = state["strides_op"]
        typed = state["strides_args"].strip() or strides.suggest(name, _last_layout(made))
        operation = strides.parse_operation(name, typed)
        inputs.set_values(strides_chain=strides.format_chain([*made.operations, operation]), strides_args="")
    except ValueError as refused:
        state[_REFUSED] = str(refused)


def _undo() -> None:
    try:
        operations = strides.parse_chain(st.session_state["strides_chain"])
        inputs.set_values(strides_chain=strides.format_chain(operations[:-1]))
    except ValueError as refused:
        st.session_state[_REFUSED] = str(refused)


def tensor_of(made: Chain, known: int, script: str, beside: DeltaGenerator) -> None:
    """One tensor of the chain and its storage: the last one known, or the one that is chosen ``beside``."""
    count = min(made.tensors, known + 1)
    number = count - 1
    with beside:
        if count > 1:
            options = ["last", *map(str, range(count - 1))]
            names = {"last": _("draw the last"), "0": "x"}
            chosen = inputs.choice(
                _("Draw"), "strides_drawn", options, lambda one: names.get(one, one), label_visibility="collapsed"
            )
            number = number if chosen == "last" else int(chosen)
        if known == len(made.steps):
            cards.copy_as_python("chain", script)
    try:
        strides_cells.tensor("strides_chain", made.shape, made.operations, number)
    except ValueError as too_large:
        st.info(prose.plain(str(too_large)))


# View, copy or error: the guesses


def known_steps(made: Chain) -> int:
    """How many steps may be shown: all, or with *Predict first* those that were guessed."""
    return next((at for at in range(len(made.steps)) if not may_show(made, at)), len(made.steps))


def may_show(made: Chain, at: int) -> bool:
    return not inputs.predict_first() or _identity(made, at) in st.session_state.get(_GUESSES, {})


def ask(made: Chain, at: int, key: str) -> None:
    """Ask what a step will do; ``key`` tells this section's buttons from those of another."""
    guesses: dict[str, str] = st.session_state.setdefault(_GUESSES, {})
    identity = _identity(made, at)
    step = made.steps[at].operation.text
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(_("What will `{step}` do?").format(step=step), width="content")
        for kind in strides.KINDS:
            name = charts.kind_name(kind)
            st.button(name, key=f"{key}_guess_{kind}", on_click=guesses.__setitem__, args=(identity, kind))
        st.button(_("Show"), key=f"{key}_guess_show", on_click=guesses.__setitem__, args=(identity, ""))


def say_guess(made: Chain, known: int) -> None:
    """Whether the last guess was right, and how many of this chain's were."""
    guesses: dict[str, str] = st.session_state.get(_GUESSES, {})
    if not inputs.predict_first() or not known:
        return
    made_guesses = [(guesses.get(_identity(made, at), ""), made.steps[at].kind) for at in range(known)]
    said, kind = made_guesses[-1]
    if not said:
        return
    right = sum(one == truth for one, truth in made_guesses)
    verdict = _("right") if said == kind else _("it is: {kind}").format(kind=charts.kind_name(kind))
    message = _("**You said {said}: {verdict}.** {right} of {all} steps right.")
    texts = {"said": charts.kind_name(said), "verdict": verdict, "right": right, "all": known}
    st.markdown(message.format(**texts))


def _identity(made: Chain, at: int) -> str:
    return f"{made.shape}|{made.text(at + 1)}"
