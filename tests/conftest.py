"""Settings for all tests."""

import os

from hypothesis import settings

# These machines are shared: no deadline. In CI the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
