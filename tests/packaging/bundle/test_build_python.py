"""Which Python 3.13 of this machine is taken."""

import json
from pathlib import Path

import pytest

from bundle.build_python import VARIABLE, BuildPython, find_python
from models.errors import Problem

TOLD = {
    "version": "3.13.5",
    "executable": "/somewhere/bin/python3.13",
    "library": "/somewhere/lib/libpython3.13.so.1.0",
    "stdlib": "/somewhere/lib/python3.13",
    "extensions": "/somewhere/lib/python3.13/lib-dynload",
}


def _script(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o755)
    return path


def test_the_first_that_runs(tmp_path, monkeypatch):
    """A shim of pyenv's refuses; the version that it stands for is found where pyenv keeps it."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(_script(tmp_path / "bin" / "python3.13", "exit 127").parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    real = tmp_path / "versions" / "3.13.5" / "bin" / "python3.13"
    _script(real, f"echo '{json.dumps(TOLD)}'")
    version = TOLD["version"]
    places = {name: Path(value) for name, value in TOLD.items() if name != "version"}
    assert find_python() == BuildPython(version, **places)


def test_another_version_is_refused_and_one_that_is_missing(tmp_path, monkeypatch):
    for path in (_script(tmp_path / "python", "exit 1"), tmp_path / "nowhere"):
        monkeypatch.setenv(VARIABLE, str(path))
        with pytest.raises(Problem, match=r"3\.13"):
            find_python()
