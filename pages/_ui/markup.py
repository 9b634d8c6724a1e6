"""HTML of ours, in the looks of ``style.css``. What a visitor typed must be escaped before it comes here."""

from __future__ import annotations

from typing import Any

import streamlit as st


class _Markup(str):
    """Says that it is HTML: a plain string Streamlit first looks up among the server's files."""

    def _repr_html_(self) -> str:
        return str(self)


def show(html: str, **layout: Any) -> None:
    """Show HTML; Streamlit takes out what could run."""
    st.html(_Markup(html), **layout)
