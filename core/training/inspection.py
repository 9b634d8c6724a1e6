"""What a checkpoint file claims to hold, found out without loading any of it and without running anything in it.

A checkpoint is a zip archive of torch's: one pickle that describes, and one uncompressed entry for each storage. The
archive's directory is compared with the file's size, every checksum is computed, and the pickle is read by a reader
that knows four words, each of which only notes what it was told.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from core import units
from core.training.config import TrainConfig
from core.words import _

FORMAT_KEY, FORMAT_VERSION = "napkin_checkpoint", 1
MAX_FILE_BYTES = 2 * 2**30
MAX_ENTRIES = 20_000
MAX_PICKLE_BYTES = 32 * 2**20
MAX_DIMS = 16
_CHUNK = 2**20
_ITEM_BYTES = {
    "DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1,
}  # fmt: skip
_Unpickler: Any = pickle._Unpickler  # the one in Python: no word makes it allocate by a number


class CheckpointError(ValueError):
    """A file that is no checkpoint of ours, or a damaged or a hostile one; the message says which, in one sentence."""


@dataclass(frozen=True)
class TensorClaim:
    """A tensor as the file describes it."""

    shape: tuple[int, ...]
    storage: str
    num_bytes: int


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint holds: the step that comes next, its run's settings where it names them, and its bytes.

    ``model`` has every parameter's name and shape; ``parts`` says what is there beside the model.
    """

    step: int
    config: TrainConfig | None
    file_bytes: int
    num_tensors: int
    tensor_bytes: int
    model: tuple[tuple[str, tuple[int, ...]], ...]
    parts: tuple[str, ...]


def inspect_checkpoint(path_or_file: str | Path | IO[bytes]) -> CheckpointInfo:
    """Look at a checkpoint before it is loaded. For a file from elsewhere, run this in a job with a memory limit.

    Raises CheckpointError, a ValueError, for what is truncated, damaged, of another program, larger than 2 GiB,
    compressed (a zip bomb), carries code, or describes tensors that its bytes do not hold.
    """
    if isinstance(path_or_file, (str, Path)):
        with Path(path_or_file).open("rb") as file:
            return inspect_checkpoint(file)
    size = _size(path_or_file)
    if size > MAX_FILE_BYTES:
        message = _("a checkpoint may have {limit} at most; this file has {size}")
        raise CheckpointError(message.format(limit=units.si_bytes(MAX_FILE_BYTES), size=units.si_bytes(size)))
    try:
        with zipfile.ZipFile(path_or_file) as archive:
            root = _check_directory(archive, size)
            _check_sums(archive)
            reader = _Claims(archive.open(f"{root}/data.pkl"), _storage_bytes(archive, root))
            content = reader.load()
    except CheckpointError:
        raise
    except zipfile.BadZipFile as error:
        message = _("this is no checkpoint, or a truncated or damaged one: {error}")
        raise CheckpointError(message.format(error=str(error)[:200])) from error
    except (pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError) as error:
        message = _("the description inside this file cannot be read: {error}")
        raise CheckpointError(message.format(error=str(error)[:200])) from error
    except (NotImplementedError, RuntimeError, OSError, OverflowError, RecursionError) as error:
        message = _("this file cannot be read as a checkpoint: {error}")
        raise CheckpointError(message.format(error=str(error)[:200])) from error
    return _info(content, size, reader.claims)


def _size(file: IO[bytes]) -> int:
    file.seek(0, 2)
    size = file.tell()
    file.seek(0)
    return size


def _check_directory(archive: zipfile.ZipFile, file_bytes: int) -> str:
    """The name of the archive's one folder, if its directory is that of a checkpoint and fits the file."""
    entries = archive.infolist()
    if not 0 < len(entries) <= MAX_ENTRIES:
        message = _("a checkpoint has 1 to {limit:,} entries; this file has {count:,}")
        raise CheckpointError(message.format(limit=MAX_ENTRIES, count=len(entries)))
    names = [entry.filename for entry in entries]
    root = names[0].split("/")[0]
    if len(set(names)) < len(names) or f"{root}/data.pkl" not in names:
        raise CheckpointError(_("this archive was not written by torch.save: it is another program's"))
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
            raise CheckpointError(_("a checkpoint's entries are never compressed or encrypted; in this file some are"))
        if not entry.filename.startswith(f"{root}/") or ".." in entry.filename:
            raise CheckpointError(_("this archive was not written by torch.save: it is another program's"))
    claimed = sum(entry.file_size for entry in entries)
    if claimed > file_bytes:
        message = _("this file claims to hold {claimed} and has {size}")
        raise CheckpointError(message.format(claimed=units.si_bytes(claimed), size=units.si_bytes(file_bytes)))
    if archive.getinfo(f"{root}/data.pkl").file_size > MAX_PICKLE_BYTES:
        message = _("a checkpoint's description has {limit} at most; this one's is larger")
        raise CheckpointError(message.format(limit=units.si_bytes(MAX_PICKLE_BYTES)))
    return root


def _check_sums(archive: zipfile.ZipFile) -> None:
    """Read every entry to its end, which compares its checksum."""
    for entry in archive.infolist():
        with archive.open(entry) as stream:
            while stream.read(_CHUNK):
                pass


def _storage_bytes(archive: zipfile.ZipFile, root: str) -> dict[str, int]:
    start = f"{root}/data/"
    return {e.filename[len(start) :]: e.file_size for e in archive.infolist() if e.filename.startswith(start)}


@dataclass(frozen=True)
class _StorageKind:
    name: str


@dataclass(frozen=True)
class _StorageClaim:
    kind: str
    count: int


class _Claims(_Unpickler):  # type: ignore[misc]
    """Reads a description: a tensor becomes a claim, checked against the bytes that are there."""

    def __init__(self, file: Any, storage_bytes: dict[str, int]) -> None:
        super().__init__(file, encoding="utf-8")
        self._storage_bytes = storage_bytes
        self.claims: list[TensorClaim] = []

    def find_class(self, module: str, name: str) -> Any:
        """The four words."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self._tensor
        if module == "torch" and name in _ITEM_BYTES:
            return _StorageKind(name)
        message = _("this file carries code or objects ({name}), and a checkpoint holds only numbers and names")
        raise CheckpointError(message.format(name=f"{module}.{name}"[:80]))

    def get_extension(self, code: int) -> None:
        """Words by number: there are none."""
        raise CheckpointError(_("this file carries code or objects, and a checkpoint holds only numbers and names"))

    def persistent_load(self, pid: Any) -> _StorageClaim:
        """A storage: its kind, its entry, and how many numbers it says that it has."""
        word, kind, key, _location, count = pid
        if word != "storage" or not isinstance(kind, _StorageKind) or not _is_count(count):
            raise CheckpointError(_("this file describes a storage in a way that no checkpoint does"))
        there, claimed = self._storage_bytes.get(str(key), 0), count * _ITEM_BYTES[kind.name]
        if claimed != there:
            message = _("this file describes numbers of {claimed} where it holds {there}")
            raise CheckpointError(message.format(claimed=units.si_bytes(claimed), there=units.si_bytes(there)))
        return _StorageClaim(kind.name, count)

    def _tensor(self, storage: Any, offset: Any, shape: Any, stride: Any, *_rest: Any) -> TensorClaim:
        numbers = (offset, *shape, *stride)
        if not isinstance(storage, _StorageClaim) or len(shape) != len(stride) or len(shape) > MAX_DIMS:
            raise CheckpointError(_("this file describes a tensor in a way that no checkpoint does"))
        if not all(_is_count(number) for number in numbers):
            raise CheckpointError(_("this file describes a tensor in a way that no checkpoint does"))
        count = math.prod(shape)
        last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if count else 0
        if count > storage.count or (count and last >= storage.count):
            item = _ITEM_BYTES[storage.kind]
            message = _("this file describes a tensor of {claimed} over {there} of numbers")
            claimed, there = units.si_bytes(count * item), units.si_bytes(storage.count * item)
            raise CheckpointError(message.format(claimed=claimed, there=there))
        self.claims.append(TensorClaim(tuple(shape), storage.kind, count * _ITEM_BYTES[storage.kind]))
        return self.claims[-1]


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**48


def _info(content: object, file_bytes: int, claims: list[TensorClaim]) -> CheckpointInfo:
    """What the description says, if it is that of a checkpoint of ours."""
    if not isinstance(content, Mapping) or FORMAT_KEY not in content:
        raise CheckpointError(_("this is a file of torch's, but no checkpoint of a run: it names no step"))
    if content[FORMAT_KEY] != FORMAT_VERSION:
        message = _("this checkpoint is of format {found}, and this program reads format {known}")
        raise CheckpointError(message.format(found=repr(content[FORMAT_KEY])[:40], known=FORMAT_VERSION))
    step, model, settings = content.get("step"), content.get("model"), content.get("config")
    if not _is_count(step) or not isinstance(model, Mapping):
        raise CheckpointError(_("this checkpoint names no step, or holds no model"))
    shapes = tuple((name, one.shape) for name, one in model.items() if isinstance(one, TensorClaim))
    if len(shapes) != len(model) or not all(isinstance(name, str) for name, _shape in shapes):
        raise CheckpointError(_("this checkpoint's model is not made of named tensors"))
    config = TrainConfig.from_json(settings) if isinstance(settings, str) else None
    parts = tuple(str(key) for key in content if key not in (FORMAT_KEY, "model", "step", "config", "torch"))
    assert isinstance(step, int)
    return CheckpointInfo(step, config, file_bytes, len(claims), sum(one.num_bytes for one in claims), shapes, parts)
