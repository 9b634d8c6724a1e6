"""Runs Python programs as `python -c` does, without the seconds in which each would import torch."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pages.helpers import ROOT

# Each program runs in a fork of this process, with torch and what is named imported, and nothing of ours. It goes on
# where the loop ends, so that an exception, an exit and what is registered for the end do what they do in any program.
_FORKS = """
import gc, json, os, sys, types
import torch
with_torch = set(sys.modules)
for module in sys.argv[1:]:
    __import__(module)
gc.freeze()
print(json.dumps(list(set(sys.modules) - with_torch)), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for descriptor, path in enumerate([os.devnull, request["output"], request["errors"]]):
    os.dup2(os.open(path, os.O_RDWR), descriptor)
sys.argv = ["-c"]
sys.modules["__main__"] = types.ModuleType("__main__")
exec(compile(request["program"], "<string>", "exec"), sys.modules["__main__"].__dict__)
"""


class Programs:
    """What programs are forked from."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._answers = process.stdin, process.stdout
        self._output, self._errors = folder / "output", folder / "errors"
        self._there_already = set(json.loads(self._answers.readline()))

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. It must import the modules that it names, as if none but torch were there."""
        missing = self._missing_imports(program)
        assert not missing, f"the program names {missing} and does not import it"
        for path in (self._output, self._errors):
            path.write_text("")
        request = {"program": program, "output": str(self._output), "errors": str(self._errors)}
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        returncode = int(self._answers.readline())
        return subprocess.CompletedProcess([], returncode, self._output.read_text(), self._errors.read_text())

    def _missing_imports(self, program: str) -> set[str]:
        nodes = list(ast.walk(ast.parse(program)))
        named = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        return named & self._there_already - imported


@contextmanager
def forked(folder: Path, *modules: str) -> Iterator[Programs]:
    """Programs whose output is kept in that folder; they find these modules imported beside torch."""
    with subprocess.Popen(
        [sys.executable, "-c", _FORKS, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # a fork has no threads but its own: none may wait for it
    ) as process:
        yield Programs(process, folder)
