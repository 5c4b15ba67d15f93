"""Drafters on disk: their folders, kinds and targets.

Knows their files, and the folders of heads that ship or were distilled here; what a config and
tensors mean is for `models.drafters.kinds`. Nothing of networks.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.drafters.kinds import HEAD_WEIGHTS_NAME, DrafterDescription, DrafterKind
from models.drafters.published import Published, table
from models.drafters.reading import (
    classify,
    classify_inside,
    kind_of,
    published_as,
    unknown_kind,
)
from models.drafters.refusal import refused_as_damaged
from models.errors import Problem
from models.files import data_folder, read_json_object
from models.model_folder import ModelFolder
from models.records import MODULE_NAME
from models.safetensors_file import TensorLayout

PUBLISHED, USUAL = 16, 8  # bits; in 8, drafters of all kinds lose no acceptance
MODULE_WEIGHTS = "mtp*.safetensors"
_PARTS = ".parts"
_SHIPPED = Path(__file__).parents[2] / "resources" / "drafters"


@dataclass(frozen=True)
class DrafterFolder:
    """A drafter with weights, of any kind: a head, a whole model, or what others have trained.

    `files`: the folder's files; `description`: what they hold. `layouts` has only its own tensors,
    also if the files hold more, as a target's with a module of its own do. `bits`: see
    `held_bits`; 0 for the default.
    """

    files: ModelFolder
    description: DrafterDescription
    bits: int = 0

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
    def is_packed(self) -> bool:
        """Whether its matrices are quantized in its files."""
        return self.kind == "head" or any(name.endswith(".scales") for name in self.layouts)

    @property
    def held_bits(self) -> int:
        """The bits of each weight once it is loaded: 8 or 4, or 16 for as it is published. Weights
        that are packed in their files stay as they are."""
        return PUBLISHED if self.is_packed else self.bits or USUAL

    @property
    def weights(self) -> tuple[Path, ...]:
        headers = self.files.headers.items()
        return tuple(path for path, header in headers if not header.keys().isdisjoint(self.layouts))

    @cached_property
    def published(self) -> Published:
        """Its config and tensors, in the spelling of its packaging."""
        return published_as(self.description, self.config, self.layouts, name=str(self.path))

    @cached_property
    def network(self) -> Any:
        """Everything that the engine builds its network by, of a type that belongs to the kind.

        Raises `DrafterRefused` if it is damaged or has parts that are not known here.
        """
        published = self.published
        assert published.packaging.network is not None
        with refused_as_damaged(self.path):
            return published.packaging.network(published, self.description)

    @cached_property
    def layouts(self) -> Mapping[str, TensorLayout]:
        prefixes = self.description.prefixes
        found = self.files.layouts
        if prefixes:
            found = {name: layout for name, layout in found.items() if name.startswith(prefixes)}
        return MappingProxyType(found)


def is_drafter(folder: Path) -> bool:
    """Whether `folder` looks like a drafter's that is not an ordinary model."""
    try:
        return _is_drafter(ModelFolder(folder))
    except Problem:
        return False


def describe_drafter(folder: Path) -> DrafterFolder:
    """Describe the drafter in `folder`. Raises `Problem`, also if it holds an ordinary model."""
    return open_drafter(ModelFolder(folder))


def open_drafter(files: ModelFolder) -> DrafterFolder:
    """The drafter in a folder that should hold one. Raises `Problem` as `describe_drafter`."""
    name = str(files.path)
    description = classify(files.config, files.layouts, name=name)
    if description.kind == "model":
        raise unknown_kind(files.config, name)
    return DrafterFolder(files, description)


def read_drafter(files: ModelFolder) -> DrafterFolder | None:
    """The drafter in a folder that may hold one; None if it holds an ordinary model.

    Raises `Problem` if its config.json cannot be read, or it is a drafter that cannot be used.
    """
    return open_drafter(files) if _is_drafter(files) else None


def own_module(target: ModelFolder) -> DrafterFolder | None:
    """The MTP module that came with the target: among its tensors, or in a file of its own.

    Raises `Problem` if the target cannot be read, or the module is damaged.
    """
    inside = classify_inside(target.config, target.layouts, name=target.name)
    if inside is not None:
        return DrafterFolder(target, inside)
    if not any(target.path.glob(MODULE_WEIGHTS)):
        return None
    beside = ModelFolder(target.path, weights_pattern=MODULE_WEIGHTS)
    return DrafterFolder(beside, classify(target.config, beside.layouts, name=target.name))


def _is_drafter(files: ModelFolder) -> bool:
    """Whether config.json says so, or else the names of the tensors."""
    ordinary = (None, "model")
    if os.path.isfile(files.path / HEAD_WEIGHTS_NAME) or kind_of(files.config) not in ordinary:
        return True
    try:
        return kind_of(files.config, files.layouts) not in ordinary
    except Problem:
        return False  # loading it reports the problem with its weights


def module_folder(name: str, *, home: Path | None = None) -> Path:
    """Return the folder for the MTP module of the repository called `name`. The owner's name is in
    it if the short one is another repository's."""
    place, (owner, _, last) = data_folder(home) / "drafters", name.rpartition("/")
    short, long = place / f"{last}-MTP", place / f"{owner}--{last}-MTP"
    is_another = os.path.lexists(short) and module_source(short).get("repository") != name
    return long if is_another or os.path.lexists(long) else short


def module_source(folder: Path) -> Mapping[str, Any]:
    """Return the repository and the revision from which the module in `folder` was fetched; nothing
    for another folder."""
    with suppress(Problem):
        return table(read_json_object(folder / "config.json"), "source")
    return {}


def module_parts(name: str, revision: str, *, home: Path | None = None) -> Path:
    """Return the folder of the received parts of a module that is not whole yet."""
    return data_folder(home) / "drafters" / f".{name.replace('/', '--')}@{revision}{_PARTS}"


def module_of_parts(folder: Path) -> str | None:
    """Return the name of the module that `module_parts` is of; None for another folder."""
    name = folder.name[1:].partition("@")[0].replace("--", "/")
    return f"{name}/{MODULE_NAME}" if folder.name.endswith(_PARTS) else None


def find_head(fingerprint: str, *, home: Path | None = None) -> DrafterFolder | None:
    """The head for a target with this fingerprint: the user's own first, then those shipped."""
    for place in (data_folder(home) / "drafters", _SHIPPED):
        try:
            folders = sorted(place.iterdir())
        except OSError:  # the folder does not exist before the first own head
            continue
        for folder in folders:
            try:
                if (folder / HEAD_WEIGHTS_NAME).is_file():
                    found = describe_drafter(folder)
                    if found.description.demands.fingerprint == fingerprint:
                        return found
            except (Problem, OSError):
                continue  # skip broken ones; naming one explicitly reports the problem
    return None
