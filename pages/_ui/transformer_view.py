"""Controls and tables that the sections of Transformer FLOPs share."""

from __future__ import annotations

import functools
from html import escape
from typing import Any

import streamlit as st

from core import flops, units
from core.words import _
from pages._ui import inputs, markup, tables


def transformer_controls() -> tuple[flops.TransformerShape, int, int]:
    """A model, batch size and context length; with "your own", its shape too."""
    own = _("your own")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = inputs.select(_("Model"), "model", [*flops.PRESETS, own], default="GPT-2 small")
        batch = inputs.whole_number(_("Batch size B"), "batch", 1, 1, 2**20, width=240)
        length = inputs.whole_number(_("Context length T"), "context", 1024, 1, 2**22, width=240)
    if name != own:
        return flops.PRESETS[name], batch, length
    fields = {
        "num_layers": (_("Layers"), 12, 1000),
        "d_model": (_("Width D"), 768, 2**17),
        "num_heads": (_("Heads"), 12, 1024),
        "num_kv_heads": (_("KV heads"), 12, 1024),
        "d_ff": (_("Feed-forward F"), 3072, 2**19),
        "vocab_size": (_("Vocabulary V"), 50257, 2**21),
    }
    chosen: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for key, (label, default, high) in fields.items():
            chosen[key] = inputs.whole_number(label, f"own_{key}", default, 1, high, width="stretch")
    gated = inputs.switch(_("Gated feed-forward (SwiGLU: three matrices)"), "own_gated")
    return flops.TransformerShape(name, gated_mlp=gated, **chosen), batch, length


def rules_of_thumb(shape: flops.TransformerShape, batch: int, length: int) -> None:
    """The rules that everybody uses, beside the exact count."""
    exact = flops.transformer_flops(shape, batch, length).total_flops
    rules = {
        _("6·N·D, all parameters"): flops.six_nd(shape, batch * length),
        _("6·N·D, without embeddings"): flops.six_nd(shape, batch * length, non_embedding=True),
        _("(6·N + 12·L·H·Q·T)·D"): flops.palm_flops_per_token(shape, length) * batch * length,
    }
    rows = [
        (name, (units.si(value, "FLOP"), f"{value:,} FLOP"), f"{value / exact - 1:+.1%}")
        for name, value in rules.items()
    ]
    head = (_("rule"), _("FLOPs"), _("over the exact count"))
    tables.show(head, rows, _("rules of thumb beside the exact count"), dense=True)


def causal_conventions() -> None:
    """Who counts half of a causal attention, and who counts the full square; opened in the browser."""
    markup.show(_causal_conventions())


@functools.cache
def _causal_conventions() -> str:
    head = "".join(f"<th>{name}</th>" for name in (_("who"), _("counts"), _("formula"), _("source")))
    rows = "".join(
        f"<tr><td>{escape(one.who)}</td><td>{_('half') if one.halves else _('the full square')}</td>"
        f'<td>{escape(one.formula)}</td><td class="np-note">{escape(one.source)}</td></tr>'
        for one in flops.CAUSAL_CONVENTIONS
    )
    return (
        f'<details style="color:var(--ink)"><summary>{_("Who halves causal attention, and who does not")}</summary>'
        f'<div class="np-scroll"><table class="np-why np-wide np-told"><tr>{head}</tr>{rows}</table></div></details>'
    )
