"""Restores the symbolic links of frameworks, which wheels cannot hold.

codesign refuses a framework without its links as ambiguous, and notarization refuses a library in
it that was signed alone. So the links are made again, and copies in their place are removed.

Source: Apple's Framework Programming Guide, "Anatomy of Framework Bundles".
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Framework:
    """A framework with one version. `content` is the folder with its files."""

    path: Path
    content: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def executable(self) -> Path:
        return self.content / self.name

    @property
    def info_plist(self) -> Path:
        return self.content / "Resources" / "Info.plist"

    @property
    def links(self) -> dict[Path, str]:
        """The links that it must have, and their targets."""
        return {self.path / "Versions" / "Current": self.content.name} | {
            self.path / item.name: f"Versions/Current/{item.name}"
            for item in sorted(self.content.iterdir())
            if item.name != "_CodeSignature"
        }


def frameworks(app: Path) -> Iterator[Framework]:
    """Yield every framework below `app`. Raises ValueError for one without exactly one version."""
    for path in sorted(app.rglob("*.framework")):
        if path.is_symlink():
            continue
        versions = [
            item
            for item in sorted((path / "Versions").glob("*"))
            if item.is_dir() and not item.is_symlink()
        ]
        if len(versions) != 1:
            raise ValueError(f"{path.name} has {len(versions)} versions, not one")
        yield Framework(path, versions[0])


def restore_links(framework: Framework) -> None:
    """Make the links. Removes copies of their targets in their places."""
    for link, target in framework.links.items():
        if link.is_dir() and not link.is_symlink():
            shutil.rmtree(link)
        else:
            link.unlink(missing_ok=True)
        link.symlink_to(target)


def missing_links(framework: Framework) -> list[Path]:
    """The links that are missing, or have another target."""
    return [
        link
        for link, target in framework.links.items()
        if not link.is_symlink() or str(link.readlink()) != target
    ]
