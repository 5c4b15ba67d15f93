"""Where the package index has a wheel: `python -m models.wheel_address NAME==VERSION` prints it.

A process of its own, as pip is a program and no library. `pip install --dry-run --report` says the
same, but fetches the whole wheel before it does (pip 23 always, later ones where the index has no
metadata files). The imports are the parts of `pip index versions`, unchanged from pip 23.0 to
26.0; where another pip lacks them, the dry run remains.
"""

import importlib
import json
import subprocess
import sys
from typing import Any

_HOW = ("--no-deps", "--only-binary=:all:", "--no-input", "--quiet", "--retries=1")


def main(requirement: str) -> None:
    """Print `{"url": ..., "sha256": ...}` as JSON, or exit with 1 and pip's reason."""
    try:
        found = _from_the_index(requirement)
    except (ImportError, AttributeError, TypeError):
        found = None
    print(json.dumps(found or _from_a_dry_run(requirement)))


def _from_the_index(requirement: str) -> dict[str, str] | None:
    """pip's own finder, with the user's index, proxies, certificates and passwords.

    None if the index states no sha256.
    """
    commands: Any = importlib.import_module("pip._internal.commands")
    specifiers: Any = importlib.import_module("pip._vendor.packaging.specifiers")
    command = commands.create_command("download")
    options, (wanted,) = command.parse_args([*_HOW, requirement])
    name, _, version = wanted.partition("==")
    with command.main_context():
        finder = command._build_package_finder(options, command.get_default_session(options))
        best = finder.find_best_candidate(
            name, specifier=specifiers.SpecifierSet(f"=={version}")
        ).best_candidate
    if best is None:
        sys.exit(f"ERROR: No matching distribution found for {requirement}")
    if best.link.hash_name != "sha256":
        return None
    return {"url": best.link.url_without_fragment, "sha256": best.link.hash}


def _from_a_dry_run(requirement: str) -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
    report = subprocess.run(
        [*command, *_HOW, "--report", "-", requirement], stdout=subprocess.PIPE, check=False
    )
    if report.returncode:
        sys.exit(report.returncode)
    (found,) = json.loads(report.stdout)["install"]
    where = found["download_info"]
    return {"url": where["url"], "sha256": where["archive_info"]["hashes"]["sha256"]}


if __name__ == "__main__":
    main(sys.argv[1])
