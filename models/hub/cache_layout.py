"""The layout of the Hugging Face cache on this disk, which other programs fill too.

A repository's folder holds `blobs`, each named by its sha256 (large files) or its git sha1 (small
ones); `snapshots/<commit>`, links to them under the files' names; and `refs`, which commit a branch
was at. Knows how to read and write these; asks no hub, and knows nothing of models. (The library's
own scan fails altogether where a single repository is broken.)
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_native_id

from filelock import FileLock, Timeout
from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from models.files import publish, written_path
from models.hub.stopping import Stop

REMOVING = "removing-"  # before a snapshot's name: half of it may be gone
_PREFIX = "models--"
_SNAPSHOT = re.compile(r"/models--(?P<name>[\w.-]+)/snapshots/(?P<revision>[0-9a-f]{40})$")
_LOOK_SECONDS = 0.2
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A revision of a repository, as a folder of links.

    `is_main`: tools use it if no revision is named; `is_whole`: none of its links is broken. A
    `path` with another name than the revision shows that its removal has begun.
    """

    repository: str
    revision: str
    path: Path
    is_main: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class CachedRepository:
    """A model repository in the cache. `snapshots` has the main one first, then the newest.

    `partial` are the files of unfinished downloads; `orphans` are whole files that no snapshot
    uses, because a download is not finished or was given up.
    """

    name: str
    path: Path
    snapshots: tuple[Snapshot, ...]
    partial: tuple[Path, ...]
    orphans: tuple[Path, ...]

    @property
    def loose(self) -> tuple[Path, ...]:
        return self.partial + self.orphans


def cache_folder() -> Path:
    """The cache: $HF_HUB_CACHE, $HF_HOME/hub, or the user's default one."""
    return written_path(constants.HF_HUB_CACHE)


def repositories(cache: Path) -> list[CachedRepository]:
    """The model repositories in `cache`, by name. Unreadable ones are left out."""
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
    """The repository in the folder `place`. Raises OSError if it cannot be read."""
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
    snapshots.sort(key=lambda each: (each.is_main, each.path.stat().st_mtime), reverse=True)
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
    """Return the identity of the file that a path leads to; None for a broken link."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def first_hop(path: Path) -> Path:
    """Return the target of a link, which may be a link again: the blob in the repository."""
    return Path(os.path.normpath(path.parent / os.readlink(path))) if path.is_symlink() else path


def reference(path: Path) -> str:
    """The revision that the file at `path` names; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def files(folder: Path) -> list[Path]:
    """All files and links below `folder`, broken links too; none if it does not exist.

    Raises OSError if a folder cannot be read: it must not be taken for an empty one.
    """

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    walk = os.walk(folder, onerror=failed)
    return [Path(place, name) for place, _, names in walk for name in names]


def size_bytes(folder: Path) -> int:
    """The size of the files in `folder`, links followed, each file once; broken links count 0."""
    sizes = {}
    for path in files(folder):
        try:
            state = path.stat()
        except OSError:
            continue
        sizes[state.st_dev, state.st_ino] = state.st_size
    return sum(sizes.values())


def is_in_use(loose: Path) -> bool:
    """Whether a running process holds the lock of that file in `blobs`."""
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
    except OSError:  # of a cache that is only read
        return False
    lock.release()
    return False


@dataclass(frozen=True, slots=True)
class Storage:
    """The place of a repository in a cache."""

    cache: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.cache / repo_folder_name(repo_id=self.name, repo_type="model")

    def blob(self, digest: str) -> Path:
        """The file with the content of that sha256, or git sha1."""
        return self.folder / "blobs" / digest

    def partial(self, digest: str) -> Path:
        """The unfinished file. The cache's own tools recognise and clean files of this name."""
        return self.folder / "blobs" / f"{digest}.slipstream.incomplete"

    def snapshot(self, revision: str) -> Path:
        """The folder that loaders open."""
        return self.folder / "snapshots" / revision

    @contextmanager
    def locked(self, digest: str, *, stop: Stop) -> Iterator[None]:
        """Hold that blob's lock against all users of the cache. Raises Stopped while waiting."""
        path = self.cache / ".locks" / self.folder.name / f"{digest}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, mode=0o664)  # as the hub's client makes them
        while True:
            stop.check()
            try:
                lock.acquire(timeout=_LOOK_SECONDS)
                break
            except Timeout:
                continue
        try:
            yield
        finally:
            lock.release()


def storage_of(snapshot: Path) -> tuple[Storage, str] | None:
    """Return the repository and the commit of a snapshot folder; None for other folders."""
    found = _SNAPSHOT.search(snapshot.as_posix())
    if found is None:
        return None
    return Storage(snapshot.parents[2], found["name"].replace("--", "/")), found["revision"]


def snapshot_of(path: Path) -> Path | None:
    """Return the snapshot that `path` is or lies in; None for other paths."""
    places = (path, *path.parents)
    return next((place for place in places if place.parent.name == "snapshots"), None)


def put_link(link: Path, blob: Path) -> None:
    """Point `link` at `blob`. The old link is replaced at once, so that it is never broken."""
    target = os.path.relpath(blob, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    fresh = (
        link.parent.parent.parent / f".link.{get_native_id()}"
    )  # not in the snapshot: all is loaded
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def put_reference(storage: Storage, reference: str, revision: str) -> None:
    """Record the commit of the branch or tag `reference`, whose snapshot exists already."""
    path = storage.folder / "refs" / reference
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = storage.folder / f".reference.{get_native_id()}"  # refs itself holds nothing else
    fresh.write_text(revision)
    publish(fresh, path)


def has_digest(path: Path, digest: str, *, size_bytes: int | None = None, stop: Stop) -> bool:
    """Whether the file is of that size and hashes to `digest`: a sha256, or a git blob's sha1.

    Raises Stopped between blocks, and OSError if it cannot be read.
    """
    if not path.is_file():
        return False
    size = path.stat().st_size
    if size_bytes is not None and size != size_bytes:
        return False
    hashed = _hash_of(digest, size)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            stop.check()
            hashed.update(block)
    return hashed.hexdigest() == digest


def is_content(data: bytes, digest: str) -> bool:
    """Whether the bytes hash to `digest`, as above."""
    hashed = _hash_of(digest, len(data))
    hashed.update(data)
    return hashed.hexdigest() == digest


def _hash_of(digest: str, size_bytes: int) -> "hashlib._Hash":
    if len(digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
