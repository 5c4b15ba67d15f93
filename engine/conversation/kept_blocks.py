"""Stores the keys and values of documents' and instructions' tokens in files, a block of tokens
each, and what other layers hold after a block in another file.

A block's name is a digest of its own tokens, of the name of the block before it, and, for the
first block, of everything else that the content depends on. So a name belongs to one content: the
caches after those tokens. A damaged file is deleted.

The texts can be read from these files. So they are private, and in a folder for each set of
documents, which is deleted with any of them; instructions are in the folder of no document. If they
grow too large together, the least recently used go first. Knows files and bytes; no model, no MLX.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from time import time_ns

from models.files import cache_folder, locked, replacing, write_text

MOST_BYTES = 8_000_000_000
_MOST_OF_THE_DISK = 0.1
_LOCK_SECONDS = 5.0  # to wait for another process, which needs less for a block
_STEP_NS = 1_000  # by which a block counts as used before the one in front of it
_SUFFIX = ".safetensors"
_STATE = "-state"
_DOCUMENTS = "documents.json"
_DIGEST_BYTES = 32  # at the end of a file
_PIECE_BYTES = 1 << 20
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# Slipstream can make everything here again: see https://bford.info/cachedir
"""


def block_names(of: str, tokens: Sequence[int], *, rows: int) -> list[str]:
    """The names of the blocks of `rows` tokens that `tokens` begins with. `of`: everything else
    that their content depends on."""
    names, name = list[str](), of
    for end in range(rows, len(tokens) + 1, rows):
        own = ",".join(map(str, tokens[end - rows : end]))
        name = hashlib.sha256(f"{name} {own}".encode()).hexdigest()
        names.append(name)
    return names


def state_name(block: str) -> str:
    """Return the name of the file with the states after a block: of sliding windows and of
    recurrent layers."""
    return f"{block}{_STATE}"


def used_ns(place: int, *, now: int) -> int:
    """Return the time of use of block number `place`. It is earlier than the time of the block
    before it, so that a block never outlives the blocks that it needs."""
    return now - (place + 1) * _STEP_NS


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    size_bytes: int
    used_ns: int


class KeptBlocks:
    """The blocks in one folder, which several processes may use. `most_bytes`: the most that the
    files take together; None for 8 GB, and at most a tenth of the free disk."""

    def __init__(self, folder: Path, *, most_bytes: int | None = None) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    @property
    def most_bytes(self) -> int:
        """The most that the files may take together, now."""
        if self._most_bytes is not None:
            return self._most_bytes
        try:
            above = (path for path in (self._folder, *self._folder.parents) if path.exists())
            free = shutil.disk_usage(next(above)).free
        except OSError:
            return 0
        return min(MOST_BYTES, int(_MOST_OF_THE_DISK * (free + held_bytes(self._folder))))

    def find(self, names: Sequence[str], *, state: bool = False) -> list[Path]:
        """The files of these blocks, up to the first that is missing; with `state`, up to the last
        that has a state, whose file comes last. They count as used now."""
        on_disk = {file.path.stem: file.path for file in _files(self._folder)}
        held = list(takewhile(on_disk.__contains__, names))
        if state:
            while held and state_name(held[-1]) not in on_disk:
                held.pop()
            held += [state_name(name) for name in held[-1:]]
        found = [on_disk[name] for name in held]
        now = time_ns()
        for place, path in enumerate(found):
            with suppress(OSError):
                os.utime(path, ns=(now, used_ns(place, now=now)))
        return found

    def is_whole(self, path: Path) -> bool:
        """Whether a file is as it was written. Deletes it if it is damaged."""
        with suppress(OSError):
            size_bytes = path.stat().st_size - _DIGEST_BYTES
            with path.open("rb") as file:
                file.seek(max(size_bytes, 0))
                if _digest(path, path.stem, size_bytes) == file.read(_DIGEST_BYTES):
                    return True
            path.unlink()
        return False

    def begin(self, documents: Sequence[str]) -> Path:
        """Make the folder for the blocks of documents with these digests; without one, for those
        of instructions. Raises OSError."""
        wanted = tuple(sorted(set(documents)))
        folder = self._folder / _folder_name(wanted)
        if _documents(folder) == wanted:  # a prompt does not wait for another process
            return folder
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._folder, seconds=_LOCK_SECONDS):
            for path in (self._folder, folder):
                path.mkdir(mode=0o700, exist_ok=True)
                path.chmod(0o700)
            if not (self._folder / _TAG).exists():
                write_text(self._folder / _TAG, _TAG_TEXT)
            write_text(folder / _DOCUMENTS, json.dumps(wanted))
        return folder

    def write(
        self, path: Path, save: Callable[[Path], None], *, size_bytes: int, used_ns: int
    ) -> bool:
        """Let `save` write a block of about `size_bytes`, with this time of use. False if the
        folder is gone, because one of its documents was deleted. Raises OSError."""
        with locked(self._folder, seconds=_LOCK_SECONDS):
            if not (path.parent / _DOCUMENTS).is_file():
                return False
            self._make_room(size_bytes)
            with replacing(path) as partial:
                partial.touch(mode=0o600)
                save(partial)
                digest = _digest(partial, path.stem, partial.stat().st_size)
                with partial.open("ab") as file:
                    file.write(digest)
                os.utime(partial, ns=(used_ns, used_ns))
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Delete the least recently used blocks until there is room for `size_bytes`. Delete the
        leftovers of killed processes, too."""
        for partial in self._folder.glob(f"*/.*{_SUFFIX}"):
            partial.unlink()
        files = sorted(_files(self._folder), key=lambda file: file.used_ns, reverse=True)
        held, most = sum(file.size_bytes for file in files), self.most_bytes
        while files and held + size_bytes > most:
            oldest = files.pop()
            oldest.path.unlink(missing_ok=True)
            held -= oldest.size_bytes


def kept_blocks_folder(home: Path | None = None) -> Path:
    """The folder of the files: under `home`, else $SLIPSTREAM_HOME, else the user's folder for
    caches. A tag in it (CACHEDIR.TAG) tells backup programs to leave it out."""
    return cache_folder(home) / "kept-documents"


def held_bytes(folder: Path) -> int:
    """The bytes that the files take together."""
    return sum(file.size_bytes for file in _files(folder))


def forget(folder: Path, document: str) -> None:
    """Delete the blocks of the document with this digest, alone or with others. Raises OSError."""
    if not folder.is_dir():
        return
    with locked(folder, seconds=_LOCK_SECONDS):
        for path in folder.iterdir():
            if not path.is_dir():
                continue
            listed = _documents(path)
            if listed is None or document in listed:
                shutil.rmtree(path)


def forget_all(folder: Path) -> None:
    """Delete all blocks. Raises OSError."""
    if folder.is_dir():
        with locked(folder, seconds=_LOCK_SECONDS):
            shutil.rmtree(folder)


def _files(folder: Path) -> Iterator[_File]:
    """The files of all blocks."""
    for path in folder.glob(f"*/*{_SUFFIX}"):
        with suppress(OSError):  # another process may delete it
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and not path.name.startswith("."):
                yield _File(path, found.st_size, found.st_mtime_ns)


def _documents(folder: Path) -> tuple[str, ...] | None:
    """Return the digests of the documents that a folder is for; None if its list does not fit its
    name."""
    with suppress(OSError, ValueError, RecursionError):
        listed = json.loads((folder / _DOCUMENTS).read_text(encoding="utf-8"))
        if isinstance(listed, list) and _folder_name(listed) == folder.name:
            return tuple(map(str, listed))
    return None


def _folder_name(documents: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(documents).encode()).hexdigest()[:32]


def _digest(path: Path, name: str, size_bytes: int) -> bytes:
    """The digest of a block's name and of the first `size_bytes` of its file. Raises OSError."""
    digest, left = hashlib.sha256(name.encode()), size_bytes
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(left, _PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
    return digest.digest()
