"""Settings for all tests."""

import os
import sys

import pytest
from hypothesis import settings

# These machines are shared: no deadline. In CI the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

os.environ.setdefault("NAPKIN_CALIBRATE_ONCE", "1")  # the other worker keeps the processor busy all the time

# Where several workers share the cores, threads that spin while they wait for one another keep everybody waiting: a
# training step takes 30 times as long. So a worker has one thread (what needs more asks for it), and threads in the
# processes that it starts sleep while they wait.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if WORKERS > 1:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_finish(session: pytest.Session) -> None:
    """By now torch is imported, if any test needs it."""
    torch = sys.modules.get("torch")
    if WORKERS > 1 and torch is not None:
        torch.set_num_threads(1)
