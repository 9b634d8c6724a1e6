"""The least that Streamlit can show: what a page's first render is held against."""

import streamlit as st

st.write("hello")
