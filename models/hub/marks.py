"""The mark that a model from the hub is complete: written last, in Slipstream's own folder.

It lists the files of a snapshot in the cache, with the size and time of each when it was checked
against the hub's hash, so that checking again is cheap; wherever the cache lies now. Knows nothing
of where files come from.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from filelock import FileLock

from models.errors import Problem
from models.files import models_folder, read_json_object, write_json
from models.hub.cache_layout import has_digest, storage_of
from models.hub.repository import is_gguf_name, is_weights_name
from models.hub.stopping import Stop


@dataclass(frozen=True, slots=True)
class _Marked:
    name: str
    size_bytes: int
    modified_ns: int
    digest: str


def mark(path: Path, digests: dict[str, str], *, home: Path | None = None) -> None:
    """Record that the model at `path`, a snapshot or a GGUF file in one, is complete.

    `digests` names its checked files, with their hashes. Raises Problem.
    """
    snapshot = _snapshot(path)
    states = {name: (snapshot / name).stat() for name in digests}
    files = [
        _Marked(name, states[name].st_size, states[name].st_mtime_ns, digest)
        for name, digest in digests.items()
    ]
    _write(path, files, home)


def _write(path: Path, files: Sequence[_Marked], home: Path | None) -> None:
    place, found = mark_path(path, home=home), storage_of(_snapshot(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.parent / ".lock"):
        write_json(
            place,
            {
                "repository": found[0].name if found else "",
                "revision": found[1] if found else "",
                "files": list(map(astuple, files)),
            },
        )


def completed(path: Path, *, home: Path | None = None) -> bool:
    """Whether the model at `path`, a snapshot or a GGUF file in one, is whole and was checked.

    Every file has the size and time that it had when it was checked, lies in the cache, and no
    weights were added since. A file with another time is read, and then has its new one.
    """
    try:
        return _is_unchanged(path, home=home)
    except (OSError, Problem, LookupError, TypeError, ValueError):
        return False


def _is_unchanged(path: Path, *, home: Path | None) -> bool:
    snapshot = _snapshot(path)
    found = storage_of(snapshot)
    place = mark_path(path, home=home)
    if found is None or not place.is_file():
        return False
    saved = read_json_object(place)
    files = [_Marked(*values) for values in saved["files"]]
    seen = []  # with the times from before they were read
    if not files:
        return False
    for file in files:
        state = (snapshot / file.name).stat()
        if state.st_size != file.size_bytes:
            return False
        changed = state.st_mtime_ns != file.modified_ns  # rewritten, or copied to another disk
        if changed and not has_digest(snapshot / file.name, file.digest, stop=Stop()):
            return False
        seen.append(replace(file, modified_ns=state.st_mtime_ns))
        if not (snapshot / file.name).resolve().is_relative_to(found[0].cache):
            return False
    names = {file.name for file in files}
    if seen != files:
        with suppress(OSError, Problem):  # then they are read again the next time
            _write(path, seen, home)
    if is_gguf_name(path.name):
        return path.name in names
    return names.issuperset(name for name in os.listdir(snapshot) if is_weights_name(name))


def unmark(path: Path, *, home: Path | None = None) -> None:
    """Remove the mark, before anything at `path` is changed or deleted. Raises Problem."""
    try:
        mark_path(path, home=home).unlink(missing_ok=True)
    except OSError as error:
        raise Problem(
            f"The mark of {path.name} cannot be removed: {error.strerror or error}.",
            "Check that you may write in Slipstream's data folder.",
        ) from error


def mark_path(path: Path, *, home: Path | None = None) -> Path:
    """Return the path of the mark for the model at `path`, which need not exist."""
    snapshot = _snapshot(path)
    name = f"{snapshot.parent.parent.name}@{snapshot.name}"
    if is_gguf_name(path.name):
        name += f"@{hashlib.sha256(path.name.encode()).hexdigest()[:12]}"
    return models_folder(home) / ".hub" / f"{name}.json"


def _snapshot(path: Path) -> Path:
    """The snapshot of a GGUF file or a folder; links within it are not followed."""
    folder = path.parent if is_gguf_name(path.name) else path
    return folder.resolve()
