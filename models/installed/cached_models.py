"""Which snapshots in a Hugging Face cache are models to us, which are broken, which neither.

Knows configs and file names; nothing is asked of the hub, and nothing changed. Text models with
safetensors and GGUF files are ours to list; what else tools keep there is not.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from models.errors import Problem
from models.folders import ModelFolder
from models.hub.snapshots import CachedRepository, Snapshot, files, repositories, size_bytes
from models.installed.description import Entry, Place, describe
from models.installed.roles import writes_text
from models.records import Origin

Kind = Literal["model", "incomplete", "other"]


def models_of(
    repository: CachedRepository, *, origin: Origin, home: Path | None = None
) -> list[Entry]:
    """The models in `repository`: each revision, and each GGUF file, that is there.

    One revision goes by the repository's name: the main one, or if that cannot be used the newest
    that can. The others are name@revision, GGUF files name/file.
    """
    revisions: list[Entry] = []
    single: list[Entry] = []
    removable = origin == "hub" and not repository.path.is_symlink()
    for snapshot in repository.snapshots:
        folder = ModelFolder(snapshot.path)
        if _kind(snapshot, repository, folder) != "model":
            continue
        if os.path.lexists(snapshot.path / "config.json"):
            name = f"{repository.name}@{snapshot.revision[:8]}"
            place = Place(name, folder, origin, removable)
            revisions.append(describe(place, home=home))
            continue
        for path in gguf_files(snapshot.path):
            name = f"{repository.name}/{path.relative_to(snapshot.path).as_posix()}"
            place = Place(name, ModelFolder(path), origin, removable)
            single.append(describe(place, home=home))
    if revisions:
        chosen = next((one for one in revisions if not one.record.problem), revisions[0])
        revisions.remove(chosen)
        named = replace(chosen, record=replace(chosen.record, name=repository.name))
        revisions.insert(0, named)
    return revisions + single


def kind_of(snapshot: Snapshot, repository: CachedRepository) -> Kind:
    """What a snapshot of `repository` is to us. Where nobody can tell, its reason will say so."""
    return _kind(snapshot, repository, ModelFolder(snapshot.path))


def _kind(snapshot: Snapshot, repository: CachedRepository, folder: ModelFolder) -> Kind:
    if snapshot.path.name != snapshot.revision:
        return "incomplete"  # half of it is removed
    try:
        return _kind_of_whole(snapshot, repository, folder)
    except (OSError, Problem):
        return "model"


def _kind_of_whole(snapshot: Snapshot, repository: CachedRepository, folder: ModelFolder) -> Kind:
    config = folder.config if (snapshot.path / "config.json").is_file() else None
    if config is not None and not writes_text(config):
        return "other"
    if not snapshot.is_whole or _lacks_weights(folder):
        return "incomplete"
    if config is not None and any(snapshot.path.glob("*.safetensors")):
        return "model"
    if config is None and gguf_files(snapshot.path):
        return "model"
    return "incomplete" if repository.partial else "other"


def leftover_bytes(repository: CachedRepository) -> int | None:
    """What cleaning it would free, as far as files tell; None if nothing in it is broken."""
    kinds = [(kind_of(snapshot, repository), snapshot) for snapshot in repository.snapshots]
    if not files(repository.path / "snapshots"):
        left = size_bytes(repository.path)
        # Files without content are notes of tools: what the hub was asked for and does not have.
        return left if left or not files(repository.path) else None
    if all(kind == "other" for kind, _ in kinds):
        return None  # or a snapshot that is hidden
    broken = [snapshot.path for kind, snapshot in kinds if kind == "incomplete"]
    if not broken and not repository.loose:
        return None
    return sum(path.lstat().st_size for path in repository.loose) + sum(map(size_bytes, broken))


def gguf_files(snapshot: Path) -> list[Path]:
    """The GGUF files in it, at any depth."""
    return sorted(path for path in files(snapshot) if path.suffix.lower() == ".gguf")


def in_caches(folder: Path) -> Iterator[CachedRepository]:
    """The repositories in a folder that is such a cache, or holds one as `hub`."""
    for place in (folder, folder / "hub"):
        yield from repositories(place)


def _lacks_weights(folder: ModelFolder) -> bool:
    """Whether the index names files that are not there."""
    try:
        return any(not (folder.path / name).is_file() for name in folder.indexed)
    except Problem:
        return False  # this will be its reason
