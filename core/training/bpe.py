"""Byte-pair encoding of a corpus, by Hugging Face's ``tokenizers`` where that is installed (Sennrich et al. 2016).

It is no requirement of the app: bytes need nothing, and tokenizers brings a dozen other packages. A vocabulary of 256
is bytes; a larger one starts from the 256 bytes and merges the commonest pair again and again. The merges are learned
once for a corpus, from pieces all over it, and kept with its tokens.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from core.jobs.reporting import report
from core.training.data import BYTE_VOCAB, corpus_path, corpus_tokens, open_tokens, write_tokens
from core.training.folders import write_atomically
from core.words import _

PIECE_CHARS = 2**16  # encoded at once
LEARNED_PIECES = 32  # of PIECE_CHARS, spread evenly: 2 MB


class Tokenizer(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class Bytes:
    """A token for each byte of UTF-8; bytes that are none become �.

    >>> Bytes().encode("né"), Bytes().decode([110, 195, 169])
    ([110, 195, 169], 'né')
    """

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace")


class Merges:
    """A byte-level BPE that was learned, read from its file."""

    def __init__(self, path: Path) -> None:
        self.inner = _library().Tokenizer.from_str(path.read_text())

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.inner.decode(list(tokens)))


def bpe_is_available() -> bool:
    """Whether tokenizers is installed; it is not imported.

    >>> bpe_is_available() in (True, False)
    True
    """
    return importlib.util.find_spec("tokenizers") is not None


def tokens_of(name: str, vocab_size: int = BYTE_VOCAB, place: Path | None = None) -> np.memmap:
    """The tokens of a corpus in a vocabulary: a byte each for 256, else those of a BPE, learned at the first call.

    ``place`` is a folder that may keep a copy of the text. Fewer tokens than ``vocab_size`` are used where a short
    text has no more pairs. Raises ValueError as ``corpus_tokens`` does, and without tokenizers.

    >>> from core.training import store_text
    >>> len(tokens_of(store_text("to be, or not to be: " * 100)))
    2100
    """
    if vocab_size == BYTE_VOCAB:
        return corpus_tokens(name, place)
    path = _bpe_path(name, vocab_size, place)
    if not path.exists():
        text = bytes(corpus_tokens(name, place).astype(np.uint8)).decode("utf-8", "replace")
        write_tokens(path, _encode(_learned(text, vocab_size, path.with_suffix(".json")), text))
    return open_tokens(path)


def tokenizer_of(name: str, vocab_size: int = BYTE_VOCAB, place: Path | None = None) -> Tokenizer:
    """What turns text into the tokens of ``tokens_of`` and back.

    >>> tokenizer_of("stdlib").encode("if")
    [105, 102]
    """
    if vocab_size == BYTE_VOCAB:
        return Bytes()
    tokens_of(name, vocab_size, place)
    return Merges(_bpe_path(name, vocab_size, place).with_suffix(".json"))


def bytes_per_token(name: str, vocab_size: int = BYTE_VOCAB, place: Path | None = None) -> float | None:
    """Bytes of text that a token stands for, on average over the corpus; None before its tokens are made.

    >>> bytes_per_token("stdlib", 256)
    1.0
    """
    if vocab_size == BYTE_VOCAB:
        return 1.0
    sizes = [path.stat().st_size if path.exists() else None
             for path in (corpus_path(name, place), _bpe_path(name, vocab_size, place))]  # fmt: skip
    return sizes[0] / sizes[1] if sizes[0] and sizes[1] else None


def bits_per_byte(loss_nats: float, bytes_a_token: float) -> float:
    """A loss in nats a token as bits a byte, which compares vocabularies: loss / log 2 / (bytes a token).

    >>> import math
    >>> bits_per_byte(math.log(256), 1.0)
    8.0
    """
    return float(loss_nats / np.log(2) / bytes_a_token)


def _bpe_path(name: str, vocab_size: int, place: Path | None) -> Path:
    path = corpus_path(name, place)
    return path.with_name(f"{path.stem}-bpe{vocab_size}.bin")


def _library() -> Any:
    if not bpe_is_available():
        raise ValueError(
            _("a vocabulary beyond 256 needs the tokenizers package (pip install tokenizers); 256, bytes, needs none")
        )
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # else it warns in a process that was forked
    return importlib.import_module("tokenizers")


def _learned(text: str, vocab_size: int, path: Path) -> Any:
    """The tokenizer of a corpus, learned from pieces all over it; written to ``path``."""
    library = _library()
    report(0.0, _("learning a vocabulary of {n:,}").format(n=vocab_size))
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False, special_tokens=[],
    )  # fmt: skip
    pieces = list(_pieces(text))
    every = max(1, len(pieces) // LEARNED_PIECES)
    made.train_from_iterator(pieces[::every], trainer)
    write_atomically(path, lambda file: file.write(made.to_str().encode()))
    return made


def _encode(made: Any, text: str) -> np.ndarray[Any, np.dtype[np.uint16]]:
    pieces, parts = list(_pieces(text)), []
    for at in range(0, len(pieces), 16):
        parts += [np.array(one.ids, dtype=np.uint16) for one in made.encode_batch_fast(pieces[at : at + 16])]
        report(len(parts) / len(pieces), _("turning the text into tokens"))
    return np.concatenate(parts)


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))
