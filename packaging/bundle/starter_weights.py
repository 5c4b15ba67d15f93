"""The starter's weights within a bundle: whether they are there, and how large they are."""

from pathlib import Path

from bundle.runtime import LIBRARY

PLACE = Path("Contents/Resources/python") / LIBRARY / "site-packages" / "resources" / "starter"


def has_starter(app: Path) -> bool:
    """Whether the bundle brings the starter along."""
    return (app / PLACE).is_dir()


def starter_bytes(app: Path) -> int:
    """What the starter adds to the bundle's size; 0 where it is not there."""
    return size_bytes(app / PLACE)


def size_bytes(folder: Path) -> int:
    """Of all files in `folder` together."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
