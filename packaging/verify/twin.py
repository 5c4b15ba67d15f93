"""Runs the twin's self-test as on a stranger's machine, without this repository.

The twin is the application built for Linux, with the same layout, launcher and exclusions. It runs
with an empty environment and an empty home folder, in a read-only folder with a space in its name,
and cannot see the repository and the Python that it was made of. This needs private mounts
(`unshare`); if the system allows none, the twin runs in its own place, and is compared with its
earlier state afterwards.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bundle.build_python import BuildPython
from configuration import REPOSITORY
from models.errors import Problem

_SELF_TEST_SECONDS = 300
_IMPORT_ALL = Path(__file__).with_name("import_all.py")
_UNSHARE = ("unshare", "--mount", "--propagation", "private")
_MOUNTS = """
set -e
app=$1 place=$2; shift 2
mount --bind "$app" "$place"
mount -o remount,bind,ro "$place"
while [ "$1" != -- ]; do mount -t tmpfs -o ro none "$1"; shift; done
shift
cd /
exec "$@"
"""


@dataclass(frozen=True)
class Ran:
    """The result of a program of the twin: its end, its output, and whether the rest was hidden."""

    status: int
    output: str
    errors: str
    hidden: bool


def run_in_twin(app: Path, python: BuildPython, command: Sequence[str]) -> Ran:
    """Run `command`, whose first word is a program of the twin, without anything else around.

    Raises `Problem` if it changes anything in the twin, or takes over five minutes.
    """
    before = _state(app)
    with TemporaryDirectory() as folder:
        home, place = Path(folder) / "home", Path(folder) / "a stranger's folder" / app.name
        home.mkdir()
        place.mkdir(parents=True)
        hidden = _can_mount()
        where = place if hidden else app.resolve()
        line = [str(where / "Contents" / "MacOS" / command[0]), *command[1:]]
        if hidden:
            unseen = [str(path) for path in _unseen(python)]
            line = ["sh", "-c", _MOUNTS, "sh", str(app.resolve()), str(place), *unseen, "--", *line]
            line = [*_UNSHARE, *line]
        try:
            done = subprocess.run(
                line,
                cwd="/",
                env={
                    "HOME": str(home),
                    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                    "QT_QPA_PLATFORM": "offscreen",
                    "TMPDIR": folder,
                },
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=_SELF_TEST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise Problem(
                f"The twin (the build for Linux) did not finish in {_SELF_TEST_SECONDS} seconds.",
                f"Run {app / 'Contents' / 'MacOS' / command[0]} to see where it stops.",
            ) from error
    changed = sorted(name for name, _ in before.items() ^ _state(app).items())
    if changed:
        raise Problem(
            f"The twin (the build for Linux) wrote into its own bundle: {changed[0]}",
            "Have the application write only to the folders that packaging/README.md lists.",
        )
    return Ran(done.returncode, done.stdout, done.stderr, hidden)


def self_test(app: Path, python: BuildPython) -> dict[str, Any]:
    """Run the twin's self-test; return its report. If it fails, raises `Problem` with its last
    line."""
    ran = run_in_twin(app, python, ["Slipstream", "--self-test"])
    try:
        report = json.loads(ran.output)
    except ValueError:
        report = None
    if ran.status != 0 or not isinstance(report, dict):
        printed = (ran.errors.strip() or ran.output.strip() or "it printed nothing.").splitlines()
        raise Problem(
            f"The twin (the build for Linux) failed its self-test: {printed[-1]} (status "
            f"{ran.status})",
            f"To repeat it, run {app / 'Contents' / 'MacOS' / 'Slipstream'} --self-test.",
        )
    return {**report, "repository_hidden": ran.hidden}


def matrix_library(app: Path, python: BuildPython) -> str:
    """The twin's matrix library. Raises `Problem` if it is not OpenBLAS."""
    program = "from engine.cpu.blas import choose_blas; print(choose_blas())"
    ran = run_in_twin(app, python, ["python3", "-c", program])
    library = ran.output.strip()
    if not library.startswith("OpenBLAS"):
        raise Problem(
            f"The twin (the build for Linux) multiplies with {library or 'nothing'}, not OpenBLAS.",
            "See what slipstream.toml excludes of scipy-openblas32 and resources/blas.",
        )
    return library


def import_all(app: Path, python: BuildPython, *, left_out: Sequence[str]) -> int:
    """Import in the twin all that the application may import; return the number of modules.

    `left_out`: the packages that were left out as a whole. Raises `Problem` if a module lacks
    something, such as a file that slipstream.toml leaves out.
    """
    program = _IMPORT_ALL.read_text(encoding="utf-8")
    packages = [name.replace("-", "_") for name in left_out]
    ran = run_in_twin(app, python, ["python3", "-c", program, *packages])
    try:
        found = json.loads(ran.output)
        faults, modules = found["faults"], int(found["modules"])
    except (ValueError, LookupError, TypeError) as error:
        last = (ran.errors.strip().splitlines() or ["no reason given"])[-1]
        raise Problem(
            f"The twin (the build for Linux) cannot import its modules: {last}",
            "See what slipstream.toml leaves out.",
        ) from error
    if faults:
        name = min(faults)
        raise Problem(
            f"{len(faults)} modules do not load in the twin (the build for Linux), among them "
            f"{name}: {faults[name]}",
            "Add the modules that it needs to slipstream.toml.",
        )
    return modules


def _can_mount() -> bool:
    """Whether this system allows private mounts."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    tried = subprocess.run([*_UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return tried.returncode == 0


def _unseen(python: BuildPython) -> list[Path]:
    """The folders to hide: the repository, and the build's Python if it is not the system's."""
    prefix = python.executable.parents[1]
    return [REPOSITORY] + [prefix] * (not prefix.is_relative_to("/usr"))


def _state(app: Path) -> dict[str, tuple[int, int]]:
    return {
        path.relative_to(app).as_posix(): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in (app, *app.rglob("*"))
    }
