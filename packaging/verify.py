"""Verifies a bundle: every check that there is, in order.

What only a Mac can tell is not checked: whether it loads, draws, computes and is let through.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import verify_contents
import verify_notices
import verify_programs
import verify_seals
from configuration import PACKAGING, REPOSITORY, Configuration
from finding import Finding

type Release = tuple[int, int]


def verify_bundle(app: Path, *, config: Configuration) -> list[Finding]:
    """Everything that is wrong with `app`, in the order of the checks. Raises OSError alone."""
    return list(_findings(app, config))


def _findings(app: Path, config: Configuration) -> Iterator[Finding]:
    oldest = _release(config.application.minimum_macos)
    architecture = config.application.architecture
    programs = verify_programs.read_programs(app, architecture=architecture)
    yield from verify_contents.information(app, config=config)
    yield from verify_contents.essentials(app, config=config)
    yield from programs.faults
    yield from verify_programs.minimum_macos(programs, oldest=oldest, allowed=_stamps())
    yield from verify_programs.libraries(programs)
    yield from verify_programs.symbols(programs)
    yield from verify_programs.python_symbols(programs)
    yield from verify_programs.newer_symbols(programs, oldest=oldest)
    yield from verify_programs.metal_libraries(app, oldest=oldest)
    yield from verify_contents.wheels(app, oldest=oldest, architecture=architecture)
    yield from verify_contents.names(app)
    yield from verify_contents.permissions(app)
    yield from verify_contents.strays(app, python=config.runtime.version.rpartition(".")[0])
    yield from verify_contents.build_paths(app, machine_paths=(REPOSITORY,))
    yield from verify_contents.size(app, most_bytes=config.budget.app_bytes)
    yield from verify_notices.licence_texts(app)
    yield from verify_notices.bill_of_materials(app)
    yield from verify_seals.links(app)
    yield from verify_seals.signatures(app)
    yield from verify_seals.seals(app)


def _stamps() -> dict[str, Release]:
    """Which files may be stamped for a newer system, and how new: out of slipstream.toml."""
    tables = tomllib.loads((PACKAGING / "slipstream.toml").read_text(encoding="utf-8"))
    stamps: dict[str, str] = tables.get("verify", {}).get("stamped_newer", {})
    return {pattern: _release(version) for pattern, version in stamps.items()}


def _release(version: str) -> Release:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)
