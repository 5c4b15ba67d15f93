"""How large a bundle is, and what each of its parts takes of that.

Knows where assemble puts what, and that a wheel's RECORD lists its files.
"""

from collections import Counter
from pathlib import Path

from bundle.assemble import PACKAGES, STARTER_WEIGHTS


def size_bytes(folder: Path) -> int:
    """The size of all files in `folder` together."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def starter_bytes(app: Path) -> int:
    """What the starter's weights add to the bundle's size; 0 where they are not there."""
    return size_bytes(app / STARTER_WEIGHTS)


def part_sizes(app: Path) -> dict[str, int]:
    """The bytes of each wheel, with what was compiled of it, and of all else, the largest first."""
    packages = app / PACKAGES
    owners = {
        packages / line.partition(",")[0]: record.parent.name.partition("-")[0]
        for record in packages.glob("*.dist-info/RECORD")
        for line in record.read_text(encoding="utf-8").splitlines()
    }
    sizes: Counter[str] = Counter()
    for path in app.rglob("*"):
        if not path.is_dir() or path.is_symlink():
            sizes[_part(path, app, owners)] += path.lstat().st_size
    return dict(sizes.most_common())


def _part(path: Path, app: Path, owners: dict[Path, str]) -> str:
    source = path
    if path.suffix == ".pyc":
        source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
    if source in owners:
        return owners[source]
    if path.is_relative_to(app / STARTER_WEIGHTS):
        return "the starter's weights"
    if path.is_relative_to(app / PACKAGES):
        return "slipstream"
    if path.is_relative_to(app / "Contents" / "Resources" / "python"):
        return "python"
    return "launchers, icon, licences and seal"
