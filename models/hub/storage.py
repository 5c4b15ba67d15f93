"""How a repository is written into the Hugging Face cache, which mlx-lm and others share.

Its folder holds `blobs`, each named by its sha256 (large files) or its git sha1 (small ones);
`snapshots/<commit>`, links to them under the files' names; and `refs`, which commit a branch was
at. Knows that layout, and nothing of models.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from huggingface_hub.file_download import repo_folder_name

from models.hub.stopping import Stop

_SNAPSHOT = re.compile(r"/models--(?P<name>[\w.-]+)/snapshots/(?P<revision>[0-9a-f]{40})$")
_LOOK_SECONDS = 0.2


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
    fresh.replace(path)
