"""The Hugging Face cache on this disk, which mlx-lm and others fill too: what lies where in it.

Knows repositories, snapshots, blobs and references. Asks no hub, changes nothing, and knows
nothing of models. (The library's own scan takes one broken repository for none at all.)
"""

import os
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from huggingface_hub import constants

_PREFIX = "models--"
REMOVING = "removing-"  # before a snapshot's name: half of it may be gone


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A revision of a repository, as a folder of links.

    `is_main`: the one that tools take where no revision is named; `is_whole`: no link of it leads
    nowhere. Where `path` is not called like the revision, somebody began to remove it.
    """

    repository: str
    revision: str
    path: Path
    is_main: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CachedRepository:
    """A model repository in the cache. `snapshots` has the main one first, then the newest.

    `partial` are the files that a download has not finished, or never will; `orphans` such that
    have come whole, and that no snapshot uses yet, or ever will.
    """

    name: str
    path: Path
    snapshots: tuple[Snapshot, ...]
    partial: tuple[Path, ...]
    orphans: tuple[Path, ...]

    @property
    def loose(self) -> tuple[Path, ...]:
        """The files that are no part of any snapshot."""
        return self.partial + self.orphans


def cache_folder() -> Path:
    """Where the cache is: $HF_HUB_CACHE, $HF_HOME/hub, or the user's own."""
    return Path(constants.HF_HUB_CACHE).expanduser()


def repositories(cache: Path) -> list[CachedRepository]:
    """The model repositories in `cache`, by name. One that may not be read is left out."""
    try:
        places = sorted(cache.glob(f"{_PREFIX}*"))
    except OSError:
        return []
    found = []
    for place in places:
        try:
            if place.is_dir():
                found.append(read_repository(place))
        except OSError:
            continue
    return found


def read_repository(place: Path) -> CachedRepository:
    """The repository in the folder `place`. Raises OSError where that may not be read."""
    name = place.name.removeprefix(_PREFIX).replace("--", "/")
    main = reference(place / "refs" / "main")
    folders = place / "snapshots"
    snapshots = [
        Snapshot(
            repository=name,
            revision=folder.name.removeprefix(REMOVING),
            path=folder,
            is_main=folder.name == main,
            is_whole=all(map(os.path.exists, files(folder))),
        )
        for folder in (sorted(folders.iterdir()) if folders.is_dir() else ())
        if folder.is_dir() and not folder.name.startswith(".")
    ]
    snapshots.sort(key=lambda one: (one.is_main, one.path.stat().st_mtime), reverse=True)
    used = {identity for path in files(folders) if (identity := _identity(path))}
    blobs = [path for path in sorted((place / "blobs").glob("*")) if path.is_file()]
    partial = [path for path in blobs if path.name.endswith(".incomplete")]
    orphans = [
        path
        for path in blobs
        if path not in partial and not path.is_symlink() and _identity(path) not in used
    ]
    return CachedRepository(name, place, tuple(snapshots), tuple(partial), tuple(orphans))


def _identity(path: Path) -> tuple[int, int] | None:
    """What file it is, however it is called; None where it leads nowhere."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def first_hop(path: Path) -> Path:
    """Where a link leads, which may be a link again: the blob in the repository."""
    return Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else path


def reference(path: Path) -> str:
    """The revision that the file at `path` names; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def files(folder: Path) -> list[Path]:
    """All files and links below `folder`, those that lead nowhere too; none if it is not there.

    Raises OSError where a folder may not be read: what is in it must not be taken for nothing.
    """

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    walk = os.walk(folder, onerror=failed)
    return [Path(place, name) for place, _, names in walk for name in names]


def size_bytes(folder: Path) -> int:
    """What the files in `folder` take up, links followed, each file once. Lost ones count 0."""
    sizes = {}
    for path in files(folder):
        try:
            state = path.stat()
        except OSError:
            continue
        sizes[state.st_dev, state.st_ino] = state.st_size
    return sum(sizes.values())


def is_in_use(loose: Path) -> bool:
    """Whether a living process works on that file in `blobs`: it holds the blob's lock."""
    repository = loose.parent.parent
    etag = loose.name.split(".")[0]
    path = repository.parent / ".locks" / repository.name / f"{etag}.lock"
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
