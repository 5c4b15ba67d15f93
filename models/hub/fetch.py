"""Fetches a model from the hub into the Hugging Face cache, whole or not at all.

Files that are in the cache are kept, and broken downloads resume. Every file is checked against the
hash that the hub publishes; only then are links put into the snapshot, config.json last, and the
mark (marks.py) after that. Until then nothing there can be mistaken for a model.
"""

import os
from collections.abc import Callable
from pathlib import Path

from models.drafters.reading import classify, kind_of
from models.errors import Problem, unwritable
from models.files import free_bytes, publish
from models.gguf.file import shown
from models.hub.cache_layout import Storage, cache_folder, has_digest, put_link, put_reference
from models.hub.client import Hub
from models.hub.marks import completed, mark
from models.hub.repository import Repository, RepositoryFile, needed
from models.hub.stopping import Stopped, apart
from models.hub.transfer import RESUMES
from models.hub.watching import Work
from models.in_words import size
from models.model_folder import ModelFolder, refuse_absurd, refuse_code
from models.records import Download

PARALLEL = 4

__all__ = ["Stopped", "completed", "fetch"]


def fetch(
    repository: Repository,
    *,
    hub: Hub,
    cache: Path | None = None,
    home: Path | None = None,
    gguf: str | None = None,
    progress: Callable[[Download], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    wait_seconds: float = 1.0,
) -> Path:
    """Fetch what `repository.needed` names; the snapshot folder, or the chosen GGUF file.

    `cache` is by default what HF_HUB_CACHE and HF_HOME say. `progress` and `cancelled` are called
    a few times a second, in the thread of the caller; where `cancelled` returns true, Stopped is
    raised. `wait_seconds` is the first pause after a failure. Raises Problem. Received bytes are
    always kept, even when the process is killed.
    """
    storage = Storage(Path(os.path.realpath(cache or cache_folder())), repository.name)
    files = needed(repository, gguf=gguf)
    path = storage.snapshot(repository.revision) / (gguf or "")
    try:
        if not completed(path, home=home):
            _check_space(repository, files, storage)
            if gguf is None:
                _refuse_early(repository, hub)
            storage.snapshot("").mkdir(parents=True, exist_ok=True)  # the cache's own tools want it
            storage.blob("").mkdir(exist_ok=True)
            _bring_all(Work(repository, hub, progress, cancelled, wait_seconds), files, storage)
            _publish(repository, files, storage)
            if gguf is None:
                _require_weights(repository, path)
            mark(path, {file.name: file.digest for file in files}, home=home)
        if repository.reference:
            put_reference(storage, repository.reference, repository.revision)
    except OSError as error:
        raise _cannot_store(repository, storage, error) from error
    return path


def _cannot_store(repository: Repository, storage: Storage, error: OSError) -> Problem:
    words = f"{repository.name} cannot be stored in {storage.cache}"
    return unwritable(words, error, then=RESUMES)


def _remaining_bytes(files: tuple[RepositoryFile, ...], storage: Storage) -> int:
    contents = {file.digest: file.size_bytes for file in files}
    return sum(size - _present_bytes(storage, digest, size) for digest, size in contents.items())


def _present_bytes(storage: Storage, digest: str, size_bytes: int) -> int:
    for path in (storage.blob(digest), storage.partial(digest)):
        try:
            size = path.stat().st_size
        except OSError:
            continue
        if size <= size_bytes:
            return size
    return 0


def _check_space(
    repository: Repository, files: tuple[RepositoryFile, ...], storage: Storage
) -> None:
    """Raise Problem if the disk has no room, before anything is fetched."""
    remaining = _remaining_bytes(files, storage)
    free = free_bytes(storage.folder)
    if remaining > free:
        raise Problem(
            f"{repository.name} needs {size(remaining)} more, and the disk with "
            f"{storage.cache} has {size(free)} left.",
            "Make room, or set HF_HUB_CACHE to a folder on another disk.",
        )


def _refuse_early(repository: Repository, hub: Hub) -> None:
    """Check the config before gigabytes are fetched. Raises Problem."""
    config = hub.config(repository)
    kind = kind_of(config)
    if kind in (None, "model", "pard"):
        refuse_code(config, repository.name)
    if kind is None:
        raise Problem(
            f"{repository.name} is of an architecture that MLX does not know: "
            f"{shown(config.get('model_type'))}.",
            "Choose another model, or update Slipstream.",
        )
    refuse_absurd(config)
    if kind not in ("model", "head"):
        classify(config, {}, name=repository.name)


def _require_weights(repository: Repository, snapshot: Path) -> None:
    """Raise Problem if all files came, but the repository itself lacks a part of the weights:
    another download would not mend it."""
    if missing := ModelFolder(snapshot).lacks:
        raise Problem(
            f"{repository.name} is not whole on the hub: it lacks {repr(missing)[:120]}.",
            "Choose another version of the model.",
        )


def _bring_all(work: Work, files: tuple[RepositoryFile, ...], storage: Storage) -> None:
    """Fetch all contents, a few at a time."""
    contents = {file.digest: file for file in files}
    for digest, file in contents.items():
        work.done[storage.partial(digest).name] = _present_bytes(storage, digest, file.size_bytes)
    work.total_bytes = sum(file.size_bytes for file in contents.values())
    waiting = iter(contents.values())  # each thread takes the next

    def bring_what_waits() -> None:
        for file in waiting:
            _bring(work, file, storage)

    work.watch(*(apart(bring_what_waits, name=f"fetch {n}") for n in range(PARALLEL)))


def _bring(work: Work, file: RepositoryFile, storage: Storage) -> None:
    """Fetch and check the file's content. Raises Problem, Stopped, OSError."""
    digest, blob, partial = file.digest, storage.blob(file.digest), storage.partial(file.digest)
    with storage.locked(digest, stop=work.stop):
        if has_digest(blob, digest, size_bytes=file.size_bytes, stop=work.stop):
            work.done[partial.name] = file.size_bytes
            return
        for _ in range(2):
            work.bring(file, partial)
            if has_digest(partial, digest, size_bytes=file.size_bytes, stop=work.stop):
                publish(partial, blob)
                return
            partial.unlink()
    raise Problem(
        f"{file.name} of {work.repository.name} was damaged twice, and was deleted.",
        "Try again. If it happens again, something on the network changes the file.",
    )


def _publish(repository: Repository, files: tuple[RepositoryFile, ...], storage: Storage) -> None:
    """Link the contents under the files' names; config.json, which makes it a model, comes last."""
    snapshot = storage.snapshot(repository.revision)
    snapshot.mkdir(parents=True, exist_ok=True)
    for file in sorted(files, key=lambda file: file.name == "config.json"):
        put_link(snapshot / file.name, storage.blob(file.digest))
