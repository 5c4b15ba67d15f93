"""The models on this machine: our own and heads, the Hugging Face cache, added folders, and those
of other programs.

Knows the places, the records of their models, and which may be deleted. Each model that cannot be
used has a reason, and a broken one does not hide others. Loads nothing.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.drafters.folders import is_drafter, module_of_parts
from models.errors import Problem
from models.files import data_folder, models_folder, unfinished_folder
from models.gguf.file import parts
from models.hub.cache_layout import (
    CachedRepository,
    cache_folder,
    files,
    is_in_use,
    read_repository,
    repositories,
    size_bytes,
    snapshot_of,
)
from models.hub.marks import unmark
from models.hub.queue import Queue, repository_of
from models.installed import added_folders
from models.installed.inventory import (
    ModelEntry,
    describe,
    gguf_files,
    in_caches,
    kind_of,
    leftover_bytes,
    models_of,
)
from models.installed.last_used import forget_used
from models.installed.other_programs import other_models
from models.installed.removal import (
    remove_file,
    remove_folder_of_ours,
    remove_partial,
    remove_snapshot,
)
from models.model_folder import ModelFolder
from models.records import PROGRAM_NAMES, Incomplete, Installed, ModelOrigin
from models.starter import MARKER_NAME, STARTER, shipped_starter

SETTLED_SECONDS = 600  # no process works in a folder that has not changed for so long
_SHIPPED = Path(__file__).parents[2] / "resources" / "drafters"
_BEING_REMOVED = re.compile(r"\.removing-[a-z0-9_]{8}")
_SEE = "List the models: slipstream models list"


def installed(
    *, home: Path | None = None, cache: Path | None = None, user_home: Path | None = None
) -> list[Installed]:
    """All models and heads on this machine, usable or not: ours, the cache's, the added folders',
    other programs'.

    `home` is the data folder, `cache` the Hugging Face cache, `user_home` the home folder in which
    other programs keep theirs; by default the user's. With a `home`, only `user_home` is searched.
    """
    return [entry.record for entry in inventory(home=home, cache=cache, user_home=user_home)]


def inventory(
    *, home: Path | None = None, cache: Path | None = None, user_home: Path | None = None
) -> list[ModelEntry]:
    """Return the entries of `installed`, each with its folder, which need not be read again."""
    found = [describe(entry, home=home) for entry in _ours(home)]
    for repository in repositories(_cache(cache)):
        found += models_of(repository, origin="hub", home=home)
    found += _in_added_folders(home)
    if user_home is not None or home is None:
        for entry in other_models(user_home or Path(os.path.expanduser("~"))):
            found.append(entry if entry.record.problem else describe(entry, home=home))
    first: dict[Path, ModelEntry] = {}
    for entry in found:
        first.setdefault(entry.folder.path.resolve(), entry)
    return list(first.values())


def incomplete(*, home: Path | None = None, cache: Path | None = None) -> list[Incomplete]:
    """Return the remains of interrupted downloads, imports and removals that no process works on.

    Downloads that are in the queue are not listed. Raises Problem if the queue cannot be read.
    """
    downloads = Queue(home=home).downloads()
    queued = {repository_of(each.repository) for each in downloads if not each.over}
    found = [
        Incomplete(name, str(path), size_bytes(path))
        for name, path in _our_leftovers(home)
        if repository_of(name) not in queued
    ]
    for repository in repositories(_cache(cache)):
        if repository.name.lower() in queued or any(map(is_in_use, repository.loose)):
            continue
        try:
            left = leftover_bytes(repository)
        except OSError:
            continue  # what cannot be read cannot be cleaned
        if left is not None:
            found.append(Incomplete(repository.name, str(repository.path), left))
    return found


def remove(model: Installed, *, home: Path | None = None, cache: Path | None = None) -> int:
    """Delete `model` from the disk. Returns the bytes freed. Files that other models use stay.

    Raises Problem if Slipstream may not delete it, or the disk refuses.
    """
    path = Path(model.path)
    if model.origin in PROGRAM_NAMES:  # whose folder may be a link into the cache
        raise _not_ours(model)
    if not path.exists():
        raise Problem(f"{model.name} does not exist any more.", _SEE)
    snapshot = snapshot_of(path)
    if (place := _our_place(path, home)) is not None:
        freed = remove_folder_of_ours(path, inside=place)
    elif snapshot is None or snapshot.parents[2].resolve() != _cache(cache).resolve():
        raise _not_ours(model)
    else:
        with _nothing_coming(model.name.partition("@")[0], snapshot.parents[1], home):
            unmark(path, home=home)
            freed = _remove_from_cache(path, snapshot)
    forget_used(path, home=home)
    return freed


def _remove_from_cache(path: Path, snapshot: Path) -> int:
    if snapshot == path or gguf_files(snapshot) == [path]:
        return remove_snapshot(snapshot)
    # The first part last: until then it is listed, and can be removed.
    there = [part for part in parts(path) if part.exists()]
    return sum(remove_file(part, repository=snapshot.parents[1]) for part in reversed(there))


def remove_incomplete(
    left: Incomplete, *, home: Path | None = None, cache: Path | None = None
) -> int:
    """Delete the leftovers that `left` describes. Returns the bytes freed. Raises Problem if they
    are needed again by now, or the disk refuses."""
    path, freed = Path(left.path), 0
    if (place := _our_place(path, home)) is not None:
        with Queue(home=home).holding_back(left.name):
            if path not in {found for _, found in _our_leftovers(home)}:
                raise Problem(f"{left.name} is being made, or is not incomplete any more.", _SEE)
            return remove_folder_of_ours(path, inside=place)
    if path.parent.resolve() != _cache(cache).resolve():
        raise Problem(f"{path} is not in a folder of Slipstream.", "Delete it yourself.")
    with _nothing_coming(left.name, path, home) as repository:
        for snapshot in repository.snapshots:
            if kind_of(snapshot, repository) == "incomplete":
                freed += remove_snapshot(snapshot.path)
        return freed + (remove_partial(path) if path.exists() else 0)


def _cache(cache: Path | None) -> Path:
    return cache_folder() if cache is None else cache


def _our_places(home: Path | None) -> tuple[Path, Path]:
    return models_folder(home), data_folder(home) / "drafters"


def _our_place(path: Path, home: Path | None) -> Path | None:
    """Return the folder of ours that `path` lies in; None for other paths."""
    places = (place for place in _our_places(home) if place.resolve() == path.parent.resolve())
    return next(places, None)


def _ours(home: Path | None) -> Iterator[ModelEntry]:
    models = models_folder(home)
    came_along = shipped_starter()
    if came_along is not None:
        yield ModelEntry.at(STARTER.name, came_along, "starter")
    for path in [path for place in _our_places(home) for path in _folders(place)]:
        origin: ModelOrigin = "imported"
        if path == models / STARTER.name:
            if came_along is not None or not (path / MARKER_NAME).exists():
                continue
            origin = "starter"
        removable = not path.is_symlink()
        yield ModelEntry.at(path.name, ModelFolder(path), origin, removable=removable)
    for path in filter(is_drafter, _folders(_SHIPPED)):
        yield ModelEntry.at(path.name, ModelFolder(path), "starter")


def _folders(place: Path, *, hidden: bool = False) -> list[Path]:
    try:
        return sorted(
            path
            for path in place.iterdir()
            if path.is_dir() and (hidden or not path.name.startswith("."))
        )
    except OSError:
        return []  # it does not exist yet, or writing there will raise the problem


def _our_leftovers(home: Path | None) -> Iterator[tuple[str, Path]]:
    """(name, folder) of interrupted work in our own folders."""
    models = models_folder(home)
    for path in [path for place in _our_places(home) for path in _folders(place, hidden=True)]:
        if _BEING_REMOVED.fullmatch(path.name):
            yield next((child.name for child in _folders(path)), path.name), path
        elif path in (models / ".downloads", models / STARTER.name):
            if _is_settled(path) and not (path / MARKER_NAME).exists():
                yield STARTER.name, path
        elif (name := unfinished_folder(path) or module_of_parts(path)) and _is_settled(path):
            yield name, path


def _is_settled(folder: Path) -> bool:
    try:
        newest = max(path.lstat().st_mtime for path in (folder, *files(folder)))
    except OSError:
        return False  # it is changing, or cannot be read
    return newest < time.time() - SETTLED_SECONDS


def _in_added_folders(home: Path | None) -> Iterator[ModelEntry]:
    try:
        listed = added_folders.folders(home=home)
    except Problem as problem:
        path = data_folder(home) / added_folders.FILE_NAME
        yield ModelEntry.at(path.name, ModelFolder(path), "folder").refused(problem)
        return
    for folder in listed:
        found = [
            entry
            for repository in in_caches(folder)
            for entry in models_of(repository, origin="folder", home=home)
        ]
        found += [
            describe(ModelEntry.at(name, ModelFolder(path), "folder"), home=home)
            for name, path in added_folders.places(folder)
        ]
        yield from found or [_nothing_in(folder)]


def _nothing_in(folder: Path) -> ModelEntry:
    there = folder.is_dir()
    problem = Problem(
        f"Slipstream found no model in {folder}." if there else f"{folder} is not there.",
        f"{'Put one there' if there else 'Connect its disk'}, or leave the folder out: "
        f"slipstream models folders --remove {str(folder)!r}",
    )
    return ModelEntry.at(folder.name, ModelFolder(folder), "folder").refused(problem)


@contextmanager
def _nothing_coming(name: str, place: Path, home: Path | None) -> Iterator[CachedRepository]:
    """Yield the repository in the folder `place`; inside the block no download of ours into it
    begins. Raises Problem while one writes into it, or another program's: its files would be
    deleted."""
    with Queue(home=home).holding_back(name):
        repository = read_repository(place)
        if any(map(is_in_use, repository.loose)):
            other = "Wait until the other program has finished."
            raise Problem(f"{repository.name} is being downloaded.", other)
        yield repository


def _not_ours(model: Installed) -> Problem:
    if program := PROGRAM_NAMES.get(model.origin):
        return Problem(
            f"{model.name} is in {program}'s folder, so Slipstream does not delete it.",
            f"Delete it in {program}.",
        )
    if model.origin == "folder":
        return Problem(
            f"{model.name} is in a folder that you added, so Slipstream does not delete it.",
            "Delete it yourself, or remove the folder: slipstream models folders --remove PATH",
        )
    return Problem(f"{model.name} comes with Slipstream and cannot be removed.", _SEE)
