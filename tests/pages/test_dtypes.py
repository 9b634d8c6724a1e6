"""Number formats: each control's effect, the lecture's values, each refusal."""

import html
import json
import re

import pytest
import torch

from core import dtypes
from tests.pages.helpers import charts, choose, open_page, press, rows, said, text_of, value_of

CELLS = "np_cells_dt_bits"


def at_section(section, **values):
    app = choose(open_page("dtypes"), "dtypes_section", section)
    for key, value in values.items():
        choose(app, key, value)
    return app


def figures(app):
    return value_of(app), value_of(app, "measured"), value_of(app, "ratio")


def table(app, heading):
    """The rows of the table that has such a column, as lists of cells."""
    for element in app.get("html"):
        body = element.proto.body
        if f"<th>{heading}</th>" in body:
            found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr[^>]*>(<td.*?)</tr>", body)]
            return [[html.unescape(cell) for cell in row] for row in found]
    raise AssertionError(f"no table with a column {heading!r}")


def fact(app, name):
    """What the table of facts says about a number."""
    bodies = " ".join(element.proto.body for element in app.get("html"))
    found = re.search(rf"<tr><td>{re.escape(name)}</td><td[^>]*>(.*?)</td>", bodies)
    assert found, name
    return html.unescape(found[1])


def bits_of(app):
    """The bits on screen, as the text alternative of the cells says them."""
    (element,) = [one for one in app.get("bidi_component") if CELLS in one.proto.id]
    data = json.loads(element.proto.bytes)
    return ["".join(cell[0] for row in grid["rows"] for cell in row) for grid in data["grids"]]


def test_a_tenth_in_fp16():
    app = at_section("bits")
    assert figures(app) == ("0.100", "0.100", "1.00×")
    assert fact(app, "exactly") == "0.0999755859375"
    assert fact(app, "means") == "(−1)⁰ × 2⁻⁴ × (1 + 614 / 1,024) = 0.0999755859375"
    assert fact(app, "class") == "normal, code 0x2e66"
    assert fact(app, "spacing (ULP)") == "2⁻¹⁴ = 6.10 × 10⁻⁵"
    assert fact(app, "off by").startswith("0.400 ULP, relative 0.000244")
    assert bits_of(app) == ["0", "01011", "1001100110"]


def test_the_lectures_number():
    app = at_section("bits", dt_format="bf16")
    press(app, "np_preset_bits_1e-8, the lecture's")
    assert app.text_input(key="dt_number").value == "1e-8"
    assert fact(app, "exactly") == "0.00000001001171767711639404296875"
    choose(app, "dt_format", "fp16")
    assert value_of(app) == "0"
    assert f"torch {torch.__version__} gives 0 too" in text_of(app)
    assert fact(app, "off by") == "0.168 ULP, relative 1.00 (underflows to 0)"


def test_what_is_typed_becomes_bits():
    app = at_section("bits")
    for typed, bits, kind in (
        ("-0", "1000000000000000", "zero"),
        ("inf", "0111110000000000", "infinity"),
        ("nan", "0111111000000000", "NaN"),
        ("65520", "0111110000000000", "infinity"),
        ("1e999999999", "0111110000000000", "infinity"),
        ("1e-999999999", "0000000000000000", "zero"),
        ("0x1.8p3", "0100101000000000", "normal"),
        ("0x3c00", "0011110000000000", "normal"),
        ("0b1", "0000000000000001", "subnormal"),
        ("1/3", "0011010101010101", "normal"),
    ):
        choose(app, "dt_number", typed)
        assert "".join(bits_of(app)) == bits
        assert fact(app, "class").startswith(kind)
        assert not app.error


@pytest.mark.parametrize("section", ["bits", "formats"])
def test_what_is_no_number_is_refused_in_words(section):
    app = at_section(section)
    for typed in ("", "abc", "٣", "1/2/3", "--1", "0b2", "0x1.8", "0b" + "1" * 17):
        choose(app, "dt_number", typed)
        (refusal,) = app.warning
        assert "is not a number" in refusal.value or refusal.value == "fp16 has 16 bits; received 17"
        assert not app.error


def test_every_format_shows_its_bits():
    app = at_section("bits")
    for name in [*dtypes.FORMATS, "own"]:
        choose(app, "dt_format", name)
        fmt = dtypes.FORMATS.get(name) or dtypes.custom(4, 3)
        one = dtypes.round_to("0.1", fmt)
        assert "".join(bits_of(app)) == one.bits
        assert not app.error
        assert ("Measured value" in text_of(app)) == bool(fmt.torch_name and one.value)


def test_one_press_goes_to_the_next_number_and_back():
    app = at_section("bits", dt_number="1")
    press(app, "dt_up")
    assert fact(app, "exactly") == "1.0009765625"
    assert app.text_input(key="dt_number").value == "1.0009765625"
    press(app, "dt_down")
    press(app, "dt_down")
    assert fact(app, "exactly") == "0.99951171875"
    choose(app, "dt_number", "65504")
    press(app, "dt_up")
    assert fact(app, "class").startswith("infinity")
    press(app, "dt_up")  # there is nothing above it
    assert app.text_input(key="dt_number").value == "inf"


def test_a_format_of_ones_own_follows_its_controls():
    app = at_section("bits", dt_format="own", dt_number="300")
    for key, value in (("dt_e", 5), ("dt_m", 2), ("dt_bias", 3), ("dt_specials", "finite")):
        if key == "dt_specials":
            choose(app, "dt_number", "1e9")  # infinite, or the largest number
        before = [fact(app, "means"), bits_of(app)]
        choose(app, key, value)
        assert [fact(app, "means"), bits_of(app)] != before
    choose(app, "dtypes_section", "ranges")
    assert len(rows(app)) > 50


def test_a_format_that_cannot_be_is_refused_in_words():
    app = at_section("bits", dt_format="own", dt_m=0)
    assert "need at least 2 exponent bits and 1 mantissa bit" in said(app.warning[0])
    choose(app, "dt_m", 3)
    choose(app, "dt_bias", 2000)
    assert "must lie within fp64" in said(app.warning[0])


def test_one_number_in_every_format():
    app = at_section("formats")
    assert figures(app) == ("0.000488", "0.000244", "0.500×")
    by_name = {row[0]: row for row in table(app, "becomes")}
    assert by_name["fp4 e2m1"][1:] == ["0", "0.200", "1.00", "underflows to 0"]
    assert by_name["bf16"][1] == "0.100098"
    choose(app, "dt_number", "1000")
    notes = {row[0]: row[4] for row in table(app, "becomes")}
    assert notes["fp8 e4m3fn"].startswith(f"saturates (torch {torch.__version__}: 448; ml_dtypes ")
    assert notes["fp8 e4m3fn"].endswith(": NaN)")
    assert notes["fp8 e4m3fnuz"] == "overflows to NaN"
    assert notes["fp16"] == "exact"
    choose(app, "dt_number", "-2")
    notes = {row[0]: row[4] for row in table(app, "becomes")}
    assert "has no sign (torch" in notes["fp8 e8m0fnu"]


def test_the_lesson_runs_with_the_number_that_was_typed():
    app = at_section("formats", dt_number="1e-8")
    assert "in_fp16 = (1,) float16 = [0]" in text_of(app)
    assert "in_bf16 = (1,) bfloat16 = [1.00 × 10⁻⁸]" in text_of(app)


def test_the_thresholds_are_torchs():
    app = at_section("ranges")
    for name, which, predicted in (
        ("fp16", "largest", "65,504"),
        ("e4m3fn", "largest", "448"),
        ("e5m2", "largest", "57,344"),
        ("fp16", "overflows", "65,520"),
        ("fp16", "rounds to 0", "2.98 × 10⁻⁸"),
        ("fp16", "smallest subnormal", "5.96 × 10⁻⁸"),
        ("bf16", "largest", "3.39 × 10³⁸"),
        ("fp32", "ε", "1.19 × 10⁻⁷"),
    ):
        choose(choose(app, "dt_format", name), "dt_threshold", which)
        assert figures(app) == (predicted, predicted, "1.00×")


def test_finfo_is_wrong_once_and_said_to_be():
    app = at_section("ranges", dt_format="e5m2fnuz", dt_threshold="ε", dt_range_view="finfo")
    assert figures(app) == ("0.250", "0.125", "0.500×")
    assert "torch.finfo is wrong" in text_of(app)
    wrong = [row[0] for row in table(app, ".max") if "in truth" in " ".join(row)]
    assert wrong == ["fp8 e5m2fnuz"]


def test_the_views_of_the_range():
    app = at_section("ranges")
    drawn = rows(app)
    assert {row["format"] for row in drawn if row["format"]} == {
        dtypes.FORMATS[name].label for name in dtypes.FLOATS if name != "fp64"
    }
    assert len([row for row in drawn if row["format"] == "fp4 e2m1" and "mark" in row["kind"]]) == 7
    choose(app, "dt_range_view", "thresholds")
    by_name = {row[0]: row for row in table(app, "overflows")}
    assert by_name["fp16"][1:3] == ["2⁻²⁵", "2⁻²⁴"]
    assert by_name["fp16"][-1] == "≥ 65,520 → ∞"
    assert by_name["fp8 e4m3fn"][-1] == "> 464.00 → saturates"
    choose(app, "dt_format", "int8")
    assert "choose a floating-point format" in said(app.warning[0])


def test_the_longest_line():
    app = at_section("ranges", dt_format="fp64")  # whose largest number rounds to 2 to the 1024
    assert "4.941e-324 … 1.798e+308" in {row["label"] for row in rows(app)}
    assert not app.error


def test_a_thousand_updates():
    app = at_section("updates")
    assert figures(app) == ("1.10", "1", "0.909×")
    assert "stuck from the start" in text_of(app)
    smallest = {row[0]: row[1:] for row in table(app, "smallest update")}
    assert smallest["bf16"] == ["0.00394", "0.00394"]
    choose(app, "dt_rounding", "stochastic")
    assert value_of(app) == "1.10"
    assert value_of(app, "measured") in ("1.09", "1.10", "1.11")


def test_each_control_of_the_updates_changes_the_curve():
    app = at_section("updates")
    for key, value in (("dt_update", 0.01), ("dt_weight", "fp32"), ("dt_steps", 100)):
        drawn, before = charts(app), figures(app)
        choose(app, key, value)
        assert charts(app) != drawn
        assert figures(app) != before


def test_loss_scaling_saves_gradients():
    app = at_section("scaling")
    assert value_of(app) == "0.159"
    before = sum(row["share"] for row in rows(app, 0) if row["kind"] == "zero")
    choose(app, "dt_scale", 12)
    after = sum(row["share"] for row in rows(app, 0) if row["kind"] == "zero")
    assert (before, after) == (pytest.approx(0.159, abs=0.01), pytest.approx(0, abs=0.002))
    assert "chance" in text_of(app)


def test_each_control_of_loss_scaling_changes_the_share():
    app = at_section("scaling")
    for key, value in (("dt_middle", -30), ("dt_spread", 2), ("dt_scale", 3), ("dt_gradients", "e5m2")):
        before = figures(app)
        choose(app, key, value)
        assert figures(app) != before
        assert not app.error


def test_block_formats():
    app = at_section("blocks")
    assert figures(app)[:2] == ("0.0945", "0.116")
    by_name = {row[0]: row for row in table(app, "bits a value")}
    assert by_name["NVFP4"][1:4] == ["4.5", "0.562", "0.0950"]
    assert by_name["MXFP4"][1] == "4.25"
    choose(app, "dt_block", "NVFP4")
    assert figures(app) == ("0.0945", "0.0950", "1.01×")
    choose(app, "dt_block_claim", "bytes")
    assert figures(app)[:2] == ("36.9 kB", "36.9 kB")
    assert "Scale of a block of 16" in text_of(app)


def test_each_block_format_on_each_distribution():
    app = at_section("blocks")
    for distribution in dtypes.DISTRIBUTIONS:
        choose(app, "dt_distribution", distribution)
        for name in ("MXFP8 e4m3", "MXFP4", "NVFP4"):
            choose(app, "dt_block", name)
            error = dtypes.block_error(name, distribution)
            assert value_of(app, "measured").startswith(f"{error.relative_rms:.3g}")
            assert sum(row["share"] for row in rows(app)) == pytest.approx(1)


def test_predict_first_hides_every_answer():
    app = choose(open_page("dtypes"), "predict_first", True)
    for section in ("bits", "formats", "ranges", "updates", "scaling", "blocks"):
        choose(app, "dtypes_section", section)
        bodies = " ".join(element.proto.body for element in app.get("html"))
        assert 'class="np-box' not in bodies
        assert "<table" not in bodies
        assert not app.get("vega_lite_chart")
        assert not app.get("bidi_component")
    choose(app, "np_guess_dt_block_error", "0.05")
    assert "You guessed 0.0500: 1.9 times too low against the napkin" in text_of(app)


def test_the_whole_page_shares_its_number():
    app = at_section("all")
    assert not app.error
    assert not app.warning
    choose(app, "dt_number", "1e-8")
    assert text_of(app).count("underflows to 0") >= 2


@pytest.mark.parametrize(
    ("key", "bad"),
    [("dt_format", "fp7"), ("dt_update", "nan"), ("dt_steps", "1e9"), ("dt_scale", "-1"), ("dt_block", "MXFP5"),
     ("dtypes_section", "Bytes"), ("dt_number", "1" * 5000)],
)  # fmt: skip
def test_a_forged_value_falls_back_with_a_note(key, bad):
    app = open_page("dtypes", **{key: bad, "dtypes_section": "Whole page"} if key != "dtypes_section" else {key: bad})
    assert any(bad[:40] in note.value for note in app.info)
    assert not app.error


@pytest.mark.parametrize(
    ("number", "name", "errors"),
    [
        ("1e400", "fp8 e4m3fn", "448 3.12 × 10³⁹⁸ 1.00 saturates"),
        ("-1e400", "fp8 e4m3fn", "−448 3.12 × 10³⁹⁸ 1.00 saturates"),
        ("2^-6000", "fp8 e8m0fnu", "5.8775 × 10⁻³⁹ 1.00 8.9 × 10¹⁷⁶⁷ has no smaller number"),
        ("1e-100", "fp8 e8m0fnu", "5.8775 × 10⁻³⁹ 1.00 5.88 × 10⁶¹ has no smaller number"),
    ],
)
def test_numbers_beyond_fp64_have_their_errors(number, name, errors):
    app = open_page("dtypes", dt_number=number, dt_format=name, dtypes_section="Whole page")
    assert "This section failed" not in text_of(app)
    table = " ".join(text_of(app).partition("becomes")[2].split())
    assert f"{name} {errors}" in table


@pytest.mark.parametrize(("section", "row_px"), [("ranges", 12.5), ("formats", 19)])
def test_rows_grow_with_the_lectures_type(section, row_px):
    app = at_section(section)
    few = json.loads(app.get("vega_lite_chart")[-1].proto.spec)["height"]
    assert few % row_px == 0
    choose(app, "lecture", True)
    assert json.loads(app.get("vega_lite_chart")[-1].proto.spec)["height"] / (few / row_px) >= 18
