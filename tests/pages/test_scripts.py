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
from tests.pages.programs import forked

SCRIPTS = [module.name for module in pkgutil.iter_modules(scripts.__path__)]
CASES = {
    (module.name, name): case
    for module in pkgutil.iter_modules(script_cases.__path__)
    for name, case in importlib.import_module(f"{script_cases.__name__}.{module.name}").CASES.items()
}
# What would take ten seconds of timing.
SHORTER = {
    ("strides_views", "cost"): ("measure_cost(64, threads=1)", "measure_cost(64, threads=1, window_seconds=0.01)"),
}


def module_of(page):
    return importlib.import_module(f"{scripts.__name__}.{page}")


@pytest.mark.parametrize("page", SCRIPTS)
def test_every_script_is_tried(page):
    module = module_of(page)
    functions = [one for _, one in inspect.getmembers(module, inspect.isfunction) if one.__module__ == module.__name__]
    public = {one.__name__ for one in functions if not one.__name__.startswith("_")}
    assert public == {name for where, name in CASES if where == page}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """With what every optimizer and the FLOP counter ask for."""
    with forked(tmp_path_factory.mktemp("programs"), "torch._dynamo") as started:
        yield started


@pytest.fixture(scope="module")
def bare_programs(tmp_path_factory):
    """With torch alone, so that what our modules forget to import is not there."""
    with forked(tmp_path_factory.mktemp("bare")) as started:
        yield started


def python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize(("page", "name"), CASES)
def test_a_script_runs_and_prints_what_its_card_shows(programs, bare_programs, page, name):
    arguments, expected = CASES[page, name]
    script = getattr(module_of(page), name)(*arguments)
    if (page, name) in SHORTER:
        there, instead = SHORTER[page, name]
        assert there in script
        script = script.replace(there, instead)
    first = name == next(other for where, other in CASES if where == page)
    done = (bare_programs if first else programs).run(script)
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout


def test_an_unknown_peak_can_be_copied_too(programs):
    done = programs.run(flops_mfu.budget(8, None, 1.0, 1.0))
    assert "unknown" in done.stdout, done.stderr


def test_programs_run_as_python_runs_them(programs, bare_programs):
    for program in (
        "print(__name__, 'torch' in globals(), 'core' in __import__('sys').modules)",
        "import atexit, sys; atexit.register(print, 'the end'); print(sys.argv, sys.path[0]); sys.exit(3)",
        "import sys; sys.exit('a sentence')",
        "def f(): raise ValueError('refused')\nf()",
        "import os; os.kill(os.getpid(), 9)",
        "import os; print(os.getcwd(), input())",
    ):
        real = python(program)
        for fork in (programs.run(program), bare_programs.run(program)):
            assert (fork.returncode, fork.stdout) == (real.returncode, real.stdout), program
            assert fork.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:], program
    with pytest.raises(AssertionError, match="torch._dynamo"):
        programs.run("import torch\ntorch._dynamo.config")
