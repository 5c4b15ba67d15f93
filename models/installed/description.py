"""What one model on the disk is: usable, or the reason why not.

Knows how to look at each kind (an MLX folder, a GGUF file, a drafter head); not where they are.
Reads configs and headers, no weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.drafter_folders import HEAD_MODEL_TYPE, HeadFolder, describe_head, is_head
from models.errors import Problem
from models.folders import ModelFolder
from models.gguf.config import mlx_config
from models.gguf.file import read_gguf
from models.hub.marks import completed, mark_path
from models.hub.snapshots import size_bytes
from models.installed.last_used import last_used
from models.installed.roles import is_known, role_of
from models.records import Installed, Origin


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model seems to be, and what it is called."""

    name: str
    folder: ModelFolder
    origin: Origin
    removable: bool

    @property
    def path(self) -> Path:
        return self.folder.path


@dataclass(frozen=True, slots=True)
class Entry:
    """A model on this disk: its record, and its folder with what was read of it for the record.

    A GGUF file has no folder before it is imported; one that is asked for something says so.
    """

    record: Installed
    folder: ModelFolder | HeadFolder


def describe(place: Place, *, home: Path | None = None) -> Entry:
    """What is at `place`. Whatever is wrong with it becomes the record's problem."""
    model = replace(
        _blank(place),
        size_bytes=_size_bytes(place.path),
        last_used=last_used(place.path, home=home),
    )
    folder = place.folder
    try:
        if is_gguf(place.path):
            return Entry(_describe_gguf(model, place.path), folder)
        if is_head(place.path):
            model = replace(model, role="head", model_type=HEAD_MODEL_TYPE)
            return Entry(model, _sound_head(place.path))
        model = _from_config(model, folder.config)
        _require_unchanged(place, home)
        folder.check()
        _require_known(folder.config)
    except Problem as problem:
        return Entry(with_problem(model, problem), folder)
    except OSError as error:
        unreadable = Problem(
            f"{place.path} cannot be read: {error.strerror or error}.",
            "Check that the disk is there and that you may read it.",
        )
        return Entry(with_problem(model, unreadable), folder)
    bits, context = folder.quantization_bits, folder.context_length
    return Entry(replace(model, quantization_bits=bits, context_length=context), folder)


def nothing_at(place: Place, problem: Problem) -> Entry:
    """An entry that says why nothing can be listed at `place`."""
    return Entry(with_problem(_blank(place), problem), place.folder)


def with_problem(model: Installed, problem: Problem) -> Installed:
    """The same, which cannot be used."""
    return replace(model, problem=problem.message, remedy=problem.remedy)


def is_gguf(path: Path) -> bool:
    """Whether it is a GGUF file, by its name."""
    return path.suffix.lower() == ".gguf" and path.is_file()


def _blank(place: Place) -> Installed:
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
        return path.stat().st_size if is_gguf(path) else size_bytes(path)
    except OSError:
        return 0


def _from_config(model: Installed, config: Mapping[str, Any]) -> Installed:
    model_type = config.get("model_type")
    named = model_type if isinstance(model_type, str) else ""
    return replace(model, model_type=named, role=role_of(config))


def _describe_gguf(model: Installed, path: Path) -> Installed:
    file = read_gguf(path)
    kind = file.metadata.get("general.architecture")
    model = replace(model, model_type=kind if isinstance(kind, str) else "")
    try:
        config = mlx_config(file)
    except Problem as problem:
        return with_problem(model, problem)
    length = config.get("max_position_embeddings")
    return replace(model, context_length=length if isinstance(length, int) else None)


def _sound_head(path: Path) -> HeadFolder:
    head = describe_head(path)
    _ = head.layouts
    return head


def _require_unchanged(place: Place, home: Path | None) -> None:
    """What was checked when it came must be as it was. Raises Problem."""
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
