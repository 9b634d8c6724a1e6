"""The lecture's networks and the Transformer's layers, each against an independent formula; sizes refused in words."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from core import models
from core.models import PRESETS, TransformerConfig, TransformerLM

GPT2_STYLE = {"gated_mlp": False, "tied_head": True, "learned_positions": 32, "bias": True, "norm_bias": True}


def tiny(**fields):
    return TransformerConfig(
        "tiny", **{"num_layers": 3, "d_model": 48, "num_heads": 6, "d_ff": 80, "vocab_size": 101} | fields
    )


STYLES = {
    "gpt2": tiny(**GPT2_STYLE),
    "llama": tiny(num_kv_heads=2),
    "qwen3": tiny(num_kv_heads=2, head_dim=16, qk_norm=True, tied_head=True),
    "qwen2": tiny(qkv_bias=True, num_kv_heads=3),
    "rotary gpt2": tiny(gated_mlp=False, bias=True, norm_bias=True, activation="relu"),
}


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_lectures_cruncher():
    cruncher = models.Cruncher(dim=64, num_layers=2)
    assert count(cruncher) == 4096 + 4096 + 64 == models.cruncher_parameters(64, 2) == 8256
    assert [one.numel for one in models.list_parameters(cruncher)] == [4096, 4096, 64]
    assert sum(one.num_bytes for one in models.list_parameters(cruncher)) == 4 * 8256
    assert cruncher(torch.randn(8, 64)).shape == (8,)
    assert count(models.Cruncher(dim=4, num_layers=2)) == 36
    comparison = models.compare_cruncher_parameters(64, 2)
    assert comparison.difference == 0
    assert [term.value for term in comparison.prediction.terms] == [8192, 64]


def test_the_cruncher_is_a_product_of_matrices_that_start_as_randn_over_the_root():
    torch.manual_seed(0)
    cruncher = models.Cruncher(dim=256, num_layers=3)
    x = torch.randn(5, 256)
    first, second, third, head = (p.T for p in cruncher.parameters())
    torch.testing.assert_close(cruncher(x), (x @ first @ second @ third @ head)[:, 0])
    assert first.std().item() * 16 == pytest.approx(1, rel=0.02)
    assert 0.8 < cruncher(torch.randn(4096, 256)).std() < 1.25
    assert not [name for name, _p in cruncher.named_parameters() if "bias" in name]


def test_the_deep_network_has_a_relu_after_each_matrix():
    network = models.DeepNetwork(dim=16, num_layers=4)
    assert count(network) == 4 * 256
    x = torch.randn(8, 16)
    expected = x
    for p in network.parameters():
        expected = (expected @ p.T).clamp(min=0)
    torch.testing.assert_close(network(x), expected)
    assert (network(x) >= 0).all()
    assert (models.DeepNetwork(16, 4, relu=False)(x) < 0).any()


@pytest.mark.parametrize("build", [models.Cruncher, models.DeepNetwork])
@pytest.mark.parametrize(
    ("dim", "layers", "message"),
    [
        (0, 2, "dim must be a whole number from 1 to 131,072; received 0"),
        (4, 0, "num_layers must be a whole number from 1 to 1,024; received 0"),
        (4, 10**9, "received 1000000000"),
        (2.5, 2, "received 2.5"),
        (131072, 1024, "parameters take 70.4 TB; the limit here is"),
    ],
)
def test_networks_that_cannot_be_are_refused(build, dim, layers, message):
    with pytest.raises(ValueError) as refused:
        build(dim, layers)
    assert message in str(refused.value)


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("style", ["gpt2", "llama", "cruncher", "deep network"])
def test_checkpointing_changes_no_gradient_and_keeps_less(style, every):
    def build(checkpoint_every):
        torch.manual_seed(0)
        if style == "cruncher":
            return models.Cruncher(32, 3, checkpoint_every=checkpoint_every), torch.randn(4, 32)
        if style == "deep network":
            return models.DeepNetwork(32, 3, checkpoint_every=checkpoint_every), torch.randn(4, 32)
        model = TransformerLM(STYLES[style], checkpoint_every=checkpoint_every)
        return model, torch.randint(101, (2, 16))

    gradients, kept = [], []
    for checkpoint_every in (None, every):
        model, inputs = build(checkpoint_every)
        saved = set()
        with torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.add(t.data_ptr()) or t, lambda t: t):
            loss = model(inputs).square().mean()
        loss.backward()
        gradients.append([p.grad for p in model.parameters()])
        kept.append(len(saved))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    assert kept[1] < kept[0]


def test_checkpointing_every_none_is_refused():
    for every in (0, 4, 1.5):
        with pytest.raises(ValueError, match="checkpoint_every must be a whole number from 1 to 3"):
            TransformerLM(STYLES["llama"], checkpoint_every=every)


@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=8), st.data())
@settings(max_examples=60, deadline=None)
def test_softmax_and_cross_entropy_are_torchs_for_any_size_of_logit(entries, data):
    ours = torch.tensor([entries, entries[::-1]], dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    torch.testing.assert_close(models.softmax(ours), theirs.softmax(-1))
    torch.testing.assert_close(models.softmax(ours, 0), theirs.softmax(0))
    targets = torch.tensor([data.draw(st.integers(0, len(entries) - 1)) for _row in range(2)])
    loss, their_loss = models.cross_entropy(ours, targets), functional.cross_entropy(theirs, targets)
    torch.testing.assert_close(loss, their_loss)
    (loss + models.softmax(ours)[0, 0]).backward()
    (their_loss + theirs.softmax(-1)[0, 0]).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_logits_beyond_the_largest_exponential():
    logits = torch.tensor([[1e30, -1e30, 0.0], [3e38, 3e38, -3e38]])
    assert models.softmax(logits).tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert models.cross_entropy(logits, torch.tensor([0, 1])).item() == pytest.approx(0.5 * 0.6931, abs=1e-4)


def test_cross_entropy_over_batch_and_sequence():
    logits, targets = torch.randn(2, 5, 7), torch.randint(7, (2, 5))
    expected = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(models.cross_entropy(logits, targets), expected)


def test_written_out_softmax_keeps_twice_the_bytes():
    def kept_bytes(function):
        saved = {}
        x = torch.randn(64, 128, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: saved.update({t.data_ptr(): t.numel() * 4}) or t, lambda t: t
        ):
            y = function(x * 1.0).square()  # square keeps the softmax itself
        assert y.requires_grad
        return sum(saved.values())

    rows = 64 * 4  # the sums, and what amax keeps
    assert kept_bytes(lambda x: x.softmax(-1)) == 64 * 128 * 4
    assert 2 * 64 * 128 * 4 <= kept_bytes(models.softmax) <= 2 * 64 * 128 * 4 + 2 * rows


def test_linear_and_embedding_are_torchs():
    linear = models.Linear(6, 10, bias=True)
    nn.init.normal_(linear.bias)
    theirs = nn.Linear(6, 10)
    theirs.load_state_dict(linear.state_dict())
    x = torch.randn(3, 4, 6)
    torch.testing.assert_close(linear(x), theirs(x))
    assert models.Linear(6, 10).bias is None
    embedding = models.Embedding(11, 6)
    tokens = torch.randint(11, (3, 4))
    torch.testing.assert_close(embedding(tokens), embedding.weight[tokens])
    assert models.Linear(2, 3, device="meta", dtype=torch.bfloat16).weight.dtype == torch.bfloat16
    torch.manual_seed(0)
    assert models.Linear(1024, 512).weight.std().item() * 32 == pytest.approx(1, rel=0.01)
    assert models.Embedding(1000, 512).weight.std().item() == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_is_torchs(dtype):
    ours, theirs = models.RMSNorm(32, eps=1e-3, dtype=dtype), nn.RMSNorm(32, eps=1e-3, dtype=dtype)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.normal_())
    x = 100 * torch.randn(4, 5, 32, dtype=dtype)
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(ours(x), theirs(x), **close)
    assert ours(x).dtype == dtype


def test_swiglu_by_its_formula():
    swiglu, x = models.SwiGLU(6, 10), torch.randn(3, 6)
    gate, up, down = swiglu.gate.weight, swiglu.up.weight, swiglu.down.weight
    gated = x @ gate.T
    torch.testing.assert_close(swiglu(x), (gated * gated.sigmoid() * (x @ up.T)) @ down.T)


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu", "relu", "silu"])
def test_feed_forward_by_its_formula(activation):
    layer, x = models.FeedForward(6, 10, activation), torch.randn(3, 6)
    u = x @ layer.up.weight.T + layer.up.bias
    hidden = {
        "gelu_tanh": 0.5 * u * (1 + ((2 / torch.pi) ** 0.5 * (u + 0.044715 * u**3)).tanh()),
        "gelu": 0.5 * u * (1 + (u / 2**0.5).erf()),
        "relu": u.clamp(min=0),
        "silu": u * u.sigmoid(),
    }[activation]
    torch.testing.assert_close(layer(x), hidden @ layer.down.weight.T + layer.down.bias)


def test_rotation_is_a_multiplication_of_complex_numbers():
    rotary, x = models.RotaryEmbedding(8, theta=100.0), torch.randn(2, 3, 16, 8, dtype=torch.float64)
    turned = models.rotate(x, rotary(torch.arange(16), torch.float64))
    pairs = torch.complex(x[..., :4], x[..., 4:])
    angle = torch.arange(16)[:, None] * 100.0 ** (-torch.arange(4) / 4)
    expected = pairs * torch.polar(torch.ones_like(angle), angle)
    torch.testing.assert_close(turned, torch.cat([expected.real, expected.imag], -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-6, atol=1e-6)


def test_scores_of_rotated_heads_depend_on_distance_alone():
    rotary = models.RotaryEmbedding(16)
    q, k = torch.randn(16), torch.randn(16)

    def score(at_q, at_k):
        turned = [models.rotate(one[None], rotary(torch.tensor([at]))) for one, at in ((q, at_q), (k, at_k))]
        return (turned[0] * turned[1]).sum().item()

    assert score(3, 1) == pytest.approx(score(1003, 1001), abs=1e-3)
    assert score(3, 1) != pytest.approx(score(4, 1), abs=1e-3)


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 6), (6, 2), (6, 1)])
def test_attention_query_by_query(heads, kv_heads):
    """Each query by itself, over the keys that it may see, in plain loops."""
    q, k, v = torch.randn(2, heads, 7, 4), torch.randn(2, kv_heads, 7, 4), torch.randn(2, kv_heads, 7, 4)
    y = models.causal_attention(q, k, v)
    for b in range(2):
        for h in range(heads):
            of = h // (heads // kv_heads)
            for i in range(7):
                weights = torch.softmax(k[b, of, : i + 1] @ q[b, h, i] / 2, 0)
                torch.testing.assert_close(y[b, h, i], weights @ v[b, of, : i + 1])


@pytest.mark.parametrize("style", STYLES)
def test_eager_and_sdpa_are_one_function(style):
    torch.manual_seed(0)
    eager, sdpa = TransformerLM(STYLES[style], "eager"), TransformerLM(STYLES[style], "sdpa")
    sdpa.load_state_dict(eager.state_dict())
    tokens = torch.randint(101, (2, 20))
    torch.testing.assert_close(eager(tokens), sdpa(tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("style", STYLES)
def test_no_logit_depends_on_what_comes_later(style):
    model, tokens = TransformerLM(STYLES[style]), torch.randint(101, (2, 20))
    changed = tokens.clone()
    changed[:, 12:] = (changed[:, 12:] + 1) % 101
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :12], after[:, :12], rtol=1e-5, atol=1e-5)
    assert (before[:, 12:] - after[:, 12:]).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize("style", STYLES)
def test_it_learns(style):
    torch.manual_seed(0)
    model = TransformerLM(STYLES[style])
    tokens = torch.arange(24).repeat(4, 1) % 7
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _step in range(40):
        loss = models.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert 3.5 < losses[0] < 7  # ln 101 = 4.6 is no opinion at all
    assert losses[-1] < 0.3


SMALL = st.fixed_dictionaries(
    {
        "num_layers": st.integers(1, 3), "d_model": st.integers(1, 6).map(lambda n: 12 * n),
        "num_heads": st.sampled_from([1, 2, 3, 6]), "num_kv_heads": st.just(1), "d_ff": st.integers(1, 50),
        "vocab_size": st.integers(2, 50), "head_dim": st.sampled_from([2, 8]), "gated_mlp": st.booleans(),
        "tied_head": st.booleans(), "learned_positions": st.sampled_from([0, 9]), "bias": st.booleans(),
        "qkv_bias": st.sampled_from([None, True, False]), "norm_bias": st.booleans(), "qk_norm": st.booleans(),
    }
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(SMALL)
def test_the_closed_form_counts_every_parameter(fields):
    config = TransformerConfig("small", **fields)
    assert models.count_parameters(config) == count(TransformerLM(config, device="meta"))
    assert sum(term.value for term in models.predict_parameters(config).terms) == config.num_params


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_sources_and_agree_with_what_torch_builds(name):
    assert PRESETS[name].source
    assert models.preset(name) is PRESETS[name]
    assert models.compare_parameters(PRESETS[name]).difference == 0


def test_published_counts():
    """The counts of the model cards, to the digits that they give."""
    billions = {
        "gpt2": 0.124, "gpt2-medium": 0.355, "gpt2-large": 0.774, "gpt2-xl": 1.558, "llama2-7b": 6.738,
        "llama2-13b": 13.016, "llama2-70b": 68.977, "llama3-8b": 8.030, "llama3-70b": 70.554, "mistral-7b": 7.248,
        "qwen2.5-7b": 7.616, "qwen3-0.6b": 0.596, "qwen3-8b": 8.191,
    }  # fmt: skip
    assert {name: round(models.count_parameters(PRESETS[name]) / 1e9, 3) for name in billions} == billions
    assert set(PRESETS) - set(billions) == {"cs336-xl"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_heads": 5}, "d_model must be a multiple of num_heads, or head_dim given; received 48 and 5"),
        ({"num_kv_heads": 4}, "num_kv_heads must divide num_heads 6: one of 1, 2, 3, 6; received 4"),
        ({"num_layers": 0}, "num_layers must be a whole number from 1"),
        ({"num_layers": 5000}, "num_layers must be a whole number from 1 to 1,024; received 5000"),
        ({"d_model": "48"}, "d_model must be a whole number"),
        ({"head_dim": 7}, "head_dim must be even, since rotary positions turn pairs; received 7"),
        ({"num_heads": 2**20, "head_dim": 2**20}, "num_heads · head_dim must be a whole number from 1 to 16,777,216"),
        ({"learned_positions": 32, "context_length": 64}, "context_length must be that of the learned positions, 32"),
        ({"activation": "gelu"}, "activation must be one of silu; received 'gelu'"),
        ({"rope_theta": 0}, "rope_theta must be a number above 0"),
        ({"norm_eps": -1}, "norm_eps must be a number above 0"),
    ],
)
def test_configs_that_cannot_be_are_refused_in_words(fields, message):
    with pytest.raises(ValueError) as refused:
        tiny(**fields)
    assert message in str(refused.value)


def trillion():
    return TransformerConfig("huge", 128, 25_600, 200, 102_400, 200_000)


def test_a_trillion_parameters_are_refused_for_real_and_allowed_on_meta(monkeypatch):
    assert trillion().num_params > 10**12
    with pytest.raises(ValueError, match="this model's 1,35.*parameters take 5.* TB; the limit here is"):
        TransformerLM(trillion())
    assert count(TransformerLM(trillion(), device="meta")) == trillion().num_params
    with torch.device("meta"):
        TransformerLM(trillion())
    with FakeTensorMode():
        TransformerLM(trillion(), dtype=torch.bfloat16)
    monkeypatch.setenv("NAPKIN_MAX_MODEL_BYTES", "1000")
    with pytest.raises(ValueError, match=r"take .* kB; the limit here is 1.00 kB"):
        TransformerLM(STYLES["llama"])
    monkeypatch.setenv("NAPKIN_MAX_MODEL_BYTES", "much")
    with pytest.raises(ValueError, match="must be a whole number of bytes; it is 'much'"):
        TransformerLM(STYLES["llama"])


def test_tokens_that_cannot_be_are_refused():
    model = TransformerLM(STYLES["gpt2"])
    for wrong in (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match="tokens must be integers of shape"):
            model(wrong)
    with pytest.raises(ValueError, match="the context, in tokens, must be a whole number from 1 to 32; received 33"):
        model(torch.zeros(2, 33, dtype=torch.int64))
    with pytest.raises(ValueError, match="attention must be one of sdpa, eager; received 'flash'"):
        TransformerLM(STYLES["gpt2"], "flash")


def test_shapes_are_checked_by_jaxtyping_and_beartype():
    """With jaxtyping's import hook every annotated function is checked at run time: here with every style."""
    code = """
import jaxtyping, torch
networks = [f"core.models.{name}" for name in ("attention", "blocks", "functional", "layers", "lecture", "transformer")]
with jaxtyping.install_import_hook(networks, "beartype.beartype"):
    from core import models
    gpt2 = dict(gated_mlp=False, tied_head=True, learned_positions=32, bias=True, norm_bias=True)
    for fields in (gpt2, dict(num_kv_heads=2), dict(head_dim=16, qk_norm=True)):
        for attention in ("sdpa", "eager"):
            config = models.TransformerConfig("tiny", 2, 48, 4, 80, 101, **fields)
            tokens = torch.randint(101, (2, 16))
            logits = models.TransformerLM(config, attention)(tokens)
            models.cross_entropy(logits, tokens), models.softmax(logits)
    models.Cruncher(8, 2)(torch.randn(3, 8)), models.DeepNetwork(8, 2)(torch.randn(3, 8))
    try:
        models.cross_entropy(logits, tokens[:1])
    except jaxtyping.TypeCheckError:
        print("refused")
"""
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
    assert run.stdout == "refused\n", run.stderr


def test_torch_is_imported_with_the_first_network():
    code = """
import sys
from core import models
models.count_parameters(models.preset("gpt2")), models.config_from_huggingface, models.predict_gain("kaiming", 64)
assert "torch" not in sys.modules
assert all(hasattr(models, name) for name in models.__all__)
assert "torch" in sys.modules and "transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    with pytest.raises(AttributeError, match="no attribute 'Mamba'"):
        _ = models.Mamba
