"""Slipstream's own files: where they are kept, and how they are written whole or not at all.

Knows files and folders, not their contents. A writer holds a lock, where two may
write. Resumable downloads write to a partial file of their own, and `publish` it when it is
checked.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path, user_data_path, user_log_path

from models.errors import Problem, unreadable, unwritable
from models.in_words import one_line

HOME_VARIABLE = "SLIPSTREAM_HOME"
MAXIMUM_CONFIG_BYTES = 16_000_000
_BUILDING = ".building"
_NOT_IN_NAMES = '<>:"/\\|?*'
_LONGEST_STEM, _LONGEST_STEM_BYTES = 80, 200
_LONGEST_PATH = 1024  # on a Mac
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # on a Mac


def written_path(text: str | os.PathLike[str]) -> Path:
    """Return the path that a user wrote, with ~ for a home folder. Raises Problem for a text that
    can name none: a long one, no one's home, one with a NUL character or half a character."""
    with suppress(ValueError):
        found = os.path.expanduser(text)
        named = found[:1] != "~" or os.path.lexists(found)
        if named and "\0" not in found and len(os.fsencode(found)) < _LONGEST_PATH:
            return Path(found)
    raise Problem(f"{str(text)[:80]!r} names no file.", "Check the path.")


def data_folder(home: Path | None = None) -> Path:
    """Return Slipstream's folder: `home`, else $SLIPSTREAM_HOME, else in the user's data folder.

    Conversations, calibrations, models, the lists of downloads and model folders, and earlier
    answers where they are learned from are in it.
    """
    if home is not None:
        return home
    variable = os.environ.get(HOME_VARIABLE)
    return written_path(variable or user_data_path("Slipstream", appauthor=False))


def cache_folder(home: Path | None = None) -> Path:
    """Return the folder for files that Slipstream can make again: `home`, or $SLIPSTREAM_HOME, or
    the user's folder for caches."""
    if home is not None or os.environ.get(HOME_VARIABLE):
        return data_folder(home)
    return written_path(user_cache_path("Slipstream", appauthor=False))


def log_folder(home: Path | None = None) -> Path:
    """Return the folder for logs: in `home`, or $SLIPSTREAM_HOME, or where the platform keeps an
    app's logs."""
    if home is not None or os.environ.get(HOME_VARIABLE):
        return data_folder(home) / "logs"
    return written_path(user_log_path("Slipstream", appauthor=False))


def models_folder(home: Path | None = None) -> Path:
    """Return the folder of imported and converted models, in the data folder."""
    return data_folder(home) / "models"


def read_json_object(path: Path, *, maximum_bytes: int = MAXIMUM_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in the file at `path`. Raises Problem if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(maximum_bytes + 1)
        value = json.loads(data.decode("utf-8-sig")) if len(data) <= maximum_bytes else None
    except (ValueError, RecursionError):
        value = None
    except OSError as error:
        raise unreadable(path, error) from error
    if not isinstance(value, dict):
        raise Problem(f"{path} is not a JSON object.", "Download or import the model again.")
    return value


def write_json(path: Path, value: object) -> None:
    """Replace the file at `path` by `value`, as `replacing` does. Raises Problem."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(value, indent=1))
    except OSError as error:
        raise unwritable(f"{path.name} cannot be written in {path.parent}", error) from error


def file_stem(title: str) -> str:
    """`title` as a file's name without a suffix, which every file system takes; or empty."""
    kept = "".join(" " if letter in _NOT_IN_NAMES else letter for letter in title)
    short = one_line(kept).strip(". ")[:_LONGEST_STEM].encode()[:_LONGEST_STEM_BYTES]
    return short.decode(errors="ignore").rstrip(". ")


def free_bytes(place: Path) -> int:
    """Return the free bytes of the disk on which `place` is or will be."""
    nearest = next(folder for folder in (place, *place.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(nearest).free


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise Problem if the file cannot be written in the block."""
    try:
        yield
    except OSError as error:
        raise Problem(
            f"{path} cannot be written: {error.strerror or error}.",
            "Choose another place, or make room there.",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Replace the file at `path` by `text`, as `replacing` does. Raises OSError."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to. When the block ends well, that file replaces the one at `path`.

    The file has either its old or its new content, whenever the process or the machine dies, and
    the new one is on the disk when this returns. If the block raises, the old content stays. The
    path has the suffix of `path`, is in the same folder, and is the same for every process.
    """
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        yield partial
        publish(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def publish(partial: Path, path: Path) -> None:
    """Give a finished file its name, on the disk before this returns. Raises OSError."""
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


@contextmanager
def locked(folder: Path, *, seconds: float) -> Iterator[None]:
    """Inside the block, no other process that asks for the same lock changes the folder. Raises
    OSError if another holds it for longer than `seconds`.

    The lock lies next to the folder, so that it never makes it.
    """
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        lock.acquire(timeout=seconds)
    except Timeout as error:
        raise TimeoutError(errno.ETIMEDOUT, "another program is using them") from error
    try:
        yield
    finally:
        lock.release()


def holding(path: Path) -> AbstractContextManager[object]:
    """Take the lock of the file at `path`, for a `with`. Raises Problem if it cannot be taken."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path.with_name(f".{path.name}.lock")).acquire()
    except OSError as error:
        raise unwritable(f"{path.parent} cannot be made or written", error) from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into. It becomes `folder` when the block ends well; otherwise nothing
    is left.

    What a killed attempt left is removed by the next one. Raises Problem if `folder` exists
    already, is being made by another process, or cannot be written.
    """
    partial = folder.with_name(f".{folder.name}{_BUILDING}")
    try:
        if os.path.lexists(folder):
            raise Problem(f"{folder} exists already.", "Delete it, or choose another folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(partial.with_name(f"{partial.name}.lock"), timeout=0) as lock:
            shutil.rmtree(partial, ignore_errors=True)
            try:
                partial.mkdir()
                yield partial
                for path in partial.iterdir():
                    _sync(path)  # a name must not reach the disk before its file
                _sync(partial)
                partial.rename(folder)
                _sync(folder.parent)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout as error:
        raise Problem(
            f"Another process is making {folder}.", "Wait until it has finished."
        ) from error
    except OSError as error:
        other = "Choose another folder."
        raise unwritable(f"{folder} cannot be written", error, otherwise=other) from error


def unfinished_folder(path: Path) -> str | None:
    """Return the name of the folder that an unfinished `new_folder` at `path` would have become;
    None for another folder."""
    name = path.name.removeprefix(".").removesuffix(_BUILDING)
    return name if path.name == f".{name}{_BUILDING}" else None


def sync(number: int) -> None:
    """Wait until an open file, or the names in a folder, are on the disk.

    On a Mac `fsync` alone gives them to the disk, which may keep them in its memory for a while.
    """
    with suppress(OSError):  # not every file system knows it
        if _FULL_SYNC is not None:
            fcntl.fcntl(number, _FULL_SYNC)
            return
    os.fsync(number)


def _sync(path: Path) -> None:
    try:
        number = os.open(path, os.O_RDONLY)
        try:
            sync(number)
        finally:
            os.close(number)
    except OSError:
        if not path.is_dir():  # whose names not every file system can; the content is safe anyway
            raise
