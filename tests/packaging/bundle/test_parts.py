"""Parts of a bundle: compiled files, the Python that compiles them, Info.plist, the icon."""

import io
import json
import plistlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from bundle import bytecode
from bundle.build_python import VARIABLE, BuildPython, find_python
from bundle.bytecode import compile_all
from bundle.info_plist import info_plist, write_icon
from configuration import read_configuration
from models.errors import Problem

UNCHECKED_HASH = b"\x01\x00\x00\x00"
NAMES = [f"package/module_{number}.py" for number in range(5)]


def _write(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            f'NAMES = {{"{name}", "shared"}}\nshared = "a" in {{"a", "b"}}\n'
        )
    return folder


def _compiled(folder):
    paths = folder.rglob("*.pyc")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_the_same_bytes_wherever_it_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(bytecode, "_SHARES", 2)
    one, two = _write(tmp_path / "one", NAMES), _write(tmp_path / "another place", NAMES)
    for folder in (one, two):
        compile_all(folder, Path(sys.executable), is_excluded=lambda name: name.endswith("_1.py"))
    assert len(_compiled(one)) == len(NAMES) - 1
    assert _compiled(one) == _compiled(two)
    for name, data in _compiled(one).items():
        assert name.endswith(".cpython-313.pyc")
        assert data[4:8] == UNCHECKED_HASH
        assert str(tmp_path).encode() not in data
    (one / "wrong.py").write_text("def :\n")
    with pytest.raises(Problem, match=r"wrong\.py"):
        compile_all(one, Path(sys.executable))


def test_every_share_is_the_same_whatever_order_a_disk_lists_files_in(tmp_path, monkeypatch):
    folder = _write(tmp_path, NAMES)
    shares = []
    for paths in (sorted(folder.rglob("*.py")), sorted(folder.rglob("*.py"), reverse=True)):
        asked = []
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rglob", lambda *_, paths=paths: iter(paths))
            patched.setattr(bytecode, "_compile", lambda *given, to=asked: to.append(given[2]))
            compile_all(folder, Path(sys.executable))
        shares.append(sorted(asked))
    assert shares[0] == shares[1]


# Which Python 3.13 of this machine is taken.


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


def test_the_first_that_runs_and_no_other_version_is_taken(tmp_path, monkeypatch):
    """A shim of pyenv's refuses; the version that it stands for is found where pyenv keeps it."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(_script(tmp_path / "bin" / "python3.13", "exit 127").parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    real = tmp_path / "versions" / "3.13.5" / "bin" / "python3.13"
    _script(real, f"echo '{json.dumps(TOLD)}'")
    version = TOLD["version"]
    places = {name: Path(value) for name, value in TOLD.items() if name != "version"}
    assert find_python() == BuildPython(version, **places)
    for path in (_script(tmp_path / "python", "exit 1"), tmp_path / "nowhere"):
        monkeypatch.setenv(VARIABLE, str(path))
        with pytest.raises(Problem, match=r"3\.13"):
            find_python()


# Info.plist and the icon: what macOS wants to know, and the same every time.


def test_it_says_what_the_configuration_says():
    configuration = replace(read_configuration(), version="9.8.7")
    told = plistlib.loads(info_plist(configuration))
    assert told["CFBundleShortVersionString"] == told["CFBundleVersion"] == "9.8.7"
    assert (told["CFBundleExecutable"], told["NSAppSleepDisabled"]) == ("Slipstream", True)
    (taken,) = told["CFBundleDocumentTypes"]
    assert "public.folder" in taken["LSItemContentTypes"]
    asked = ("LocalNetwork", "DesktopFolder", "DocumentsFolder", "DownloadsFolder")
    assert all(told[f"NS{place}UsageDescription"] for place in asked)


def test_the_icon_has_all_sizes(tmp_path):
    picture = tmp_path / "drawn.png"
    Image.new("RGB", (64, 64), "teal").save(picture)
    for name in ("one.icns", "two.icns"):
        write_icon(picture, tmp_path / name)
    data = (tmp_path / "one.icns").read_bytes()
    assert data == (tmp_path / "two.icns").read_bytes()
    with Image.open(io.BytesIO(data)) as icon:
        sides = {width * scale for width, _, scale in icon.info["sizes"]}
    assert sides == {32, 64, 128, 256, 512, 1024}
