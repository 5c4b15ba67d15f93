"""Checks of a bundle that need no Mac."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """A fault of a bundle.

    `check` is the name of the check; `path` is relative to the bundle, "" for all of it.
    """

    check: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.check}: {self.path or 'the bundle'}: {self.message}"


def walk(app: Path, pattern: str = "*") -> Iterator[tuple[str, Path]]:
    """Yield all in the bundle whose name fits, in order: the path relative to the bundle, and the
    file, folder or link."""
    for file in sorted(app.rglob(pattern)):
        yield file.relative_to(app).as_posix(), file
