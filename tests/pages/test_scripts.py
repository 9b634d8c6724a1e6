"""Every *Copy as Python* runs, and prints what its card shows."""

import inspect
import subprocess
import sys

import pytest

from core import flops, napkin
from pages._ui import scripts
from tests.pages.helpers import ROOT

SCRIPTS = {
    "training_time": (
        (70e9, 15e12, 1024, 989.5e12, 0.5),
        [napkin.predict_training_time(70e9, 15e12, 1024, 989.5e12, 0.5).text],
    ),
    "max_params": ((8, 80e9, "bf16, fp32 moments"), ["53.3 B parameters"]),
    "gpu_hours": (("Llama 3.1 405B", 0.4), ["26.6 M GPU-hours", "30.8 M GPU-hours", "0.345"]),
    "throughput": (("MPT-7B, T = 65,536",), ["8.21 %", "28.6 %", "attention"]),
    "budget": ((8, 989.5e12, 1.0, 1.0), [flops.predict_budget(8, 989.5e12, 1.0).text]),
    "matmul_count": ((1024, 256, 64), ["33.6 MFLOP", "33488896"]),
    "half_peak": (("fp32", "cpu", 1), ["predicted", "rows", "GFLOP/s", "measured"]),
    "roofline": (
        (64, 64, 64, "fp32", "cpu", 1),
        ["ridge", "relu", "gelu", "dot", "matrix-vector", "your matmul", "bound"],
    ),
    "transformer": ((flops.PRESETS["GPT-2 small"], 1, 1024, "sdpa"), ["875 GFLOP", "874,944,921,600"]),
    "attention": ((flops.PRESETS["GPT-2 XL"], 1, 16384, False), ["61.8 %"]),
    "six_nd": ((flops.TransformerShape("tiny", 2, 64, 4, 256, 1000), 1, 128), ["6ND", "attention", "embedding"]),
    "matmul_time": ((64, 64, 64, "fp32", "cpu", 1), ["predicted", "measured", "fp32", "1 thread", "unexplained"]),
    "gradient_graph": (
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, False, True, ("pred_y",)),
        ["w.grad by hand (1.0, 2.0, 3.0)", "w: value (1.0, 1.0, 1.0), .grad (1.0, 2.0, 3.0)", "loss.grad is None"],
    ),
    "finite_differences": (
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, "square", "forward", "fp64"),
        ["gradient (1.0, 2.0, 3.0)", "h = 1.0e-08", "best step: predicted 2.38"],
    ),
    "accumulated_gradients": (((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, 3), ["w.grad = (3.0, 6.0, 9.0)"]),
    "cleared_gradients": (((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, False), ["w.grad = (0.0, 0.0, 0.0)"]),
    "backward_flops": ((1024, 256, 64, False, 1), ["336 MFLOP", "201 MFLOP", "skipped: nobody needs it"]),
    "backward_time": ((64, 32, 8, 1, False, 1), ["forward", "backward predicted", "unexplained", "FLOPs 1.20x"]),
}


def test_every_script_is_tried():
    written = {name for name, one in inspect.getmembers(scripts, inspect.isfunction) if not name.startswith("_")}
    assert written == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_prints_what_its_card_shows(name):
    arguments, expected = SCRIPTS[name]
    script = getattr(scripts, name)(*arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout


def test_an_unknown_peak_can_be_copied_too():
    script = scripts.budget(8, None, 1.0, 1.0)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "unknown" in done.stdout
