"""The einops page: each control's effect, the lecture's values, each refusal with its place, cells that are linked."""

import dataclasses
import json

import pytest

from core import named_dims
from pages._ui import einops_cells
from pages._ui.cells import Cell
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of

SECTIONS = ["transform", "einsum", "storage", "reduction", "order", "packing", "annotations"]


def at_section(section, **values):
    app = choose(open_page("einops_playground"), "einops_playground_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def grids(app, index=-1):
    """The grids of cells: title, and the rows of (text, name, made_of, hue, note)."""
    data = json.loads(app.get("bidi_component")[index].proto.bytes)
    return [
        (grid["title"], [[tuple(map(_frozen, cell[:5])) for cell in row if cell] for row in grid["rows"]])
        for grid in data["grids"]
    ]


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


def texts(grid):
    return [[cell[0] for cell in row] for row in grid[1]]


def codes(app):
    """The code on screen, without the scripts to copy."""
    return [one.value for one in app.code if not one.value.startswith("from core import")]


def bodies(app):
    return " ".join(element.proto.body for element in app.get("html"))


def has_card(app):
    return '<div class="np-box' in bodies(app)


def refusal(app):
    assert len(app.warning) == 1
    return said(app.warning[0])


def test_the_lectures_heads():
    app = at_section("transform")
    assert figures(app) == ("48", "48", "1.00×")
    assert "x = x.reshape(2, 3, 2, 4)\n# run on 0, 1, 2, …: equal to einops' result" in codes(app)
    (title, _cells), (output, _more) = grids(app)
    assert title == "x (2, 3, 8) · ...0 ...1 (heads d)"
    assert output == "output (2, 3, 2, 4) · ...0 ...1 heads d"
    assert "merged = (2, 3, 8) float32" in text_of(app)


def test_a_cell_of_a_rearrangement_is_the_cell_that_it_comes_from():
    app = at_section("transform", en_pattern="a b -> b a", en_shape="(2, 3)", en_sizes="")
    source, moved = grids(app)
    assert texts(source) == [["0", "1", "2"], ["3", "4", "5"]]
    assert texts(moved) == [["0", "3"], ["1", "4"], ["2", "5"]]
    assert {cell[0]: cell[1:4] for row in source[1] for cell in row} == {
        cell[0]: cell[1:4] for row in moved[1] for cell in row
    }  # one name and one colour from input to output
    assert moved[1][2][1][4] == "output[2, 1] = x[1, 2]"


def test_a_cell_of_a_reduction_is_made_of_the_cells_that_went_in():
    app = at_section("transform", en_op="max", en_pattern="(h 2) (w 2) -> h w", en_shape="(4, 8)", en_sizes="")
    source, output = grids(app)
    text, name, made_of, _hue, note = output[1][0][1]
    assert (text, note) == ("11", "output[0, 1] = max of 4 cells")
    assert sorted(int(cell[0]) for row in source[1] for cell in row if cell[1] in made_of) == [2, 3, 10, 11]
    assert [cell[0] for row in source[1] for cell in row if name in cell[2]] == ["2", "3", "10", "11"]
    assert "max: <code>2</code>, <code>2</code>" in bodies(app)


@pytest.mark.parametrize(
    ("key", "value", "elements", "code"),
    [
        ("en_op", "repeat", "48", "x = x.reshape(2, 3, 2, 4)"),
        ("en_pattern", "... (heads d) -> heads ... d", "48", "x = x.permute(2, 0, 1, 3)"),
        ("en_shape", "(5, 8)", "40", "x = x.reshape(5, 2, 4)"),
        ("en_sizes", "heads=4", "48", "x = x.reshape(2, 3, 4, 2)"),
        ("en_color", "d", "48", "x = x.reshape(2, 3, 2, 4)"),
    ],
)
def test_each_control_of_a_pattern(key, value, elements, code):
    app = at_section("transform")
    before = grids(app)
    choose(app, key, value)
    assert value_of(app, "measured") == elements
    assert code in codes(app)[0]
    assert (grids(app) != before) == (key != "en_op")


@pytest.mark.parametrize(
    ("preset", "shape"),
    [("heads merged", "(2, 3, 8)"), ("patches", "(6, 8)"), ("pixel shuffle", "(1, 6, 8)"), ("max pooling", "(2, 4)"),
     ("mean", "(2, 4)"), ("repeat", "(4, 9)"), ("heads (lecture)", "(2, 3, 2, 4)")],
)  # fmt: skip
def test_every_preset_of_a_pattern_works(preset, shape):
    app = at_section("transform", en_color="d")
    press(app, f"np_preset_transform_{preset}")
    assert not app.warning
    assert not app.info
    assert f"output {shape}" in grids(app)[1][0]
    assert value_of(app, "ratio") == "1.00×"


@pytest.mark.parametrize(
    ("pattern", "words", "marked"),
    [
        ("... (heads d -> ... heads d", "This ( is never closed", "... (heads d -> ... heads d\n    ^"),
        ("... (heads d) -> ... heads e", "“d” is on the left only", "... (heads d) -> ... heads e\n           ^"),
        ("... (heads d) ... -> heads", "A second ...", "... (heads d) ... -> heads\n              ^^^"),
        ("... (heads d)", "There is no ->", "... (heads d)\n^^^^^^^^^^^^^"),
    ],
)
def test_a_broken_pattern_is_shown_with_its_place_and_einops_own_words(pattern, words, marked):
    app = choose(at_section("transform"), "en_pattern", pattern)
    assert words in refusal(app)
    assert codes(app)[0] == marked
    assert app.expander[0].label == "What einops says"
    assert "Error" in codes(app)[1]
    assert not app.get("bidi_component")
    assert not has_card(app)
    choose(app, "en_pattern", "... (heads d) -> ... heads d")
    assert figures(app) == ("48", "48", "1.00×")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"en_sizes": "heads=3"}, "A dimension of size 8 does not divide by heads=3"),
        ({"en_sizes": "heads=0"}, "does not divide by heads=0"),
        ({"en_sizes": "heads=two"}, "'two' in 'heads=two' is no size"),
        ({"en_sizes": "heads=2 x=1"}, "x is given a size and is not in the pattern"),
        ({"en_sizes": ""}, "“heads” and “d” cannot be told"),
        ({"en_shape": ""}, "are empty"),
        ({"en_shape": "(2, 3, nan)"}, "'nan' in"),
        ({"en_shape": "(99999, 99999, 8)"}, "the limit here is 1,048,576 elements"),
        ({"en_shape": "(2, 8), (2, 8)"}, "2 tensors for a pattern of 1"),
        ({"en_op": "repeat", "en_pattern": "a -> a b", "en_shape": "4", "en_sizes": "b=40000000"}, "0 to 1,048,576"),
        ({"en_op": "repeat", "en_pattern": "a -> a b", "en_shape": "40000", "en_sizes": "b=40000"}, "6.40 GB"),
        ({"en_op": "max", "en_pattern": "a b -> a", "en_shape": "(2, 0)", "en_sizes": ""}, "no max of nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(values, words):
    app = at_section("transform", **values)
    assert words in refusal(app)
    assert "This section failed" not in text_of(app)


def test_tensors_of_nothing_and_large_ones_have_no_cells_and_no_traceback():
    app = at_section("transform", en_pattern="a b -> b a", en_shape="(0, 3)", en_sizes="")
    assert value_of(app) == "0"
    assert texts(grids(app)[0]) == []
    choose(app, "en_pattern", "->")
    choose(app, "en_shape", "()")
    assert figures(app) == ("1", "1", "1.00×")
    choose(app, "en_pattern", "a b -> b a")
    choose(app, "en_shape", "(300, 300)")
    assert "180,000 cells are too many to draw" in text_of(app)


def test_torch_code_that_gives_something_else_is_not_passed_over(monkeypatch):
    execution = named_dims.executed

    def differs(done):
        ran = execution(done)
        return dataclasses.replace(ran, values=ran.values + 1)

    monkeypatch.setattr(named_dims, "executed", differs)
    app = at_section("transform")
    assert codes(app)[-1].endswith("# run on 0, 1, 2, …: NOT einops' result")


def test_the_lectures_scores():
    app = at_section("einsum")
    assert figures(app) == ("144 FLOP", "144 FLOP", "1.00×")
    x, _y, output = grids(app)
    assert output[0] == "output (2, 3, 3) · batch seq1 seq2"
    _text, name, made_of, _hue, note = output[1][0][1]
    assert (name, note) == ("out1", "output[0, 0, 1] = x[0, 0, 0] · y[0, 1, 0] + …, 4 products")
    assert made_of == ("x0", "x1", "x2", "x3", "y4", "y5", "y6", "y7")
    assert [cell[0] for row in x[1] for cell in row if "out1" in cell[2]] == ["0", "1", "2", "3"]
    assert "y = y.permute(0, 2, 1)\nxy = x @ y\n# run on 0, 1, 2, …: equal to einops' result" in codes(app)
    assert "summed: hidden" in " ".join(text_of(app).split())
    assert not app.get("vega_lite_chart")
    choose(app, "en_shapes", "(2, 3, 5), (2, 4, 5)")
    assert figures(app)[:2] == ("240 FLOP", "240 FLOP")


def test_the_order_of_three_factors_is_told():
    app = at_section("einsum")
    press(app, "np_preset_einsum_three factors")
    assert figures(app) == ("136 FLOP", "136 FLOP", "1.00×")
    assert {row["order"]: row["flops"] for row in rows(app)} == {
        "one loop over every axis": 864,
        "two at a time, as written": 576,
        "the order taken": 136,
    }
    assert "<code>x · yz</code>" in bodies(app)
    drawn = charts(app)
    choose(app, "en_shapes", "(8, 2), (2, 9), (9, 3)")
    assert charts(app) != drawn


def test_an_elementwise_einsum_has_no_ratio():
    app = at_section("einsum")
    press(app, "np_preset_einsum_outer product")
    assert value_of(app) == "0 FLOP"
    assert value_of(app, "ratio") == "="
    choose(app, "predict_first", True)
    choose(app, "np_guess_einsum_flops", "3")
    assert "You guessed 3 FLOP" in text_of(app)
    press(app, "np_preset_einsum_trace")
    assert "This section failed" not in text_of(app)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("batch seq1 hidden, batch seq2 hidden -> batch seq3", "“seq3” is on the right only"),
     ("batch seq1 hidden -> seq1", "2 tensors for a pattern of 1"),
     ("batch seq1 hidden, batch seq2 seq1 -> batch", "“seq1” is 3 before and 4 in operand 2")],
)  # fmt: skip
def test_a_broken_einsum(pattern, words):
    app = at_section("einsum", en_einsum=pattern)
    assert words in refusal(app)
    assert "^" in codes(app)[0]


@pytest.mark.parametrize(
    ("preset", "total", "kinds"),
    [("heads", "192 B", ["view"]), ("transpose", "96 B", ["view"]), ("transpose, merge", "384 B", ["view", "new"]),
     ("repeat, new axis", "4.80 kB", ["view"]), ("repeat, merge", "19.2 kB", ["view", "new"])],
)  # fmt: skip
def test_views_take_nothing_and_copies_do(preset, total, kinds):
    app = at_section("storage", en_pattern="a b c -> (a b c)", en_shape="(2, 3, 4)", en_sizes="")
    press(app, f"np_preset_storage_{preset}")
    assert figures(app) == (total, total, "1.00×")
    body = next(element.proto.body for element in app.get("html") if "np-wide" in element.proto.body)
    assert [kind for kind in ("view", "new") if f"<td>{kind}</td>" in body] == [
        k for k in ("view", "new") if k in kinds
    ]
    assert body.count("<code>x = ") == len(kinds)


def test_a_copy_says_which_axes_stand_in_the_way():
    app = at_section("storage", en_pattern="a b -> (b a)", en_shape="(2, 3)", en_sizes="")
    assert "“b” and “a” do not lie one inside the other: b steps by 1, not 6" in text_of(app)
    assert "0 FLOPs; 24 B read and 24 B written" in text_of(app)


def test_a_sum_is_the_mean_times_what_went_in():
    app = at_section("reduction")
    assert figures(app) == ("4", "4", "1.00×")
    _source, mean, total = grids(app)
    assert (mean[0], total[0]) == ("mean · output (2, 3) · ...0 ...1", "sum · output (2, 3) · ...0 ...1")
    assert (texts(mean)[0][0], texts(total)[0][0]) == ("1.5", "6")
    choose(app, "en_reduced", "batch seq hidden -> hidden")
    assert figures(app) == ("6", "6", "1.00×")
    choose(app, "en_reduced_shape", "(0, 3, 4)")
    assert "nothing to add up" in refusal(app)


def test_the_order_inside_parentheses_shows_in_the_cells():
    app = at_section("order")
    assert figures(app) == ("2", "2", "1.00×")
    _source, first, second = grids(app)
    assert first[0] == "(heads d) -> heads d"
    assert texts(first) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert texts(second) == [["0", "2", "4", "6"], ["1", "3", "5", "7"]]
    assert len({cell[3] for cell in second[1][0]}) == 2  # cells keep the colour that they have in the input
    choose(app, "en_second", "(heads d) -> heads d")
    assert figures(app) == ("8", "8", "1.00×")
    choose(app, "en_second", "(heads d) -> d heads")
    assert "the patterns give (2, 4) and (4, 2)" in refusal(app)
    choose(app, "en_second", "(heads d) -> heads e")
    assert "“d” is on the left only" in refusal(app)
    choose(app, "en_first", "(heads d -> heads d")
    assert "never closed" in refusal(app)


def test_other_sizes_have_other_orders():
    app = at_section("order", en_order_shape="(12)", en_order_sizes="heads=3", en_order_color="d")
    assert value_of(app) == "2"
    assert texts(grids(app)[2])[0] == ["0", "3", "6", "9"]


def test_pack_unpack_and_parse_shape():
    app = at_section("packing")
    assert figures(app) == ("64 B", "64 B", "1.00×")
    *_tensors, packed = grids(app)
    assert packed[0] == "packed (2, 8)"
    assert [cell[1] for cell in packed[1][1]] == ["t0_3", "t0_4", "t0_5", "t1_1", "t2_4", "t2_5", "t2_6", "t2_7"]
    choose(app, "en_packed", "(2, 3), (2, 1)")
    assert figures(app)[1] == "32 B"
    choose(app, "en_pack", "i j")
    assert "There is no *" in refusal(app)
    choose(app, "en_pack", "i *")
    choose(app, "en_packing", "unpack")
    assert figures(app) == ("64 B", "64 B", "1.00×")
    assert "x1 = packed[:, 3:4].reshape(2)" in codes(app)[0]
    choose(app, "en_unpacked", "(2, 8); (-1, 2)")
    assert "(2, 4, 2)" in text_of(app)
    choose(app, "en_unpacked", "(2, 8)")
    assert "a semicolon" in refusal(app)
    choose(app, "en_packing", "parse_shape")
    assert "{'batch': 2, 'h': 5, 'w': 7}" in codes(app)[0]
    choose(app, "en_parsed_shape", "(4, 3, 2, 1)")
    assert "{'batch': 4, 'h': 2, 'w': 1}" in codes(app)[0]
    choose(app, "en_parsed", "batch h")
    assert "names 2 dimensions, the tensor has 4" in refusal(app)


def test_an_annotation_is_checked_by_a_checker_only():
    app = at_section("annotations")
    assert "It ran. The result has shape ()." in app.success[0].value
    assert "broadcasting made (8, 8) of the two: 64 values" in text_of(app)
    assert "Actual value: f32[8,1](torch)" in codes(app)[-1]
    press(app, "np_preset_annotations_as annotated")
    assert len(app.success) == 2
    assert "broadcasting" not in text_of(app)
    choose(app, "en_call_loss", "(8,), (4,)")
    assert not app.success
    assert "RuntimeError" in codes(app)[1]
    choose(app, "en_example", "scores (lecture)")
    assert "batch seq1 hidden" in codes(app)[0]
    assert "TypeCheckError" in codes(app)[-1]
    choose(app, "en_call_scores", "(2, 3, 4)")
    assert "scores takes 2 tensors; received 1 shapes" in refusal(app)


def test_predict_first_hides_every_answer():
    app = choose(open_page("einops_playground"), "predict_first", True)
    for section in SECTIONS:
        choose(app, "einops_playground_section", section)
        assert not has_card(app)
        assert not app.get("bidi_component")
        assert not app.get("vega_lite_chart")
        assert len(codes(app)) == (section == "annotations")  # the function itself
        assert not app.success
    choose(app, "einops_playground_section", "order")
    choose(app, "np_guess_orders", "8")
    assert "You guessed 8: 4 times too high against the napkin · 4 times too high against what was" in text_of(app)
    assert has_card(app)
    assert len(grids(app)) == 3


def test_predict_first_asks_who_refuses():
    app = choose(at_section("annotations"), "predict_first", True)
    press(app, "en_refuser_nobody")
    assert "You said nobody: it is: the checker alone." in text_of(app)
    assert "Actual value: f32[8,1](torch)" in codes(app)[-1]
    choose(app, "en_call_loss", "(8,), (4,)")
    assert len(codes(app)) == 1
    press(app, "en_refuser_torch")
    assert "You said torch itself: right." in text_of(app)
    choose(app, "en_call_loss", "(8,), (8,)")
    press(app, "en_refuser_show")
    assert "You said" not in text_of(app)
    assert len(app.success) == 2


def test_a_dimension_that_torch_misses_is_torchs_own_error():
    app = at_section("annotations", en_example="scores (lecture)", en_call_scores="(8,), (8,)")
    assert "IndexError: Dimension out of range" in codes(app)[1]
    assert "TypeCheckError" in codes(app)[-1]


@pytest.mark.parametrize(
    ("key", "text", "shown"),
    [
        ("en_pattern", "a → a", "write `->` between"),
        ("en_pattern", "**a** -> a", r"“\*” belongs to pack"),
        ("en_sizes", "![x](http://y.z)=2", r"“!\[x\](http://y.z)” is not a name"),
        ("en_shape", "![x](http://y.z)", r"is not a list of shapes"),
    ],
)
def test_a_refusal_is_no_markdown(key, text, shown):
    app = at_section("transform", **{key: text})
    assert shown in app.warning[0].value
    assert "![" not in app.warning[0].value


def test_all_sections_stand_on_one_page():
    app = choose(open_page("einops_playground"), "einops_playground_section", "all")
    assert not app.warning
    assert "This section failed" not in text_of(app)
    assert len(app.get("bidi_component")) == 5


@pytest.mark.parametrize(
    ("key", "bad"),
    [("en_op", "median"), ("en_color", "no axis"), ("en_pattern", "x" * 300), ("einops_playground_section", "Nothing")],
)
def test_a_forged_value_falls_back_with_a_note(key, bad):
    app = open_page("einops_playground", **{key: bad})
    assert figures(app) == ("48", "48", "1.00×")
    assert f"“{bad[:40]}”" in said(app.info[0])


def test_texts_in_the_address_are_taken():
    app = open_page("einops_playground", en_pattern="a b -> (b a)", en_shape="(2, 2)", en_sizes="")
    assert texts(grids(app)[1]) == [["0", "2", "1", "3"]]


def test_cells_of_any_number_of_dimensions_fit_a_rectangle():
    for shape in [(), (5,), (2, 3), (2, 3, 4), (40, 2, 3), (2, 3, 2, 4), (0, 3, 2), (2, 0, 3), (2, 2, 2, 2, 2), (1, 0)]:
        made = [Cell(str(index)) for index in range(len(named_dims.numbered([shape])[0].flatten()))]
        found = einops_cells.block(made, shape)
        assert sorted(cell.text for row in found for cell in row if cell) == sorted(cell.text for cell in made)
        assert max((len(row) for row in found), default=0) <= max(einops_cells.MAX_COLUMNS, *shape[-1:], 1)
