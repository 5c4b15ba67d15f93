"""The Hugging Face cache on this disk, which mlx-lm and others fill too: how it is laid out.

A repository's folder holds `blobs`, each named by its sha256 (large files) or its git sha1 (small
ones); `snapshots/<commit>`, links to them under the files' names; and `refs`, which commit a branch
was at. Knows how that is read and how it is written; asks no hub, and knows nothing of models. (The
library's own scan takes one broken repository for none at all.)
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from models.files import publish
from models.hub.stopping import Stop

REMOVING = "removing-"  # before a snapshot's name: half of it may be gone
_PREFIX = "models--"
_SNAPSHOT = re.compile(r"/models--(?P<name>[\w.-]+)/snapshots/(?P<revision>[0-9a-f]{40})$")
_LOOK_SECONDS = 0.2
_BLOCK_BYTES = 4 << 20


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


@dataclass(frozen=True, slots=True)
class Storage:
    """The place of one repository in a cache."""

    cache: Path
    name: str

    @property
    def folder(self) -> Path:
        """All of it."""
        return self.cache / repo_folder_name(repo_id=self.name, repo_type="model")

    def blob(self, digest: str) -> Path:
        """Where the content with that sha256, or git sha1, is kept."""
        return self.folder / "blobs" / digest

    def partial(self, digest: str) -> Path:
        """What has come of it. The cache's own tools count and clean files so named."""
        return self.folder / "blobs" / f"{digest}.slipstream.incomplete"

    def snapshot(self, revision: str) -> Path:
        """The folder that is loaded."""
        return self.folder / "snapshots" / revision

    @contextmanager
    def locked(self, digest: str, *, stop: Stop) -> Iterator[None]:
        """Alone with that blob among all that use the cache. Raises Stopped while waiting."""
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
    """Whose snapshot that folder is, and at which commit; None if it is no snapshot."""
    found = _SNAPSHOT.search(snapshot.as_posix())
    if found is None:
        return None
    return Storage(snapshot.parents[2], found["name"].replace("--", "/")), found["revision"]


def snapshot_of(path: Path) -> Path | None:
    """The snapshot that this is, or lies in; None elsewhere."""
    places = (path, *path.parents)
    return next((place for place in places if place.parent.name == "snapshots"), None)


def put_link(link: Path, blob: Path) -> None:
    """Make `link` lead to `blob`, whatever it was before. It never leads nowhere in between."""
    target = os.path.relpath(blob, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    fresh = link.parent.parent.parent / f".link.{os.getpid()}"  # not in the snapshot: all is loaded
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def put_reference(storage: Storage, reference: str, revision: str) -> None:
    """Note that the branch or tag `reference` is at that commit. The snapshot is there by then."""
    path = storage.folder / "refs" / reference
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = storage.folder / f".reference.{os.getpid()}"  # refs itself holds nothing else
    fresh.write_text(revision)
    publish(fresh, path)


def blob_of(link: Path) -> Path | None:
    """The file in `blobs` that it leads to at first; that may lead on, into a shared store."""
    if not link.is_symlink():
        return None
    blob = link.parent / os.readlink(link)
    blob = blob.parent.resolve() / blob.name
    known = len(blob.name) in (40, 64) and not set(blob.name) - set("0123456789abcdef")
    return blob if known and blob.parent == link.parent.parent.parent.resolve() / "blobs" else None


def has_digest(path: Path, digest: str, *, size_bytes: int | None = None, stop: Stop) -> bool:
    """Whether the file is of that size and hashes to `digest`: a sha256, or a git blob's sha1.

    Raises Stopped between blocks, and OSError where it cannot be read.
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
