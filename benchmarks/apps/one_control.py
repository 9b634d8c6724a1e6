"""One control in a fragment and nothing else: what a page's rerun is held against."""

import streamlit as st


@st.fragment
def section() -> None:
    st.number_input("B", 1, 1_000_000, 1024)


section()
