"""The layouts of published drafters in `tests/data/drafter_configs`, as values and as folders."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.safetensors_file import SafetensorsWriter, TensorLayout

PLACE = Path(__file__).parents[2] / "data" / "drafter_configs"


@dataclass(frozen=True)
class DrafterLayout:
    """A drafter's config.json and tensors, its target's config.json, and what is expected."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, TensorLayout]
    target: dict[str, Any]
    files: tuple[str, ...]
    expected: dict[str, Any]


def layout_names(*, refused):
    """Return the names of the layouts that must be refused, or of all others."""
    names = sorted(path.stem for path in PLACE.glob("*.json"))
    return [name for name in names if name.startswith("refused-") == refused]


def drafter_layout(name):
    """The one of that name."""
    told = json.loads((PLACE / f"{name}.json").read_text())
    tensors = {key: _layout(shape) for key, shape in told["tensors"].items()}
    files = tuple(told.get("files", ()))
    return DrafterLayout(name, told["config"], tensors, told["target"], files, told["expected"])


def published_layouts():
    """All that need not be refused."""
    return [drafter_layout(name) for name in layout_names(refused=False)]


def write_drafter(folder, layout, *, weights="model.safetensors"):
    """A folder with that drafter; its weights are zeros."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(layout.config))
    for name in layout.files:
        (folder / name).write_bytes(b"\0" * 8)
    if layout.tensors:
        with SafetensorsWriter(folder / weights, layout.tensors) as writer:
            for name, each in layout.tensors.items():
                writer.write(name, bytes(each.size_bytes))
    return folder


def _layout(told):
    if told and isinstance(told[0], str):
        return TensorLayout(told[0], tuple(told[1]))
    return TensorLayout("BF16", tuple(told))


def drafter_files(layout, folder, *, weights="model.safetensors"):
    """The files of that drafter, as a hub has them; `folder` is where they are made."""
    made = write_drafter(folder, layout, weights=weights)
    return {path.name: path.read_bytes() for path in made.iterdir()}
