"""Gradients: each control's effect, the lecture's values, each refusal, and a measurement from end to end."""

import functools
import re

import pytest

from core import gradients, jobs
from pages._ui.charts.gradients import vector
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of


def at_section(section, **values):
    app = choose(open_page("gradients"), "gradients_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def tables(app):
    """The rows of each table, as lists of cells."""
    bodies = [element.proto.body for element in app.get("html") if '<table class="np-why np-wide' in element.proto.body]
    return [
        [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", body)] for body in bodies
    ]


def test_the_lecture_s_gradient_by_hand_and_by_torch():
    app = at_section("graph")
    assert figures(app) == ("3", "3", "1.00×")
    by_name = {row[0]: row for row in tables(app)[0]}
    assert by_name["w"][3] == by_name["w"][4] == "[1, 2, 3]"
    assert [name for name, row in by_name.items() if row[4] != "None"] == ["w"]
    assert "it is no leaf, and nobody called retain_grad()" in by_name["loss"][5]
    text = text_of(app)
    for held in ("= 6", "= 0.5", "DotBackward0", "MulBackward0", "0.5 passed through", "grad_N = (3,) float32"):
        assert held in text


@pytest.mark.parametrize(
    ("key", "value", "with_grad"),
    [
        ("grad_x_requires", True, ["x", "w"]),
        ("grad_w_requires", False, []),
        ("grad_retain", ["pred_y", "loss"], ["w", "pred_y", "loss"]),
    ],
)
def test_who_has_a_grad_follows_the_switches(key, value, with_grad):
    app = choose(at_section("graph"), key, value)
    assert [row[0] for row in tables(app)[0] if row[4] != "None"] == with_grad


def test_where_nothing_requires_a_gradient_torch_refuses_and_retain_grad_too():
    app = at_section("graph", grad_w_requires=False, grad_retain=["error"])
    assert "element 0 of tensors does not require grad" in said(app.info[0])
    assert "so torch refuses retain_grad()" in text_of(app)
    assert "w.grad is None: it requires no gradient" in text_of(app)  # where the measurement would stand
    assert "Backward0" not in text_of(app)


@pytest.mark.parametrize("key", ["grad_x1", "grad_x2", "grad_x3", "grad_w1", "grad_w2", "grad_w3", "grad_y"])
def test_each_number_changes_the_gradient_everywhere(key):
    app = at_section("graph")
    before = tables(app)
    choose(app, key, -7.25)
    assert tables(app) != before
    assert "they agree" in text_of(app)
    values = [app.number_input(key=f"grad_{name}").value for name in ("x1", "x2", "x3", "w1", "w2", "w3", "y")]
    by_hand, _x_grad = gradients.gradient_by_hand(values[:3], values[3:6], values[6])
    assert vector(by_hand) in text_of(app)
    choose(app, "gradients_section", "check")
    assert app.number_input(key=key).value == -7.25
    drawn = charts(app)
    choose(app, key, 4.5)
    assert charts(app) != drawn


def test_a_rounded_gradient_names_the_rounding_and_a_zero_one_has_no_ratio():
    app = at_section("graph", grad_x1=0.1, grad_w2=0.3, grad_x3=3.3, grad_y=0.7)
    assert value_of(app, "ratio") == "1.00×"
    assert "they agree, but for rounding" in text_of(app)
    app = at_section("graph", grad_y=6.0)
    assert value_of(app) == "0"
    assert "This section failed" not in text_of(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("gradients"), "predict_first", True)
    for section, hidden in (("graph", "[1, 2, 3]"), ("check", "10⁻⁸"), ("accumulation", "[3, 6, 9]"),
                            ("backward", "201")):  # fmt: skip
        choose(app, "gradients_section", section)
        assert not any("np-box np-predicted" in element.proto.body for element in app.get("html"))
        assert not tables(app)
        assert not app.get("vega_lite_chart")
        assert hidden not in text_of(app)
    choose(app, "np_guess_backward_flops", "167 MFLOP")
    assert "You guessed 167 MFLOP: 2 times too low against the napkin" in text_of(app)
    assert value_of(app, "measured") == "201 MFLOP"


def test_a_guess_about_a_zero_gradient_is_answered():
    app = choose(at_section("graph", grad_y=6.0), "predict_first", True)
    choose(app, "np_guess_w_grad", "1")
    assert "You guessed 1" in text_of(app)
    assert "This section failed" not in text_of(app)


def test_the_best_step_of_the_lecture_s_loss():
    app = at_section("check")
    assert figures(app) == ("2.38 × 10⁻⁸", "1.00 × 10⁻⁸", "0.420×")
    kinds = {(row["dtype"], row["kind"]) for row in rows(app)}
    assert kinds == {(dtype, kind) for dtype in ("fp64", "fp32") for kind in ("measured", "predicted")}


@pytest.mark.parametrize(
    ("key", "value", "predicted"),
    [("grad_loss", "quartic", None), ("grad_method", "central", "1"), ("grad_dtype", "fp32", "0.000552")],
)
def test_loss_method_and_dtype_change_the_prediction(key, value, predicted):
    app = at_section("check")
    before, drawn = value_of(app), charts(app)
    choose(app, key, value)
    assert value_of(app) == predicted or (predicted is None and value_of(app) != before)
    assert (charts(app) == drawn) == (key == "grad_dtype")  # both dtypes are drawn always


def test_a_parabola_has_no_truncation_in_a_central_difference_and_a_quartic_has():
    app = at_section("check", grad_method="central")
    assert "the largest step tried" in text_of(app)
    assert figures(app)[1:] == ("1", "1.00×")
    choose(app, "grad_loss", "quartic")
    done = gradients.finite_difference_check([1, 2, 3], [1, 1, 1], 5, loss="quartic").curve("central", "fp64")
    assert f"{done.best_step:.2e}"[:4] == value_of(app, "measured")[:4]


@pytest.mark.parametrize("values", [{"grad_y": 6.0}, {"grad_x1": 0.0, "grad_x2": 0.0, "grad_x3": 0.0}])
@pytest.mark.parametrize("loss", ["square", "quartic"])
def test_a_gradient_of_zero_can_be_checked_too(values, loss):
    app = at_section("check", grad_loss=loss, **values)
    assert "This section failed" not in text_of(app)
    if "grad_y" in values:
        assert "x·w is y: the loss and its slope are 0" in text_of(app)
    else:
        assert value_of(app, "ratio").endswith("×")


def test_where_every_error_is_0_the_page_says_so():
    app = at_section("check", grad_y=0.0, grad_w1=0.0, grad_w2=0.0, grad_w3=0.0, grad_method="central")
    assert not app.get("vega_lite_chart")
    assert "Every error is exactly 0" in said(app.info[0])
    choose(app, "grad_y", 5.0)
    assert len(app.get("vega_lite_chart")) == 1
    assert "Dashed: predicted truncation" in text_of(app)


def test_a_perfect_fit_has_a_measured_gradient_of_0():
    app = at_section("graph", grad_y=6.0)
    assert figures(app) == ("0", "0", "=")
    assert "−0" not in " ".join(cell for row in tables(app)[0] for cell in row).replace("−0.", "")


def test_what_would_overflow_is_refused_in_words():
    app = at_section("check", grad_loss="quartic", grad_x1=1e6)
    assert not app.warning
    choose(app, "grad_w1", 1e6)
    assert "¼e⁴ overflows fp32" in said(app.warning[0])


def test_gradients_add_up_until_they_are_cleared():
    app = at_section("accumulation")
    assert figures(app) == ("9", "9", "1.00×")
    assert [row[2] for row in tables(app)[0]] == ["None", "[1, 2, 3]", "[2, 4, 6]", "[3, 6, 9]"]
    assert "twice_N = (3,) float32" in text_of(app)
    choose(app, "grad_times", 5)
    assert figures(app) == ("15", "15", "1.00×")
    assert max(row["value"] for row in rows(app)) == 15
    choose(app, "grad_trace", "zero_grad()")
    assert figures(app) == ("3", "3", "1.00×")
    assert [row[3] for row in tables(app)[0]] == ["0", "12", "0", "12"]
    choose(app, "grad_set_to_none", False)
    assert [row[2] for row in tables(app)[0]][2] == "[0, 0, 0]"
    assert "Zeros: the memory stays" in text_of(app)


@pytest.mark.parametrize(
    ("trace", "shown"),
    [
        ("retain_grad()", "only retain_grad() kept it"),
        ("second backward()", "Trying to backward through the graph a second time"),
        ("detach()", "element 0 of tensors does not require grad and does not have a grad_fn"),
        ("no_grad()", "without a record there is nothing to save"),
    ],
)
def test_each_trace_has_its_table_and_torch_s_own_message(trace, shown):
    app = at_section("accumulation", grad_trace=trace)
    assert shown in text_of(app)
    assert len(tables(app)[0]) >= 2
    assert len(app.get("vega_lite_chart")) == (trace == "second backward()")


def test_the_lecture_counts_twice_and_autograd_runs_less():
    app = at_section("backward")
    assert figures(app) == ("336 MFLOP", "201 MFLOP", "0.600×")
    assert "autograd runs is 1.2× forward" in " ".join(text_of(app).split())
    assert [row[3] for row in tables(app)[0]] == ["runs", "runs", "runs", "skipped"]
    assert {row["layers"]: row["ratio"] for row in rows(app) if row.get("ratio")}[1] == pytest.approx(1.2)
    assert "→ 201,326,592" in text_of(app)
    choose(app, "grad_input", True)
    assert figures(app) == ("336 MFLOP", "336 MFLOP", "1.00×")
    assert "skipped" not in {row[3] for row in tables(app)[0]}
    assert "→ 335,544,320" in text_of(app)


@pytest.mark.parametrize(("key", "value"), [("grad_b", 8), ("grad_d", 8), ("grad_k", 8), ("grad_layers", 3)])
def test_the_count_follows_each_size(key, value):
    app = at_section("backward", **{key: value})
    sizes = {name: app.number_input(key=f"grad_{name}").value for name in ("b", "d", "k", "layers")}
    counted = gradients.torch_backward_flops(sizes["b"], sizes["d"], sizes["k"], num_layers=sizes["layers"])
    assert len(tables(app)[0]) == 2 * sizes["layers"] + 2
    assert sum(int(row[2].replace(",", "")) for row in tables(app)[0] if row[3] == "runs") == counted
    solid = [row for row in rows(app) if row.get("counted")]
    assert [row["layers"] for row in solid] == [sizes["layers"]]
    runs_while_typing = key in ("grad_b", "grad_d")  # 3.9 and 3.6 MFLOP; the other two are several hundred
    assert ("with the lecture's sizes" in text_of(app)) == (not runs_while_typing)


def test_sizes_that_are_too_large_for_the_code_run_it_with_the_lecture_s():
    app = at_section("backward", grad_b=1_048_576, grad_d=4096)
    assert "with the lecture's sizes" in text_of(app)
    assert "x_BD = (1024, 256) float32" in text_of(app)
    press(app, "np_preset_backward_lecture")
    assert app.number_input(key="grad_b").value == 1024
    assert "with the lecture's sizes" not in text_of(app)


def test_a_measurement_from_end_to_end(monkeypatch):
    quick = functools.partial(gradients.measure_forward_backward, min_seconds=0.02)  # of each piece, not half a second
    monkeypatch.setattr(gradients, "measure_forward_backward", quick)
    app = at_section("time", grad_b=64, grad_d=32, grad_k=8, grad_threads=1)
    assert "Press Measure" in said(app.info[0])
    assert "1.20 times" in said(app.info[0])
    press(app, "grad_timed_start")
    now = jobs.status(app.session_state["grad_timed"])
    while not now.finished:
        now = jobs.wait(now.id, 20, now.version)
    app.run()
    assert now.state == "done", now.error
    assert value_of(app, "measured").endswith("s")
    assert {"predicted", "multiplications", "autograd", "unexplained", "measured"} <= {r["name"] for r in rows(app)}
    assert "**1.20×** forward's FLOPs" in text_of(app)
    assert "fp32 · 1 thread" in text_of(app)
    choose(app, "grad_input", True)
    assert "The settings have changed" in text_of(app)
    assert "2.00 times" in said(app.info[0])
    choose(app, "grad_input", False)
    choose(app, "predict_first", True)
    assert not app.get("vega_lite_chart")
    assert "forward's time" not in text_of(app)


def test_what_is_too_large_to_measure_cannot_be_started():
    app = at_section("time", grad_b=65536, grad_d=4096)
    assert "the limit here is 1.00 GiB" in said(app.warning[0])
    assert app.button(key="grad_timed_start").disabled


@pytest.mark.parametrize(
    ("key", "bad"),
    [("grad_x1", "1e99"), ("grad_y", "nan"), ("grad_x_requires", "perhaps"), ("grad_retain", "w"),
     ("gradients_section", "Backwards")],
)  # fmt: skip
def test_a_forged_value_falls_back_with_a_note(key, bad):
    app = open_page("gradients", **{key: bad})
    assert figures(app) == ("3", "3", "1.00×")
    assert f"“{bad}”" in said(app.info[0])


@pytest.mark.parametrize(
    ("section", "key", "bad"),
    [("Check", "grad_loss", "cubic"), ("Check", "grad_method", "x"), ("Check", "grad_dtype", "fp8"),
     ("Accumulation", "grad_trace", "magic"), ("Accumulation", "grad_times", "11"), ("Backward", "grad_layers", "9"),
     ("Backward", "grad_b", "0"), ("Backward", "grad_d", "2.5"), ("Time", "grad_threads", "-1")],
)  # fmt: skip
def test_a_forged_value_of_a_later_section_falls_back_too(section, key, bad):
    app = open_page("gradients", gradients_section=section, **{key: bad})
    assert any(f"“{bad}”" in info.value for info in app.info)
    assert "This section failed" not in text_of(app)


def test_the_tour_s_links_lead_here():
    app = open_page("gradients", gradients_section="Backward")
    assert "How many FLOPs is the backward pass?" in text_of(app)
    app = open_page("gradients", gradients_section="Graph")
    assert "Which tensors get a .grad, and why?" in text_of(app)


def test_the_whole_page_shares_its_controls():
    app = at_section("all")
    text = text_of(app)
    assert "This section failed" not in text
    for question in ("Which tensors", "trusted", "without zero_grad", "How many FLOPs", "twice as long"):
        assert question in text
    choose(app, "grad_x1", 2.5)
    same = {one.value for one in app.text_input if one.key and "_grad_x1_" in one.key}
    assert same == {"2.5"}
    choose(app, "grad_b", 32)
    assert {one.value for one in app.text_input if one.key and "_grad_b_" in one.key} == {"32"}


def test_the_sentence_below_a_card_waits_for_the_guess():
    below = '<div class="np-below">Forward is <b>167,772,160</b> FLOPs'
    assert below in " ".join(one.proto.body for one in open_page("gradients", gradients_section="Backward").get("html"))
    app = open_page("gradients", gradients_section="Backward", predict_first="true")
    assert below not in " ".join(one.proto.body for one in app.get("html"))
    press(app, "np_guess_backward_flops_show")
    assert below in " ".join(one.proto.body for one in app.get("html"))
