"""Runs the twin's self-test as a stranger's machine would: nothing of this repository is there.

The twin is the bundle for Linux: the same layout, the same left out, the same launcher. Its
environment is empty but for a home folder with nothing in it; it lies in a folder with a space in
its name; nothing may be written to it; the repository and the Python that it was made of cannot be
seen. The last three need mounts of our own (`unshare`); where the system allows none, it runs
where it lies, and is compared afterwards.
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

from configuration import REPOSITORY
from python_here import PythonHere

from models.errors import Problem

_SELF_TEST_SECONDS = 300
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
    """How a program of the twin ended, what it wrote, and whether all else was hidden from it."""

    status: int
    output: str
    errors: str
    hidden: bool


def run_in_twin(app: Path, python: PythonHere, command: Sequence[str]) -> Ran:
    """Run `command`, whose first word is a program of the twin's, with nothing else around.

    Raises Problem where anything in the twin has changed since, or it takes over five minutes.
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
            raise Problem("The twin does not come to an end.", "Run it by hand.") from error
    if _state(app) != before:
        raise Problem("The twin has written into its own bundle.", "Have it write elsewhere.")
    return Ran(done.returncode, done.stdout, done.stderr, hidden)


def self_test(app: Path, python: PythonHere) -> dict[str, Any]:
    """What the twin's self-test tells. Raises Problem where it fails, in its own words."""
    ran = run_in_twin(app, python, ["Slipstream", "--self-test"])
    try:
        told = json.loads(ran.output)
    except ValueError:
        told = None
    if ran.status != 0 or not isinstance(told, dict):
        said = (ran.errors.strip() or ran.output.strip() or "It says nothing.").splitlines()
        raise Problem(
            f"The twin fails its self-test (status {ran.status}): {said[-1]}",
            f"Run {app / 'Contents' / 'MacOS' / 'Slipstream'} --self-test.",
        )
    return {**told, "repository_hidden": ran.hidden}


def matrix_library(app: Path, python: PythonHere) -> str:
    """What the twin multiplies with. Raises Problem where it lacks the fast library."""
    program = "from engine.blas import choose_blas; print(choose_blas())"
    ran = run_in_twin(app, python, ["python3", "-c", program])
    told = ran.output.strip()
    if not told.startswith("OpenBLAS"):
        raise Problem(
            f"The twin multiplies with {told or 'nothing'}, not with OpenBLAS.",
            "Look what was left out of scipy-openblas32 and resources/blas.",
        )
    return told


def _can_mount() -> bool:
    """Whether this system lets us have mounts of our own."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    tried = subprocess.run([*_UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return tried.returncode == 0


def _unseen(python: PythonHere) -> list[Path]:
    """What is put out of sight: the repository, and a Python that is not the system's."""
    prefix = python.executable.parents[1]
    return [REPOSITORY] + [prefix] * (not prefix.is_relative_to("/usr"))


def _state(app: Path) -> dict[str, tuple[int, int]]:
    return {
        path.relative_to(app).as_posix(): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in (app, *app.rglob("*"))
    }
