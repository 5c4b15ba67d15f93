"""Verifies a bundle: all checks, in order.

Only a Mac can show that it loads, draws, computes and passes Gatekeeper.
"""

from collections.abc import Iterator
from pathlib import Path

from configuration import REPOSITORY, Configuration
from verify import Finding, contents, imports, programs, seals
from verify.notices import notices

type Release = tuple[int, int]


def verify_bundle(app: Path, *, config: Configuration) -> list[Finding]:
    """All faults of `app`, in the order of the checks. Raises OSError only."""
    return list(_findings(app, config))


def _findings(app: Path, config: Configuration) -> Iterator[Finding]:
    oldest = _release(config.application.minimum_macos)
    newer = {pattern: _release(version) for pattern, version in config.stamped_newer.items()}
    found = programs.read_programs(app, architecture=config.application.architecture)
    yield from contents.info_plist(app, config=config)
    yield from contents.essentials(app, config=config)
    yield from found.faults
    yield from programs.minimum_macos(found, oldest=oldest, allowed=newer)
    yield from programs.libraries(found)
    yield from programs.symbols(found)
    yield from programs.python_symbols(found)
    yield from programs.newer_symbols(found, oldest=oldest)
    yield from programs.metal_libraries(app, oldest=oldest)
    yield from imports.imports(app)
    python = config.runtime.version.rpartition(".")[0]
    yield from contents.files(app, python=python, machine_paths=(REPOSITORY,))
    yield from contents.size(app, config=config)
    yield from notices(app)
    yield from seals.links(app)
    yield from seals.seals(app, found)


def _release(version: str) -> Release:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)
