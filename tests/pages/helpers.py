"""What the page tests share: the app as AppTest runs it, and what a visitor would read on it."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pyarrow
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parent.parent.parent


def open_page(page: str = "", **query: Any) -> AppTest:
    """The app at a page, with these values in the address."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for key, value in query.items():
        app.query_params[key] = value
    if page:
        app.switch_page(f"pages/{page}.py")
    app.run()
    assert not app.exception, app.exception[0].message
    return app


def text_of(app: AppTest) -> str:
    """Everything that the page says, tags and code to be copied removed."""
    parts = [
        re.sub('<pre class="np-script">.*?</pre>', " ", one.proto.body, flags=re.DOTALL) for one in app.get("html")
    ]
    for kind in ("header", "markdown", "caption", "info", "warning", "error"):
        parts += [element.value for element in getattr(app, kind)]
    shown = re.sub(r"(?<!\\)<(style|script).*?</\1>|(?<!\\)<[^>]+>", " ", " ".join(parts), flags=re.DOTALL)
    return html.unescape(_as_shown(shown))


def said(element: Any) -> str:
    """What a note, a warning or an error says, as a reader sees it."""
    return _as_shown(element.value)


def _as_shown(markdown: str) -> str:
    return re.sub(r"\\([\\`*_\[\]<>$])", r"\1", markdown).replace("`->`", "->")


def value_of(app: AppTest, kind: str = "predicted") -> str:
    """The big figure in a card's box: "predicted", "measured" or "ratio"."""
    bodies = " ".join(element.proto.body for element in app.get("html"))
    found = re.search(rf'np-box np-{kind}">.*?np-value"[^>]*>([^<]*)<', bodies, re.DOTALL)
    assert found, f"no box {kind!r}"
    return html.unescape(found[1])


def charts(app: AppTest) -> list[Any]:
    """Each chart's drawing and data."""
    return [(one.proto.spec, rows(app, index)) for index, one in enumerate(app.get("vega_lite_chart"))]


def rows(app: AppTest, index: int = -1) -> list[dict[str, Any]]:
    """The data of a chart, without the limits of its axes."""
    proto = app.get("vega_lite_chart")[index].proto
    tables = [dataset.data.data for dataset in proto.datasets if dataset.name != "limits"] or [proto.data.data]
    return [row for table in tables for row in pyarrow.ipc.open_stream(table).read_all().to_pylist()]


def choose(app: AppTest, key: str, value: Any) -> AppTest:
    """Change a control of any kind and run."""
    for kind in ("number_input", "selectbox", "toggle", "slider", "text_input", "multiselect", "button_group"):
        for element in app.get(kind):
            if getattr(element, "key", None) == key:
                element.set_value(value)
                app.run()
                assert not app.exception, app.exception[0].message
                return app
    raise AssertionError(f"no control {key!r}")


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    app.run()
    assert not app.exception, app.exception[0].message
    return app
