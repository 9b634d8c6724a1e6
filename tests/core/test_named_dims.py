"""Named dimensions: the lecture's values, a table of patterns against einops, and every refusal with its place."""

import math
import pickle
import sys
import time

import einops
import opt_einsum
import pytest
import torch

from core import lesson, named_dims
from core.lessons import einops_playground as lessons
from core.named_dims import contraction, parse
from core.named_dims.sizes import solve_einsum

# The examples of einops' own documentation (docstrings of einops 0.8.2): operation, pattern, shapes, sizes, shape.
DOCUMENTED = [
    ("rearrange", "b h w c -> b h w c", [(32, 30, 40, 3)], {}, (32, 30, 40, 3)),
    ("rearrange", "b h w c -> b c h w", [(32, 30, 40, 3)], {}, (32, 3, 30, 40)),
    ("rearrange", "b h w c -> (b h) w c", [(32, 30, 40, 3)], {}, (960, 40, 3)),
    ("rearrange", "b h w c -> h (b w) c", [(32, 30, 40, 3)], {}, (30, 1280, 3)),
    ("rearrange", "b h w c -> b (c h w)", [(32, 30, 40, 3)], {}, (32, 3600)),
    ("rearrange", "b (h1 h) (w1 w) c -> (b h1 w1) h w c", [(32, 30, 40, 3)], {"h1": 2, "w1": 2}, (128, 15, 20, 3)),
    ("rearrange", "b (h h1) (w w1) c -> b h w (c h1 w1)", [(32, 30, 40, 3)], {"h1": 2, "w1": 2}, (32, 15, 20, 12)),
    ("rearrange", "(b c h w) -> b c h w", [(700,)], {"b": 2, "h": 5, "w": 7}, (2, 10, 5, 7)),
    ("max", "t b c -> b c", [(100, 32, 64)], {}, (32, 64)),
    ("max", "time batch channel -> batch channel", [(100, 32, 64)], {}, (32, 64)),
    ("max", "b c (h1 h2) (w1 w2) -> b c h1 w1", [(10, 20, 30, 40)], {"h2": 2, "w2": 2}, (10, 20, 15, 20)),
    ("max", "b c (h1 2) (w1 2) -> b c h1 w1", [(10, 20, 30, 40)], {}, (10, 20, 15, 20)),
    ("max", "b c (h1 h2) (w1 w2) -> b c h1 w1", [(10, 20, 30, 40)], {"h1": 3, "w1": 4}, (10, 20, 3, 4)),
    ("mean", "b c h w -> b c", [(10, 20, 30, 40)], {}, (10, 20)),
    ("mean", "b c h w -> 1 c 1 1", [(10, 20, 30, 40)], {}, (1, 20, 1, 1)),
    ("mean", "b c h w -> b c 1 1", [(10, 20, 30, 40)], {}, (10, 20, 1, 1)),
    ("mean", "b c h w -> b c () ()", [(10, 20, 30, 40)], {}, (10, 20, 1, 1)),
    ("mean", "(h h2) (w w2) -> h w", [(30, 40)], {"h2": 2, "w2": 2}, (15, 20)),
    ("repeat", "h w -> h w c", [(30, 40)], {"c": 3}, (30, 40, 3)),
    ("repeat", "h w -> (repeat h) w", [(30, 40)], {"repeat": 2}, (60, 40)),
    ("repeat", "h w -> (h2 h) (w3 w)", [(30, 40)], {"h2": 2, "w3": 3}, (60, 120)),
    ("repeat", "h w -> (h h2) (w w2)", [(30, 40)], {"h2": 2, "w2": 2}, (60, 80)),
    ("einsum", "a b c, c b d, a g k -> a b k", [(3, 20, 20), (20, 20, 20), (3, 20, 20)], {}, (3, 20, 20)),
    ("einsum", "batch h w, h w channel -> batch channel", [(128, 16, 16), (16, 16, 30)], {}, (128, 30)),
    ("einsum", "out_dim in_dim, ... in_dim -> ... out_dim", [(10, 20), (50, 30, 20)], {}, (50, 30, 10)),
    ("einsum", "i i ->", [(10, 10)], {}, ()),
]

# What people write: vision, attention, recommenders, physics.
PRACTICE = [
    ("rearrange", "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", [(2, 3, 8, 8)], {"p1": 4, "p2": 4}),  # patches (ViT)
    ("rearrange", "b (h w) (p1 p2 c) -> b c (h p1) (w p2)", [(2, 4, 48)], {"h": 2, "p1": 4, "p2": 4}),
    ("rearrange", "b c (t pt) (h ph) (w pw) -> b (t h w) (pt ph pw c)", [(1, 3, 4, 8, 8)], {"pt": 2, "ph": 4, "pw": 4}),
    ("rearrange", "b n (h d) -> b h n d", [(2, 5, 12)], {"h": 3}),  # attention heads
    ("rearrange", "b h n d -> b n (h d)", [(2, 3, 5, 4)], {}),
    ("rearrange", "b n (qkv h d) -> qkv b h n d", [(2, 5, 36)], {"qkv": 3, "h": 3}),
    ("rearrange", "b n (h d qkv) -> qkv b h n d", [(2, 5, 36)], {"qkv": 3, "d": 4}),
    ("rearrange", "... (heads hidden1) -> ... heads hidden1", [(2, 3, 8)], {"heads": 2}),
    ("rearrange", "... heads hidden2 -> ... (heads hidden2)", [(2, 3, 2, 4)], {}),
    ("rearrange", "b (c r1 r2) h w -> b c (h r1) (w r2)", [(1, 12, 2, 3)], {"r1": 2, "r2": 2}),  # pixel shuffle
    ("rearrange", "b c (h r1) (w r2) -> b (c r1 r2) h w", [(1, 3, 4, 6)], {"r1": 2, "r2": 2}),
    ("rearrange", "b (g c) h w -> b (c g) h w", [(2, 6, 2, 2)], {"g": 3}),  # channel shuffle
    ("rearrange", "b (g c) ... -> (b g) c ...", [(2, 6, 4, 5)], {"g": 2}),  # group norm
    ("rearrange", "b c h w -> b (h w) c", [(2, 3, 4, 5)], {}),
    ("rearrange", "b (h w) c -> b c h w", [(2, 20, 3)], {"h": 4}),
    ("rearrange", "b (h w1) (w w2) c -> (b h w) w1 w2 c", [(1, 8, 8, 2)], {"w1": 4, "w2": 4}),  # windows (Swin)
    ("rearrange", "(b h w) w1 w2 c -> b (h w1) (w w2) c", [(4, 4, 4, 2)], {"h": 2, "w": 2}),
    ("rearrange", "b t c h w -> (b t) c h w", [(2, 3, 3, 4, 4)], {}),
    ("rearrange", "(b t) c h w -> b t c h w", [(6, 3, 4, 4)], {"t": 3}),
    ("rearrange", "b t c h w -> b c t h w", [(2, 3, 3, 4, 4)], {}),
    ("rearrange", "n d -> d n", [(4, 3)], {}),
    ("rearrange", "... i j -> ... j i", [(2, 3, 4, 5)], {}),
    ("rearrange", "b ... -> b (...)", [(2, 3, 4)], {}),  # flatten
    ("rearrange", "... -> (...)", [(2, 3, 4)], {}),
    ("rearrange", "(b s) v -> b s v", [(12, 5)], {"s": 4}),  # logits
    ("rearrange", "b s v -> (b s) v", [(3, 4, 5)], {}),
    ("rearrange", "b 1 h w -> b h w", [(2, 1, 3, 4)], {}),  # squeeze
    ("rearrange", "b h w -> b 1 h w", [(2, 3, 4)], {}),
    ("rearrange", "() c -> c", [(1, 4)], {}),
    ("rearrange", "i -> i 1", [(4,)], {}),
    ("rearrange", "b (two half) -> two b half", [(2, 6)], {"two": 2}),  # GLU, rotary halves
    ("rearrange", "b n (d two) -> two b n d", [(2, 3, 8)], {"two": 2}),  # rotary pairs
    ("rearrange", "(e c) d -> e c d", [(12, 4)], {"e": 3}),  # experts
    ("rearrange", "b (k s) d -> b k s d", [(2, 6, 4)], {"k": 2}),  # chunks of a sequence
    ("rearrange", "b (g r) n d -> b g r n d", [(2, 6, 3, 4)], {"g": 2}),  # grouped-query attention
    ("repeat", "d -> b d", [(4,)], {"b": 3}),
    ("repeat", "1 n d -> b n d", [(1, 3, 4)], {"b": 2}),  # class token
    ("repeat", "n -> n n2", [(3,)], {"n2": 3}),
    ("repeat", "b g n d -> b (g r) n d", [(2, 2, 3, 4)], {"r": 3}),  # keys of grouped-query attention
    ("repeat", "b n -> (b k) n", [(2, 3)], {"k": 4}),  # beams
    ("repeat", "h w -> c h w", [(3, 4)], {"c": 3}),
    ("repeat", "b c h w -> b c (h 2) (w 2)", [(1, 2, 3, 3)], {}),  # nearest upsampling
    ("repeat", "i -> (i r)", [(3,)], {"r": 2}),  # repeat_interleave
    ("repeat", "i -> (r i)", [(3,)], {"r": 2}),  # tile
    ("repeat", "-> n", [()], {"n": 4}),
    ("sum", "b s d -> b d", [(2, 3, 4)], {}),
    ("mean", "b s d -> b d", [(2, 3, 4)], {}),  # mean pooling
    ("mean", "... hidden -> ...", [(2, 3, 4)], {}),
    ("sum", "... hidden -> ...", [(2, 3, 4)], {}),
    ("mean", "b c h w -> b c", [(2, 3, 4, 4)], {}),  # global average pooling
    ("max", "b c (h 2) (w 2) -> b c h w", [(1, 2, 4, 6)], {}),  # max pooling
    ("mean", "b c (h p) (w p2) -> b c h w", [(1, 2, 4, 6)], {"p": 2, "p2": 3}),
    ("min", "b ... -> b", [(2, 3, 4)], {}),
    ("max", "b s v -> b s", [(2, 3, 5)], {}),
    ("prod", "b n -> b", [(2, 3)], {}),
    ("any", "b s -> b", [(2, 3)], {}),  # is anything in the mask?
    ("all", "b s -> s", [(2, 3)], {}),
    ("sum", "... ->", [(2, 3, 4)], {}),
    ("mean", "(b m) ... -> m ...", [(6, 4)], {"b": 3}),  # mean over micro-batches
    ("sum", "b (s k) d -> b s d", [(2, 6, 4)], {"k": 2}),
    ("einsum", "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2", [(2, 3, 4), (2, 3, 4)], {}),
    ("einsum", "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2", [(2, 3, 4), (2, 3, 4)], {}),
    ("einsum", "... hidden1, hidden1 hidden2 -> ... hidden2", [(2, 3, 2, 4), (4, 4)], {}),
    ("einsum", "b h q d, b h k d -> b h q k", [(2, 3, 4, 5), (2, 3, 6, 5)], {}),
    ("einsum", "b h q k, b h k d -> b q h d", [(2, 3, 4, 6), (2, 3, 6, 5)], {}),
    ("einsum", "b g r q d, b g k d -> b g r q k", [(2, 2, 3, 4, 5), (2, 2, 6, 5)], {}),
    ("einsum", "b d, d k -> b k", [(4, 3), (3, 5)], {}),
    ("einsum", "b i, b j -> b i j", [(2, 3), (2, 4)], {}),  # outer product
    ("einsum", "b d, b d -> b", [(3, 4), (3, 4)], {}),  # row by row
    ("einsum", "b i, i j, b j -> b", [(3, 4), (4, 4), (3, 4)], {}),  # bilinear form
    ("einsum", "b s d, e d f -> b s e f", [(2, 3, 4), (2, 4, 5)], {}),  # every expert
    ("einsum", "n r, r d -> n d", [(6, 2), (2, 6)], {}),  # LoRA
    ("einsum", "b s d, d r, r k -> b s k", [(2, 8, 6), (6, 2), (2, 6)], {}),
    ("einsum", "i i -> i", [(4, 4)], {}),
    ("einsum", "i j -> j i", [(3, 4)], {}),
    ("einsum", "i j ->", [(3, 4)], {}),
    ("einsum", ", b -> b", [(), (3,)], {}),
    ("einsum", "u w, v h, u v x y -> w h x y", [(3, 2), (4, 2), (3, 4, 2, 3)], {}),
]


def explained(operation, pattern, shapes, sizes):
    return named_dims.explain(pattern, *shapes, operation_=operation, **sizes)


@pytest.mark.parametrize(("operation", "pattern", "shapes", "sizes", "shape"), DOCUMENTED)
def test_einops_documented_examples(operation, pattern, shapes, sizes, shape):
    done = explained(operation, pattern, shapes, sizes)
    assert done.output_shape == shape
    assert_as_einops(done, operation, pattern, shapes, sizes)


def test_there_are_enough_patterns_of_practice():
    assert len({case[1] for case in PRACTICE}) >= 60


@pytest.mark.parametrize(("operation", "pattern", "shapes", "sizes"), PRACTICE)
def test_patterns_of_practice(operation, pattern, shapes, sizes):
    assert_as_einops(explained(operation, pattern, shapes, sizes), operation, pattern, shapes, sizes)


def assert_as_einops(done, operation, pattern, shapes, sizes):
    inputs = [torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) for shape in shapes]
    if operation == "einsum":
        theirs = einops.einsum(*inputs, pattern)
    elif operation in ("rearrange", "repeat"):
        theirs = getattr(einops, operation)(*inputs, pattern, **sizes)
    else:
        theirs = einops.reduce(*inputs, pattern, operation, **sizes)
    ran = named_dims.execute(done)
    assert ran.agrees
    assert torch.equal(ran.values, theirs)
    by_plan = ran.step_values[-1] if done.steps else ran.inputs[0]
    torch.testing.assert_close(by_plan, theirs, rtol=1e-6 if operation == "einsum" else 0, atol=0)
    assert done.is_view == ran.shares_storage
    assert done.new_bytes == ran.new_bytes


@pytest.mark.parametrize(("operation", "pattern", "shapes", "sizes"), PRACTICE)
def test_the_torch_code_on_screen_is_the_code_that_ran(operation, pattern, shapes, sizes):
    """The text, run as Python, gives einops' values."""
    done = explained(operation, pattern, shapes, sizes)
    ran = named_dims.execute(done)
    names = dict(zip(named_dims.OPERAND_NAMES, named_dims.numbered(done.shapes), strict=False))
    exec(done.code, {}, names)
    last = done.steps[-1].target if done.steps else "x"
    torch.testing.assert_close(names[last], ran.values, rtol=1e-6, atol=0)
    scope = {"einsum": einops.einsum, "reduce": einops.reduce, "rearrange": einops.rearrange, "repeat": einops.repeat}
    tensors = dict(zip(named_dims.OPERAND_NAMES, named_dims.numbered(done.shapes), strict=False))
    assert torch.equal(eval(done.call, scope, tensors), ran.values)


# The lecture


def test_the_lectures_shapes():
    scores = named_dims.explain(
        "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2", (2, 3, 4), (2, 3, 4), operation_="einsum"
    )
    assert scores.output_shape == (2, 3, 3)
    assert scores.kept == ("batch", "seq1", "seq2")
    assert scores.gone == ("hidden",)
    assert scores.flops == scores.contraction.naive_flops == 144
    dots = "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2"
    assert named_dims.explain(dots, (2, 3, 4), (2, 3, 4), operation_="einsum").output_shape == (2, 3, 3)
    split = named_dims.explain("... (heads hidden1) -> ... heads hidden1", (2, 3, 8), heads=2)
    assert split.output_shape == (2, 3, 2, 4)
    assert dict(split.sizes)["hidden1"] == 4
    times_w = named_dims.explain(
        "... hidden1, hidden1 hidden2 -> ... hidden2", split.output_shape, (4, 4), operation_="einsum"
    )
    assert times_w.output_shape == (2, 3, 2, 4)
    merged = named_dims.explain("... heads hidden2 -> ... (heads hidden2)", times_w.output_shape)
    assert merged.output_shape == (2, 3, 8)
    assert split.is_view
    assert merged.is_view


def test_a_mean_is_not_a_sum():
    done = named_dims.compare_mean_and_sum("... hidden -> ...", (2, 3, 4))
    assert done.prediction.value == done.measurement.value == 4
    with pytest.raises(ValueError, match="nothing to add up"):
        named_dims.compare_mean_and_sum("a b -> a", (0, 3))
    for pattern, shape, n in (
        ("a b -> a", (1, 1), 1),
        ("a b -> b", (1, 3), 1),
        ("a b ->", (2, 3), 6),
        ("a -> a", (1,), 1),
    ):
        done = named_dims.compare_mean_and_sum(pattern, shape)
        assert done.prediction.value == done.measurement.value == n, (pattern, shape)


def test_an_operation_is_run_once_for_all_who_read_it(monkeypatch):
    done = named_dims.explain("batch (heads d) -> batch heads d", (3, 10), heads=5)
    ran = named_dims.executed(done)
    assert ran.agrees
    monkeypatch.setattr(sys.modules["core.named_dims.execute"], "call_einops", None)
    assert named_dims.compare_elements(done).measurement.value == 30
    assert named_dims.executed(done) is ran
    with pytest.raises(TypeError):
        named_dims.execute(done)  # everyone else's own tensors: these may be written to


def test_a_plan_that_gives_something_else_than_einops_is_seen(monkeypatch):
    done = named_dims.explain("a b -> b a", (2, 3))
    same = named_dims.call_einops
    monkeypatch.setattr(sys.modules["core.named_dims.execute"], "call_einops", lambda *of: same(*of).flip(0))
    assert not named_dims.execute(done).agrees
    monkeypatch.setattr(sys.modules["core.named_dims.execute"], "call_einops", lambda *of: same(*of)[:1])
    assert not named_dims.execute(done).agrees


def test_heads_first_or_last():
    one = named_dims.explain("(heads d) -> heads d", (8,), heads=2)
    other = named_dims.explain("(d heads) -> heads d", (8,), heads=2)
    assert one.output_shape == other.output_shape == (2, 4)
    assert named_dims.execute(one).values.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert named_dims.execute(other).values.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    done = named_dims.compare_orders("(heads d) -> heads d", "(d heads) -> heads d", (8,), heads=2)
    assert done.prediction.value == done.measurement.value == 2
    with pytest.raises(ValueError, match="where the shapes agree"):
        named_dims.compare_orders("(heads d) -> heads d", "(heads d) -> d heads", (8,), heads=2)


@pytest.mark.parametrize("function", [lessons.motivation, lessons.mean_and_sum, lessons.heads, lessons.order_matters])
def test_a_lesson_runs_and_fits_a_slide(function):
    ran = lesson.run(function)
    assert sum(step.holds for step in ran.steps) >= 3
    assert len(ran.lines) <= 25


# The plan


def test_the_plan_names_every_shape():
    done = named_dims.explain("b (h 2) (w 2) c -> c (w h)", (1, 4, 6, 3), operation_="sum")
    assert [(step.kind, step.shape) for step in done.steps] == [
        ("reshape", (1, 2, 2, 3, 2, 3)),
        ("permute", (3, 3, 2, 1, 2, 2)),
        ("sum", (3, 3, 2)),
        ("reshape", (3, 6)),
    ]
    assert done.flops == 72 - 18
    assert (done.read_bytes, done.written_bytes) == (4 * 72, 4 * 18)
    repeated = named_dims.explain("h w -> (h r) w", (2, 3), operation_="repeat", r=2)
    assert [step.kind for step in repeated.steps] == ["expand", "reshape"]
    assert repeated.steps[0].new_bytes == 0
    assert "repeats elements without storing them" in repeated.why_no_view
    swapped = named_dims.explain("a b c -> c (b a)", (2, 3, 4))
    assert swapped.why_no_view == "“b” and “a” do not lie one inside the other: b steps by 4, not 24"
    nothing = named_dims.explain("a b -> a b", (2, 3))
    assert nothing.steps == ()
    assert nothing.is_view
    assert nothing.code.startswith("x  # nothing")


def test_the_order_of_a_contraction():
    chain = named_dims.explain("a b, b c, c d -> a d", (2, 30), (30, 4), (4, 50), operation_="einsum").contraction
    assert chain.naive_flops == 2 * 30 * 4 * 50 * 3
    assert chain.flops == 2 * 2 * 30 * 4 + 2 * 2 * 4 * 50
    turned = named_dims.explain("a b, b c, c d -> a d", (50, 4), (4, 30), (30, 2), operation_="einsum").contraction
    assert turned.flops == 2 * 4 * 30 * 2 + 2 * 50 * 4 * 2
    assert turned.in_written_order_flops == 2 * 50 * 4 * 30 + 2 * 50 * 30 * 2
    assert [one.left + "·" + one.right for one in turned.products] == ["y·z", "x·yz"]


@pytest.mark.parametrize(
    ("operation", "pattern", "shapes", "sizes"), [case for case in PRACTICE if case[0] == "einsum"]
)
def test_naive_flops_are_opt_einsums(operation, pattern, shapes, sizes):
    done = explained(operation, pattern, shapes, sizes)
    letters = {key: chr(97 + index) for index, key in enumerate(dict(done.sizes))}
    words = ["".join(letters[key] for keys in dims for key in keys) for dims in (*done.inputs, done.output)]
    _path, info = opt_einsum.contract_path(f"{','.join(words[:-1])}->{words[-1]}", *shapes, shapes=True)
    if len(shapes) > 1:
        # Where nothing is summed, opt_einsum takes a batch axis for a sum.
        assert done.contraction.naive_flops == info.naive_cost or not done.gone
        assert done.contraction.flops <= info.opt_cost  # sums of one operand come first here, as in torch
        assert done.contraction.flops <= done.contraction.in_written_order_flops <= done.contraction.naive_flops
    else:
        assert done.contraction.products == ()


def test_flops_of_an_einsum_are_torchs_count():
    done = named_dims.explain("a b, b c, c d -> a d", (2, 30), (30, 4), (4, 50), operation_="einsum")
    comparison = named_dims.compare_einsum_flops(done)
    assert comparison.measurement.value == comparison.prediction.value == 1280
    assert comparison.prediction.formula == "480 + 800"
    outer = named_dims.explain("i, j -> i j", (2,), (3,), operation_="einsum")
    assert outer.flops == 6
    assert named_dims.compare_einsum_flops(outer).measurement.value == 0


def test_an_axis_of_one_is_repeated_by_einsum_and_said_so():
    done = named_dims.explain("i, i -> i", (1,), (3,), operation_="einsum")
    assert "torch repeats it without a word" in done.notes[0]
    assert [one.cells for one in named_dims.sources(done)] == [((0,), (0,)), ((0,), (1,)), ((0,), (2,))]
    assert "take another" in named_dims.explain("if b -> b if", (2, 3)).notes[0]
    assert named_dims.explain("a b -> a", (2, 0), operation_="mean").notes == ("a mean of nothing is NaN",)


# Refusals: pattern, shapes, operation, sizes, words, the marked place.
REFUSED = [
    ("a b", [(2, 3)], "rearrange", {}, "There is no ->", "a b"),
    ("", [(2,)], "rearrange", {}, "There is no ->", ""),
    ("a → a", [(2,)], "rearrange", {}, "“→” is not an arrow", "→"),
    ("a => a", [(2,)], "rearrange", {}, "“=>” is not an arrow", "=>"),
    ("a -> a -> a", [(2,)], "rearrange", {}, "a second ->", "->"),
    ("a b -> a", [(2, 3)], "rearrange", {}, "“b” is on the left only", "b"),
    ("a -> a new", [(2,)], "rearrange", {}, "“new” is on the right only", "new"),
    ("a -> a c", [(2,)], "sum", {}, "“c” is on the right only: reduce adds no axis", "c"),
    ("a b -> a", [(2, 3)], "repeat", {}, "“b” is on the left only: repeat drops no axis", "b"),
    ("a -> a c", [(2,)], "repeat", {}, "“c” is new: say how often to repeat, for example c=2", "c"),
    ("(a b) -> a b", [(7,)], "rearrange", {"a": 2}, "7 does not divide by a=2", "(a b)"),
    ("(a b) -> a b", [(7,)], "rearrange", {"a": 0}, "7 does not divide by a=0", "(a b)"),
    ("(a b) -> a b", [(6,)], "rearrange", {}, "The sizes of “a” and “b” cannot be told", "(a b)"),
    ("(a b) -> a b", [(6,)], "rearrange", {"a": 2, "b": 2}, "has size 6, and a=2 × b=2 is 4", "(a b)"),
    ("x a -> a x", [(2, 3)], "rearrange", {"a": 4}, "Dimension 1 of the input has size 3, and a=4", "a"),
    ("a 1 -> a", [(2, 3)], "rearrange", {}, "This dimension has size 3: 1 and ()", "1"),
    ("... a ... -> a", [(2, 3)], "sum", {}, "A second ...", "..."),
    (".. a -> a", [(2, 3)], "sum", {}, "Dots come in threes", ".."),
    ("a.... -> a", [(2, 3)], "sum", {}, "here are 4", "...."),
    ("a... -> ...", [(2, 3)], "sum", {}, "Put a space between ... and the name", "a..."),
    ("… a -> a", [(2, 3)], "sum", {}, "write three dots", "…"),
    ("a -> a ...", [(2,)], "rearrange", {}, "... is on the right only", "..."),
    ("(... a) -> a ...", [(6,)], "rearrange", {}, "inside parentheses on the left", "(... a)"),
    ("a (b c -> a b c", [(2, 6)], "rearrange", {"b": 2}, "never closed", "("),
    ("a b) -> a b", [(2, 6)], "rearrange", {}, "closes nothing", ")"),
    ("(a (b c)) -> a b c", [(6,)], "rearrange", {}, "Parentheses inside parentheses", "("),
    ("a a -> a", [(2, 2)], "rearrange", {}, "“a” is here twice", "a"),
    ("a b -> a b b", [(2, 2)], "rearrange", {}, "“b” is here twice", "b"),
    ("2d -> 2d", [(2,)], "rearrange", {}, "begins with a digit", "2d"),
    ("_a -> _a", [(2,)], "rearrange", {}, "underscore", "_a"),
    ("a² -> a²", [(2,)], "rearrange", {}, "is not a name", "a²"),
    ("a 2 -> a", [(2, 2)], "rearrange", {}, "give this axis of size 2 a name", "2"),
    ("a 0 -> a", [(2, 0)], "sum", {}, "An axis of size 0", "0"),
    ("a-b -> a", [(2, 0)], "sum", {}, "“-” cannot stand in a pattern", "-"),
    ("a\tb -> a", [(2, 0)], "sum", {}, "another blank character", "\t"),
    ("a, b -> a b", [(2, 3)], "rearrange", {}, "A comma separates the operands", ","),
    ("a b c -> a", [(2, 3)], "sum", {}, "names 3 dimensions, the tensor has 2", "a b c"),
    ("a b c ... -> a", [(2, 3)], "sum", {}, "beside ..., the tensor has only 2", "a b c ..."),
    ("a b -> b a", [(2, 3)], "rearrange", {"c": 2}, "c is given a size and is not in the pattern", ""),
    ("a b -> b a", [(2, 3), (2, 3)], "rearrange", {}, "2 tensors for a pattern of 1", "a b "),
    ("a, a -> a", [(2,)], "einsum", {}, "1 tensors for a pattern of 2", "a, a "),
    ("a b, b c -> a d", [(2, 3), (3, 4)], "einsum", {}, "“d” is on the right only: no operand has", "d"),
    ("a b, b c -> a c", [(2, 3), (4, 5)], "einsum", {}, "“b” is 3 before and 4 in operand 2", "b"),
    ("a a -> a", [(2, 3)], "einsum", {}, "a diagonal is square", "a"),
    ("a -> a a", [(2,)], "einsum", {}, "“a” is here twice", "a"),
    ("(a b) -> a", [(6,)], "einsum", {}, "does not split or merge axes", "(a b)"),
    ("a 1 -> a", [(6, 1)], "einsum", {}, "no axis of size 1 without a name", "1"),
    ("a 3 -> a", [(6, 3)], "einsum", {}, "names, not numbers", "3"),
    ("(...) -> ...", [(6,)], "einsum", {}, "without parentheses", "(...)"),
    ("a b -> a", [(2, 3)], "einsum", {"a": 2}, "takes its sizes from the shapes", ""),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "shapes", "operation", "sizes", "words", "place"), REFUSED)
def test_a_refusal_says_why_and_marks_the_place(pattern, shapes, operation, sizes, words, place):
    with pytest.raises(named_dims.PatternError) as refused:
        explained(operation, pattern, shapes, sizes)
    assert words in str(refused.value)
    assert pattern[refused.value.start : refused.value.end] == place
    marks = [line for line in refused.value.marked.splitlines()[1:] if line.strip()]
    assert (marks == []) == (place == "")
    if place:
        assert marks[0].count("^") == len(place)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.message, again.start, again.end) == (refused.value.message, refused.value.start, refused.value.end)
    says = named_dims.einops_says(operation, pattern, shapes, sizes)
    assert says or "…" in pattern or "(...)" in pattern  # where einops takes one axis of that name


def test_the_second_of_two_equal_names_is_marked():
    with pytest.raises(named_dims.PatternError) as refused:
        named_dims.explain("a b a -> b", (2, 3, 2))
    assert refused.value.marked == "a b a -> b\n    ^"


@pytest.mark.parametrize(
    ("pattern", "shape", "operation", "sizes", "words"),
    [
        (" ".join(f"a{n}" for n in range(200_000)) + " ->", (2,), "sum", {}, "has 1,488,892 characters; at most 200"),
        ("a" * 201, (2,), "rearrange", {}, "has 201 characters"),
        (" ".join("abcdefghijklmnopqrstuvwxyz") + " ->", (1,) * 26, "sum", {}, "26 axes for one tensor"),
        ("h w -> h w c", (40, 40), "repeat", {"c": 1_000_000}, "1,600,000,000 elements, 6.40 GB in fp32"),
        ("h -> h c", (40,), "repeat", {"c": 10**30}, "c must be a whole number from 0 to 1,048,576"),
        ("h -> h c", (40,), "repeat", {"c": -1}, "received -1"),
        ("h -> h c", (40,), "repeat", {"c": 2.5}, "received 2.5"),
        ("h -> h c", (40,), "repeat", {"c": math.nan}, "received nan"),
        ("h -> h c", (40,), "repeat", {"c": True}, "received True"),
        ("h -> h", (2**21,), "rearrange", {}, "would hold 2,097,152 elements, 8.39 MB"),
        ("h -> h", (-1,), "rearrange", {}, "received -1"),
        ("h -> h", (math.inf,), "rearrange", {}, "received inf"),
        ("h -> h", ("3",), "rearrange", {}, "received '3'"),
        ("...-> ...", (1,) * 17, "rearrange", {}, "17 dimensions; at most 16"),
        ("a b -> b", (0, 3), "max", {}, "there is no max of nothing"),
        ("a, b -> a b", (2000,), "einsum", {}, "1 tensors"),
        (3, (2,), "rearrange", {}, "a pattern is a text"),
        ("a -> a", (2,), "median", {}, "operation_ must be one of"),
        ("a -> a", ([2],), "rearrange", {}, "shapes and sizes are whole numbers"),
    ],
)  # fmt: skip
def test_what_is_too_much_or_no_number_is_refused_at_once(pattern, shape, operation, sizes, words):
    with pytest.raises(ValueError, match=".") as refused:
        named_dims.explain(pattern, shape, operation_=operation, **sizes)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


def test_refusals_allocate_nothing_and_ask_einops_nothing_long():
    started = time.process_time()
    assert "not asked" in named_dims.einops_says("sum", "a " * 200_000, [(2,)], {})
    assert "not asked" in named_dims.einops_says("sum", "a -> a", [(1,) * 70], {})
    with pytest.raises(ValueError, match="the result .* would hold"):
        named_dims.explain("a, b -> a b", (2000,), (2000,), operation_="einsum")
    with pytest.raises(ValueError, match="FLOPs; at most"):
        named_dims.explain("a b, b c -> a c", (1024, 1024), (1024, 1024), operation_="einsum")
    assert time.process_time() - started < 30  # of processor time: nothing of that size was ever built


def test_an_axis_may_have_any_name_even_ours():
    done = named_dims.explain("(operation pattern) -> operation pattern", (6,), operation=2)
    assert done.output_shape == (2, 3)
    assert named_dims.explain("shapes -> shapes pattern", (2,), operation_="repeat", pattern=3).output_shape == (2, 3)


def test_digits_of_any_script_are_digits():
    assert named_dims.explain("(a ２) -> a", (6,), operation_="sum").output_shape == (3,)
    assert named_dims.read_shapes("(２, ٣)") == ((2, 3),)


def test_tensors_of_nothing_and_without_dimensions():
    assert named_dims.explain("->", ()).output_shape == ()
    assert named_dims.explain("-> 1 1", ()).output_shape == (1, 1)
    empty = named_dims.explain("a b -> (b a)", (0, 3))
    assert empty.output_shape == (0,)
    assert named_dims.execute(empty).agrees
    assert named_dims.sources(empty) == ()
    summed = named_dims.explain("a b -> b", (0, 3), operation_="sum")
    assert [one.cells for one in named_dims.sources(summed)] == [((),), ((),), ((),)]


def test_sources_are_limited():
    done = named_dims.explain("a b, b c -> a c", (40, 40), (40, 40), operation_="einsum")
    assert named_dims.number_of_sources(done) == 2 * 40**3
    with pytest.raises(ValueError, match="128,000 links"):
        named_dims.sources(done)


def test_limits_of_names_and_letters_hold():
    assert len(contraction.OPERAND_NAMES) == parse.MAX_OPERANDS
    with pytest.raises(named_dims.PatternError, match="7 operands"):
        named_dims.explain(",".join("abcdefg") + "->", *[(1,)] * 7, operation_="einsum")
    solved = solve_einsum(parse.parse("a b -> a", "einsum"), [(2, 3)], {})
    assert solved.sizes == {"a": 2, "b": 3}


# pack, unpack, parse_shape


def test_pack_and_unpack_of_the_documentation():
    packed = named_dims.explain_pack("i j * k", (2, 3, 5), (2, 3, 7, 5), (2, 3, 7, 9, 5))
    assert packed.shape == (2, 3, 71, 5)
    assert packed.packed_shapes == ((), (7,), (7, 9))
    assert packed.names == (("i", 2), ("j", 3), ("k", 5))
    back = named_dims.explain_unpack("i j * k", packed.shape, packed.packed_shapes)
    assert back.shapes == packed.shapes
    assert back.code.splitlines()[1] == "x1 = packed[:, :, 1:8].reshape(2, 3, 7, 5)"
    names = {"torch": torch, **{f"x{index}": one for index, one in enumerate(named_dims.numbered(packed.shapes))}}
    exec(packed.code, {}, names)
    assert torch.equal(names["packed"], einops.pack(list(named_dims.numbered(packed.shapes)), "i j * k")[0])
    comparison = named_dims.compare_packed_bytes(packed)
    assert comparison.prediction.value == comparison.measurement.value == 4 * 2 * 3 * 71 * 5


@pytest.mark.parametrize(
    ("pattern", "shapes", "words"),
    [
        ("a b", [(2, 3)], "There is no \\*"),
        ("a * *", [(2, 3)], "stands twice"),
        ("a a *", [(2, 3)], "“a” stands twice"),
        ("a* b", [(2, 3)], "space between \\* and"),
        ("1 *", [(2, 3)], "begins with a digit"),
        ("a *", [(2, 3), (3, 3)], "“a” is 2 in tensor 0 and 3 in tensor 1"),
        ("a b *", [(2,)], "tensor 0 has 1 dimensions; the pattern names 2"),
        ("a *", [(0, 3)], "cannot be told"),
        ("*", [], "1 to 8 tensors"),
        ("*", [(2,)] * 9, "received 9"),
        ("*", [(2**20,), (1,)], "1,048,577 elements"),
        ("a " * 200 + "*", [(2,)], "at most 200"),
    ],
)
def test_a_pack_that_cannot_be(pattern, shapes, words):
    with pytest.raises(ValueError, match=words):
        named_dims.explain_pack(pattern, *shapes)


@pytest.mark.parametrize(
    ("shape", "wanted", "words"),
    [
        ((2, 5), [(2,), (2,)], "hold 4 along \\*, the tensor has 5"),
        ((2, 5), [(-1,), (-1,)], "it can stand once"),
        ((2, 5), [(-1, 2)], "5, does not divide by 2"),
        ((2,), [(2,)], "has 1 dimensions; the pattern names 2"),
        ((2, 5), [], "1 to 8 shapes"),
        ((2, 5), [(-2,)], "from -1"),
    ],
)
def test_an_unpack_that_cannot_be(shape, wanted, words):
    with pytest.raises(ValueError, match=words):
        named_dims.explain_unpack("i *", shape, wanted)


def test_what_einops_hands_out_twice_is_refused():
    pieces = einops.unpack(torch.arange(1), [(), (-1,), ()], "*")
    assert [one.tolist() for one in pieces] == [0, [], 0]  # one element, handed out twice
    with pytest.raises(ValueError, match="hold 2 along \\*, the tensor has 1"):
        named_dims.explain_unpack("*", (1,), [(), (-1,), ()])


def test_parse_shape_says_what_does_not_fit():
    assert named_dims.parse_shape("b ... w", (2, 3, 5, 7)) == {"b": 2, "w": 7}
    for pattern, words in [("a b", "names 2 dimensions, the tensor has 3"), ("a (b c) d", "no parentheses"),
                           ("a 2 c", "has size 3, not 2"), ("a a b", "twice")]:  # fmt: skip
        with pytest.raises(named_dims.PatternError, match=words):
            named_dims.parse_shape(pattern, (2, 3, 4))


# What is typed


def test_shapes_and_sizes_as_they_are_typed():
    for text in ("(2, 3, 4)", "2 3 4", "2,3,4", "2×3×4", "[2, 3, 4]", " ( 2,3 , 4, ) "):
        assert named_dims.read_shapes(text) == ((2, 3, 4),)
    assert named_dims.read_shapes("(), (7,), (7, 9)") == ((), (7,), (7, 9))
    assert named_dims.read_shapes("(-1, 2)", minus_one=True) == ((-1, 2),)
    assert named_dims.read_sizes("") == {}
    assert named_dims.read_sizes("a=1 b = 2, c=3") == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "are empty; write for example"),
        ("   ", "are empty"),
        ("2;;3", "write \\(\\) for a tensor without dimensions"),
        ("(2, 3", "not a list of shapes"),
        ("(2) 3", "not a list of shapes"),
        ("(-1,)", "'-1' in '-1,' is no size"),
        ("2.5", "'2.5' in"),
        ("nan", "'nan' in"),
        ("1e9", "'1e9' in"),
        ("²", "is no size"),
        ("9" * 20, "a size of 20 digits"),
        ("1 " * 90, "90 dimensions; at most 16"),
        ("1 " * 150, "have 300 characters"),
        ("1;" * 8 + "1", "9 shapes; at most 6"),
        ("import os", "'import' in"),
    ],
)
def test_a_shape_that_is_none(text, words):
    with pytest.raises(ValueError, match=words):
        named_dims.read_shapes(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a", "is no size; write name=number"), ("=3", "is no size"), ("a=", "is no size"), ("a=x", "'x' in 'a=x'"),
     ("a=1 a=2", "a is given twice"), ("a=-1", "'-1' in"), ("a=" + "9" * 30, "30 digits"), ("a=1 " * 100, "400 char")],
)  # fmt: skip
def test_a_size_that_is_none(text, words):
    with pytest.raises(ValueError, match=words):
        named_dims.read_sizes(text)


# jaxtyping


def test_the_annotation_alone_checks_nothing():
    done = named_dims.check_annotations("loss", [(8, 1), (8,)])
    assert done.annotated_only.shape == ()
    assert done.annotated_only.error == ""
    assert done.with_checker.shape is None
    assert "Actual value: f32[8,1](torch)" in done.with_checker.error
    assert "Expected type: <class 'Float[Tensor, 'batch']'>" in done.with_checker.error
    assert "Called with" not in done.with_checker.error
    torn = named_dims.check_annotations("loss", [(8,), (4,)])
    assert "RuntimeError" in torn.annotated_only.error
    assert "batch=8" in torn.with_checker.error


@pytest.mark.parametrize("name", named_dims.EXAMPLES)
def test_each_example_passes_with_its_right_shapes_and_only_the_checker_sees_the_wrong_ones(name):
    example = named_dims.annotated_example(name)
    assert f"def annotated_{name}" in example.source
    right = named_dims.check_annotations(name, example.right_shapes)
    assert right.annotated_only == right.with_checker
    assert right.annotated_only.error == ""
    wrong = named_dims.check_annotations(name, example.wrong_shapes)
    assert wrong.annotated_only.error == ""
    assert wrong.with_checker.error.startswith("TypeCheckError: Type-check error whilst checking the ")


def test_annotations_refuse_what_is_too_large():
    with pytest.raises(ValueError, match="broadcast, .* would hold"):
        named_dims.check_annotations("loss", [(4096, 1), (4096,)])
    with pytest.raises(ValueError, match="loss takes 2 tensors; received 1"):
        named_dims.check_annotations("loss", [(8,)])
    with pytest.raises(ValueError, match="name must be one of"):
        named_dims.check_annotations("__import__", [(8,)])


@pytest.mark.parametrize("text", ["x", "×", ",", "(2), (,)", "(" * 200, "(2,(3", "(２,²)"])
def test_texts_that_hold_no_sizes_are_no_shapes(text):
    with pytest.raises(ValueError, match=r"is no shape|is not a list of shapes|is no size") as refused:
        named_dims.read_shapes(text)
    assert len(str(refused.value)) < 140


def test_torchs_own_words_about_an_einsum_and_an_annotated_call():
    says = named_dims.einops_says("einsum", "a b, b c -> a c", [(2, 3), (4, 5)], {})
    assert says.startswith("RuntimeError")
    assert "size" in says
    checked = named_dims.check_annotations("scores", [(8,), (8,)])
    assert checked.annotated_only.error.startswith("IndexError: Dimension out of range")
    assert checked.with_checker.error.startswith("TypeCheckError")


@pytest.mark.parametrize(
    ("pattern", "shapes", "formula"),
    [
        ("i j m, j k -> i k", ((2, 3, 4), (3, 5)), "2 · 2 · 5 · 3"),  # m is of one operand alone: summed before
        ("b s1 h, b s2 h -> b s1 s2", ((2, 3, 4), (2, 3, 4)), "2 · 2 · 3 · 3 · 4"),
        ("i j, j k -> i k", ((2, 3), (3, 5)), "2 · 2 · 5 · 3"),
        ("a i j, i j k -> a k", ((2, 3, 4), (3, 4, 5)), "2 · 2 · 5 · 3 · 4"),
    ],
)
def test_the_formula_of_an_einsum_gives_its_flops(pattern, shapes, formula):
    done = named_dims.compare_einsum_flops(named_dims.explain(pattern, *shapes, operation_="einsum"))
    assert done.prediction.formula == formula
    assert done.prediction.value == math.prod(map(int, formula.split(" · "))) == done.measurement.value


def test_a_size_of_0_leaves_minus_one_open():
    with pytest.raises(ValueError, match="cannot be solved beside a size of 0"):
        named_dims.explain_unpack("a *", (0, 4), ((-1,), (2,)))
