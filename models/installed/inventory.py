"""The models in a place, each with its facts, and with the reason where it cannot be used.

Knows how to look at each kind (an MLX folder, a GGUF file, a drafter head), which snapshots in a
Hugging Face cache are models to us, and what a config says that a model is for; not which places
there are. Reads configs and headers, no weights; uses no network, and changes nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from models.architectures import known_to_mlx
from models.drafters.folders import DrafterFolder, open_drafter, read_drafter
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.drafters.reading import drafts
from models.drafters.reading import kind_of as drafter_kind_of
from models.errors import Problem
from models.gguf.config import mlx_config
from models.gguf.file import is_gguf, parts, read_gguf
from models.hub.cache_layout import CachedRepository, Snapshot, files, repositories, size_bytes
from models.hub.marks import completed, mark_path
from models.installed.last_used import last_used
from models.model_folder import ModelFolder
from models.records import Installed, ModelOrigin, ModelRole

SnapshotKind = Literal["model", "incomplete", "other"]
_WRITES_TEXT = re.compile(r"(ForCausalLM|LMHeadModel)")


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """A path at which a model seems to be, and its name."""

    name: str
    folder: ModelFolder
    origin: ModelOrigin
    removable: bool

    @property
    def path(self) -> Path:
        return self.folder.path


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model on this disk: its record, and its folder with all that was read for the record.

    The folder of a GGUF file that is not imported raises a Problem when it is read.
    """

    record: Installed
    folder: ModelFolder | DrafterFolder


def describe(place: ModelPlace, *, home: Path | None = None) -> ModelEntry:
    """Return the model at `place`. A problem with it becomes the record's."""
    model = replace(
        _blank(place),
        size_bytes=_size_bytes(place.path),
        last_used=last_used(place.path, home=home),
    )
    folder = place.folder
    try:
        if is_gguf(place.path):
            return ModelEntry(_describe_gguf(model, place.path), folder)
        if (place.path / HEAD_WEIGHTS_NAME).is_file():
            model = replace(model, role="head", model_type=HEAD_MODEL_TYPE)
        model = _from_config(model, folder.config)
        drafter = read_drafter(folder) if model.role == "chat" else open_drafter(folder)
        if drafter is not None:
            model = replace(model, role="drafter" if model.role == "chat" else model.role)
        _require_unchanged(place, home)
        if drafter is not None:
            return ModelEntry(_as_drafter(model, drafter), drafter)
        folder.check()
        _require_known(folder.config)
    except Problem as problem:
        return ModelEntry(with_problem(model, problem), folder)
    except OSError as error:
        unreadable = Problem(
            f"{place.path} cannot be read: {error.strerror or error}.",
            "Check that the disk is there and that you may read it.",
        )
        return ModelEntry(with_problem(model, unreadable), folder)
    bits, context = folder.quantization_bits, folder.context_length
    return ModelEntry(replace(model, quantization_bits=bits, context_length=context), folder)


def nothing_at(place: ModelPlace, problem: Problem) -> ModelEntry:
    """An entry with the reason why nothing can be listed at `place`."""
    return ModelEntry(with_problem(_blank(place), problem), place.folder)


def with_problem(model: Installed, problem: Problem) -> Installed:
    """Return the same model, marked as unusable."""
    return replace(model, problem=problem.message, remedy=problem.remedy)


def _blank(place: ModelPlace) -> Installed:
    return Installed(
        name=place.name,
        path=str(place.path),
        origin=place.origin,
        role="chat",
        size_bytes=0,
        last_used=None,
        model_type="",
        quantization_bits=None,
        context_length=None,
        removable=place.removable,
    )


def _size_bytes(path: Path) -> int:
    try:
        if is_gguf(path):
            return sum(part.stat().st_size for part in parts(path) if part.is_file())
        return size_bytes(path)
    except OSError:
        return 0


def _from_config(model: Installed, config: Mapping[str, Any]) -> Installed:
    model_type = config.get("model_type")
    named = model_type if isinstance(model_type, str) else ""
    return replace(model, model_type=named, role=role_of(config))


def _as_drafter(model: Installed, drafter: DrafterFolder) -> Installed:
    return replace(
        model,
        drafter_kind=drafter.kind,
        quantization_bits=drafter.files.quantization_bits,
        context_length=drafter.files.context_length if drafter.kind == "pard" else None,
    )


def _describe_gguf(model: Installed, path: Path) -> Installed:
    file = read_gguf(path, lists_of_strings=False)
    kind = file.metadata.get("general.architecture")
    model = replace(model, model_type=kind if isinstance(kind, str) else "")
    try:
        config = mlx_config(file)
    except Problem as problem:
        return with_problem(model, problem)
    length = config.get("max_position_embeddings")
    return replace(model, context_length=length if isinstance(length, int) else None)


def _require_unchanged(place: ModelPlace, home: Path | None) -> None:
    """Raise Problem if files changed since the download was checked."""
    if mark_path(place.path, home=home).exists() and not completed(place.path, home=home):
        raise Problem(
            f"{place.name} has changed since it was downloaded and checked.",
            f"Have it checked and mended: slipstream models pull {place.name.split('@')[0]}",
        )


def _require_known(config: Mapping[str, Any]) -> None:
    if not is_known(config):
        raise Problem(
            f"MLX does not know its architecture, {config.get('model_type')}.",
            "Choose another model, or update Slipstream.",
        )


def models_of(
    repository: CachedRepository, *, origin: ModelOrigin, home: Path | None = None
) -> list[ModelEntry]:
    """Return the models in `repository`: every revision, and every GGUF file.

    One revision has the repository's name: the main one or, if that cannot be used, the newest
    usable one. The others are called name@revision, GGUF files name/file.
    """
    revisions: list[ModelEntry] = []
    single: list[ModelEntry] = []
    removable = origin == "hub" and not repository.path.is_symlink()
    for snapshot in repository.snapshots:
        folder = ModelFolder(snapshot.path)
        if _kind(snapshot, repository, folder) != "model":
            continue
        if os.path.lexists(snapshot.path / "config.json"):
            name = f"{repository.name}@{snapshot.revision[:8]}"
            place = ModelPlace(name, folder, origin, removable)
            revisions.append(describe(place, home=home))
            continue
        for path in gguf_files(snapshot.path):
            name = f"{repository.name}/{path.relative_to(snapshot.path).as_posix()}"
            place = ModelPlace(name, ModelFolder(path), origin, removable)
            single.append(describe(place, home=home))
    if revisions:
        chosen = next((entry for entry in revisions if not entry.record.problem), revisions[0])
        revisions.remove(chosen)
        named = replace(chosen, record=replace(chosen.record, name=repository.name))
        revisions.insert(0, named)
    return revisions + single


def kind_of(snapshot: Snapshot, repository: CachedRepository) -> SnapshotKind:
    """The kind of a snapshot of `repository`. An unreadable snapshot is a model, with a reason."""
    return _kind(snapshot, repository, ModelFolder(snapshot.path))


def _kind(snapshot: Snapshot, repository: CachedRepository, folder: ModelFolder) -> SnapshotKind:
    if snapshot.path.name != snapshot.revision:
        return "incomplete"  # its removal was interrupted
    try:
        return _kind_of_whole(snapshot, repository, folder)
    except (OSError, Problem):
        return "model"


def _kind_of_whole(
    snapshot: Snapshot, repository: CachedRepository, folder: ModelFolder
) -> SnapshotKind:
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
    """Return the bytes that cleaning it would free; None if nothing in it is broken."""
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
    """Return the GGUF files in a snapshot, at any depth; of a model that was split, the first."""
    return sorted(
        path for path in files(snapshot) if path.suffix.lower() == ".gguf" and parts(path)
    )


def in_caches(folder: Path) -> Iterator[CachedRepository]:
    """Yield the repositories in a folder that is a Hugging Face cache, or has one in `hub`."""
    for place in (folder, folder / "hub"):
        yield from repositories(place)


def _lacks_weights(folder: ModelFolder) -> bool:
    try:
        return bool(folder.lacks)
    except Problem:
        return False  # the same Problem becomes its reason


def role_of(config: Mapping[str, Any]) -> ModelRole:
    """Return the role of the model with this config.json: chat, unless a key says otherwise."""
    if drafter_kind_of(config) == "head":
        return "head"
    return "drafter" if drafts(config) else "chat"


def writes_text(config: Mapping[str, Any]) -> bool:
    """Whether this is a language model, and not one for embeddings, sound or images."""
    return (
        is_known(config)
        or role_of(config) != "chat"
        or any(_WRITES_TEXT.search(name) for name in _names(config))
    )


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether mlx-lm has the config's architecture."""
    model_type = config.get("model_type")
    return isinstance(model_type, str) and known_to_mlx(model_type)


def _names(config: Mapping[str, Any]) -> list[str]:
    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    return [name for name in (config.get("model_type"), *names) if isinstance(name, str)]
