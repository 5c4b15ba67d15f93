"""Compiled files: never looked up in their source again, and the same every time."""

import sys
from pathlib import Path

import pytest

from bundle import bytecode
from bundle.bytecode import compile_all
from models.errors import Problem

UNCHECKED_HASH = b"\x01\x00\x00\x00"
NAMES = [f"package/module_{number}.py" for number in range(5)]


@pytest.fixture(autouse=True)
def few_processes(monkeypatch):
    monkeypatch.setattr(bytecode, "_SHARES", 2)


def _write(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            f'NAMES = {{"{name}", "shared"}}\nshared = "a" in {{"a", "b"}}\n'
        )
    return folder


def _compiled(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.pyc")
    }


def test_the_same_bytes_wherever_it_is_done(tmp_path):
    one, two = _write(tmp_path / "one", NAMES), _write(tmp_path / "another place", NAMES)
    for folder in (one, two):
        compile_all(folder, Path(sys.executable), is_excluded=lambda name: name.endswith("_1.py"))
    assert len(_compiled(one)) == len(NAMES) - 1
    assert _compiled(one) == _compiled(two)
    for name, data in _compiled(one).items():
        assert name.endswith(".cpython-313.pyc")
        assert data[4:8] == UNCHECKED_HASH
        assert str(tmp_path).encode() not in data


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


def test_a_file_that_does_not_compile(tmp_path):
    (tmp_path / "wrong.py").write_text("def :\n")
    with pytest.raises(Problem, match=r"wrong\.py"):
        compile_all(tmp_path, Path(sys.executable))
