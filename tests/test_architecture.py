"""The house's rules, enforced: who imports whom, how long a file is, and that every word can be translated."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "pages").glob("*.py"))
UI = sorted((ROOT / "pages" / "_ui").rglob("*.py"))
CORE = sorted((ROOT / "core").rglob("*.py"))
TOPICS = [page for page in PAGES if page.name != "__init__.py"]


def name(path):
    return str(path.relative_to(ROOT))


@functools.cache
def nodes(path):
    """Everything in a file, as Python reads it."""
    return list(ast.walk(ast.parse(path.read_text())))


@pytest.fixture(scope="module", autouse=True)
def _forgotten():
    """A million objects, which every garbage collection would look at."""
    yield
    nodes.cache_clear()


def imports(path):
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", CORE, ids=name)
def test_core_works_in_a_notebook(path):
    assert not [one for one in imports(path) if one.split(".")[0] in ("streamlit", "altair", "pages")]


@pytest.mark.parametrize("path", TOPICS, ids=name)
def test_no_page_imports_another_and_none_computes(path):
    topics = {f"pages.{page.stem}" for page in TOPICS}
    for one in imports(path):
        assert not any(one == topic or one.startswith(f"{topic}.") for topic in topics), one
        assert one.split(".")[0] not in ("torch", "numpy", "altair", "pandas", "einops"), (
            f"{one} belongs in core or _ui"
        )


@pytest.mark.parametrize("path", UI, ids=name)
def test_what_pages_share_knows_no_page(path):
    assert not [one for one in imports(path) if re.fullmatch(r"pages\.(?!_)\w+.*", one)]


@pytest.mark.parametrize("path", TOPICS, ids=name)
def test_a_page_is_thin(path):
    assert len(path.read_text().splitlines()) <= 250
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize("path", [*CORE, *UI], ids=name)
def test_files_and_functions_are_short(path):
    assert len(path.read_text().splitlines()) <= 320
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno <= 60, node.name


SHOWN = {
    "write", "markdown", "caption", "info", "warning", "error", "success", "button", "toggle", "popover", "expander",
    "selectbox", "number_input", "text_input", "slider", "segmented_control", "section",
}  # fmt: skip


@pytest.mark.parametrize("path", [*TOPICS, *UI], ids=name)
def test_every_word_on_screen_passes_through_the_translation(path):
    """No function that shows text gets a bare string with a letter in it."""
    for node in nodes(path):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SHOWN
            and node.args
        ):
            first = node.args[0]
            texts = (
                [first] if isinstance(first, ast.Constant) else first.values if isinstance(first, ast.JoinedStr) else []
            )
            for text in texts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    bare = re.search(r"[A-Za-z]{2,}", text.value) and text.value not in ("MFU", "predict_first")
                    assert not bare, f"line {node.lineno}: {text.value!r} is not translated"


@pytest.mark.parametrize("path", TOPICS, ids=name)
def test_every_section_has_its_words_and_no_words_are_orphans(path):
    prose = (ROOT / "pages" / "_prose" / "en" / f"{path.stem}.md").read_text()
    told = set(re.findall(r"^## +(\S+)", prose, re.MULTILINE))
    sections = {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Call) and ast.unparse(one.func) == "frame.section" for one in node.decorator_list)
    }
    assert told == sections


def test_every_stop_of_the_tour_leads_to_a_section_that_is_there():
    tree = ast.parse((ROOT / "pages" / "_ui" / "tour.py").read_text())
    stops = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "STOPS")
    for stop in stops.elts:
        page, label = ast.literal_eval(stop.elts[2]), stop.elts[3]
        path = ROOT / "pages" / f"{page}.py"
        if path.exists() and isinstance(label, ast.Call):
            shown = re.findall(r'@frame\.section\(.*?, _\("([^"]+)"\)', path.read_text())
            assert ast.literal_eval(label.args[0]) in shown, f"§{ast.literal_eval(stop.elts[0])}: {page} has {shown}"


def test_every_page_is_in_the_navigation():
    app = (ROOT / "app.py").read_text()
    for page in TOPICS:
        assert f'"{page.name}"' in app


def test_nothing_a_user_types_is_evaluated():
    for path in [*CORE, *UI, *TOPICS]:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile"), f"{name(path)}:{node.lineno}"
