"""The command line: `python packaging/build.py app|image|twin`, which `make` runs.

Every failure that a person can act on ends here, as one line, with exit status 2.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import licences
import sbom
from assemble import assemble_for_mac, assemble_for_twin, set_times
from configuration import PACKAGING, REPOSITORY, Configuration, read_configuration
from image import make_downloads
from python_here import find_python
from signing import sign_bundle
from starter_weights import size_bytes, starter_bytes
from twin import matrix_library, self_test
from verify import verify_bundle

from models.errors import Problem

DIST = REPOSITORY / "dist"
TWIN = REPOSITORY / "build" / "twin"


def build_app(configuration: Configuration, *, starter: bool) -> int:
    """Assemble, sign and verify the bundle; 1 where something is found."""
    app = DIST / f"{configuration.application.name}.app"
    components = assemble_for_mac(app, configuration, python=find_python(), starter=starter)
    licences.collect(app, components=components)
    sbom.write(app, components=components, version=configuration.version)
    set_times(app)
    sign_bundle(
        app,
        identifier=configuration.application.identifier,
        entitlements=PACKAGING / "entitlements.plist",
    )
    set_times(app)
    findings = verify_bundle(app, config=configuration)
    for finding in findings:
        print(finding)
    whole, weights = size_bytes(app), starter_bytes(app)
    print(f"{_shown(app)}: {_megabytes(whole)}, {_megabytes(whole - weights)} without the starter")
    print(f"verify: {len(findings)} findings")
    return 1 if findings else 0


def build_image(configuration: Configuration) -> int:
    """Make what is downloaded, out of the bundle in dist/."""
    app = DIST / f"{configuration.application.name}.app"
    if not app.is_dir():
        raise Problem("There is no bundle in dist.", "Make it first: make app")
    for path in make_downloads(app, DIST, configuration):
        print(f"{_shown(path)}: {_megabytes(path.stat().st_size)}")
    return 0


def build_twin(configuration: Configuration) -> int:
    """Make the twin for Linux and have it test itself; prints what it tells."""
    if sys.platform != "linux":
        raise Problem("The twin runs on Linux.", "Here, make app, and open it.")
    python = find_python()
    app = TWIN / f"{configuration.application.name}.app"
    assemble_for_twin(app, configuration, python=python)
    set_times(app)
    told = {"matrix_library": matrix_library(app, python), **self_test(app, python)}
    print(json.dumps(told, indent=2))
    return 0


def _shown(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def main() -> int:
    """Do what the arguments say; the process's exit status."""
    parser = argparse.ArgumentParser(description="Make Slipstream.app, its image, and its twin.")
    commands = parser.add_subparsers(dest="command", required=True)
    app = commands.add_parser("app", help="dist/Slipstream.app, signed and verified")
    app.add_argument(
        "--without-starter", action="store_true", help="leave the starter pair's weights out"
    )
    commands.add_parser("image", help="the disk image and the .zip of dist/Slipstream.app")
    commands.add_parser("twin", help="the same for Linux, in build/twin, and its self-test")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        configuration = read_configuration()
        if arguments.command == "app":
            status = build_app(configuration, starter=not arguments.without_starter)
        elif arguments.command == "image":
            status = build_image(configuration)
        else:
            status = build_twin(configuration)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"{time.monotonic() - started:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
