"""Deletes models from this machine: Slipstream's own, and those in the Hugging Face cache.

Knows what may be deleted and in which order: a process that is killed in between never leaves a
model that looks whole, and nothing outside our folder and the cache is ever touched. The caller
chooses the models.
"""

import dataclasses
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import DeleteCacheStrategy, HFCacheInfo, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from models.errors import Problem
from models.hub.cache_layout import (
    REMOVING,
    files,
    first_hop,
    read_repository,
    reference,
    size_bytes,
)

_BY_HAND = "Look at it and delete it yourself, if that is what you want."


def remove_folder_of_ours(folder: Path, *, inside: Path) -> int:
    """Delete `folder`, which lies in our folder `inside`. Returns the bytes freed.

    Raises Problem if it does not, or is a link, or the disk refuses.
    """
    if folder.is_symlink() or folder.resolve().parent != inside.resolve():
        raise Problem(f"{folder} does not lie in {inside}, or is a link.", _BY_HAND)
    try:
        freed = size_bytes(folder)
        aside = folder
        if not folder.name.startswith("."):  # from now on it is not listed as a model
            aside = Path(tempfile.mkdtemp(dir=inside, prefix=f".{REMOVING}"))
            folder.rename(aside / folder.name)
        shutil.rmtree(aside)
    except OSError as error:
        raise _refused(folder, error) from error
    return freed


def remove_snapshot(snapshot: Path) -> int:
    """Delete a snapshot of the cache with all that nothing else needs. Returns the bytes freed.

    Also finishes a removal that was interrupted. Raises Problem if links lead out of the
    repository, or the disk refuses.
    """
    repository = snapshot.parent.parent
    try:
        _require_inside(repository, *map(first_hop, (snapshot, *files(snapshot))))
        aside = snapshot
        if not snapshot.name.startswith(REMOVING):  # from now on it is not taken for a model
            aside = snapshot.with_name(f"{REMOVING}{snapshot.name}")
            if aside.exists():
                shutil.rmtree(aside)
            snapshot.rename(aside)
        for path in files(repository / "refs"):
            if not (repository / "snapshots" / (reference(path) or ".")).is_dir():
                path.unlink()
        for path in files(repository / "snapshots"):
            if not path.exists():  # a broken link, on which the library's scan would fail
                path.unlink()
        loose = sum(path.lstat().st_size for path in read_repository(repository).loose)
    except OSError as error:
        raise _refused(snapshot, error) from error
    strategy = _scan(repository).delete_revisions(aside.name)
    _execute(strategy, repository=repository, gone=aside)
    return strategy.expected_freed_size + (loose if strategy.repos else 0)


def remove_file(file: Path, *, repository: Path) -> int:
    """Delete one file of a snapshot of `repository`, and its blob if nothing else needs it. Returns
    the bytes freed.

    Raises Problem as `remove_snapshot`.
    """
    info = _scan(repository)
    real = file.parent.resolve() / file.name
    listed = [
        cached
        for known in info.repos
        for revision in known.revisions
        for cached in revision.files
        if cached.file_path == real
    ]
    strategy = info.delete_files(*listed)
    _execute(strategy, repository=repository, gone=file)
    return strategy.expected_freed_size


def remove_partial(repository: Path) -> int:
    """Delete what broken downloads left, and all of a repository without snapshots; bytes freed.

    Raises Problem as `remove_snapshot`.
    """
    freed = 0
    try:
        known = read_repository(repository)
        _require_inside(repository, *known.loose)
        for path in known.loose:
            freed += path.lstat().st_size
            path.unlink()
        if not files(repository / "snapshots"):
            freed += size_bytes(repository)
            shutil.rmtree(repository)
    except OSError as error:
        raise _refused(repository, error) from error
    return freed


def _require_inside(repository: Path, *paths: Path) -> None:
    """Raise Problem unless `paths` lie in `repository`, and that in its cache, by real folders."""
    home = repository.resolve()
    if home.parent != repository.parent.resolve():
        raise Problem(f"{repository} is a link that leads elsewhere.", _BY_HAND)
    for path in paths:
        if not path.parent.resolve().is_relative_to(home):
            raise Problem(f"{repository} has a link that leads out of it: to {path}.", _BY_HAND)


def _scan(repository: Path) -> HFCacheInfo:
    """The library's scan of the cache, reduced to `repository`."""
    try:
        info = scan_cache_dir(repository.parent)
    except (CacheNotFound, OSError, ValueError) as error:
        raise Problem(
            f"The Hugging Face cache in {repository.parent} cannot be read: {error}.",
            "Check that the disk is there and that you may read it.",
        ) from error
    mine = frozenset(repo for repo in info.repos if repo.repo_path == repository.resolve())
    if not mine:
        said = [str(warning) for warning in info.warnings if repository.name in str(warning)]
        raise Problem(
            f"The Hugging Face cache is damaged: {(said or ['no repository'])[0]}",
            f"Look into {repository}, and delete it yourself.",
        )
    return dataclasses.replace(info, repos=mine)


def _execute(strategy: DeleteCacheStrategy, *, repository: Path, gone: Path) -> None:
    _require_inside(repository, *strategy.blobs, *strategy.refs, *strategy.files)
    try:
        strategy.execute()
    except OSError as error:
        raise _refused(gone, error) from error
    if gone.exists() or gone.is_symlink():  # the library only logs its failures
        raise Problem(f"{gone} could not be deleted.", "Check that you may write there.")


def _refused(path: Path, error: OSError) -> Problem:
    return Problem(
        f"{path} cannot be deleted: {error.strerror or error}.", "Check that you may write there."
    )
