"""Drafter heads on disk: which folders have one, and for which target's weights.

Knows their config.json, and the folders of those that ship or were distilled here; nothing of
networks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from models.download import file_sha256
from models.errors import Problem
from models.files import data_folder, read_json_object
from models.safetensors_file import TensorLayout, check_safetensors

HEAD_MODEL_TYPE = "slipstream-head"
WEIGHTS_NAME = "head.safetensors"
_SHIPPED = Path(__file__).parent.parent / "resources" / "drafters"


@dataclass(frozen=True)
class HeadFolder:
    """`target` is a name for people; `target_fingerprint` identifies the target's weights.

    Facts about the head's weights are read once, when they are first used. Raises `Problem`.
    """

    path: Path
    target: str
    target_fingerprint: str
    config: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def layouts(self) -> Mapping[str, TensorLayout]:
        """All tensors."""
        return MappingProxyType(check_safetensors(self.path / WEIGHTS_NAME))

    @cached_property
    def sha256(self) -> str:
        """Of the weights, all of which are read for it."""
        return file_sha256(self.path / WEIGHTS_NAME)


def is_head(folder: Path) -> bool:
    """Whether `folder` looks like a head's."""
    return (folder / WEIGHTS_NAME).is_file()


def describe_head(folder: Path) -> HeadFolder:
    """What the head in `folder` is for. Raises `Problem`."""
    config = read_json_object(folder / "config.json")
    target, fingerprint = config.get("target"), config.get("target_fingerprint")
    if config.get("model_type") != HEAD_MODEL_TYPE or not isinstance(fingerprint, str):
        raise Problem(f"{folder} holds no drafter head.", "Make one: slipstream distil.")
    return HeadFolder(folder, str(target), fingerprint, MappingProxyType(config))


def find_head(fingerprint: str, *, home: Path | None = None) -> HeadFolder | None:
    """The head for a target with this fingerprint: the user's own first, then those shipped."""
    for place in (data_folder(home) / "drafters", _SHIPPED):
        for folder in _folders(place):
            try:
                if is_head(folder):
                    head = describe_head(folder)
                    if head.target_fingerprint == fingerprint and head.layouts:
                        return head
            except (Problem, OSError):
                continue  # skip broken ones; naming one explicitly says what is wrong
    return None


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []  # the folder does not exist before the first own head
