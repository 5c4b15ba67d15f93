"""Computes the size of a bundle and of each of its parts.

Knows assemble's layout, the starter's files (from the table in slipstream.toml), and that a wheel's
RECORD lists its files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
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
    drafters = app / PACKAGES / "resources" / "drafters"
    head = (path for path in _files(drafters) if is_starters(_own_name(path, app)))
    return size_bytes(app / STARTER_WEIGHTS) + sum(path.lstat().st_size for path in head)


def part_sizes(app: Path, prune: Prune) -> dict[str, int]:
    """Return the bytes of each part, the largest first.

    The parts are the wheels, each with its compiled files, and the rest.
    """
    is_starters = prune.excluded("own_without_starter")
    packages = app / PACKAGES
    owners = {
        packages / line.partition(",")[0]: record.parent.name.partition("-")[0]
        for record in packages.glob("*.dist-info/RECORD")
        for line in record.read_text(encoding="utf-8").splitlines()
    }
    sizes: Counter[str] = Counter()
    for path in _files(app):
        sizes[_part(path, app, owners, is_starters)] += path.lstat().st_size
    return dict(sizes.most_common())


def _part(
    path: Path, app: Path, owners: dict[Path, str], is_starters: Callable[[str], bool]
) -> str:
    source = path
    if path.suffix == ".pyc":
        source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
    if source in owners:
        return owners[source]
    if path.is_relative_to(app / STARTER_WEIGHTS):
        return "the starter's weights"
    if path.is_relative_to(app / PACKAGES):
        return "the starter's head" if is_starters(_own_name(path, app)) else "slipstream"
    if path.is_relative_to(app / "Contents" / "Resources" / "python"):
        return "python"
    return "launchers, icon, licences and seal"


def _own_name(path: Path, app: Path) -> str:
    """Return the name of one of our files in the table's form."""
    return path.relative_to(app / PACKAGES).as_posix()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
