"""A Python 3.13 of this machine, which compiles the bundle's .pyc and goes into the twin."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.errors import Problem

VARIABLE = "SLIPSTREAM_PYTHON_3_13"
_ASK = """
import importlib.util, json, sys, sysconfig
if sys.version_info[:2] != (3, 13) or sys.abiflags: sys.exit(1)
of = sysconfig.get_config_var
print(json.dumps({
    "version": sys.version.split()[0],
    "executable": sys.executable,
    "library": of("LIBDIR") + "/" + of("INSTSONAME"),
    "stdlib": sysconfig.get_path("stdlib"),
    "extensions": of("DESTSHARED"),
}))
"""


@dataclass(frozen=True)
class BuildPython:
    """The paths of a Python's parts. `library` is libpython, which some installations lack."""

    version: str
    executable: Path
    library: Path
    stdlib: Path
    extensions: Path


def find_python() -> BuildPython:
    """The first Python that runs: $SLIPSTREAM_PYTHON_3_13, on the path, pyenv's. Raises Problem."""
    for path in _candidates():
        try:
            asked = subprocess.run([path, "-I", "-c", _ASK], capture_output=True)
        except OSError:  # it is not there, or no program
            continue
        if asked.returncode == 0:
            parts = json.loads(asked.stdout)
            version = parts.pop("version")
            return BuildPython(version, **{name: Path(value) for name, value in parts.items()})
    raise Problem(
        "No Python 3.13 was found, which is needed to compile the bundle's modules.",
        f"Install it (pyenv install 3.13, or uv python install 3.13), or name it in {VARIABLE}.",
    )


def _candidates() -> Iterator[str]:
    if given := os.environ.get(VARIABLE):
        yield given
        return
    if on_path := shutil.which("python3.13"):
        yield on_path  # may be a pyenv shim that refuses
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    managed = Path.home() / ".local" / "share" / "uv" / "python"
    for path in (*home.glob("versions/3.13.*"), *managed.glob("cpython-3.13.*")):
        if (path / "bin" / "python3.13").is_file():
            yield str(path / "bin" / "python3.13")
