"""The controls of a section, by their kinds in the address, in a fragment and nothing else: no words, card or chart."""

import streamlit as st

OPTIONS = ["one", "two", "three"]
BOUND = {"bind": "query-params", "persist_state": "session"}  # as the controls of pages are
KINDS = {
    "number_input": lambda key: st.number_input(key, 1, 1_000_000, 1024, key=key, **BOUND),
    "selectbox": lambda key: st.selectbox(key, OPTIONS, key=key, **BOUND),
    "button_group": lambda key: st.segmented_control(key, OPTIONS, default="one", key=key, **BOUND),
    "multiselect": lambda key: st.multiselect(key, OPTIONS, key=key, **BOUND),
    "checkbox": lambda key: st.toggle(key, key=key, **BOUND),
    "slider": lambda key: st.slider(key, 0, 10, 5, key=key, **BOUND),
    "text_input": lambda key: st.text_input(key, "text", key=key, **BOUND),
    "button": lambda key: st.button(key, key=key),
    "text_area": lambda key: st.text_area(key, key=key),
    "popover": lambda key: st.popover(key).write(key),
}


@st.fragment
def section() -> None:
    for place, kind in enumerate(st.query_params.get("controls", "number_input").split(".")):
        KINDS[kind](f"c{place}")


section()
