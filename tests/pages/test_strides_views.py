"""Strides & views: each control's effect, the lecture's values, the guesses, each refusal, and a measurement."""

import functools
import json
import re

import pytest

from core import jobs, strides
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of

SECTIONS = ["storage", "chain", "view", "write", "held_bytes", "backwards", "cost", "elementwise", "mask", "matmul"]


def at_section(section, **values):
    app = choose(open_page("strides_views"), "strides_views_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def shows_a_prediction(app):
    return any("np-box np-predicted" in one.proto.body for one in app.get("html"))


def table(app):
    """The rows of the section's table, as lists of cells without their tags."""
    body = next(one.proto.body for one in app.get("html") if '<table class="np-why np-wide' in one.proto.body)
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", body)]
    return [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in found]


def grids(app):
    """The drawn grids: title, and the rows of what their cells say."""
    data = cells_data(app)
    return {one["title"]: [[cell[0] for cell in row] for row in one["rows"]] for one in data["grids"]}


def cells_data(app):
    (component,) = app.get("bidi_component")
    data = json.loads(component.proto.bytes)
    return data


def test_the_lecture_s_element_lies_at_place_6():
    app = at_section("storage")
    assert figures(app) == ("6", "6", "1.00×")
    assert "0 + 1·4 + 2·1" in text_of(app)
    drawn = grids(app)
    assert drawn["the tensor, shape (4, 4), strides (4, 1)"][1] == ["4", "5", "6", "7"]
    assert "place = 6" in text_of(app)
    choose(app, "strides_element", "3, 3")
    assert value_of(app) == "15"
    choose(app, "strides_grid", "2, 3, 4")
    assert "must have 3 numbers" in said(app.warning[0])
    choose(app, "strides_element", "1, 2, 3")
    assert value_of(app) == "23"
    assert "here with the lecture's" in text_of(app)


def test_the_first_element_lies_at_place_0():
    app = at_section("storage", strides_element="0, 0")
    assert value_of(app) == "0"
    assert "This section failed" not in text_of(app)


def test_the_chain_shows_each_tensor_with_both_answers():
    app = at_section("chain")
    x, transposed, contiguous, viewed = table(app)
    assert x == ["x", "(2, 3)", "(3, 1)", "0", "yes", "", "", "24 B"]
    assert transposed == [".transpose(1, 0)", "(3, 2)", "(1, 3)", "0", "no", "view", "view", "0 B"]
    assert contiguous == [".contiguous()", "(3, 2)", "(2, 1)", "0", "yes", "copy", "copy", "24 B"]
    assert viewed == [".view(2, 3)", "(2, 3)", "(3, 1)", "0", "yes", "view", "view", "0 B"]
    assert grids(app)["its storage: 6 elements, 24 B"] == [["0", "3", "1", "4", "2", "5"]]


def test_the_same_element_has_one_name_and_one_colour_in_both_drawings():
    app = at_section("chain", strides_chain="x.transpose(1, 0)")
    tensor, storage = cells_data(app)["grids"]
    by_name = {cell[1]: cell for row in storage["rows"] for cell in row}
    for row in tensor["rows"]:
        for cell in row:
            assert (cell[0], cell[3]) == (by_name[cell[1]][0], by_name[cell[1]][3])
    assert [row[0][3] for row in tensor["rows"]] == [tensor["rows"][0][0][3]] * 3  # a column is a row of x
    assert tensor["rows"][2][1][4] == "[2, 1] lies at 0 + 2·1 + 1·3 = 5, byte 20"


def test_append_undo_reset_and_suggested_arguments():
    app = at_section("chain", strides_chain="x")
    assert len(table(app)) == 1
    assert app.text_input(key="strides_args").placeholder == "0, 1"
    press(app, "strides_append")
    assert app.text_input(key="strides_chain").value == "x.transpose(0, 1)"
    choose(app, "strides_op", "view")
    assert app.text_input(key="strides_args").placeholder == "2, 3"
    choose(app, "strides_args", "6")
    press(app, "strides_append")
    assert app.text_input(key="strides_chain").value == "x.transpose(0, 1).view(6)"
    assert app.text_input(key="strides_args").value == ""
    assert table(app)[-1][5:7] == ["error", "error"]
    press(app, "strides_append")
    assert "undo that step first" in said(app.warning[0])
    press(app, "strides_undo")
    assert app.text_input(key="strides_chain").value == "x.transpose(0, 1)"
    press(app, "strides_reset")
    assert app.text_input(key="strides_chain").value == "x"


def test_every_operation_of_the_list_can_be_appended_with_the_suggested_arguments():
    app = at_section("chain", strides_chain="x.transpose(0, 1)")
    for name in strides.NAMES:
        choose(app, "strides_op", name)
        press(app, "strides_append")
        assert not app.warning, name
        assert len(table(app)) == 3
        predicted, ran = table(app)[-1][5:7]
        assert predicted == ran
        assert (predicted == "error") == (name == "view")
        press(app, "strides_undo")


def test_each_preset_of_the_chain_agrees_with_torch():
    app = at_section("chain")
    for preset in ("lecture", "view of a transpose", "heads", "windows", "expand", "every other"):
        press(app, f"np_preset_chain_{preset}")
        last = table(app)[-1]
        assert last[5] == last[6] == {"lecture": "view", "view of a transpose": "error"}.get(preset, "copy")


def test_which_tensor_is_drawn():
    app = at_section("chain", strides_drawn="1")
    assert "the tensor, shape (3, 2), strides (1, 3)" in grids(app)
    choose(app, "strides_drawn", "0")
    assert "the tensor, shape (2, 3), strides (3, 1)" in grids(app)
    choose(app, "strides_chain", "x")
    assert "the tensor, shape (2, 3), strides (3, 1)" in grids(app)


def test_what_is_too_large_to_draw_still_has_its_table():
    app = at_section("chain", strides_shape="100, 100", strides_chain="x[:, 0]")
    assert table(app)[-1][1:4] == ["(100,)", "(100,)", "0"]
    assert "at most 4,096 elements are drawn" in said(app.info[0])
    choose(app, "strides_shape", "50, 50")
    assert "Only a part is drawn" in text_of(app)


@pytest.mark.parametrize(
    ("shape", "text", "title"),
    [("0, 3", "x", "the tensor, shape (0, 3), strides (3, 1): no elements"),
     ("", "x", "the tensor, shape (), strides ()"),
     ("2, 2, 2", "x", "the tensor, shape (2, 2, 2), strides (4, 2, 1) · [0, :, :]"),
     ("3", "x.div(0)", "the tensor, shape (3,), strides (1,)")],
)  # fmt: skip
def test_corners_are_drawn(shape, text, title):  # no elements, no dimensions, three of them, infinities
    app = at_section("chain", strides_shape=shape, strides_chain=text)
    assert title in grids(app)
    assert not app.error


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("strides_chain", "x.transpse(0, 1)", "did you mean transpose?"),
        ("strides_chain", "x.view(2", "expected “)”"),
        ("strides_chain", "__import__('os')", "no operation is called __import__"),
        ("strides_shape", "2, -3", "size 1 must be a whole number from 0"),
        ("strides_shape", "2000, 2000", "the limit here is 4.00 MiB"),
        ("strides_chain", "x.expand(1000, 1000, 2, 3).clone()", "the limit here is 4.00 MiB"),
        ("strides_shape", "٢", "expected a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(key, value, words):
    app = at_section("chain", **{key: value})
    assert words in said(app.warning[0])
    assert not app.error
    app.button(key="strides_undo")  # the controls are there to mend it
    if value.endswith("clone()") or key == "strides_shape":
        press(app, "strides_undo")


def test_a_bad_argument_is_refused_when_it_is_appended():
    app = at_section("chain", strides_args="zero")
    press(app, "strides_append")
    assert "expected a whole number" in said(app.warning[0])
    assert len(table(app)) == 4


def test_undo_of_what_cannot_be_read_is_refused_in_words():
    app = at_section("chain", strides_chain="x.?")
    press(app, "strides_undo")
    assert any("expected the name of an operation" in one.value for one in app.warning)


def test_a_chain_lives_in_the_address():
    app = open_page("strides_views", strides_views_section="Chain", strides_shape="4, 4", strides_chain="x[:, 1]")
    assert table(app)[-1][:4] == ["[:, 1]", "(4,)", "(4,)", "1"]


def test_predict_first_asks_step_by_step_and_keeps_the_score():
    app = choose(at_section("chain"), "predict_first", True)
    assert len(table(app)) == 1
    assert "What will `transpose(1, 0)` do?" in text_of(app)
    press(app, "strides_guess_view")
    assert "You said view: right.** 1 of 1 steps right" in text_of(app)
    assert len(table(app)) == 2
    press(app, "strides_guess_view")
    assert "You said view: it is: copy.** 1 of 2 steps right" in text_of(app)
    press(app, "strides_guess_show")
    assert len(table(app)) == 4
    assert not [one for one in app.button if one.key == "strides_guess_view"]
    choose(app, "strides_chain", "x.transpose(1, 0).view(2, 3)")
    assert "What will `view(2, 3)` do?" in text_of(app)
    assert "cannot merge" not in text_of(app)
    press(app, "strides_guess_error")
    assert "2 of 2 steps right" in text_of(app)
    assert "cannot merge" in text_of(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("strides_views"), "predict_first", True)
    for section in SECTIONS:
        choose(app, "strides_views_section", section)
        text = text_of(app)
        assert not shows_a_prediction(app), section
        assert "cannot merge" not in text
        assert not app.get("vega_lite_chart")
        assert section == "chain" or not app.get("bidi_component"), section


def test_the_lecture_s_view_is_refused_and_the_pair_is_named():
    app = at_section("view")
    text = text_of(app)
    assert "view(2, 3): error" in text
    assert "Dimensions 0 (size 3, stride 1) and 1 (size 2, stride 3) cannot merge" in text
    assert "Write reshape(2, 3), which copies, or contiguous() before view()." in text
    assert "torch: “view size is not compatible" in text
    assert "1 ≠ 2 · 3 = 6" in text
    assert grids(app)["places that each row of (2, 3) would need"] == [["0", "3", "1"], ["4", "2", "5"]]
    choose(app, "strides_view_order", "0, 1")
    assert "view(2, 3): view" in text_of(app)
    choose(app, "strides_view_new", "-1")
    assert grids(app)["places that each row of (6,) would need"] == [["0", "1", "2", "3", "4", "5"]]


@pytest.mark.parametrize(
    ("preset", "kind"), [("lecture", "error"), ("untouched", "view"), ("heads", "error"), ("last to front", "view")]
)
def test_each_preset_of_view(preset, kind):
    app = at_section("view")
    press(app, f"np_preset_view_{preset}")
    assert re.search(rf"view\([^)]*\): {kind}", text_of(app))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("strides_view_order", "0, 0", "names one twice"),
        ("strides_view_order", "1", "each of the 2 dimensions once"),
        ("strides_view_order", "one", "expected a whole number"),
        ("strides_view_shape", "9999999, 9", "the limit here"),
    ],
)
def test_view_refuses_in_words(key, value, words):
    app = at_section("view", **{key: value})
    assert words in said(app.warning[0])


def test_a_shape_of_other_size_is_an_error_too():
    app = at_section("view", strides_view_new="5")
    assert "(5,) does not hold 6 elements" in text_of(app)
    assert not app.get("bidi_component")


def test_a_write_shows_in_every_view_and_in_no_copy():
    app = at_section("write")
    assert figures(app) == ("2", "2", "1.00×")
    drawn = grids(app)
    assert drawn["0 · x · same storage"][0][0] == "100"
    assert drawn["1 · transpose(1, 0) · same storage"][0][0] == "100"
    assert drawn["2 · contiguous() · another storage"][0][0] == "0"
    choose(app, "strides_to", 3)
    choose(app, "strides_at", "1, 2")
    assert grids(app)["3 · view(2, 3) · same storage"][1][2] == "100"
    assert grids(app)["0 · x · another storage"][1][2] == "5"
    choose(app, "strides_chain", "x[0].expand(3, 3)")
    assert "tensor 3 does not exist" in said(app.warning[0])
    choose(app, "strides_to", 0)
    choose(app, "strides_at", "0, 1")
    assert value_of(app) == "5"
    assert "1 + 1 + 3" in text_of(app)


@pytest.mark.parametrize(
    ("preset", "claimed", "held"),
    [("10 of a million", "40 B", "4.00 MB"), ("and cloned", "40 B", "40 B"), ("one column", "4.00 kB", "4.00 MB"),
     ("expand", "4.00 MB", "4.00 kB"), ("windows", "3.96 MB", "40.0 kB")],
)  # fmt: skip
def test_bytes_claimed_and_held(preset, claimed, held):
    app = at_section("held_bytes")
    press(app, f"np_preset_held_bytes_{preset}")
    assert figures(app)[:2] == (claimed, held)
    assert f"would hold {claimed}" in text_of(app)


def test_bytes_of_a_chain_that_torch_refuses():
    app = at_section("held_bytes", strides_bytes_chain="x.view(3)")
    assert "torch refuses view(3)" in said(app.warning[0])
    choose(app, "strides_bytes_shape", "3000000")
    assert "the limit here" in said(app.warning[0]) or "torch refuses" in said(app.warning[0])


def test_flip_copies_and_negative_strides_are_refused():
    app = at_section("backwards")
    assert figures(app) == ("24 B", "24 B", "1.00×")
    numpy_row, sliced, _from_numpy, flipped = table(app)
    assert numpy_row[1] == "(-1,)"
    assert "step must be greater than zero" in sliced[2]
    assert flipped[1:] == ["(1,)", "a copy: 24 B"]
    choose(app, "strides_backwards", 3)
    assert value_of(app) == "12 B"
    assert grids(app)["numpy: the view"] == [["2", "1", "0"]]


def test_elementwise_results_have_storages_of_their_own():
    app = at_section("elementwise")
    assert figures(app) == ("72 B", "72 B", "1.00×")
    rows_ = {row[0]: row[1:] for row in table(app)}
    assert rows_["x.pow(2)"][0] == "1, 16, 81"
    assert rows_["x.rsqrt()"][0] == "1, 0.500, 0.333"
    assert [name for name, row in rows_.items() if row[2] == "yes"] == ["x", "x.sqrt_()"]
    assert rows_["x"][1] == rows_["x.sqrt_()"][1] != rows_["x.sqrt()"][1]
    choose(app, "strides_values", "-1, 0")
    assert {row[0]: row[1] for row in table(app)}["x.rsqrt()"] == "nan, inf"
    assert value_of(app) == "48 B"


@pytest.mark.parametrize("text", ["", "1, two", "1e99", "nan", "1,,2", "٣", "1 2", ", ".join(["1"] * 9)])
def test_values_that_are_none_are_refused_in_words(text):
    app = at_section("elementwise", strides_values=text)
    assert "for example 1, 4, 9" in said(app.warning[0]) or "a value must be a number" in said(app.warning[0])


def test_the_mask():
    app = at_section("mask")
    assert figures(app) == ("6", "6", "1.00×")
    assert grids(app)["torch.ones(n, n).triu()"] == [["1", "1", "1"], ["0", "1", "1"], ["0", "0", "1"]]
    choose(app, "strides_diagonal", 1)
    assert value_of(app) == "3"
    choose(app, "strides_mask", 5)
    assert value_of(app) == "10"
    choose(app, "strides_diagonal", 9)
    assert value_of(app) == "0"
    assert "This section failed" not in text_of(app)


def test_the_lecture_s_batched_matmul():
    app = at_section("matmul")
    assert figures(app) == ("65.5 kFLOP", "65.5 kFLOP", "1.00×")
    a, b, result, fate = table(app)
    assert a == ["a", "4", "8", "16", "32"]
    assert b == ["b", "·", "·", "32", "2"]
    assert result == ["a @ b", "4", "8", "16", "2"]
    assert fate[1:3] == ["b repeats", "b repeats"]
    assert "**32** multiplications of 16 × 32 by 32 × 2" in text_of(app)
    press(app, "np_preset_matmul_lecture")
    assert table(app)[2] == ["a @ b", "16", "2"]
    assert value_of(app) == "2.05 kFLOP"


@pytest.mark.parametrize(
    ("preset", "result"),
    [("scores", ["4", "8", "16", "16"]), ("both repeat", ["4", "8", "16", "2"]), ("vector", ["4", "16", "·"])],
)
def test_each_preset_of_matmul(preset, result):
    app = at_section("matmul")
    press(app, f"np_preset_matmul_{preset}")
    assert table(app)[2][1:] == result


def test_a_shape_error_is_explained():
    app = at_section("matmul")
    press(app, "np_preset_matmul_error")
    text = text_of(app)
    assert "The last of a is 32, the second to last of b is 16" in text or "the last of a is 32" in text
    assert "Transposing b would fit" in text
    assert "torch: “" in text
    assert not shows_a_prediction(app)
    choose(app, "strides_a", "2, 3, 4")
    choose(app, "strides_b", "5, 4, 3")
    assert "2 in a meets 5 in b" in text_of(app)
    assert table(app)[3][1] == "do not fit"
    choose(app, "strides_a", "")
    assert "a number has no dimension to contract" in text_of(app).lower()


def test_a_measurement_from_end_to_end(monkeypatch):
    quick = functools.partial(strides.measure_cost, window_seconds=0.01)  # the page's own takes six seconds
    monkeypatch.setattr(strides, "measure_cost", quick)
    app = at_section("cost", strides_n=64, strides_threads=1)
    calibrate(app)
    assert "press Measure" in text_of(app)
    before = value_of(app)
    press(app, "strides_cost_start")
    finish(app, app.session_state["strides_cost"])
    assert value_of(app) == before
    assert value_of(app, "measured").endswith("s")
    assert "strided reads" in {row["name"] for row in rows(app, 0)}
    codes = {row["code"] for row in rows(app)}
    assert codes == {one.code for one in strides.CASES.values()}
    drawn = charts(app)
    choose(app, "strides_case", "stepped")
    assert "cache lines" in {row["name"] for row in rows(app, 0)}
    assert charts(app) != drawn
    choose(app, "strides_n", 80)
    assert "The settings have changed" in text_of(app)
    choose(app, "strides_n", 100)
    assert "a multiple of 16" in said(app.warning[0])
    assert app.button(key="strides_cost_start").disabled


def calibrate(app):
    """Wait for the machine's calibration, which the section starts."""
    from pages._ui import machine

    for job_id in list(machine._jobs.values()):
        finish(app, job_id)


def finish(app, job_id):
    now = jobs.status(job_id)
    while not now.finished:
        now = jobs.wait(now.id, 60, now.version)
    assert now.state == "done", now.error
    app.run()


@pytest.mark.parametrize(
    ("section", "key", "bad"),
    [("Chain", "strides_op", "explode"), ("Write", "strides_to", "99"), ("Flip", "strides_backwards", "0"),
     ("Mask", "strides_mask", "1.5"), ("Mask", "strides_diagonal", "nan"), ("Chain", "strides_drawn", "7"),
     ("Chain", "strides_chain", "x" * 400), ("Storage", "strides_grid", "1" * 99), ("Cost", "strides_n", "1")],
)  # fmt: skip
def test_a_forged_value_falls_back_with_a_note(section, key, bad):
    app = open_page("strides_views", strides_views_section=section, **{key: bad})
    assert any("The link asked for" in info.value for info in app.info)
    assert "This section failed" not in text_of(app)


def test_the_whole_page_shares_its_chain():
    app = at_section("all")
    assert "This section failed" not in text_of(app)
    assert not app.error
    for question in ("Where does an element lie?", "View, copy or error?", "Which matrices does a batch multiply?"):
        assert question in text_of(app)
    choose(app, "strides_chain", "x[0].unsqueeze(0)")
    drawn = "".join(one.proto.bytes.decode() for one in app.get("bidi_component"))
    assert "unsqueeze(0)" in drawn


def test_predict_first_asks_in_both_sections_of_the_whole_page():
    app = choose(open_page("strides_views", strides_views_section="Whole page"), "predict_first", True)
    assert "This section failed" not in text_of(app)
    press(app, "strides_view_guess_error")
    assert "You said error: right." in text_of(app)
    press(app, "strides_guess_view")
    assert "You said view: right." in text_of(app)
