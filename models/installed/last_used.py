"""When each model was last loaded: the time of an empty file per model.

Knows paths and times; nothing of models. Falls back to the access time of tokenizer_config.json for
models that only other programs loaded, where the file system records access times.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from models.files import data_folder

# Files that loading a model reads, and listing it does not.
_READ_WHEN_LOADED = ("tokenizer_config.json", "generation_config.json")


def mark_used(path: Path, *, home: Path | None = None) -> None:
    """Record that the model at `path` is being loaded. A full disk is ignored."""
    with suppress(OSError):
        note = _note(path, home)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def last_used(path: Path, *, home: Path | None = None) -> float | None:
    """Return the time at which the model at `path` was last loaded, in seconds since 1970; None if
    not known."""
    with suppress(OSError):
        return _note(path, home).stat().st_mtime
    times = []
    for name in _READ_WHEN_LOADED:
        with suppress(OSError):
            times.append((path / name).stat().st_atime)
    return max(times, default=None)


def forget_used(path: Path, *, home: Path | None = None) -> None:
    """Drop the record of the model at `path`, which was deleted."""
    with suppress(OSError):
        _note(path, home).unlink()


def _note(path: Path, home: Path | None) -> Path:
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    return data_folder(home) / "last-used" / digest
