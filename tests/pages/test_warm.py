"""What the server prepares in the background."""

import ast
import gc
import subprocess
import sys
import threading
from pathlib import Path

import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from core import jobs
from pages._ui import frame, warm

ROOT = Path(__file__).parents[2]


def test_pages_compute_on_one_thread():
    """Visitors' small computations run side by side; measurements have processes of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        warm.load_torch()
        assert warm.torch_is_here()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_new_thread_computes_alone():
    """A page's run has a new thread, whose first matrix product starts as many threads as cores unless it is told."""
    x = torch.ones(64, 64)

    def run() -> None:
        warm.on_this_thread()
        before = set(Path("/proc/self/task").iterdir())
        x @ x
        started.append(set(Path("/proc/self/task").iterdir()) - before)

    started: list[set[Path]] = []
    before = torch.get_num_threads()
    try:
        warm.load_torch()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert started == [set()]


def test_what_is_imported_first_is_what_the_start_page_imports():
    page = ast.parse((ROOT / "pages" / "napkin.py").read_text())
    asked = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(page)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(warm.START_PAGE) <= asked


def test_the_first_words_wait_for_no_chart_and_no_torch():
    """What a first visitor waits for, each 60 ms and more."""
    command = f"import sys, streamlit; {'; '.join(f'import {one}' for one in warm.START_PAGE)}; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    late = {"torch", "numpy", "pandas", "pyarrow", "altair", "einops", "PIL", "streamlit.emojis"}
    assert not late & set(imported.stdout.split())


def test_a_pages_question_waits_for_no_torch():
    """But for the training page's: its settings are torch's."""
    command = """
import ast, pathlib, sys
for page in sorted(pathlib.Path("pages").glob("[a-z]*.py")):
    if page.stem != "training":
        imports = [one for one in ast.parse(page.read_text()).body if isinstance(one, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), str(page), "exec"))
        assert "torch" not in sys.modules, page
from pages._ui import code_view
lessons = code_view.Lessons("flops_mfu")
assert "torch" not in sys.modules
assert lessons.linear_model.__module__ == "core.lessons.flops_mfu"
"""
    subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True)


def test_the_icon_comes_when_the_page_is_out(monkeypatch):
    """Streamlit reads its list of all emoji to know one, 60 ms the first time."""
    called = []
    monkeypatch.setattr(st, "set_page_config", lambda **given: called.append(list(given)))
    monkeypatch.setattr(frame.warm, "page_is_out", lambda: called.append("page is out"))
    AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert called == [["layout", "initial_sidebar_state"], "page is out", ["page_icon"]]


def test_garbage_is_looked_for_again_when_all_is_imported(monkeypatch):
    def load():
        on_the_way.append(gc.isenabled())

    for one in threading.enumerate():  # a page that an earlier test opened
        if one.name == "warm":
            one.join()
    on_the_way: list[bool] = []
    before = gc.get_threshold()
    monkeypatch.setattr(warm, "_started", threading.Lock())
    monkeypatch.setattr(warm, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "warm", lambda: None)
    monkeypatch.setattr(warm, "load_torch", load)
    try:
        warm.start()
        for one in threading.enumerate():
            if one.name == "warm":
                one.join()
        assert on_the_way == [False]
        assert gc.isenabled()
        assert gc.get_threshold() == warm.COLLECT_AFTER
    finally:
        gc.set_threshold(*before)
        gc.enable()
