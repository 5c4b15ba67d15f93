"""Reads the name of a model from the path of its folder."""

from pathlib import Path


def name_of(target: str) -> str:
    """The name of a model in a folder: of the folder, or of its repository in the hub's cache."""
    path = Path(target)
    repository = path.parents[1].name if path.parent.name == "snapshots" else ""
    if repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return path.name
