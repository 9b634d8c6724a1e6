"""The start page: what Napkin is about, in two estimates that need no torch (CS336 lecture 2, §2)."""

import streamlit as st

from core.words import _
from pages._ui import frame


@frame.section(_("How long does it take to train a language model?"), _("Training time"))
def training_time() -> None:
    st.write("…")


frame.page("napkin", _("Napkin"), [training_time])
