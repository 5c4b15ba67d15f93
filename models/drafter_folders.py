"""Drafters on disk: which folders hold one, of which kind, and for which target.

Knows their files, and the folders of heads that ship or were distilled here; what a config and
tensors mean is for `models.drafter_kinds`. Nothing of networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.drafter_kinds import HEAD_WEIGHTS_NAME, DrafterDescription, DrafterKind
from models.drafter_packagings import classify
from models.errors import Problem
from models.files import data_folder
from models.model_folder import ModelFolder
from models.safetensors_file import TensorLayout

_SHIPPED = Path(__file__).parent.parent / "resources" / "drafters"


@dataclass(frozen=True)
class DrafterFolder:
    """A drafter with weights, of any kind: a head, a whole model, or what others have trained.

    `files` are those that hold it; `description` says what it is. Where the files hold more, as
    those of a target with a module of its own, only its tensors are in `layouts`.
    """

    files: ModelFolder
    description: DrafterDescription

    @classmethod
    def of_model(cls, model: ModelFolder) -> "DrafterFolder":
        """A whole model as a drafter. Raises `Problem`."""
        return cls(model, classify(model.config, model.layouts, name=model.name))

    @property
    def path(self) -> Path:
        return self.files.path

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def kind(self) -> DrafterKind:
        return self.description.kind

    @property
    def config(self) -> Mapping[str, Any]:
        return self.files.config

    @property
    def fingerprint(self) -> str:
        """Identifies the weights: see `ModelFolder`."""
        return self.files.fingerprint

    @property
    def weights(self) -> tuple[Path, ...]:
        """The weight files."""
        return tuple(self.files.headers)

    @cached_property
    def layouts(self) -> Mapping[str, TensorLayout]:
        """All of its tensors."""
        prefixes = self.description.prefixes
        found = self.files.layouts
        if prefixes:
            found = {name: layout for name, layout in found.items() if name.startswith(prefixes)}
        return MappingProxyType(found)


def is_drafter(folder: Path) -> bool:
    """Whether `folder` looks like that of a drafter that is no whole model."""
    return (folder / HEAD_WEIGHTS_NAME).is_file()


def describe_drafter(folder: Path) -> DrafterFolder:
    """What the drafter in `folder` is. Raises `Problem`."""
    files = ModelFolder(folder)
    return DrafterFolder(files, classify(files.config, files.layouts, name=str(folder)))


def find_head(fingerprint: str, *, home: Path | None = None) -> DrafterFolder | None:
    """The head for a target with this fingerprint: the user's own first, then those shipped."""
    for place in (data_folder(home) / "drafters", _SHIPPED):
        for folder in _folders(place):
            try:
                if is_drafter(folder):
                    found = describe_drafter(folder)
                    if found.description.demands.fingerprint == fingerprint:
                        return found
            except (Problem, OSError):
                continue  # skip broken ones; naming one explicitly says what is wrong
    return None


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []  # the folder does not exist before the first own head
