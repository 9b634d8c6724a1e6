"""Chains as text: read strictly, written back, refused with the place."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import strides
from core.strides import Operation, format_chain, parse_chain, parse_operation, parse_shape


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", "x"),
        ("x", "x"),
        ("transpose(0,1).view(2,3)", "x.transpose(0, 1).view(2, 3)"),
        ("x [ :, 1 ] . view( (3,2) )", "x[:, 1].view(3, 2)"),
        ("x[::2,1:,:-1,0:4:2]", "x[::2, 1:, :-1, 0:4:2]"),
        ("x[..., None, -1]", "x[..., None, -1]"),
        ("x[[0,2], 1]", "x[[0, 2], 1]"),
        ("[0][1]", "x[0][1]"),
        ("x.view(−1)", "x.view(-1)"),
        ("x.permute([1, 0])", "x.permute(1, 0)"),
        ("x.view(())", "x.view(())"),
        ("x.as_strided((2,2),(1,0),1)", "x.as_strided((2, 2), (1, 0), 1)"),
        ("x.as_strided((3,),(1,))", "x.as_strided((3,), (1,))"),
        ("x.flatten().squeeze().clone()", "x.flatten().squeeze().clone()"),
    ],
)
def test_a_chain_is_read_and_written(text, written):
    assert format_chain(parse_chain(text)) == written
    assert parse_chain(written) == parse_chain(text)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32))
def test_every_chain_can_be_written_and_read(seed):
    _shape, operations = strides.random_chain(random.Random(seed))
    text = format_chain(operations)
    if len(text) <= strides.MAX_TEXT:
        assert parse_chain(text) == operations


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "x.transpse(0, 1)",
            r"chain, at “transpse\(0, 1\)”: no operation is called transpse; did you mean transpose\?",
        ),
        ("x.__class__()", "no operation is called __class__; there are select"),
        ("x.foo", "no operation is called foo"),
        ("x.view", "chain, at the end: expected “\\(”"),
        ("x.view(2, 3", "chain, at the end: expected “\\)”"),
        ("x.view(2 3)", "chain, at “3\\)”: expected “\\)”"),
        ("x.view(2.5)", "chain, at “.5\\)”: expected “\\)”"),
        ("x.view(a)", "expected a whole number"),
        ("x.view(1e9)", "expected “\\)”"),
        ("x.view(12345678901)", "at most 10 digits"),
        ("x.view(٣)", "expected a whole number"),
        ("x view(2)", "expected “.” and an operation"),
        ("x..view(2)", "expected the name of an operation"),
        ("y.view(2)", "no operation is called y"),
        ("x.transpose(0)", r"at “transpose\(0\)”: transpose takes transpose\(dim0, dim1\); received 1 arguments"),
        ("x.clone(1)", "clone takes clone"),
        ("x[", "expected a number, a slice"),
        ("x[]", "index takes"),
        ("x[1.5]", "expected “,”"),
        ("x[0", "expected “,”"),
        ("x['a']", "expected a number, a slice"),
        ("x[..., ...]", "index takes whole numbers"),
        ("x[[0], [1]]", "index takes whole numbers"),
        ("x[[]]", "index takes whole numbers"),
        ("x[1:2:3:4]", "expected “,”"),
        ("x.as_strided(2, 1)", "as_strided takes whole numbers"),
        ("x.as_strided((2,), (1,), 0, 0)", "too many arguments"),
        ("x.as_strided((2,), a)", "expected as_strided"),
        ("x.view(2); import os", "expected “.” and an operation"),
        ("x.view(" + "1," * 40 + ")", "too many numbers"),
        ("x[" + "0," * 40 + "]", "too many items"),
        ("x" + "[0]" * 13, "at most 12 operations"),
        ("x" * 301, "at most 300 characters, please; received 301"),
        ("x" * 10**7, "at most 300 characters"),
        (None, "at most 300 characters"),
        ("x.view(\x00)", "expected a whole number"),
    ],
)
def test_what_is_no_chain_is_refused_with_the_place(text, words):
    with pytest.raises(ValueError, match=words):
        parse_chain(text)


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="x[]().,:-0123456789 viewtranspoNe…−\n", max_size=40))
def test_any_text_is_read_or_refused_in_words(text):
    try:
        assert parse_chain(format_chain(parse_chain(text))) == parse_chain(text)
    except ValueError as refused:
        assert "chain" in str(refused)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("2, 3", (2, 3)), ("(2,3)", (2, 3)), ("[4]", (4,)), ("2×3", (2, 3)), ("", ()), ("()", ()), ("0, 5", (0, 5)),
     ("7,", (7,))],
)  # fmt: skip
def test_a_shape_is_read(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    ("text", "words"),
    [("2 3", "shape, at “3”: expected numbers with commas"),
     ("a", "expected a whole number"), ("(2, 3", "expected “\\)”"),
     ("-1", "size 0 must be a whole number from 0"), ("1,1,1,1,1,1,1,1,1", "at most 8 dimensions"),
     ("nan", "whole number"), ("2,,3", "whole number"), ("99999999999", "at most 10 digits"),
     ("9999999999, 9999", "larger than"),
     ("1," * 200, "at most 300 characters")],
)  # fmt: skip
def test_what_is_no_shape_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_shape(text)


def test_an_operation_from_its_name_and_arguments():
    assert parse_operation("transpose", "0, 1") == Operation("transpose", (0, 1))
    assert parse_operation("index", "::2") == Operation("index", ((None, None, 2),))
    assert parse_operation("clone", "") == Operation("clone")
    for name, arguments in (("transpose", "0, 1).view(6"), ("view", "2].clone("), ("index", "0][1")):
        with pytest.raises(ValueError, match=r"expected|write the arguments of one operation"):
            parse_operation(name, arguments)
    with pytest.raises(ValueError, match="at most 300 characters"):
        parse_operation("view", "1" * 400)


@pytest.mark.parametrize(
    ("name", "args"),
    [("view", ()), ("reshape", ()), ("permute", ()), ("transpose", ((0, 1),)), ("select", ((0, 1),))],
)
def test_what_torch_takes_for_no_call_is_refused(name, args):
    with pytest.raises(ValueError, match="expected"):
        parse_chain(f"x.{name}({', '.join(map(str, args))})")
    with pytest.raises(TypeError):
        getattr(torch.zeros(1, 1), name)(*args)


def test_no_sizes_are_written_as_torch_takes_them():
    (operation,) = parse_chain("x.view(())")
    assert operation.text == "view(())"
    assert parse_chain(f"x.{operation.text}") == (operation,)
