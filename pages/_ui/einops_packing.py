"""What pack, unpack, parse_shape and the annotations show."""

from __future__ import annotations

import math

import streamlit as st

from core import named_dims
from core.named_dims.annotations import Call, Example
from core.words import _
from pages._ui import einops_cells, einops_view, inputs, tables
from pages._ui.einops_cells import shape_text
from pages._ui.scripts import einops_playground as scripts

Shape = tuple[int, ...]
REFUSERS = {"nobody": _("nobody"), "checker": _("the checker alone"), "torch": _("torch itself")}
EXAMPLE_LABELS = {"loss": _("loss"), "scores": _("scores (lecture)"), "bias": _("bias")}


def pack() -> None:
    """Tensors joined along one dimension."""
    pattern, text = _controls(_("Shapes"), "en_packed", "(2, 3), (2,), (2, 2, 2)")
    shapes = named_dims.read_shapes(text, most=8)
    done = einops_view.tried(lambda: named_dims.explain_pack(pattern, *shapes))
    if done is None:
        return
    if not einops_view.card("pack", named_dims.compare_packed_bytes(done), scripts.pack(pattern, done.shapes)):
        return
    einops_cells.packed("pack", done)
    rows = [
        (_("tensor {n}").format(n=number), shape_text(shape), shape_text(inner), shape_text(flat))
        for number, (shape, inner, flat) in enumerate(
            zip(done.shapes, done.packed_shapes, done.flat_shapes, strict=True)
        )
    ]
    tables.show(("", _("shape"), "*", _("joined as")), rows, _("what * stands for in each tensor"))
    st.code(done.code, language="python")


def unpack() -> None:
    """One tensor cut into pieces."""
    pattern, text = _controls(_("Shape; of the pieces: what * becomes"), "en_unpacked", "(2, 8); (3,), (), (2, 2)")
    whole, separator, pieces = text.partition(";")
    if not separator:
        raise ValueError(_("write the tensor's shape, a semicolon, and the shapes of the pieces: (2, 8); (3,), (-1,)"))
    (shape,) = named_dims.read_shapes(whole, most=1)
    wanted = named_dims.read_shapes(pieces, most=8, minus_one=True)
    done = einops_view.tried(lambda: named_dims.explain_unpack(pattern, shape, wanted))
    if done is None:
        return
    script = scripts.unpack(pattern, shape, wanted)
    if not einops_view.card("unpack", named_dims.compare_unpacked_storage(done), script):
        return
    rows = [
        (_("piece {n}").format(n=number), f"{done.cuts[number]}:{done.cuts[number + 1]}", shape_text(piece))
        for number, piece in enumerate(done.shapes)
    ]
    tables.show(("", _("cut"), _("shape")), rows, _("the pieces"))
    st.code(done.code, language="python")


def parse_shape() -> None:
    """The sizes of a shape by name, and how they help elsewhere."""
    with st.container(horizontal=True):
        pattern = inputs.text(_("Pattern, _ skips"), "en_parsed", "batch _ h w", named_dims.MAX_PATTERN_CHARS)
        text = inputs.text(_("Shape"), "en_parsed_shape", "(2, 3, 5, 7)", named_dims.MAX_TEXT_CHARS, width=350)
    (shape,) = named_dims.read_shapes(text, most=1)
    sizes = einops_view.tried(lambda: named_dims.parse_shape(pattern, shape))
    if sizes is not None:
        call = f'parse_shape(x, "{pattern}")'
        st.code(
            f"x.shape  # {shape_text(shape)}\n{call}  # {sizes}\nrearrange(y, pattern, **{call})", language="python"
        )


def _controls(label: str, key: str, default: str) -> tuple[str, str]:
    with st.container(horizontal=True):
        pattern = inputs.text(_("Pattern, * is packed"), "en_pack", "i *", named_dims.MAX_PATTERN_CHARS, width=350)
        text = inputs.text(label, key, default, named_dims.MAX_TEXT_CHARS)
    return pattern, text


def example_shapes(example: Example) -> tuple[Shape, ...]:
    """The shapes to call an example with: at first those that only a checker sees to be wrong."""
    key = f"en_call_{example.name}"
    right, wrong = (", ".join(map(shape_text, shapes)) for shapes in (example.right_shapes, example.wrong_shapes))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        label = _("Shapes of {names}").format(names=_(" and ").join(example.parameters))
        text = inputs.text(label, key, wrong, named_dims.MAX_TEXT_CHARS)
        inputs.presets({_("as annotated"): {key: right}, _("not as annotated"): {key: wrong}})
    return named_dims.read_shapes(text)


def guessed(name: str, shapes: tuple[Shape, ...], checked: named_dims.Checked) -> bool:
    """Whether the calls may be shown; with *Predict first*, ask who refuses, and afterwards say what was right."""
    if not inputs.predict_first():
        return True
    guesses: dict[str, str] = st.session_state.setdefault("_en_refusers", {})
    identity = f"{name}|{shapes}"
    if identity in guesses:
        said, truth = guesses[identity], _refuser(checked)
        if said:
            verdict = _("right") if said == truth else _("it is: {truth}").format(truth=REFUSERS[truth])
            st.markdown(_("**You said {said}: {verdict}.**").format(said=REFUSERS[said], verdict=verdict))
        return True
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(_("Who will refuse these shapes?"), width="content")
        for said, label in (*REFUSERS.items(), ("", _("Show"))):
            key = f"en_refuser_{said or 'show'}"
            st.button(label, key=key, on_click=guesses.__setitem__, args=(identity, said))
    return False


def _refuser(checked: named_dims.Checked) -> str:
    if checked.annotated_only.shape is None:
        return "torch"
    return "nobody" if checked.with_checker.shape is not None else "checker"


def calls(checked: named_dims.Checked, shapes: tuple[Shape, ...]) -> None:
    """What the same call did without a checker and with one, side by side."""
    left, right = st.columns(2)
    with left:
        _call(_("Annotations alone"), checked.annotated_only)
        if checked.broadcast is not None and len({*shapes, checked.broadcast}) > 1:
            message = _("On the way, broadcasting made {shape} of the two: {n:,} values.")
            st.caption(message.format(shape=shape_text(checked.broadcast), n=math.prod(checked.broadcast)))
    with right:
        _call(_("With jaxtyping and beartype"), checked.with_checker)


def _call(title: str, call: Call) -> None:
    st.markdown(f"**{title}**")
    if call.shape is not None:
        st.success(_("It ran. The result has shape {shape}.").format(shape=shape_text(call.shape)))
    else:
        st.code(call.error, language=None, wrap_lines=True)
