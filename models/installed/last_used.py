"""When each model was last loaded: an empty file a model, whose time is that time.

Knows paths and times; nothing of models. Where we have not loaded one, others may have: then the
time when its tokenizer's settings were read tells, where the disk keeps such times at all.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from models.files import data_folder

# Read by whoever loads a model, and by nobody who only looks at what there is.
_READ_WHEN_LOADED = ("tokenizer_config.json", "generation_config.json")


def mark_used(path: Path, *, home: Path | None = None) -> None:
    """Note that the model at `path` is being loaded. A full disk costs the note, nothing else."""
    with suppress(OSError):
        note = _note(path, home)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def last_used(path: Path, *, home: Path | None = None) -> float | None:
    """When the model at `path` was last loaded, in seconds since 1970; None if nothing tells."""
    with suppress(OSError):
        return _note(path, home).stat().st_mtime
    times = []
    for name in _READ_WHEN_LOADED:
        with suppress(OSError):
            times.append((path / name).stat().st_atime)
    return max(times, default=None)


def forget_used(path: Path, *, home: Path | None = None) -> None:
    """The model at `path` is no more."""
    with suppress(OSError):
        _note(path, home).unlink()


def _note(path: Path, home: Path | None) -> Path:
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    return data_folder(home) / "last-used" / digest
