"""What one model on the disk is, as a record: usable, or the reason why not.

Knows how to look at each kind (an MLX folder, a GGUF file, a drafter head); not where they are.
Reads configs and headers, no weights.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.drafter_folders import HEAD_MODEL_TYPE, WEIGHTS_NAME, describe_head, is_head
from models.errors import Problem
from models.folders import inspect, read_json_object
from models.gguf.config import mlx_config
from models.gguf.file import read_gguf
from models.hub.marks import completed, mark_path
from models.hub.snapshots import size_bytes
from models.installed.last_used import last_used
from models.installed.roles import is_known, role_of
from models.records import Installed, Origin
from models.safetensors_file import check_safetensors


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model seems to be, and what it is called."""

    name: str
    path: Path
    origin: Origin
    removable: bool


def describe(place: Place, *, home: Path | None = None) -> Installed:
    """What is at `place`. Whatever is wrong with it becomes the record's problem."""
    model = replace(
        _blank(place),
        size_bytes=_size_bytes(place.path),
        last_used=last_used(place.path, home=home),
    )
    try:
        if is_gguf(place.path):
            return _describe_gguf(model, place.path)
        if is_head(place.path):
            return _describe_head(model, place.path)
        config = read_json_object(place.path / "config.json")
        model = _from_config(model, config)
        _require_unchanged(place, home)
        found = inspect(place.path)
        _require_known(config)
    except Problem as problem:
        return with_problem(model, problem)
    except OSError as error:
        return with_problem(
            model,
            Problem(
                f"{place.path} cannot be read: {error.strerror or error}.",
                "Check that the disk is there and that you may read it.",
            ),
        )
    return replace(
        model,
        quantization_bits=found.quantization_bits,
        context_length=found.context_length,
    )


def nothing_at(place: Place, problem: Problem) -> Installed:
    """A record that says why nothing can be listed at `place`."""
    return with_problem(_blank(place), problem)


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


def _from_config(model: Installed, config: dict[str, Any]) -> Installed:
    model_type = config.get("model_type")
    named = model_type if isinstance(model_type, str) else ""
    return replace(model, model_type=named, role=role_of(config))


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


def _describe_head(model: Installed, path: Path) -> Installed:
    model = replace(model, role="head", model_type=HEAD_MODEL_TYPE)
    try:
        describe_head(path)
        check_safetensors(path / WEIGHTS_NAME)
    except Problem as problem:
        return with_problem(model, problem)
    return model


def _require_unchanged(place: Place, home: Path | None) -> None:
    """What was checked when it came must be as it was. Raises Problem."""
    if mark_path(place.path, home=home).exists() and not completed(place.path, home=home):
        raise Problem(
            f"{place.name} has changed since it was downloaded and checked.",
            f"Have it checked and mended: slipstream models pull {place.name.split('@')[0]}",
        )


def _require_known(config: dict[str, Any]) -> None:
    if not is_known(config):
        raise Problem(
            f"MLX does not know its architecture, {config.get('model_type')}.",
            "Choose another model, or update Slipstream.",
        )
