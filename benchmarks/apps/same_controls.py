"""The elements of a section, by their kinds in the address, in a fragment and nothing else: nothing is computed.

A kind may be followed by a dash and a number of bytes, for what holds words: text, code, a chart, a grid of cells.
With ``values`` in the address a line says the controls' values.
"""

import functools

import pyarrow
import streamlit as st

OPTIONS = ["one", "two", "three"]
BOUND = {"bind": "query-params", "persist_state": "session"}  # as the controls of pages are
ROWS = pyarrow.table({"name": ["one", "two"], "value": [1.0, 2.0]})  # Arrow, which is passed on as it is
CHART = {"mark": "point", "encoding": {}, "data": {"name": "rows"}, "datasets": {"rows": ROWS}}
KINDS = {
    "number_input": lambda key, text: st.number_input(key, 1, 1_000_000, 1024, key=key, **BOUND),
    "selectbox": lambda key, text: st.selectbox(key, OPTIONS, key=key, **BOUND),
    "button_group": lambda key, text: st.segmented_control(key, OPTIONS, default="one", key=key, **BOUND),
    "multiselect": lambda key, text: st.multiselect(key, OPTIONS, key=key, **BOUND),
    "checkbox": lambda key, text: st.toggle(key, key=key, **BOUND),
    "slider": lambda key, text: st.slider(key, 0, 10, 5, key=key, **BOUND),
    "text_input": lambda key, text: st.text_input(key, "text", key=key, **BOUND),
    "button": lambda key, text: st.button(key, key=key),
    "text_area": lambda key, text: st.text_area(key, key=key),
    "popover": lambda key, text: st.popover(key).write(key),
    "block": lambda key, text: st.container(),
    "html": lambda key, text: st.html(f"<p>{text}</p>"),
    "markdown": lambda key, text: st.markdown(text),
    "code": lambda key, text: st.code(text),
    "arrow_vega_lite_chart": lambda key, text: st.vega_lite_chart({**CHART, "usermeta": {"text": text}}, alt="a chart"),
    "bidi_component": lambda key, text: cells()(key=key, data=text.encode()),
}


@functools.cache
def cells():
    return st.components.v2.component("cells", html="<div></div>")


@st.fragment
def section() -> None:
    values = []
    for place, one in enumerate(st.query_params.get("elements", "number_input").split(".")):
        kind, _, size = one.partition("-")
        values.append(KINDS[kind](f"c{place}", "x" * int(size or 0)))
    if "values" in st.query_params:
        st.html(f"<p>{values}</p>")


section()
