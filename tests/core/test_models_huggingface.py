"""The Transformer against Hugging Face's: every preset's parameters, and the same weights giving the same logits."""

import math

import pytest
import torch
from einops import rearrange

from core.models import PRESETS, TransformerConfig, TransformerLM, config_from_huggingface, count_parameters

pytestmark = pytest.mark.filterwarnings("ignore")  # what transformers warns of while it is imported is not ours

GPT2_TINY = {
    "model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 101, "n_positions": 32,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip
LLAMA_TINY = {
    "model_type": "llama", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "intermediate_size": 80, "vocab_size": 101, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "tie_word_embeddings": False,
}  # fmt: skip
TINY = {
    "gpt2": GPT2_TINY,
    "llama": LLAMA_TINY,
    "llama, biases": LLAMA_TINY | {"attention_bias": True, "mlp_bias": True},
    "mistral": LLAMA_TINY | {"model_type": "mistral", "sliding_window": None},
    "qwen2": LLAMA_TINY | {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": LLAMA_TINY | {"model_type": "qwen3", "head_dim": 16},
}


@pytest.fixture(scope="module")
def transformers():
    import transformers  # here, so that no other test waits for it

    transformers.logging.set_verbosity_error()
    return transformers


def huggingface_fields(config: TransformerConfig) -> dict:
    """What Hugging Face would call the model: written anew here, so that it is an oracle for the reader, too."""
    if config.learned_positions:
        return {
            "model_type": "gpt2", "n_embd": config.d_model, "n_layer": config.num_layers, "n_head": config.num_heads,
            "n_positions": config.learned_positions, "n_inner": config.d_ff, "vocab_size": config.vocab_size,
        }  # fmt: skip
    return {
        "model_type": "qwen3" if config.qk_norm else "qwen2" if config.qkv_bias else "llama",
        "hidden_size": config.d_model, "num_hidden_layers": config.num_layers, "head_dim": config.head_dim,
        "num_attention_heads": config.num_heads, "num_key_value_heads": config.num_kv_heads,
        "intermediate_size": config.d_ff, "vocab_size": config.vocab_size, "tie_word_embeddings": config.tied_head,
    }  # fmt: skip


def build(transformers, fields, device, attention="sdpa"):
    kind = {"gpt2": "GPT2", "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
    fields = dict(fields)
    name = kind[fields.pop("model_type")]
    suffix = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    config = getattr(transformers, f"{name}Config")(**fields, attn_implementation=attention)
    with torch.device(device):
        return getattr(transformers, f"{name}{suffix}")(config).eval()


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_of_every_preset(transformers, name):
    config = PRESETS[name]
    theirs = build(transformers, huggingface_fields(config), "meta")
    ours = TransformerLM(config, device="meta")
    assert sum(p.numel() for p in ours.parameters()) == count_parameters(config)
    assert sum(p.numel() for p in theirs.parameters()) == count_parameters(config)


GPT2_NAMES = {
    "wte": "embedding", "wpe": "positions", "h": "blocks", "ln_1": "attention_norm", "ln_2": "mlp_norm",
    "ln_f": "final_norm", "attn": "attention", "c_fc": "up", "c_proj": "down",
}  # fmt: skip
LLAMA_NAMES = {
    "embed_tokens": "embedding", "layers": "blocks", "input_layernorm": "attention_norm", "self_attn": "attention",
    "post_attention_layernorm": "mlp_norm", "norm": "final_norm", "lm_head": "head", "q_proj": "q", "k_proj": "k",
    "v_proj": "v", "o_proj": "output", "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
}  # fmt: skip


def copy_weights(ours: TransformerLM, theirs) -> None:
    """Hugging Face's weights into our model, every one of them."""
    gpt2 = hasattr(theirs, "transformer")
    names, state = GPT2_NAMES if gpt2 else LLAMA_NAMES, {}
    for name, value in theirs.named_parameters():
        parts = [names.get(part, part) for part in name.split(".") if part not in ("transformer", "model")]
        if gpt2 and parts[0] == "blocks" and value.dim() == 2:
            value = value.T  # GPT-2 keeps its matrices the other way round
        if "c_attn" in parts:  # q, k and v in one
            for which, part in zip("qkv", value.chunk(3), strict=True):
                state[".".join(parts).replace("c_attn", which)] = part
        else:
            state[".".join(parts).replace("attention.down", "attention.output")] = value
    ours.load_state_dict({name: value.detach().clone() for name, value in state.items()}, strict=True)


def pair(transformers, fields, attention):
    torch.manual_seed(0)
    theirs = build(transformers, fields, "cpu", attention)
    with torch.no_grad():  # far from where they start: norms, biases and all
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    ours = TransformerLM(config_from_huggingface(fields), attention)
    copy_weights(ours, theirs)
    return ours, theirs


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", TINY)
def test_the_same_weights_give_the_same_logits_and_gradients(transformers, name, attention):
    ours, theirs = pair(transformers, TINY[name], attention)
    tokens = torch.randint(101, (2, 32))
    our_logits, their_logits = ours(tokens), theirs(tokens).logits
    assert their_logits.std() > 0.5
    torch.testing.assert_close(our_logits, their_logits, rtol=1e-5, atol=1e-5)
    ours_loss = torch.nn.functional.cross_entropy(
        rearrange(our_logits[:, :-1], "b t v -> (b t) v"), tokens[:, 1:].flatten()
    )
    their_loss = theirs(tokens, labels=tokens).loss
    assert math.isclose(ours_loss.item(), their_loss.item(), rel_tol=1e-6)
    ours_loss.backward()
    their_loss.backward()
    embedding = theirs.get_input_embeddings()
    torch.testing.assert_close(ours.embedding.weight.grad, embedding.weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bfloat16_agrees_as_far_as_its_precision_goes(transformers, name):
    ours, theirs = pair(transformers, TINY[name], "eager")
    tokens = torch.randint(101, (2, 32))
    exact = ours(tokens)
    error = (ours.bfloat16()(tokens) - exact).square().mean().sqrt()
    their_error = (theirs.bfloat16()(tokens).logits - exact).square().mean().sqrt()
    assert 0 < error < 2 * their_error


@pytest.mark.parametrize("name", PRESETS)
def test_the_reader_gives_back_every_preset(transformers, name):
    """Through the config.json that Hugging Face itself writes."""
    config = PRESETS[name]
    fields = huggingface_fields(config)
    kind = {"gpt2": "GPT2", "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[fields.pop("model_type")]
    text = getattr(transformers, f"{kind}Config")(**fields).to_json_string()
    read = config_from_huggingface(text)
    assert count_parameters(read) == count_parameters(config)
    assert (read.num_layers, read.q_dim, read.kv_dim) == (config.num_layers, config.q_dim, config.kv_dim)
