"""The start page's estimates: the lecture's §2, to the digit."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import napkin

positive = st.floats(1e-3, 1e15)


def test_the_lectures_training():
    assert napkin.training_flops(70e9, 15e12) == 6.3e24
    assert 1024 * 1979e12 / 2 * 0.5 * 86400 == pytest.approx(4.377e22, rel=1e-4)
    days = napkin.training_days(70e9, 15e12, 1024, 1979e12 / 2, 0.5)
    assert days == pytest.approx(143.93, abs=0.005)
    assert napkin.predict_training_time(70e9, 15e12, 1024, 1979e12 / 2, 0.5).value == days * 86400


def test_the_lectures_largest_models():
    recipes = {name: recipe.bytes_per_param for name, recipe in napkin.RECIPES.items()}
    assert recipes == {"fp32": 16, "bf16, fp32 moments": 12, "bf16, fp32 master and moments": 16}
    assert napkin.max_params(8 * 80e9, 16) == 40e9
    assert napkin.max_params(8 * 80e9, 12) == pytest.approx(53.3e9, rel=1e-3)
    assert napkin.predict_max_params(8, 80e9, napkin.RECIPES["fp32"]).value == 40e9


@given(positive, positive, st.integers(1, 10**6), positive, st.floats(0.01, 1))
def test_days_scale_as_they_must(params, tokens, devices, peak, mfu):
    days = napkin.training_days(params, tokens, devices, peak, mfu)
    assert napkin.training_days(2 * params, tokens, devices, peak, mfu) == pytest.approx(2 * days)
    assert napkin.training_days(params, tokens, 2 * devices, peak, mfu) == pytest.approx(days / 2)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "70e9", None, True])
def test_what_is_no_positive_number_is_refused(bad):
    for position in range(5):
        arguments = [70e9, 15e12, 1024, 1e15, 0.5]
        arguments[position] = bad
        with pytest.raises(ValueError, match="must be a"):
            napkin.training_days(*arguments)


def test_an_unknown_peak_leaves_the_time_unknown():
    assert napkin.predict_training_time(70e9, 15e12, 8, None, 0.5).text == "unknown"


@pytest.mark.parametrize(
    "module", ["core.napkin", "core.claims", "core.units", "core.hardware", "core.jobs", "core.flops"]
)
def test_the_start_pages_modules_do_not_import_torch(module):
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
