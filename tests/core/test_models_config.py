"""Reading a config.json: what published files say, and what a wrong or hostile one gets: a sentence, at once."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.models import MAX_FILE_BYTES, PRESETS, config_from_huggingface, count_parameters

GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257,
}  # fmt: skip
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 128256,
}  # fmt: skip


def sizes(config):
    return (
        config.num_layers, config.d_model, config.num_heads, config.num_kv_heads, config.head_dim, config.d_ff,
        config.vocab_size, config.context_length, config.norm_eps, config.rope_theta, config.activation,
        count_parameters(config),
    )  # fmt: skip


def test_gpt2s_file():
    config = config_from_huggingface(json.dumps(GPT2))
    assert sizes(config) == sizes(PRESETS["gpt2"])
    assert config.notes == ("dropout (resid_pdrop, embd_pdrop, attn_pdrop) is left out",)


def test_llamas_file_as_text_bytes_and_dictionary():
    for source in (json.dumps(LLAMA), json.dumps(LLAMA).encode(), LLAMA):
        config = config_from_huggingface(source)
        assert sizes(config) == sizes(PRESETS["llama3-8b"])
        assert config.notes == ()


def test_what_is_left_out_is_said():
    read = config_from_huggingface
    assert (
        "the scaling of rotary positions is left out" in read(LLAMA | {"rope_scaling": {"rope_type": "llama3"}}).notes
    )
    assert read(LLAMA | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 7.0}, "rope_theta": None}).notes
    mistral = LLAMA | {"model_type": "mistral", "sliding_window": 4096}
    assert read(mistral).notes == ("the sliding window of 4,096 tokens is left out",)
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert read(qwen).notes == ()


def test_the_rates_of_rotation_in_the_old_and_the_new_place():
    new = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    assert config_from_huggingface(new).rope_theta == 10_000
    new["rope_parameters"] = {"rope_theta": 500_000.0, "rope_type": "default"}
    assert config_from_huggingface(new).rope_theta == 500_000
    assert config_from_huggingface(new).notes == ()


def test_what_a_file_leaves_out_is_as_hugging_face_has_it():
    needed = (
        "model_type",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_hidden_layers",
        "vocab_size",
    )
    config = config_from_huggingface({key: LLAMA[key] for key in needed})
    assert (config.num_kv_heads, config.head_dim, config.tied_head, config.norm_eps) == (32, 128, False, 1e-6)
    assert config_from_huggingface({**GPT2, "n_inner": None}).d_ff == 3072
    assert config_from_huggingface({**GPT2, "n_inner": 100}).d_ff == 100


def deep(levels):
    return '{"model_type": ' + "[" * levels + "]" * levels + "}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "this is not a config.json"),
        ("hello", "this is not a config.json"),
        ('{"model_type": "gpt2"', "this is not a config.json"),
        ('{"vocab_size": NaN, "model_type": "gpt2"}', "NaN is no JSON"),
        (b"\xff\xfe\x00\xd8", "this is not a config.json"),
        (b"PK\x03\x04" + bytes(1000), "this is not a config.json"),
        ("9" * 10_000, "this is not a config.json"),
        ("[1, 2]", "a config.json holds an object, {...}; this one holds list"),
        ("null", "this one holds NoneType"),
        (None, "this one holds NoneType"),
        (12, "this one holds int"),
        ("{}", "model_type must be one of gpt2, llama, mistral, qwen2, qwen3; received None"),
        ('{"model_type": ["gpt2"]}', "model_type must be one of"),
        ('{"model_type": "mamba"}', "received 'mamba'"),
        ('{"model_type": "gpt2"}', "this config.json lacks n_embd"),
        ('{"model_type": "llama"}', "this config.json lacks num_attention_heads"),
        (deep(100_000 - 50), "nested too deeply"),
        (deep(900), "model_type must be one of"),
        (" " * (10 * 2**20), f"a config.json has at most {MAX_FILE_BYTES:,} bytes; this one has 10,485,760"),
        (bytes(10 * 2**20), "this one has 10,485,760"),
    ],
)
def test_hostile_files(source, message):
    with pytest.raises(ValueError) as refused:
        config_from_huggingface(source)
    text = str(refused.value)
    assert message in text or (message == "model_type must be one of" and "nested too deeply" in text)
    assert len(text) < 300


@pytest.mark.parametrize(
    ("base", "fields", "message"),
    [
        (GPT2, {"n_embd": -768}, "n_embd must be a whole number from 1 to 16,777,216; received -768"),
        (GPT2, {"n_embd": 10**30}, "n_embd must be a whole number"),
        (GPT2, {"n_layer": 10**6}, "n_layer must be a whole number from 1 to 1,024; received 1000000"),
        (GPT2, {"n_head": 7}, "d_model must be a multiple of num_heads"),
        (GPT2, {"n_embd": "768"}, "received '768'"),
        (GPT2, {"n_embd": True}, "received True"),
        (GPT2, {"n_embd": 768.5}, "received 768.5"),
        (GPT2, {"n_embd": [768]}, "received [768]"),
        (GPT2, {"n_embd": "9" * 10**6}, "n_embd must be a whole number"),
        (GPT2, {"activation_function": "mish"}, "activation_function must be one of"),
        (GPT2, {"activation_function": {}}, "activation_function must be one of"),
        (GPT2, {"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false; received 'yes'"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention True is not supported here; False is"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "is not supported here"),
        (GPT2, {"layer_norm_epsilon": 0}, "layer_norm_epsilon must be a number above 0"),
        (GPT2, {"layer_norm_epsilon": 1e400}, "layer_norm_epsilon must be a number above 0"),
        (LLAMA, {"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported here; 'silu' is"),
        (LLAMA, {"hidden_act": ["silu"]}, "is not supported here"),
        (LLAMA, {"num_key_value_heads": 5}, "num_kv_heads must divide num_heads 32"),
        (LLAMA, {"num_key_value_heads": 64}, "num_kv_heads must be a whole number from 1 to 32"),
        (LLAMA, {"num_key_value_heads": 0}, "num_key_value_heads must be a whole number"),
        (LLAMA, {"head_dim": -2}, "head_dim must be a whole number"),
        (LLAMA, {"head_dim": "128"}, "head_dim must be a whole number"),
        (
            LLAMA,
            {"num_attention_heads": 2**24, "num_key_value_heads": 1, "head_dim": 2},
            "num_heads · head_dim must be",
        ),
        (LLAMA, {"attention_bias": True}, "attention_bias and mlp_bias must be equal here"),
        (LLAMA, {"rope_parameters": [1]}, "a config.json holds an object"),
        (LLAMA, {"rope_theta": "big"}, "rope_theta must be a number above 0"),
        (LLAMA, {"max_position_embeddings": 0}, "max_position_embeddings must be a whole number"),
        (LLAMA, {"model_type": "qwen3", "sliding_window": -1, "use_sliding_window": True}, "sliding_window must be"),
    ],
)
def test_wrong_values(base, fields, message):
    with pytest.raises(ValueError) as refused:
        config_from_huggingface(base | fields)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


def test_numbers_of_hundreds_of_digits_are_refused():
    for digits in (400, 4000, 5000):
        text = json.dumps(GPT2).replace("768", "9" * digits)
        with pytest.raises(ValueError, match=r"n_embd must be|hundreds of digits|not a config\.json"):
            config_from_huggingface(text)
    with pytest.raises(ValueError):
        config_from_huggingface({**GPT2, "n_embd": 10**6000})


def test_a_name_is_kept_short_and_plain():
    name = config_from_huggingface({**GPT2, "_name_or_path": "<b>org/model-7B</b>" * 100}).name
    assert name.startswith("borg/model-7B")
    assert len(name) <= 60
    assert config_from_huggingface({**GPT2, "_name_or_path": ["a"]}).name == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([GPT2, LLAMA, LLAMA | {"model_type": "qwen3"}]), st.data())
def test_any_value_anywhere_is_read_or_refused_in_words(base, data):
    changed = dict(base)
    for name in data.draw(st.lists(st.sampled_from([*base, "head_dim", "rope_parameters", "n_inner"]), max_size=3)):
        changed[name] = data.draw(JSON)
    for source in (changed, json.dumps(changed)):
        try:
            config = config_from_huggingface(source)
        except ValueError as error:
            assert str(error)
        else:
            assert count_parameters(config) > 0


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_refused_in_words(source):
    with pytest.raises(ValueError):
        config_from_huggingface(source)
