"""FLOPs & MFU: each control's effect, each refusal, and a measurement from prediction to explanation."""

import pytest

from core import flops, jobs
from pages._ui import machine
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of


def at_section(section, **values):
    app = open_page("flops_mfu")
    choose(app, "flops_mfu_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def finish(job_id):
    now = jobs.status(job_id)
    while not now.finished:
        now = jobs.wait(job_id, 20, now.version)
    return now


@pytest.fixture(scope="module")
def calibrated():
    """The machine's ceilings, as the page has them measured: once for these tests."""
    app = at_section("measure")
    device, threads = machine.devices()[0], app.number_input(key="threads").value
    if (device.id, threads) not in machine._known:
        assert "its ceiling is being calibrated" in text_of(app)
        assert finish(machine._jobs[device.id, threads]).state == "done"
        app.run()
    assert value_of(app).endswith("s")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("devices", 16, "9.58 ZFLOP"),
        ("weeks", 2.0, "9.58 ZFLOP"),
        ("mfu", 0.5, "2.39 ZFLOP"),
        ("accelerator", "NVIDIA T4", "unknown"),
        ("accelerator", "A100 (the lecture's)", "1.51 ZFLOP"),
        ("scale_dtype", "fp8", None),
    ],
)
def test_each_control_changes_the_budget(key, value, shown):
    app = at_section("scale")
    assert value_of(app) == "4.79 ZFLOP"
    assert "65.59 weeks" in text_of(app)
    before = charts(app)
    choose(app, key, value)
    assert charts(app) != before
    if shown:
        assert value_of(app) == shown
    else:  # the lecture's own figures are bf16: the first accelerator of the table takes their place
        assert "lecture" not in app.selectbox(key="accelerator").value


def test_a_disputed_peak_says_so():
    app = at_section("scale", accelerator="NVIDIA L40S")
    assert "This peak is disputed" in text_of(app)


def test_the_counts_follow_the_dimensions():
    app = at_section("count")
    assert (value_of(app), value_of(app, "measured"), value_of(app, "ratio")) == ("33.6 MFLOP", "33.6 MFLOP", "1.00×")
    assert "33,488,896" in text_of(app)
    for key, value in (("b", 2), ("d", 3), ("k", 4)):
        choose(app, key, value)
    assert value_of(app) == value_of(app, "measured") == "48 FLOP"
    assert "(2D − 1)·B·K = 40 :" in " ".join(text_of(app).split())
    assert "(2, 4) float32" in text_of(app)


def test_a_preset_sets_all_three_dimensions_and_large_lessons_run_small():
    app = at_section("count")
    press(app, "np_preset_count_lecture, GPU")
    assert [app.number_input(key=key).value for key in "bdk"] == [16384, 32768, 8192]
    assert value_of(app) == "8.80 TFLOP"
    assert "too large to run while you type" in text_of(app)
    assert "(1024, 64) float32" in text_of(app)


def test_the_lesson_steps_back_and_on():
    app = at_section("count", b=2, d=3, k=4)
    assert "flops = 48" in text_of(app)
    choose(app, "flops_mfu_linear_model_step", 3)
    assert "y_BK = (2, 4) float32" in text_of(app)
    assert "flops = 48" not in text_of(app)
    press(app, "np_back_flops_mfu_linear_model_step")
    assert "y_BK = (2, 4) float32" not in text_of(app)
    press(app, "np_on_flops_mfu_linear_model_step")
    assert "y_BK = (2, 4) float32" in text_of(app)


@pytest.mark.usefixtures("calibrated")
def test_a_measurement_from_prediction_to_explanation():
    app = at_section("measure", b=256, d=256, k=256)
    assert "press Measure" in text_of(app)
    press(app, "measured_start")
    assert app.button(key="measured_cancel")
    finish(app.session_state["measured"])
    app.run()
    ratio = float(value_of(app, "ratio").rstrip("×").replace(",", ""))
    assert ratio > 0
    text = text_of(app)
    for condition in ("fp32 · ", "thread", "warm-up call", "trials", "torch 2."):
        assert condition in text
    names = {row["name"] for row in rows(app)}
    assert {"predicted", "measured", "unexplained", "interruptions"} <= names

    choose(app, "flops_mfu_section", "utilization")
    share = float(value_of(app, "ratio").rstrip("%×").replace(",", "")) / (100 if "%" in value_of(app, "ratio") else 1)
    assert share == pytest.approx(1 / ratio, rel=0.02)
    choose(app, "flops_mfu_section", "method")
    assert value_of(app, "ratio").endswith("×")
    assert "5 trials" in text_of(app)

    choose(app, "flops_mfu_section", "measure")
    choose(app, "b", 128)
    assert "The settings have changed since the last measurement" in text_of(app)
    assert "press Measure" in text_of(app)
    choose(app, "b", 256)
    assert value_of(app, "measured")


@pytest.mark.usefixtures("calibrated")
def test_several_dtypes_are_measured_in_one_job_and_explained_one_by_one():
    app = at_section("measure", b=64, d=64, k=64, dtypes=["fp32", "bf16"])
    press(app, "measured_start")
    runs = finish(app.session_state["measured"]).result
    assert [run.dtype for run in runs] == ["fp32", "bf16"]
    app.run()
    choose(app, "explained", "bf16")
    assert " · bf16 · " in text_of(app)
    choose(app, "flops_mfu_section", "utilization")
    assert [row["dtype"] for row in rows(app)] == ["fp32", "bf16"]


@pytest.mark.usefixtures("calibrated")
def test_cancel_stops_the_job_and_the_next_one_works():
    app = at_section("measure", b=128, d=128, k=128, dtypes=["fp32", "fp64"])
    press(app, "measured_start")
    first = app.session_state["measured"]
    press(app, "measured_cancel")
    assert finish(first).state == "cancelled"
    app.run()
    assert "Cancelled" in text_of(app)
    press(app, "measured_start")
    assert app.session_state["measured"] != first
    assert finish(app.session_state["measured"]).state == "done"


@pytest.mark.usefixtures("calibrated")
def test_what_is_too_large_is_refused_with_the_limit_and_cannot_be_started(monkeypatch):
    app = at_section("measure")
    press(app, "np_preset_measure_lecture, GPU")
    assert "3.50 GiB in fp32; the limit here is 1.00 GiB" in said(app.warning[0])
    assert app.button(key="measured_start").disabled
    monkeypatch.setenv("NAPKIN_MAX_MATMUL_BYTES", "plenty")
    press(app, "np_preset_measure_256³")
    assert "NAPKIN_MAX_MATMUL_BYTES must be a positive number; it is 'plenty'" in said(app.warning[0])


@pytest.mark.usefixtures("calibrated")
def test_a_measurement_that_is_no_longer_there_says_so():
    app = at_section("measure")
    app.session_state["measured"] = "forged"
    app.run()
    assert "no longer here" in text_of(app)


@pytest.mark.usefixtures("calibrated")
def test_a_failing_job_shows_a_sentence_and_no_traceback(monkeypatch):
    app = at_section("measure")
    job_id = jobs.submit(flops.measure_matmuls, 8, 8, 8, ("fp7",))
    finish(job_id)
    app.session_state["measured"] = job_id
    app.run()
    assert "dtype must be one of" in text_of(app)
    assert not app.exception


@pytest.mark.usefixtures("calibrated")
def test_sections_that_need_a_measurement_ask_for_it():
    for section in ("utilization", "method"):
        assert "Press Measure to see it" in text_of(at_section(section))


@pytest.mark.usefixtures("calibrated")
def test_a_sweep_finds_where_half_the_peak_is_reached(monkeypatch):
    monkeypatch.setattr(flops, "square_shapes", lambda: ((16, 16, 16), (128, 128, 128), (256, 256, 256)))
    app = at_section("sweep")
    assert value_of(app).endswith("rows")
    press(app, "swept_squares_start")
    done = finish(app.session_state["swept_squares"]).result
    assert [run.b for run in done.runs] == [16, 128, 256]
    app.run()
    assert [row["x"] for row in rows(app)] == [16, 128, 256]
    assert all(row["low"] <= row["rate"] <= row["high"] for row in rows(app))
    choose(app, "sweep_shapes", "skewed")
    assert not charts(app)


@pytest.mark.usefixtures("calibrated")
def test_the_roofline_says_what_bounds_each_operation():
    app = at_section("roofline", b=64, d=64, k=64)
    for operation, bound in (("relu", "memory-bound"), ("matmul", "compute-bound")):
        choose(app, "operation", operation)
        assert bound in text_of(app)
    names = {row["roof"] for row in rows(app) if row.get("roof")}
    assert names == {"this machine, calibrated", "NVIDIA H100 SXM5 80GB"}
    choose(app, "sheets", [])
    assert {row["roof"] for row in rows(app) if row.get("roof")} == {"this machine, calibrated"}
    press(app, "roofed_start")
    runs = finish(app.session_state["roofed"]).result
    assert [run.operation for run in runs] == ["relu", "gelu", "dot", "matrix-vector", "matmul", "your matmul"]
    app.run()
    assert value_of(app, "measured")
    assert len([row for row in rows(app) if row.get("operation")]) == 6
    choose(app, "b", 65)  # the other operations stay, one's own is another now
    choose(app, "operation", "your matmul")
    assert "press Measure" in text_of(app)


@pytest.mark.usefixtures("calibrated")
def test_the_whole_page_shares_its_controls():
    app = at_section("all")
    choose(app, "b", 2)
    shown = [element.value for element in app.text_input if element.key and "_b_" in element.key]
    assert shown
    assert set(shown) == {"2"}


@pytest.mark.usefixtures("calibrated")
def test_threads_are_chosen_and_calibrated_for():
    app = at_section("measure")
    if app.number_input(key="threads").max == 1:
        pytest.skip("one core")
    machine.forget(machine.devices()[0], 1)  # which another page's tests may have asked for
    choose(app, "threads", 1)
    assert "its ceiling is being calibrated" in text_of(app)
    assert finish(machine._jobs["cpu", 1]).state == "done"
    app.run()
    assert value_of(app).endswith("s")
