"""Napkin: page config and navigation. Run with `streamlit run app.py`."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from core.words import _
from pages._ui import sending, warm

PAGES = Path(__file__).resolve().parent / "pages"

if __name__ == "__main__":  # Streamlit runs this file for every visit
    st.set_page_config(layout="wide", initial_sidebar_state="collapsed")
    warm.first_visit()
    navigation = {
        _("Start"): [st.Page(PAGES / "napkin.py", title=_("Napkin"), default=True)],
        _("Tensors"): [
            st.Page(PAGES / "tensors_memory.py", title=_("Tensors in memory"), url_path="tensors_memory"),
            st.Page(PAGES / "dtypes.py", title=_("Number formats"), url_path="dtypes"),
            st.Page(PAGES / "strides_views.py", title=_("Strides & views"), url_path="strides_views"),
            st.Page(PAGES / "einops_playground.py", title=_("Einops playground"), url_path="einops_playground"),
        ],
        _("Compute"): [
            st.Page(PAGES / "flops_mfu.py", title=_("FLOPs & MFU"), url_path="flops_mfu"),
            st.Page(PAGES / "transformer_flops.py", title=_("Transformer FLOPs"), url_path="transformer_flops"),
            st.Page(PAGES / "gradients.py", title=_("Gradients"), url_path="gradients"),
        ],
        _("Models"): [
            st.Page(PAGES / "initialization.py", title=_("Initialization"), url_path="initialization"),
            st.Page(PAGES / "optimizers.py", title=_("Optimizers"), url_path="optimizers"),
            st.Page(PAGES / "optimizer_memory.py", title=_("Optimizer memory"), url_path="optimizer_memory"),
        ],
        _("Training"): [
            st.Page(PAGES / "training.py", title=_("Training"), url_path="training"),
            st.Page(PAGES / "low_precision.py", title=_("Low precision"), url_path="low_precision"),
        ],
    }
    st.navigation(navigation, position="top").run()
    st.set_page_config(page_icon="🧮")  # last: a first visitor would wait 60 ms for Streamlit's list of emoji
else:  # the server imports it once
    middleware = [Middleware(sending.FilesAtOnce), Middleware(sending.Together)]
    app = st.App(__file__, lifespan=warm.lifespan, middleware=middleware)
