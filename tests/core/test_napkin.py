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
    assert pytest.approx(4.377e22, rel=1e-4) == 1024 * 1979e12 / 2 * 0.5 * 86400
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


def test_mfu_of_published_throughputs_to_the_digit():
    palm = napkin.THROUGHPUTS["PaLM 540B"]
    assert palm.mfu_without_attention == pytest.approx(6 * 540e9 * 238.3e3 / (6144 * 275e12))
    assert f"{palm.mfu_without_attention:.2%}" == "45.70%"
    assert f"{palm.mfu_with_attention:.1%}" == "46.2%"  # PaLM's own figure with attention, which we were not given
    short, long = napkin.THROUGHPUTS["MPT-7B, T = 2,048"], napkin.THROUGHPUTS["MPT-7B, T = 65,536"]
    assert (short.num_params, short.num_layers, short.attention_width, short.seq_len) == (6.65886e9, 32, 4096, 2048)
    assert f"{short.mfu_with_attention:.1%}" == "45.7%"
    assert f"{long.mfu_with_attention:.1%}" == "28.6%"
    assert f"{long.mfu_without_attention:.1%}" == "8.2%"


@pytest.mark.parametrize("name", napkin.THROUGHPUTS)
def test_a_reported_mfu_is_explained_to_a_twentieth_of_a_point(name):
    comparison = napkin.compare_throughput(napkin.THROUGHPUTS[name])
    assert abs(comparison.unexplained) < 0.05


def test_published_runs_keep_their_doubts_and_imply_what_their_table_says():
    import csv

    with napkin.published.TABLE.open() as lines:
        rows = {row["model"]: row for row in csv.DictReader(lines)}
    runs = napkin.published_runs()
    assert len(runs) == len(rows) == 33
    assert {run.model for run in runs if run.is_doubtful} == {"LLaMA-1 65B", "Gopher 280B", "MPT-7B"}
    for run in runs:
        row = rows[run.model]
        assert run.flops == pytest.approx(float(row["flops_6ND"]), rel=1e-3)
        if row["implied_mfu"]:
            assert run.implied_mfu == pytest.approx(float(row["implied_mfu"]), abs=6e-4)
        assert run.source


def test_hours_predicted_with_the_implied_mfu_are_the_reported_ones():
    for run in napkin.published_runs():
        if run.gpu_hours is None:
            assert napkin.compare_gpu_hours(run, 0.4) is None
        else:
            assert napkin.compare_gpu_hours(run, run.implied_mfu).ratio == pytest.approx(1)
            assert abs(napkin.compare_gpu_hours(run, 0.4).unexplained) < 1e-6 * run.gpu_hours


def test_gpt3_on_eight_h100():
    seconds = napkin.predict_training_time(3.14e23 / 6 / 300e9, 300e9, 8, 989.5e12, 1.0).value
    assert seconds / (7 * 86400) == pytest.approx(65.59, abs=0.005)


def test_an_iteration_is_no_training():
    kinds = {run.model: run.is_benchmark for run in napkin.published_runs()}
    assert kinds["MT-NLG 530B (1 iteration, 420 nodes)"]
    assert all(run.source != "same" and run.notes != "same" for run in napkin.published_runs())
    for run in napkin.published_runs():
        if run.gpu_hours and not run.is_benchmark:
            assert run.num_tokens > 1e9, run.model
