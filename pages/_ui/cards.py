"""The card that every page shows: prediction, measured, ratio, why; hidden until guessed where that is asked for."""

from __future__ import annotations

from html import escape

import streamlit as st

from core import units
from core.claims import Comparison, Measurement, Prediction, how_far_off
from core.words import _
from pages._ui import charts, inputs

_GUESSES = "_napkin_guesses"


def predict_measure_explain(
    key: str,
    prediction: Prediction,
    comparison: Comparison | None = None,
    *,
    script: str,
    ratio_label: str | None = None,
    waiting: str = "",
    draw: bool = True,
) -> bool:
    """Show a prediction, and what was measured where there is something.

    ``key`` names the card on its page; ``script`` is offered under *Copy as Python*. With *Predict first* on, the
    answers stay hidden until the student has guessed or pressed *Show*: then this returns False, and the section
    shows nothing more that would give them away.
    """
    if inputs.predict_first() and not _guessed(key, prediction):
        return False
    boxes = [_predicted_box(prediction)]
    if comparison is not None:
        boxes += [_measured_box(comparison.measurement), _ratio_box(comparison, ratio_label)]
    elif waiting:
        boxes.append(
            f'<div class="np-box np-waiting"><div class="np-label">{_("Measured")}</div><div class="np-value">…</div><div class="np-detail">{escape(waiting)}</div></div>'
        )
    st.html(f'<div class="np-card">{"".join(boxes)}</div>')
    _guess_verdict(key, prediction, comparison)
    for warning in comparison.warnings if comparison is not None else ():
        st.warning(warning)
    if comparison is not None and draw:
        why(comparison)
    copy_as_python(key, script)
    return True


def why(comparison: Comparison) -> None:
    """What the difference is made of: drawn, and in words."""
    unit = comparison.prediction.unit
    if comparison.unexplained is None:
        return
    if not comparison.parts and not comparison.difference:
        st.html(f'<p class="np-prose">{_("No difference: the two agree exactly.")}</p>')
        return
    charts.show(charts.difference, comparison, alt_text=charts.alternative(comparison))
    rows = [(charts.part_color(index), part.name, part.value, part.note) for index, part in enumerate(comparison.parts)]
    rest = _("what no part above accounts for")
    if comparison.unexplained < 0:
        rest = _("the parts above say too much by this")
    rows.append((charts.UNEXPLAINED, _("unexplained"), comparison.unexplained, rest))
    body = "".join(
        f'<tr><td><span class="np-swatch" style="background:{color}"></span>{escape(name)}</td>'
        f'<td class="np-number" title="{value!r} {escape(unit)}">{escape(_signed(value, unit))}</td>'
        f'<td class="np-note">{escape(note)}</td></tr>'
        for color, name, value, note in rows
    )
    with st.expander(_("Why: the difference in words")):
        st.html(f'<table class="np-why">{body}</table>')


def copy_as_python(key: str, script: str) -> None:
    """A short script that imports core and prints the same prediction and measurement."""
    with st.popover(_("Copy as Python"), type="tertiary", key=f"np_script_{key}"):
        st.code(script, language="python")


def _signed(value: float, unit: str) -> str:
    return ("+ " if value >= 0 else "− ") + units.quantity(abs(value), unit)


def _predicted_box(prediction: Prediction) -> str:
    label = _("Predicted {quantity}").format(quantity=prediction.quantity)
    exact = "" if prediction.value is None else f"{prediction.value!r} {prediction.unit}"
    detail = prediction.formula if prediction.value is not None else prediction.unknown
    return (
        f'<div class="np-box np-predicted"><div class="np-label">{escape(label)}</div>'
        f'<div class="np-value" title="{escape(exact)}">{escape(prediction.text)}</div>'
        f'<div class="np-detail" title="{escape(prediction.source)}">{escape(detail)}</div></div>'
    )


def _measured_box(measurement: Measurement) -> str:
    label = _("Measured {quantity}").format(quantity=measurement.quantity)
    if len(measurement.samples) > 1:
        low, high = (units.quantity(value, measurement.unit) for value in measurement.quartiles)
        message = _("{statistic}; half of all trials {low} to {high}; fastest {fastest}")
        best = measurement.maximum if measurement.unit.endswith("/s") else measurement.minimum
        spread = message.format(
            statistic=_(measurement.statistic), low=low, high=high, fastest=units.quantity(best, measurement.unit)
        )
    else:
        spread = ""
    lines = [line for line in (spread, measurement.conditions.text) if line]
    return (
        f'<div class="np-box np-measured"><div class="np-label">{escape(label)}</div>'
        f'<div class="np-value" title="{measurement.value!r} {escape(measurement.unit)}">{escape(measurement.text)}</div>'
        f'<div class="np-detail">{"<br>".join(escape(line) for line in lines)}</div></div>'
    )


def _ratio_box(comparison: Comparison, label: str | None) -> str:
    label = label or _("Measured over predicted")
    if comparison.ratio is None:
        return f'<div class="np-box np-ratio"><div class="np-label">{escape(label)}</div><div class="np-value">{_("unknown")}</div><div class="np-detail">{_("no peak to compare with")}</div></div>'
    return (
        f'<div class="np-box np-ratio"><div class="np-label">{escape(label)}</div>'
        f'<div class="np-value" title="{comparison.ratio!r}">{escape(units.factor(comparison.ratio))}</div>'
        f'<div class="np-detail">{escape(_verdict(comparison))}</div></div>'
    )


def _verdict(comparison: Comparison) -> str:
    """The largest part of the difference, in words."""
    named = [(part.name, part.value) for part in comparison.parts]
    if comparison.unexplained is not None:
        named.append((_("unexplained"), comparison.unexplained))
    if not comparison.difference or not named:
        return _("they agree")
    name, value = max(named, key=lambda pair: abs(pair[1]))
    share = abs(value / comparison.difference)
    return _("mostly {part} ({share:.0%} of the difference)").format(part=name, share=min(share, 9.99))


def _guessed(key: str, prediction: Prediction) -> bool:
    """Ask for a guess; True once there is one for this very prediction, or the student gave up."""
    identity = f"{key}|{prediction.formula}"
    guesses: dict[str, float | None] = st.session_state.setdefault(_GUESSES, {})
    if identity in guesses:
        return True
    field = f"np_guess_{key}"

    def take() -> None:
        try:
            guess = units.parse_quantity(st.session_state[field], prediction.unit)
            how_far_off(guess, 1.0)
            guesses[identity] = guess
            st.session_state.pop(f"{field}_wrong", None)
        except ValueError as wrong:
            st.session_state[f"{field}_wrong"] = str(wrong)

    question = _("Your guess: {quantity} in {unit}").format(
        quantity=prediction.quantity, unit=prediction.unit or _("a number")
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            question,
            key=field,
            on_change=take,
            max_chars=60,
            placeholder=_("a number, with or without a unit"),
            width=320,
        )
        st.button(_("Guess"), key=f"{field}_go", type="primary", on_click=take)
        st.button(_("Show"), key=f"{field}_show", on_click=lambda: guesses.__setitem__(identity, None))
    wrong = st.session_state.get(f"{field}_wrong")
    if wrong:
        st.warning(wrong)
    return False


def _guess_verdict(key: str, prediction: Prediction, comparison: Comparison | None) -> None:
    guess = st.session_state.get(_GUESSES, {}).get(f"{key}|{prediction.formula}")
    if not inputs.predict_first() or guess is None:
        return
    text = _("You guessed {guess}").format(guess=units.quantity(guess, prediction.unit))
    parts = []
    if prediction.value:
        parts.append(_("{off} against the napkin").format(off=how_far_off(guess, prediction.value)))
    if comparison is not None:
        parts.append(_("{off} against what was measured").format(off=how_far_off(guess, comparison.measurement.value)))
    st.markdown(f"**{text}: {' · '.join(parts)}.**" if parts else f"**{text}.**")
