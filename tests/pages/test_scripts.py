"""Every *Copy as Python* runs, and prints what its card shows."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

from pages._ui import scripts
from pages._ui.scripts import flops_mfu
from tests.pages import script_cases
from tests.pages.helpers import ROOT

SCRIPTS = [module.name for module in pkgutil.iter_modules(scripts.__path__)]
CASES = {
    (module.name, name): case
    for module in pkgutil.iter_modules(script_cases.__path__)
    for name, case in importlib.import_module(f"{script_cases.__name__}.{module.name}").CASES.items()
}


def module_of(page):
    return importlib.import_module(f"{scripts.__name__}.{page}")


@pytest.mark.parametrize("page", SCRIPTS)
def test_every_script_is_tried(page):
    module = module_of(page)
    functions = [one for _, one in inspect.getmembers(module, inspect.isfunction) if one.__module__ == module.__name__]
    public = {one.__name__ for one in functions if not one.__name__.startswith("_")}
    assert public == {name for where, name in CASES if where == page}


@pytest.mark.parametrize(("page", "name"), CASES)
def test_a_script_runs_and_prints_what_its_card_shows(page, name):
    arguments, expected = CASES[page, name]
    script = getattr(module_of(page), name)(*arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout


def test_an_unknown_peak_can_be_copied_too():
    script = flops_mfu.budget(8, None, 1.0, 1.0)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "unknown" in done.stdout
