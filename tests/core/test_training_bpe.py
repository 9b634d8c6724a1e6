"""Vocabularies that are learned, in which texts come back, and losses that compare across them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import training
from core.training import TrainConfig, bpe, data, runs

OWN = "the cat sat on the mat; the dog sat on the log. né, 猫, 🐈\n" * 30


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAPKIN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def name():
    return training.store_text(OWN)


@pytest.fixture(scope="module")
def learned(name):
    pytest.importorskip("tokenizers")
    return training.tokenizer_of(name, 300)


def test_the_corpus_comes_back_from_its_tokens(name, learned):
    tokens = training.tokens_of(name, 300)
    assert learned.decode(tokens.tolist()) == OWN
    assert int(tokens.max()) < 300
    assert training.bytes_per_token(name, 300) == pytest.approx(len(OWN.encode()) / len(tokens))
    assert training.bytes_per_token(name, 300) > 1.5
    assert training.bytes_per_token(name, 400) is None


@given(text=st.text(max_size=80))
def test_any_text_comes_back(learned, text):
    assert learned.decode(learned.encode(text)) == text
    assert bpe.Bytes().decode(bpe.Bytes().encode(text)) == text


def test_the_first_merge_is_of_the_commonest_pair(name):
    pytest.importorskip("tokenizers")
    text = "abababab" * 20
    tokens = training.tokens_of(training.store_text(text), 257)
    assert len(tokens) == len(text) / 2
    assert len(set(tokens.tolist())) == 1


def test_learned_again_the_merges_are_the_same(name, learned, tmp_path, monkeypatch):
    before = np.array(training.tokens_of(name, 300))
    monkeypatch.setenv("NAPKIN_CACHE_DIR", str(tmp_path))
    assert np.array_equal(training.tokens_of(training.store_text(OWN), 300), before)


def test_a_learned_vocabulary_trains_and_writes(name, learned, tmp_path):
    config = TrainConfig(task="text", corpus=name, vocab_size=300, dim=16, num_layers=1, context_length=8, num_steps=2)
    records = list(training.train(config))
    assert records[0].loss == pytest.approx(math.log(300), abs=0.2)
    assert training.predict_initial_loss(config).value == math.log(300)
    path = tmp_path / "c.pt"
    training.trained(config).save(path)
    assert training.sample_text(config, path, "the cat", 5, temperature=0.0).startswith("the cat")
    assert config.num_params == TrainConfig(task="text", dim=16, num_layers=1).num_params + 44 * 16


@pytest.mark.parametrize(("loss", "length", "bits"), [(math.log(2), 1.0, 1.0), (math.log(16), 2.0, 2.0)])
def test_bits_per_byte(loss, length, bits):
    assert training.bits_per_byte(loss, length) == pytest.approx(bits)


def test_without_the_library_bytes_alone(name, monkeypatch):
    monkeypatch.setattr(bpe, "bpe_is_available", lambda: False)
    with pytest.raises(ValueError, match="pip install tokenizers"):
        training.tokens_of(name, 350)
    assert len(training.tokens_of(name)) == len(OWN.encode())


@pytest.mark.parametrize("size", [255, 2**16 + 1, 512.5, True])
def test_vocabularies_that_are_none(size):
    with pytest.raises(ValueError, match="vocab_size must be a whole number from 256 to 65,536"):
        TrainConfig(task="text", vocab_size=size)


def test_a_run_keeps_its_text_when_the_cache_forgets_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NAPKIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NAPKIN_RUNS_DIR", str(tmp_path / "runs"))
    config = TrainConfig(
        task="text", corpus=training.store_text(OWN), dim=16, num_layers=1, num_heads=2, context_length=8, num_steps=3
    )
    expected = [record.loss for record in training.train(config)]
    run_id = runs.new_folder(config, runs.RunState("queued"))
    monkeypatch.setattr(data, "MAX_TEXTS", 1)
    training.store_text("another text " * 9)
    with pytest.raises(ValueError, match="no longer kept"):
        training.corpus_tokens(config.corpus)
    assert training.train_in_folder(str(runs.run_folder(run_id))) == "done"
    assert [record.loss for record in training.read_records(run_id)] == expected
    with pytest.raises(ValueError, match="no longer kept"):
        runs.new_folder(config, runs.RunState("queued"))
    assert len(training.list_runs()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "the text is empty"), (b" \n", "the text is empty"), ("a", "at least 2 bytes"),
     (b"\x7fELF\0\0", "2 of its first 6 bytes are 0"), ("utf-16".encode("utf-16"), "are 0; save it as plain text")],
)  # fmt: skip
def test_what_is_no_text(text, words):
    for function in (training.check_text, training.text_name, training.store_text):
        with pytest.raises(ValueError, match=words):
            function(text)
