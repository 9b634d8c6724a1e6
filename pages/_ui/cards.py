"""The card that every page shows: prediction, measured, ratio, why; hidden until guessed where that is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from core import units
from core.claims import Comparison, Measurement, Prediction, how_far_off
from core.words import _
from pages._ui import charts, code_view, inputs, markup, prose

_GUESSES = "_napkin_guesses"
ALL_OF_IT = 0.995  # and above it a share reads as 100%
AGREE = 0.001  # closer than three significant digits show


@dataclass(frozen=True)
class Labels:
    """What a card calls its three boxes, where the usual names do not fit.

    ``ratio_is_a_share``: the ratio is a share of a whole, as MFU is. ``reference_was_measured``: the first box holds
    a measurement too, and is drawn as one.
    """

    predicted: str = ""
    measured: str = ""
    ratio: str = ""
    ratio_is_a_share: bool = False
    reference_was_measured: bool = False


def predict_measure_explain(
    key: str,
    prediction: Prediction,
    comparison: Comparison | None = None,
    *,
    script: str,
    labels: Labels | None = None,
    waiting: str = "",
    draw: bool = True,
    below: str = "",
) -> bool:
    """Show a prediction, and what was measured where there is something.

    ``key`` names the card on its page; ``script`` is offered under *Copy as Python*. With *Predict first* on, the
    answers stay hidden until the student has guessed or pressed *Show*: then this returns False, and the section
    shows nothing more that would give them away. ``below`` is HTML that follows the answers in the same element.
    """
    labels = labels or Labels()
    guessing = inputs.predict_first()
    if guessing and not _guessed(key, prediction):
        return False
    boxes = [_predicted_box(prediction, labels)]
    if comparison is not None:
        boxes += [_measured_box(comparison.measurement, labels), _ratio_box(comparison, labels)]
    elif waiting:
        boxes.append(_box("waiting", _("Measured"), "…", [waiting]))
    elif len(prediction.terms) > 1:
        boxes.append(_terms_box(prediction))
    warnings = comparison.warnings if comparison is not None else ()
    lines = "".join(f'<p class="np-warning">{escape(warning)}</p>' for warning in warnings)
    verdict = _guess_verdict(key, prediction, comparison) if guessing else ""
    words = _difference_in_words(key, comparison) if comparison is not None else ""
    links = f'<div class="np-links">{words}{_script_link(key, script)}</div>'
    # One element: each one more costs the server and the browser as much as all that is in it.
    markup.show(f'<div class="np-card">{"".join(boxes)}</div>{lines}{verdict}{links}{below}')
    if comparison is not None and draw:
        _draw_difference(comparison, labels)
    return True


def in_words(html: str) -> str:
    """A sentence below a card: HTML, in which what is not ours must be escaped."""
    return f'<div class="np-below">{html}</div>'


def predictions(claims: Sequence[Prediction]) -> None:
    """Further predictions that follow from a card's, side by side."""
    boxes = "".join(_predicted_box(claim, Labels()) for claim in claims)
    markup.show(f'<div class="np-card np-three">{boxes}</div>')


def _draw_difference(comparison: Comparison, labels: Labels) -> None:
    if _has_difference(comparison):
        charts.show_difference(comparison, labels.predicted, labels.measured)


def _has_difference(comparison: Comparison) -> bool:
    return comparison.unexplained is not None and bool(comparison.parts or comparison.difference)


def _difference_in_words(key: str, comparison: Comparison) -> str:
    """What the difference is made of, part by part, with where each figure comes from."""
    if not _has_difference(comparison):
        return ""
    assert comparison.unexplained is not None
    assert comparison.difference is not None
    unit = comparison.prediction.unit
    rows = [(charts.part_color(index), part.name, part.value, part.note) for index, part in enumerate(comparison.parts)]
    rest = _("what no part above accounts for") if comparison.unexplained * comparison.difference >= 0 else None
    rest = rest or _("the parts above say too much by this")
    rows.append((charts.UNEXPLAINED, _("unexplained"), comparison.unexplained, rest))
    body = "".join(
        f'<tr><td><span class="np-swatch" style="background:{color}"></span>{escape(name)}</td>'
        f'<td class="np-number" title="{value!r} {escape(unit)}">{escape(_signed(value, unit))}</td>'
        f'<td class="np-note">{escape(note)}</td></tr>'
        for color, name, value, note in rows
    )
    return _opens(f"why-{key}", _("Why, in words"), f'<table class="np-why">{body}</table>')


def copy_as_python(key: str, script: str) -> None:
    """A short script that imports core and prints the same prediction and measurement."""
    markup.show(f'<div class="np-links">{_script_link(key, script)}</div>')


def _script_link(key: str, script: str) -> str:
    code = "\n".join(code_view.highlighted(script))
    copy = f'<button class="np-copy" type="button">{escape(_("Copy"))}</button>'
    return _opens(f"script-{key}", _("Copy as Python"), f'{copy}<pre class="np-script">{code}</pre>')


def _opens(name: str, label: str, content: str) -> str:
    """A button that opens what the browser holds already: no question to the server."""
    name = "np-" + re.sub(r"\W", "-", name)
    return (
        f'<button class="np-link" type="button" popovertarget="{name}">{escape(label)}</button>'
        f'<div class="np-pop" popover id="{name}" role="dialog" aria-label="{escape(label)}">{content}</div>'
    )


def _signed(value: float, unit: str) -> str:
    return ("+ " if value >= 0 else "− ") + units.quantity(abs(value), unit)


def _box(kind: str, label: str, value: str, details: list[str], *, exact: str = "", source: str = "") -> str:
    lines = "<br>".join(escape(detail) for detail in details if detail)
    return (
        f'<div class="np-box np-{kind}"><div class="np-label">{escape(label)}</div>'
        f'<div class="np-value" title="{escape(exact)}">{escape(value)}</div>'
        f'<div class="np-detail" title="{escape(source)}">{lines}</div></div>'
    )


def _predicted_box(prediction: Prediction, labels: Labels) -> str:
    label = labels.predicted or _("Predicted {quantity}").format(quantity=prediction.quantity)
    exact = "" if prediction.value is None else f"{prediction.value!r} {prediction.unit}"
    detail = prediction.formula if prediction.value is not None else prediction.unknown
    kind = "measured" if labels.reference_was_measured else "predicted"
    return _box(kind, label, prediction.text, [detail], exact=exact, source=prediction.source)


def _terms_box(prediction: Prediction) -> str:
    rows = "".join(
        f'<tr><td>{escape(term.name)}</td><td class="np-number" title="{term.value!r}">'
        f"{escape(units.quantity(term.value, prediction.unit if term.unit is None else term.unit))}</td></tr>"
        for term in prediction.terms
    )
    return f'<div class="np-box np-ratio"><table class="np-why">{rows}</table></div>'


def _measured_box(measurement: Measurement, labels: Labels) -> str:
    label = labels.measured or _("Measured {quantity}").format(quantity=measurement.quantity)
    spread = ""
    if len(measurement.samples) > 1:
        low, high = (units.quantity(value, measurement.unit) for value in measurement.quartiles)
        best = measurement.maximum if measurement.unit.endswith("/s") else measurement.minimum
        message = _("{statistic}; half of all trials {low} to {high}; fastest {fastest}")
        fastest = units.quantity(best, measurement.unit)
        spread = message.format(statistic=_(measurement.statistic), low=low, high=high, fastest=fastest)
    exact = f"{measurement.value!r} {measurement.unit}"
    return _box("measured", label, measurement.text, [spread, measurement.conditions.text], exact=exact)


def _ratio_box(comparison: Comparison, labels: Labels) -> str:
    label = labels.ratio or _("Measured over predicted")
    if comparison.ratio is None and comparison.difference == 0:
        return _box("ratio", label, "=", [_("they agree: both are 0")])
    if comparison.ratio is None:
        return _box("ratio", label, _("unknown"), [_("there is nothing to compare with")])
    # A share of a whole reads as a percentage, up to where it would mislead; everything else as a factor.
    as_percent = labels.ratio_is_a_share and comparison.ratio <= 1
    text = f"{units.significant(100 * comparison.ratio)}%" if as_percent else units.factor(comparison.ratio)
    return _box("ratio", label, text, [_verdict(comparison)], exact=repr(comparison.ratio))


def _verdict(comparison: Comparison) -> str:
    """The largest part of the difference, in words."""
    if not comparison.difference or comparison.unexplained is None or comparison.ratio is None:
        return _("they agree")
    unexplained = (_("unexplained"), comparison.unexplained)
    largest = max([unexplained, *((part.name, part.value) for part in comparison.parts)], key=lambda pair: abs(pair[1]))
    name, value = largest
    if abs(comparison.ratio - 1) < AGREE:
        return _("they agree") if largest == unexplained else _("they agree, but for {part}").format(part=name)
    share = value / comparison.difference
    if not 0 < share < ALL_OF_IT:
        return _("mostly {part}").format(part=name)
    return _("mostly {part} ({share:.0%} of the difference)").format(part=name, share=share)


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

    question = _("Your guess: {quantity} in {unit}") if prediction.unit else _("Your guess: {quantity}")
    question = question.format(quantity=prediction.quantity, unit=prediction.unit)
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
        st.warning(prose.plain(wrong))
    return False


def _guess_verdict(key: str, prediction: Prediction, comparison: Comparison | None) -> str:
    """How far off the student's guess was, where there was one."""
    guess = st.session_state[_GUESSES].get(f"{key}|{prediction.formula}")
    if guess is None:
        return ""
    text = _("You guessed {guess}").format(guess=units.quantity(guess, prediction.unit))
    parts = []
    if prediction.value is not None and prediction.value >= 0:
        parts.append(_("{off} against the napkin").format(off=how_far_off(guess, prediction.value)))
    if comparison is not None and comparison.measurement.value >= 0:
        parts.append(_("{off} against what was measured").format(off=how_far_off(guess, comparison.measurement.value)))
    sentence = f"{text}: {' · '.join(parts)}." if parts else f"{text}."
    return f'<p class="np-guess">{escape(sentence)}</p>'
