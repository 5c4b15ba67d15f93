"""Folders with models that the user added: a list of paths in the data folder.

Knows the list, and where in such a folder models may be; nothing of models, and never changes
anything in the folders.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from models.errors import Problem
from models.files import data_folder, holding, read_json_object, write_json, written_path
from models.gguf.file import parts
from models.model_folder import ADAPTER_CONFIG

FILE_NAME = "model-folders.json"
_PROJECTOR = "mmproj"  # begins the names of GGUF files that turn pictures into embeddings
LEVELS = 2  # LM Studio and others have folders publisher/model


def folders(*, home: Path | None = None) -> list[Path]:
    """The added folders, in order. Raises Problem if the list is damaged."""
    path = data_folder(home) / FILE_NAME
    if not path.exists():
        return []
    listed = read_json_object(path).get("folders")
    if not isinstance(listed, list) or not all(
        isinstance(folder, str) and folder for folder in listed
    ):
        raise Problem(
            f"The list of model folders in {path} is damaged.",
            "Delete that file, and add the folders again.",
        )
    return [Path(folder) for folder in listed]


def add_folder(folder: Path, *, home: Path | None = None) -> list[Path]:
    """Add `folder` to the list, if it is not there. Returns the new list.

    Raises Problem if the folder is missing, or the list cannot be written.
    """
    folder = _whole(folder)
    if not folder.is_dir():
        raise Problem(f"The folder {folder} was not found.", "Check the path.")
    with holding(data_folder(home) / FILE_NAME):
        listed = folders(home=home)
        if folder not in listed:
            listed.append(folder)
            _write(listed, home)
        return listed


def remove_folder(folder: Path, *, home: Path | None = None) -> list[Path]:
    """Remove `folder` from the list; nothing in it is touched. Returns the new list.

    Raises Problem if it was not added, or the list cannot be written.
    """
    with holding(data_folder(home) / FILE_NAME):
        listed = folders(home=home)
        kept = [other for other in listed if other not in (folder, _whole(folder))]
        if kept == listed:
            raise Problem(
                f"{folder} is not among the folders that were added.",
                "See which ones are: slipstream models folders",
            )
        _write(kept, home)
        return kept


def places(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the path of each place in `folder` that may hold a model: folders with
    config.json, adapters, GGUF files.

    The name is the path below `folder`, or `folder`'s own name. Everything inside a model's folder
    belongs to it. Hidden and unreadable folders are left out.
    """
    yield from _places(folder, folder.name, LEVELS)


def _places(folder: Path, name: str, levels: int) -> Iterator[tuple[str, Path]]:
    try:
        if any((folder / name).is_file() for name in ("config.json", ADAPTER_CONFIG)):
            yield name, folder
            return
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        below = child.name if levels == LEVELS else f"{name}/{child.name}"
        if child.name.startswith((".", _PROJECTOR)):
            continue
        if child.suffix.lower() == ".gguf" and not child.is_dir():
            if parts(child):
                yield below, child
        elif levels > 0 and child.is_dir():
            yield from _places(child, below, levels - 1)


def _write(listed: list[Path], home: Path | None) -> None:
    path = data_folder(home) / FILE_NAME
    write_json(path, {"folders": [str(folder) for folder in listed]})


def _whole(folder: Path) -> Path:
    """The path from the root, without links; links that lead in a circle stay."""
    return Path(os.path.realpath(written_path(folder)))
