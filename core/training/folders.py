"""Where training keeps its texts and runs, outside the repository; each file is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def cache_folder(name: str) -> Path:
    """A folder of this user's: under NAPKIN_CACHE_DIR, the system's place for caches, or the temporary folder.

    >>> cache_folder("texts").name
    'texts'
    """
    for parent in _candidates():
        folder = parent / name
        with contextlib.suppress(OSError):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    raise OSError("no folder can be written to; set NAPKIN_CACHE_DIR to one that can")


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("NAPKIN_CACHE_DIR"):
        yield Path(given)
        return
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if system := os.environ.get(variable):
            yield Path(system) / "napkin"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path.home() / ".cache" / "napkin"
    user = os.getuid() if hasattr(os, "getuid") else "user"
    yield Path(tempfile.gettempdir()) / f"napkin-{user}"


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of ``path`` when the block ends, on disk, in one step.

    Whoever is killed inside the block leaves the old file as it was; whoever raises inside it, too.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> int:
    """Let ``write`` fill a file that then takes the place of ``path``; its bytes.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "note", lambda file: file.write(b"four"))
    4
    """
    with replacing(path) as file:
        write(file)
        return file.tell()  # once it has its name, another process may take it away


def remove_parts(path: Path) -> None:
    """Delete what writers of this file that were killed have left half written. Only for who alone writes it."""
    for part in path.parent.glob(f".{path.name}.*.part"):
        with contextlib.suppress(OSError):
            part.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name itself last through a loss of power, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
