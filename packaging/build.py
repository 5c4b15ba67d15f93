"""The command line: `python packaging/build.py app|image|twin|locks|verify|sign`; make runs most.

Every failure that the user can act on ends here, as one line, with exit status 2.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bundle import licences
from bundle.assemble import (
    assemble_for_mac,
    assemble_for_twin,
    set_times,
    size_bytes,
    starter_bytes,
)
from bundle.build_python import find_python
from bundle.resolve import linux, macos, resolve, write_lock
from configuration import REPOSITORY, Configuration, read_configuration
from image.downloads import make_downloads
from models.errors import Problem, problem_of
from sign.signing import sign_bundle
from verify.run import verify_bundle
from verify.twin import import_all, matrix_library, self_test

DIST = REPOSITORY / "dist"
TWIN = REPOSITORY / "build" / "twin"


def build_app(configuration: Configuration, *, starter: bool) -> int:
    """Assemble, sign and verify the bundle; 1 if anything is wrong with it."""
    app = DIST / f"{configuration.application.name}.app"
    components = assemble_for_mac(app, configuration, python=find_python(), starter=starter)
    licences.collect(app, components=components)
    licences.write_bill(app, components=components)
    set_times(app)
    sign_bundle(app)
    set_times(app)
    whole, of_starter = size_bytes(app), starter_bytes(app, configuration.prune)
    print(
        f"{_shown(app)}: {_megabytes(whole)}, {_megabytes(whole - of_starter)} without the starter"
    )
    return verify(app, configuration)


def build_image(configuration: Configuration) -> int:
    """Make the downloads (disk image and .zip) of the bundle in dist/; 1 if anything is wrong with
    it."""
    app = DIST / f"{configuration.application.name}.app"
    if not app.is_dir():
        raise Problem("The folder dist has no bundle.", "Run make app first.")
    if verify(app, configuration):  # as after a `make app` that failed
        return 1
    for path in make_downloads(app, DIST, configuration):
        print(f"{_shown(path)}: {_megabytes(path.stat().st_size)}")
    return 0


def build_twin(configuration: Configuration) -> int:
    """Build the twin, the same application for Linux, run its self-test and print the report."""
    if sys.platform != "linux":
        raise Problem(
            "The twin (the build for Linux) can only be built on Linux.",
            "Run make app instead, and open the bundle.",
        )
    python = find_python()
    app = TWIN / f"{configuration.application.name}.app"
    assemble_for_twin(app, configuration, python=python)
    set_times(app)
    left_out = configuration.prune.lines("wheels")
    report = {
        "matrix_library": matrix_library(app, python),
        "modules_imported": import_all(app, python, left_out=left_out),
        **self_test(app, python),
    }
    print(json.dumps(report, indent=2))
    return 0


def make_locks(configuration: Configuration) -> int:
    """Choose the wheels to ship again, for both systems."""
    for platform in (macos(configuration.application.minimum_macos), linux()):
        wheels = resolve(platform, leave_out=configuration.prune.lines("wheels"))
        write_lock(platform.lock, wheels)
        print(f"{_shown(platform.lock)}: {len(wheels)} wheels")
    return 0


def verify(app: Path, configuration: Configuration) -> int:
    """Print everything that is wrong with the bundle; 1 if there is anything."""
    findings = verify_bundle(app, config=configuration)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings" if len(findings) != 1 else "1 finding")
    return 1 if findings else 0


def _shown(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in the arguments, and return the exit status."""
    parser = argparse.ArgumentParser(description="Make Slipstream.app, its image, and its twin.")
    commands = parser.add_subparsers(dest="command", required=True)
    app = commands.add_parser("app", help="dist/Slipstream.app, signed and verified")
    app.add_argument(
        "--without-starter", action="store_true", help="leave the starter pair's weights out"
    )
    commands.add_parser("image", help="the disk image and the .zip of dist/Slipstream.app")
    commands.add_parser("twin", help="the same for Linux, in build/twin, and its self-test")
    commands.add_parser("locks", help="choose the wheels to ship again")
    for name, purpose in {"verify": "list the problems of a bundle", "sign": "sign it"}.items():
        commands.add_parser(name, help=purpose).add_argument("bundle", type=Path)
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        status = _run(given, read_configuration())
    except Exception as error:
        if (problem := problem_of(error)) is None:
            raise
        print(problem, file=sys.stderr)
        return 2
    if given.command in ("app", "image", "twin"):
        print(f"{time.monotonic() - started:.0f} s")
    return status


def _run(given: argparse.Namespace, configuration: Configuration) -> int:
    match given.command:
        case "app":
            return build_app(configuration, starter=not given.without_starter)
        case "image":
            return build_image(configuration)
        case "twin":
            return build_twin(configuration)
        case "locks":
            return make_locks(configuration)
    if not (given.bundle / "Contents").is_dir():
        raise Problem(f"{given.bundle} is not a bundle.", "Name a bundle: dist/Slipstream.app")
    if given.command == "verify":
        return verify(given.bundle, configuration)
    sign_bundle(given.bundle)  # again after a change, with the identifier in its Info.plist
    return 0


if __name__ == "__main__":
    sys.exit(main())
