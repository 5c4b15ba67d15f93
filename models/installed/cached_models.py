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
from models.folders import read_json_object
from models.hub.snapshots import CachedRepository, Snapshot, files, repositories, size_bytes
from models.installed.description import Place, describe
from models.installed.roles import writes_text
from models.records import Installed, Origin

Kind = Literal["model", "incomplete", "other"]


def models_of(
    repository: CachedRepository, *, origin: Origin, home: Path | None = None
) -> list[Installed]:
    """The models in `repository`: each revision, and each GGUF file, that is there.

    One revision goes by the repository's name: the main one, or if that cannot be used the newest
    that can. The others are name@revision, GGUF files name/file.
    """
    revisions: list[Installed] = []
    single: list[Installed] = []
    removable = origin == "hub" and not repository.path.is_symlink()
    for snapshot in repository.snapshots:
        if kind_of(snapshot, repository) != "model":
            continue
        if os.path.lexists(snapshot.path / "config.json"):
            name = f"{repository.name}@{snapshot.revision[:8]}"
            place = Place(name, snapshot.path, origin, removable)
            revisions.append(describe(place, home=home))
            continue
        for path in gguf_files(snapshot.path):
            name = f"{repository.name}/{path.relative_to(snapshot.path).as_posix()}"
            single.append(describe(Place(name, path, origin, removable), home=home))
    if revisions:
        chosen = next((model for model in revisions if not model.problem), revisions[0])
        revisions.remove(chosen)
        revisions.insert(0, replace(chosen, name=repository.name))
    return revisions + single


def kind_of(snapshot: Snapshot, repository: CachedRepository) -> Kind:
    """What a snapshot of `repository` is to us. Where nobody can tell, its reason will say so."""
    try:
        return _kind_of(snapshot, repository)
    except OSError:
        return "model"


def _kind_of(snapshot: Snapshot, repository: CachedRepository) -> Kind:
    if snapshot.path.name != snapshot.revision:
        return "incomplete"  # half of it is removed
    config_path = snapshot.path / "config.json"
    try:
        config = read_json_object(config_path) if config_path.is_file() else None
    except Problem:
        return "model"
    if config is not None and not writes_text(config):
        return "other"
    if not snapshot.is_whole or _lacks_weights(snapshot.path):
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


def _lacks_weights(snapshot: Path) -> bool:
    """Whether the index names files that are not there."""
    index = snapshot / "model.safetensors.index.json"
    try:
        places = read_json_object(index).get("weight_map") if index.is_file() else None
    except Problem:
        return False  # this will be its reason
    names = set(map(str, places.values())) if isinstance(places, dict) else set()
    return any(not (snapshot / name).is_file() for name in names)
