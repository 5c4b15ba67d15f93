"""The models in a place, each with its facts, and with the reason where it cannot be used.

Knows how to look at each kind (an MLX folder, a GGUF file, a drafter head), which snapshots in a
Hugging Face cache are models to us, and what a config says that a model is for; not which places
there are. Reads configs and headers, no weights; uses no network, and changes nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from models.architectures import known_to_mlx
from models.drafters.folders import DrafterFolder, open_drafter, read_drafter
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.drafters.reading import drafts, names_of
from models.drafters.reading import kind_of as drafter_kind_of
from models.errors import Problem, unreadable
from models.gguf.config import mlx_config
from models.gguf.file import is_gguf, parts, read_gguf
from models.hub.cache_layout import (
    CachedRepository,
    Snapshot,
    files,
    repositories,
    size_bytes,
    snapshot_of,
    storage_of,
)
from models.hub.marks import completed, mark_path
from models.installed.last_used import last_used
from models.model_folder import ModelFolder
from models.records import Installed, ModelOrigin, ModelRole

SnapshotKind = Literal["model", "incomplete", "other"]
_WRITES_TEXT = re.compile(r"(ForCausalLM|LMHeadModel)")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model on this disk: its record, and its folder with all that was read for the record.

    The folder of a GGUF file that is not imported raises a Problem when it is read.
    """

    record: Installed
    folder: ModelFolder | DrafterFolder

    @classmethod
    def at(
        cls, name: str, folder: ModelFolder, origin: ModelOrigin, *, removable: bool = False
    ) -> "ModelEntry":
        """Return the entry of a model that was not looked at yet."""
        path = str(folder.path)
        record = Installed(name, path, origin, "chat", 0, None, "", None, None, removable)
        return cls(record, folder)

    def refused(self, problem: Problem) -> "ModelEntry":
        """Return the same model, marked as unusable."""
        record = replace(self.record, problem=problem.message, remedy=problem.remedy)
        return replace(self, record=record)


def describe(entry: ModelEntry, *, home: Path | None = None) -> ModelEntry:
    """Return the entry with all facts of its model. A problem with it becomes the record's."""
    folder = entry.folder
    if isinstance(folder, DrafterFolder):
        return entry
    used = last_used(folder.path, home=home)
    model = replace(entry.record, size_bytes=_size_bytes(folder.path), last_used=used)
    try:
        if is_gguf(folder.path):
            _refuse_changed(model, home)
            return _describe_gguf(ModelEntry(model, folder))
        if (folder.path / HEAD_WEIGHTS_NAME).is_file():
            model = replace(model, role="head", model_type=HEAD_MODEL_TYPE)
        named = folder.config.get("model_type")
        model_type = named if isinstance(named, str) else ""
        model = replace(model, model_type=model_type, role=role_of(folder.config))
        drafter = read_drafter(folder) if model.role == "chat" else open_drafter(folder)
        if drafter is not None and model.role == "chat":
            model = replace(model, role="drafter")
        _refuse_changed(model, home)
        if drafter is not None:
            own = drafter.files.context_length if drafter.kind == "pard" else None
            model = replace(model, drafter_kind=drafter.kind, context_length=own)
            bits = drafter.files.quantization_bits
            return ModelEntry(replace(model, quantization_bits=bits), drafter)
        folder.check()
        if not is_known(folder.config):
            raise Problem(
                f"MLX does not know its architecture, {named}.",
                "Choose another model, or update Slipstream.",
            )
    except Problem as problem:
        return ModelEntry(model, folder).refused(problem)
    except OSError as error:
        return ModelEntry(model, folder).refused(unreadable(folder.path, error))
    bits, context = folder.quantization_bits, folder.context_length
    return ModelEntry(replace(model, quantization_bits=bits, context_length=context), folder)


def _refuse_changed(model: Installed, home: Path | None) -> None:
    """Raise Problem if the model was downloaded here, and its files are others by now."""
    path = Path(model.path)
    found = storage_of(snapshot_of(path) or path)
    if found and mark_path(path, home=home).exists() and not completed(path, home=home):
        raise Problem(
            f"{model.name} has changed since it was downloaded and checked.",
            "Have it checked and mended: "
            f"slipstream models pull {model.name.partition('@')[0]}@{found[1]}",
        )


def _size_bytes(path: Path) -> int:
    try:
        if is_gguf(path):
            return sum(part.stat().st_size for part in parts(path) if part.is_file())
        return size_bytes(path)
    except OSError:
        return 0


def _describe_gguf(entry: ModelEntry) -> ModelEntry:
    file = read_gguf(entry.folder.path, lists_of_strings=False)
    kind = file.metadata.get("general.architecture")
    model = replace(entry.record, model_type=kind if isinstance(kind, str) else "")
    try:
        length = mlx_config(file).get("max_position_embeddings")
    except Problem as problem:
        return replace(entry, record=model).refused(problem)
    length = length if isinstance(length, int) else None
    return replace(entry, record=replace(model, context_length=length))


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
            entry = ModelEntry.at(name, folder, origin, removable=removable)
            revisions.append(describe(entry, home=home))
            continue
        for path in gguf_files(snapshot.path):
            name = f"{repository.name}/{path.relative_to(snapshot.path).as_posix()}"
            entry = ModelEntry.at(name, ModelFolder(path), origin, removable=removable)
            single.append(describe(entry, home=home))
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
    if not snapshot.is_whole:
        return "incomplete"
    with suppress(Problem):  # the same Problem becomes its reason
        if folder.lacks:
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
        or any(_WRITES_TEXT.search(name) for name in names_of(config))
    )


def is_known(config: Mapping[str, Any]) -> bool:
    model_type = config.get("model_type")
    return isinstance(model_type, str) and known_to_mlx(model_type)
