"""Settings of the page tests."""

import functools
from collections.abc import Iterator

import pytest
from streamlit.components.v2 import manifest_scanner

from core import hardware


@pytest.fixture(scope="session", autouse=True)
def installed_components_are_looked_for_once() -> Iterator[None]:
    """For every app anew, AppTest reads what is installed: longer than a page takes. It does not change meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        found = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", found)
        yield


@pytest.fixture(scope="session", autouse=True)
def calibrations_are_short() -> Iterator[None]:
    """How high the ceilings are changes no page: the real ones take five seconds for every number of threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "calibrate", functools.partial(hardware.calibrate, window_seconds=0.002))
        yield
