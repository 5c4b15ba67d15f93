"""Computes the size of a bundle, and of the starter in it.

Knows assemble's layout, and the starter's files (from the table in slipstream.toml).
"""

from collections.abc import Iterator
from pathlib import Path

from bundle.assemble import PACKAGES, STARTER_WEIGHTS
from configuration import Prune


def size_bytes(folder: Path) -> int:
    """Return the size of all files in `folder` together."""
    return sum(path.lstat().st_size for path in _files(folder))


def starter_bytes(app: Path, prune: Prune) -> int:
    """Return the bytes of the starter: its weights, and the head that drafts for them only.

    `make app STARTER=no` leaves them out; then this is 0.
    """
    is_starters = prune.excluded("own_without_starter")
    packages = app / PACKAGES
    drafters = _files(packages / "resources" / "drafters")
    head = (path for path in drafters if is_starters(path.relative_to(packages).as_posix()))
    return size_bytes(app / STARTER_WEIGHTS) + sum(path.lstat().st_size for path in head)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
