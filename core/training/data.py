"""Tokens as raw integers on disk, and batches of windows drawn from them (CS336 §6.4).

Letters: B batch, T context length, n tokens. A window is T inputs and the T tokens that follow each of them, so n
tokens hold n − T windows.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core import units
from core.checks import whole_number
from core.training.folders import cache_folder, replacing
from core.words import _

if TYPE_CHECKING:
    import torch

    Batch = tuple[torch.Tensor, torch.Tensor]

TOKEN_DTYPE = np.dtype("<u2")
BYTE_VOCAB = 256
MAX_VOCAB = 2**16
STDLIB = "stdlib"
STDLIB_BYTES = 8 * 2**20
MAX_TEXT_BYTES = 64 * 2**20
MAX_TEXTS = 20
LOOKED_AT_BYTES = 2**16  # of a text, for what no text has
MAX_BATCH_TOKENS = 2**24
# Pages of a file this large are handed back after every batch: a process keeps none of what it has read.
RELEASE_BYTES = 2**28
_TEXT_NAME = re.compile(r"text-[0-9a-f]{16}")
_LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"}


def write_tokens(path: Path | str, tokens: NDArray[np.integer] | bytes) -> int:
    """Write tokens as raw 16-bit integers, low byte first, nothing else; their count. Bytes are a token each.

    Raises ValueError for a token outside 0 to 65,535.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = write_tokens(Path(folder) / "tokens.bin", np.arange(10))
    ...     count, (Path(folder) / "tokens.bin").stat().st_size
    (10, 20)
    """
    array = np.frombuffer(tokens, dtype=np.uint8) if isinstance(tokens, bytes) else np.asarray(tokens)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        message = _("tokens must be one row of whole numbers; received {dtype} of shape {shape}")
        raise ValueError(message.format(dtype=array.dtype, shape=array.shape))
    if array.size and (int(array.min()) < 0 or int(array.max()) > 2**16 - 1):
        message = _("a token must be a whole number from 0 to 65,535; received {low} to {high}")
        raise ValueError(message.format(low=int(array.min()), high=int(array.max())))
    with replacing(Path(path)) as file:
        array.astype(TOKEN_DTYPE).tofile(file)
    return int(array.size)


def open_tokens(path: Path | str) -> np.memmap:
    """The tokens of a file, read-only: nothing is read before it is needed, and nothing can be written by mistake.

    Raises ValueError for a file that is empty or is no whole number of tokens.
    """
    size = Path(path).stat().st_size
    if size == 0 or size % TOKEN_DTYPE.itemsize:
        message = _("a file of tokens has 2 bytes for each; {name} has {size:,} bytes")
        raise ValueError(message.format(name=Path(path).name, size=size))
    return np.memmap(path, dtype=TOKEN_DTYPE, mode="r")


def num_windows(num_tokens: int, context_length: int) -> int:
    """Windows of T inputs and T targets in n tokens: n − T.

    >>> num_windows(10, 4)
    6
    >>> num_windows(4, 4)
    Traceback (most recent call last):
    ValueError: a window of 4 tokens and its next needs at least 5 tokens; there are 4
    """
    if num_tokens <= context_length:
        message = _("a window of {length:,} tokens and its next needs at least {need:,} tokens; there are {count:,}")
        raise ValueError(message.format(length=context_length, need=context_length + 1, count=num_tokens))
    return num_tokens - context_length


def get_batch(
    data: NDArray[np.integer],
    batch_size: int,
    context_length: int,
    device: str | torch.device = "cpu",
    generator: torch.Generator | None = None,
) -> Batch:
    """B windows, each equally likely, the first and the last too: inputs (B, T) and next-token targets (B, T), int64.

    ``data`` is a row of n > T tokens, on disk (``open_tokens``) or in memory; ``generator``, on the CPU, decides what
    is drawn. To a GPU the batch goes from pinned memory, while the program goes on. Raises ValueError for sizes that
    are no whole numbers above zero, or too large.

    >>> inputs, targets = get_batch(np.arange(10), batch_size=2, context_length=4)
    >>> inputs.shape, targets.shape, bool((inputs[:, 1:] == targets[:, :-1]).all()), bool((targets == inputs + 1).all())
    (torch.Size([2, 4]), torch.Size([2, 4]), True, True)
    """
    batch_size = whole_number("batch_size", batch_size, 1, MAX_BATCH_TOKENS)
    context_length = whole_number("context_length", context_length, 1, MAX_BATCH_TOKENS)
    whole_number("batch_size · context_length", batch_size * context_length, 1, MAX_BATCH_TOKENS)
    starts = draw_starts(num_windows(len(data), context_length), batch_size, generator)
    return take_windows(data, starts, context_length, device)


def draw_starts(windows: int, batch_size: int, generator: torch.Generator | None = None) -> NDArray[np.int64]:
    """Where B windows start, each of the windows equally likely, with replacement."""
    import torch

    starts: NDArray[np.int64] = torch.randint(windows, (batch_size,), generator=generator).numpy()
    return starts


def take_windows(
    data: NDArray[np.integer], starts: NDArray[np.int64], context_length: int, device: str | torch.device = "cpu"
) -> Batch:
    """The windows that start there: inputs and targets."""
    import torch

    # A view without np.memmap's own bookkeeping at every index.
    windows_BT = np.asarray(data)[starts[:, None] + np.arange(context_length + 1)].astype(np.int64)
    _release(data)
    tokens = torch.from_numpy(windows_BT)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if torch.device(device).type == "cpu":
        return inputs.contiguous(), targets.contiguous()
    if torch.device(device).type == "cuda":
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def _release(data: NDArray[np.integer]) -> None:
    """Hand the pages of a large file back to the system, which keeps them as long as it has room."""
    if isinstance(data, np.memmap) and data.nbytes >= RELEASE_BYTES and hasattr(mmap, "MADV_DONTNEED"):
        mapped: Any = data.base
        if isinstance(mapped, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)


def standard_library_files() -> Iterator[Path]:
    """The source files of this Python's standard library, in an order that depends on their names alone."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))


def standard_library_text(max_bytes: int = STDLIB_BYTES) -> bytes:
    """The start of the standard library's source, as bytes; the same on every call with the same Python.

    Raises ValueError where this Python comes without its source.

    >>> text = standard_library_text(1000)
    >>> len(text), text == standard_library_text(1000)
    (1000, True)
    """
    parts, size = [], 0
    for path in standard_library_files():
        try:
            parts.append(path.read_bytes())
        except OSError:  # a file that this user may not read
            continue
        size += len(parts[-1])
        if size >= max_bytes:
            break
    if size < 1000:
        raise ValueError(_("this Python comes without the source of its standard library: use a text of your own"))
    return b"".join(parts)[:max_bytes]


def check_text(text: str | bytes) -> bytes:
    """A text of the user's own as the bytes that are trained on. Raises ValueError where it is none.

    >>> check_text("to be")
    b'to be'
    >>> check_text(b"PK\\x03\\x04\\x00\\x00")
    Traceback (most recent call last):
    ValueError: this is no text in UTF-8: 2 of its first 6 bytes are 0; save it as plain text
    """
    if len(text) > MAX_TEXT_BYTES:  # refused before it is encoded
        raise _too_long(len(text))
    encoded = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    if len(encoded) > MAX_TEXT_BYTES:
        raise _too_long(len(encoded))
    if not encoded.strip():
        raise ValueError(_("the text is empty: paste one, or choose a file"))
    if len(encoded) < 2:
        raise ValueError(_("a text must have at least 2 bytes; received {size}").format(size=len(encoded)))
    start = encoded[:LOOKED_AT_BYTES]
    if zeros := start.count(0):
        message = _("this is no text in UTF-8: {zeros:,} of its first {all:,} bytes are 0; save it as plain text")
        raise ValueError(message.format(zeros=zeros, all=len(start)))
    return encoded


def text_name(text: str | bytes) -> str:
    """The name under which ``store_text`` keeps a text: the same for the same text. Raises ValueError.

    >>> text_name("to be, or not to be: " * 100)
    'text-3a236c77a7dd84c5'
    """
    return f"text-{hashlib.sha256(check_text(text)).hexdigest()[:16]}"


def store_text(text: str | bytes) -> str:
    """Keep a text of the user's own as byte tokens in the cache folder; the name under which a run asks for it.

    The same text has the same name. The latest 20 are kept; a run keeps its own copy. Raises ValueError for what is
    empty, too long, or no text.

    >>> store_text("to be, or not to be: " * 100)
    'text-3a236c77a7dd84c5'
    """
    name = text_name(text)
    path = corpus_path(name)
    if path.exists():
        os.utime(path)
        return name
    others = sorted(path.parent.glob(f"text-{'?' * 16}.bin"), key=lambda one: one.stat().st_mtime)
    for old in others[: max(0, len(others) + 1 - MAX_TEXTS)]:
        for file in old.parent.glob(f"{old.stem}*"):  # its tokens in other vocabularies too
            file.unlink(missing_ok=True)
    write_tokens(path, check_text(text))
    return name


def copy_text(name: str, place: Path) -> None:
    """Put a text of the user's own into a folder, where ``place`` finds it. Raises ValueError where it is gone."""
    here, there = corpus_path(name), place / f"{name}.bin"
    if not here.exists():
        raise _gone(name)
    try:
        os.link(here, there)  # it takes no more room
    except OSError:
        shutil.copyfile(here, there)


def corpus_tokens(name: str = STDLIB, place: Path | None = None) -> np.memmap:
    """The tokens of a corpus: "stdlib", made at the first call, or what ``store_text`` returned. One byte a token.

    ``place`` is a folder that may hold a copy (``copy_text``), and is looked at first. Raises ValueError for any other
    name, and for a text that is no longer kept.

    >>> len(corpus_tokens("stdlib")) > 10**6
    True
    """
    path = corpus_path(name, place)
    if name == STDLIB and not path.exists():
        write_tokens(path, standard_library_text())
    if not path.exists():
        raise _gone(name)
    return open_tokens(path)


def check_corpus(name: object) -> str:
    """The name, if it can be that of a corpus. Raises ValueError otherwise."""
    if isinstance(name, str) and (name == STDLIB or _TEXT_NAME.fullmatch(name)):
        return name
    message = _("the corpus must be {stdlib!r}, or the name that store_text gave a text; received {value}")
    raise ValueError(message.format(stdlib=STDLIB, value=repr(name)[:40]))


def corpus_path(name: str, place: Path | None = None) -> Path:
    """Where the byte tokens of a corpus are, or would be. Raises ValueError for what is no name of one."""
    check_corpus(name)
    if name == STDLIB:
        version = sys.version_info
        return cache_folder("texts") / f"{name}-python{version.major}.{version.minor}.{version.micro}.bin"
    if place is not None and (place / f"{name}.bin").exists():
        return place / f"{name}.bin"
    return cache_folder("texts") / f"{name}.bin"


def _gone(name: str) -> ValueError:
    return ValueError(_("the text {name} is no longer kept: give it again").format(name=name))


def _too_long(size: int) -> ValueError:
    message = _("a text may have {limit} at most; received {size}")
    return ValueError(message.format(limit=units.si_bytes(MAX_TEXT_BYTES), size=units.si_bytes(size)))
