"""What is drawn as before: charts. Controls need a browser's session: see tests/browser/test_redraw.py."""

from __future__ import annotations

import copy

import pyarrow
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from pages._ui import charts, redraw


def drawing(title):
    """As pages have them: no data, and limits that follow it."""
    import altair as alt

    scale = alt.Scale(domainMin=alt.ExprRef("low"), domainMax=alt.ExprRef("high"))
    return charts.canvas().mark_line().encode(x=alt.X("n:Q", title=title, scale=scale), y="y:Q")


def through_the_house(rows, title, limits, label):
    charts._show(drawing, rows, (title,), limits, label)


def through_streamlit(rows, title, limits, label):
    spec = copy.deepcopy(charts._spec(drawing, (title,), 1.0, tuple(limits)))
    spec["datasets"] = {"rows": charts._columns(rows), "limits": charts._columns([limits])}
    st.vega_lite_chart(spec, width="stretch", alt=label)


def page(way):
    from tests.pages import test_redraw as this

    for place, (rows, limits) in enumerate(this.SHOWN):
        this.st.caption("between")
        getattr(this, way)(rows, ("size", "bytes")[place % 2], limits, f"chart {place // 2 % 2}")


SHOWN = [
    ([{"n": n, "y": n * factor, "name": "µ" * factor} for n in range(factor)], {"low": 0.0, "high": float(factor)})
    for factor in (1, 2, 3, 5, 8, 1)
] + [
    (pyarrow.table({"n": [1.0], "y": [2.0]}), {"low": 1.0, "high": 2.0}),
    ([], {"low": -1.0, "high": 1.0}),
]  # fmt: skip


@pytest.fixture
def anew(monkeypatch):
    """How often Streamlit described a chart."""
    monkeypatch.setattr(charts, "_drawn", {})
    described = []
    draw = st.vega_lite_chart
    monkeypatch.setattr(st, "vega_lite_chart", lambda *given, **named: described.append(named) or draw(*given, **named))
    return described


def elements(way):
    """Each chart's description, data and words."""
    app = AppTest.from_function(page, default_timeout=60, kwargs={"way": way}).run()
    assert not app.exception
    shown = [*app.main][1:]  # the first is the block itself
    assert [one.type for one in shown] == ["caption", "vega_lite_chart"] * len(SHOWN)
    return [one.proto.SerializeToString(deterministic=True) for one in shown[1::2]]


def test_a_chart_whose_drawing_is_known_is_what_streamlit_would_send(anew):
    wanted = elements("through_streamlit")
    assert len(set(wanted)) == len(SHOWN), "they differ"
    anew.clear()
    for _again in range(2):
        assert elements("through_the_house") == wanted
    assert len(anew) == 4, "each drawing with each label, once"


def test_what_is_kept_is_bounded(monkeypatch, anew):
    monkeypatch.setattr(redraw, "MOST_KEPT", 3)
    assert elements("through_the_house") == elements("through_streamlit")
    assert 0 < len(charts._drawn) <= 3
