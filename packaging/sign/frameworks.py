"""The shape of a framework on disk, which wheels cannot keep: they hold no symbolic links.

codesign refuses a framework without its links as ambiguous, and notarization a library in one that
was signed alone. So the links are put back, and copies that stand in their place go.

Source: Apple's Framework Programming Guide, "Anatomy of Framework Bundles".
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Framework:
    """A framework with one version. `content` is the folder with all that it holds."""

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
        """The links that have to be there, and where each leads."""
        return {self.path / "Versions" / "Current": self.content.name} | {
            self.path / item.name: f"Versions/Current/{item.name}"
            for item in sorted(self.content.iterdir())
            if item.name != "_CodeSignature"
        }


def frameworks(app: Path) -> Iterator[Framework]:
    """Every framework below `app`. Raises ValueError where one has not exactly one version."""
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
    """Put the links in place. A copy of what a link leads to is removed."""
    for link, target in framework.links.items():
        if link.is_dir() and not link.is_symlink():
            shutil.rmtree(link)
        else:
            link.unlink(missing_ok=True)
        link.symlink_to(target)


def missing_links(framework: Framework) -> list[Path]:
    """The links that are not there, or lead elsewhere."""
    return [
        link
        for link, target in framework.links.items()
        if not link.is_symlink() or str(link.readlink()) != target
    ]
