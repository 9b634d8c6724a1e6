"""FLOPs of a Transformer against torch's count of real ones, published totals, and arithmetic done by hand."""

import dataclasses
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.flops import rules
from core.flops import transformer as tf
from core.flops.counter import count_flops, count_flops_detail
from core.flops.reference_block import ReferenceTransformer, count_reference_flops, training_step
from core.flops.transformer import PRESETS, TransformerShape

GPT2, GPT2_XL, ASSIGNMENT = PRESETS["GPT-2 small"], PRESETS["GPT-2 XL"], PRESETS["CS336 assignment 1, GPT-2 XL's shape"]


@st.composite
def shapes(draw):
    kv_heads, group, half_head = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = kv_heads * group
    own_head_dim = draw(st.booleans())
    return TransformerShape(
        "random",
        num_layers=draw(st.integers(1, 3)),
        d_model=draw(st.integers(1, 12)) if own_head_dim else heads * 2 * half_head,
        num_heads=heads,
        d_ff=draw(st.integers(1, 20)),
        vocab_size=draw(st.integers(2, 30)),
        num_kv_heads=kv_heads,
        head_dim=2 * half_head if own_head_dim else None,
        gated_mlp=draw(st.booleans()),
        tied_head=draw(st.booleans()),
        learned_positions=draw(st.sampled_from([0, 16])),
        bias=draw(st.booleans()),
        qkv_bias=draw(st.sampled_from([None, True, False])),
        norm_bias=draw(st.booleans()),
    )


@settings(max_examples=12)
@given(shapes(), st.integers(1, 3), st.integers(1, 9), st.sampled_from(tf.ATTENTIONS), st.booleans())
def test_the_napkin_is_what_torch_runs_on_real_tensors(shape, batch_size, seq_len, attention, backward):
    model = ReferenceTransformer(shape, attention)
    tokens = torch.randint(shape.vocab_size, (batch_size, seq_len))
    counted = count_flops(training_step, model, tokens, backward)
    flops = tf.transformer_flops(shape, batch_size, seq_len, backward=backward)
    assert flops.total_flops == counted
    assert flops.backward_flops == (2 * flops.forward_flops if backward else 0)
    assert flops.per_token * batch_size * seq_len == flops.total_flops
    assert shape.num_params == sum(one.numel() for one in model.parameters())
    assert all(one.grad is not None for one in model.parameters()) == backward


@settings(max_examples=4)
@given(shapes(), st.integers(1, 2), st.integers(1, 9), st.sampled_from(tf.ATTENTIONS))
def test_the_comparison_without_data_and_extended_in_depth_is_the_same(shape, batch_size, seq_len, attention):
    comparison = tf.compare_transformer_flops(shape, batch_size, seq_len, attention)
    assert (comparison.difference, comparison.unexplained) == (0, 0)
    real = count_flops_detail(
        training_step, ReferenceTransformer(shape, attention), torch.zeros(batch_size, seq_len, dtype=torch.int64)
    )
    extended = count_reference_flops(shape, batch_size, seq_len, attention)
    assert (extended.total, extended.by_operator) == (real.total, real.by_operator)
    assert extended.recomputed_flops == real.recomputed_flops


@pytest.mark.parametrize("seq_len", [1, 5])
def test_each_component_is_what_its_modules_run(seq_len):
    shape = TransformerShape("Llama's", 1, d_model=64, num_heads=8, d_ff=48, vocab_size=100, num_kv_heads=2)
    model = ReferenceTransformer(shape, "sdpa")
    count = count_flops_detail(training_step, model, torch.zeros(2, seq_len, dtype=torch.int64), False)
    parts = {one.key: one.forward_flops for one in tf.transformer_flops(shape, 2, seq_len).components}
    attention, name = "ReferenceTransformer.attentions.0", "ReferenceTransformer"
    assert sum(count.by_module[f"{attention}.{one}"] for one in "qkv") == parts["qkv"]
    assert count.by_module[f"{attention}.output"] == parts["output"]
    assert count.by_module[f"{name}.mlps.0"] == parts["feed_forward"]
    assert count.by_module[f"{name}.head"] == parts["head"]
    fused = count.by_operator["_scaled_dot_product_flash_attention_for_cpu"]
    assert fused == parts["scores"] + parts["weighted_sum"]


def test_a_frozen_embedding_saves_nothing_because_the_norms_are_trained():
    shape = TransformerShape("GPT-2's", 2, 16, 2, 32, 50, gated_mlp=False, learned_positions=16, norm_bias=True)
    model, tokens = ReferenceTransformer(shape, "eager"), torch.zeros(1, 6, dtype=torch.int64)
    model.embedding.requires_grad_(False)
    model.positions.requires_grad_(False)
    assert count_flops(training_step, model, tokens) == tf.transformer_flops(shape, 1, 6).total_flops


@pytest.mark.parametrize(
    ("name", "num_params"),
    [
        ("GPT-2 small", 124_439_808),
        ("GPT-2 medium", 354_823_168),
        ("GPT-2 large", 774_030_080),
        ("GPT-2 XL", 1_557_611_200),
        ("CS336 assignment 1, GPT-2 XL's shape", 2_127_057_600),
        ("Llama 2 7B", 6_738_415_616),
        ("Llama 2 13B", 13_015_864_320),
        ("Llama 2 70B", 68_976_648_192),
        ("Llama 3 8B", 8_030_261_248),
        ("Llama 3 70B", 70_553_706_496),
    ],
)
def test_published_models_have_their_published_parameters(name, num_params):
    shape = PRESETS[name]
    assert shape.num_params == num_params
    assert shape.source
    with torch.device("meta"):
        model = ReferenceTransformer(dataclasses.replace(shape, num_layers=1))
    one_layer = sum(one.numel() for one in model.parameters())
    assert one_layer + (shape.num_layers - 1) * shape.num_layer_params == num_params


def test_the_presets_are_in_the_table_under_their_names():
    assert len(PRESETS) == 10
    assert all(name == shape.name for name, shape in PRESETS.items())


def test_gpt2_small_trains_at_8_749e11_flops_per_sequence():
    by_hand = 12 * (24 * 1024 * 768**2 + 4 * 1024**2 * 768) + 2 * 1024 * 768 * 50257
    flops = tf.transformer_flops(GPT2, 1, 1024)
    assert flops.forward_flops == by_hand == 291_648_307_200
    assert flops.total_flops == 874_944_921_600
    assert f"{flops.total_flops:.4g}" == "8.749e+11"
    # A fused attention on the CPU, which torch's own counter does not see, is this much of it.
    assert round(flops.attention_share, 3) == 0.133


def test_rules_of_thumb_on_gpt2_small():
    exact = tf.transformer_flops(GPT2, 1, 1024).total_flops
    assert round(rules.six_nd(GPT2, 1024) / exact - 1, 3) == -0.126
    assert round(1024 * rules.palm_flops_per_token(GPT2, 1024) / exact - 1, 4) == 0.0064
    positions = 6 * 1024 * 768  # without the learned positions, which multiply nothing
    assert round(1024 * (rules.palm_flops_per_token(GPT2, 1024) - positions) / exact - 1, 3) == 0.001
    assert rules.six_nd(GPT2, 1024, non_embedding=True) == 6 * 1024 * (124_439_808 - (50257 + 1024) * 768)


def test_palms_rule_is_exact_but_for_norms_biases_and_embeddings():
    shape = dataclasses.replace(PRESETS["Llama 3 8B"], num_layers=3)
    multiplying = shape.num_params - shape.num_embedding_params - (2 * 3 + 1) * 4096
    exact = tf.transformer_flops(shape, 1, 512).per_token
    assert rules.palm_flops_per_token(shape, 512) - 6 * (shape.num_params - multiplying) == exact


def test_assignment_1_forward_of_gpt2_xls_shape():
    """The matrix multiplies one by one: (rows, inner, columns, how often)."""
    t, d, ff, heads, head = 1024, 1600, 6400, 25, 64
    products = [
        *[(t, d, d, 48)] * 4,  # q, k, v, output
        (t, head, t, 48 * heads),
        (t, t, head, 48 * heads),
        *[(t, d, ff, 48)] * 2,
        (t, ff, d, 48),
        (t, d, 50257, 1),
    ]
    by_hand = sum(2 * rows * inner * columns * often for rows, inner, columns, often in products)
    flops = tf.transformer_flops(ASSIGNMENT, 1, 1024, backward=False)
    assert flops.total_flops == by_hand == 4_513_336_524_800
    shares = flops.shares
    assert max(shares, key=shares.get) == "feed_forward"
    assert round(shares["feed_forward"], 3) == 0.669
    assert sum(shares.values()) == pytest.approx(1)


def test_attention_takes_over_as_the_context_grows():
    lengths = (1024, 4096, 16_384, 131_072)
    rows = tf.attention_share(ASSIGNMENT, lengths)
    assert [row.seq_len for row in rows] == list(lengths)
    assert [row.attention for row in rows] == sorted(row.attention for row in rows)
    at_16k = rows[2]
    assert at_16k.attention == at_16k.shares["scores"] + at_16k.shares["weighted_sum"]
    linear = 48 * (8 * 1600**2 + 6 * 1600 * 6400) + 2 * 1600 * 50257
    quadratic = 48 * 4 * 16_384 * 1600
    assert at_16k.attention == pytest.approx(float(Fraction(quadratic, linear + quadratic)))
    assert tf.transformer_flops(ASSIGNMENT, 1, 16_384, backward=False).total_flops == 16_384 * (linear + quadratic)
    assert at_16k.per_token == 3 * (linear + quadratic)


@given(shapes(), st.integers(1, 3), st.integers(1, 50))
def test_half_of_causal_attention_is_the_pairs_that_the_mask_leaves(shape, batch_size, seq_len):
    full, half = (tf.transformer_flops(shape, batch_size, seq_len, causal_half=one) for one in (False, True))
    kept = int(torch.ones(seq_len, seq_len).tril().sum())
    for whole, part in zip(full.components, half.components, strict=True):
        if whole.key in ("scores", "weighted_sum"):
            assert part.total_flops * seq_len**2 == whole.total_flops * kept
        else:
            assert part == whole


@given(shapes(), st.integers(1, 4), st.integers(1, 60), st.booleans(), st.booleans())
def test_the_formulas_shown_give_the_numbers_shown(shape, batch_size, seq_len, causal_half, backward):
    def value(formula):
        product = 1
        text = formula.replace(",", "").replace("²", "**2").replace("·", "*")
        numerator, _, denominator = text.partition("/2")
        for factor in [one.strip() for one in numerator.replace(denominator, "").split(" * ")]:
            assert set(factor) <= set("0123456789*+() ")
            product *= eval(factor)  # the formula's own digits
        if denominator:
            for factor in [one.strip() for one in denominator.split(" * ") if one.strip()]:
                product *= eval(factor)
            product //= 2
        return product

    flops = tf.transformer_flops(shape, batch_size, seq_len, causal_half=causal_half)
    for one in flops.components:
        assert value(one.formula) == one.forward_flops, one.formula
    prediction = tf.predict_transformer_flops(shape, batch_size, seq_len, causal_half=causal_half, backward=backward)
    assert prediction.value == sum(term.value for term in prediction.terms)
    assert eval(prediction.formula.replace(",", "").replace("·", "*")) == prediction.value


def test_the_comparison_says_how_it_was_counted():
    comparison = tf.compare_transformer_flops(GPT2, 1, 1024)
    assert comparison.ratio == 1
    text = comparison.measurement.conditions.text
    again = 12 * 2 * 1024**2 * 768  # QKᵀ in every layer
    for part in ("tensors without data", "sdpa attention", "extended to 12", f"{again:,}", torch.__version__):
        assert part in text
    eager = tf.compare_transformer_flops(GPT2, 1, 1024, "eager", backward=False)
    assert eager.difference == 0
    assert "again" not in eager.measurement.conditions.text


def test_many_can_compare_at_once():
    names = ["GPT-2 small", "Llama 2 7B", "Llama 3 70B", "GPT-2 XL"]
    with ThreadPoolExecutor(4) as pool:
        comparisons = list(pool.map(lambda name: tf.compare_transformer_flops(PRESETS[name], 1, 64), names))
    assert [one.difference for one in comparisons] == [0, 0, 0, 0]


def test_a_70b_model_is_compared_without_its_memory():
    tf.compare_transformer_flops(GPT2, 1, 8)  # imports
    start = time.perf_counter()
    comparison = tf.compare_transformer_flops(PRESETS["Llama 3 70B"], 4, 131_072)
    assert comparison.difference == 0
    assert time.perf_counter() - start < 30, "far more than two layers ran"


def test_a_context_beyond_the_learned_positions_is_counted():
    assert tf.compare_transformer_flops(GPT2_XL, 1, 16_384, "eager").difference == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "multiple of num_heads, or head_dim given; received 64 and 5"),
        ({"num_kv_heads": 3}, "must divide num_heads 4: one of 1, 2, 4; received 3"),
        ({"num_kv_heads": 8}, "num_kv_heads must be a whole number from 1 to 4; received 8"),
        ({"num_layers": 0}, "num_layers must be a whole number from 1 to 16,777,216; received 0"),
        ({"d_model": 2.5}, "d_model must be a whole number"),
        ({"d_ff": True}, "d_ff must be a whole number"),
        ({"vocab_size": -1}, "received -1"),
        ({"head_dim": 0}, "head_dim must be a whole number"),
        ({"learned_positions": -1}, "learned_positions must be a whole number"),
    ],
)
def test_impossible_shapes_are_refused_with_what_would_be_right(change, message):
    right = {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_ff": 128, "vocab_size": 100}
    TransformerShape("right", **right)
    with pytest.raises(ValueError, match=message):
        TransformerShape("wrong", **{**right, **change})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.transformer_flops(GPT2, 0, 1024), "B must be a whole number from 1"),
        (lambda: tf.transformer_flops(GPT2, 1, 1.5), "T must be a whole number from 1 to 16,777,216; received 1.5"),
        (lambda: rules.palm_flops_per_token(GPT2, -1), "T must be a whole number"),
        (lambda: rules.six_nd(GPT2, 0), "number of tokens must be a whole number"),
        (lambda: tf.attention_share(GPT2, [1024, "long"]), "T must be a whole number"),
        (lambda: tf.compare_transformer_flops(GPT2, 1, 8, "flash"), "attention must be one of sdpa, eager"),
        (lambda: tf.compare_transformer_flops(GPT2, 2**24, 2**24), "make either smaller"),
        (lambda: tf.compare_transformer_flops(dataclasses.replace(ASSIGNMENT, head_dim=3), 1, 8), "must be even"),
    ],
)
def test_what_cannot_be_counted_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_who_halves_is_said_with_a_source():
    halves = {one.who for one in tf.CAUSAL_CONVENTIONS if one.halves}
    assert halves == {"Megatron-LM, the code", "FlashAttention"}
    assert all(one.source and one.formula for one in tf.CAUSAL_CONVENTIONS)


def test_the_napkin_needs_no_torch():
    code = (
        "import sys, core.flops.transformer as tf, core.flops.counter\n"
        "tf.predict_transformer_flops(tf.PRESETS['GPT-2 small'], 1, 1024)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", tf.PRESETS)
def test_what_6nd_leaves_out_is_named_to_the_last_flop(name):
    comparison = rules.compare_six_nd(tf.PRESETS[name], 2, 2048)
    assert comparison.unexplained == 0
    assert comparison.measurement.value == tf.transformer_flops(tf.PRESETS[name], 2, 2048).total_flops
    parts = {part.name: part.value for part in comparison.parts}
    assert parts["attention"] > 0
    assert ("embedding" in parts) != tf.PRESETS[name].tied_head


def test_the_share_of_attention_is_that_of_its_components():
    shape = tf.PRESETS["GPT-2 XL"]
    assert tf.predict_attention_share(shape, 1, 16384).value == pytest.approx(
        100 * tf.attention_share(shape, [16384])[0].attention
    )
    half = tf.predict_attention_share(shape, 1, 16384, causal_half=True).value
    assert half < tf.predict_attention_share(shape, 1, 16384).value
