"""Folders that a person adds are remembered, searched two levels deep, and never changed."""

import json
from pathlib import Path

import pytest

from models.errors import Problem
from models.installed.added_folders import FILE_NAME, add_folder, folders, places, remove_folder
from tests.support.models.tiny_store import model_files, write


@pytest.fixture
def disk(tmp_path):
    return write(tmp_path / "disk", {"a file": b""})


def test_adding_and_removing(home, disk, monkeypatch):
    (disk / "b").mkdir()
    assert add_folder(disk, home=home) == [disk]
    monkeypatch.chdir(disk)
    assert add_folder(Path("b"), home=home) == [disk, disk / "b"]
    assert add_folder(Path("."), home=home) == [disk, disk / "b"]
    assert folders(home=home) == [disk, disk / "b"]
    assert remove_folder(Path("."), home=home) == [disk / "b"]
    (disk / "b").rmdir()
    assert folders(home=home) == [disk / "b"]
    assert remove_folder(disk / "b", home=home) == []
    assert (disk / "a file").exists()


def test_what_is_no_folder(home, disk):
    for path in (disk / "a file", disk / "nowhere"):
        with pytest.raises(Problem, match="not found"):
            add_folder(path, home=home)
    with pytest.raises(Problem, match="not among the folders"):
        remove_folder(disk, home=home)


def test_a_damaged_list_is_not_overwritten(home, disk, subtests):
    home.mkdir()
    path = home / FILE_NAME
    for listed in [3, {}, [3], [""], None]:
        with subtests.test(listed=listed):
            path.write_text(json.dumps({"folders": listed}))
            for use in (folders, lambda home: add_folder(disk, home=home)):
                with pytest.raises(Problem, match="damaged") as problem:
                    use(home=home)
                assert str(path) in str(problem.value)
            assert json.loads(path.read_text()) == {"folders": listed}


def test_a_file_in_place_of_the_data_folder(home, disk):
    home.write_text("")
    with pytest.raises(Problem, match="cannot be made"):
        add_folder(disk, home=home)


def test_where_models_may_lie(disk):
    write(disk / "org" / "model", model_files())
    write(disk / "org" / "model" / "part of it", model_files())
    write(disk / "flat", model_files())
    write(disk / "x" / "y" / "z", model_files())
    write(disk / ".hidden", model_files())
    write(disk / "org" / ".hidden", model_files())
    write(disk / "org", {"a.gguf": b"", "b.GGUF": b"", "c.bin": b"", ".d.gguf": b""})
    write(disk / "x" / "y", {"e.gguf": b""})
    assert list(places(disk)) == [
        ("flat", disk / "flat"),
        ("org/a.gguf", disk / "org" / "a.gguf"),
        ("org/b.GGUF", disk / "org" / "b.GGUF"),
        ("org/model", disk / "org" / "model"),
        ("x/y/e.gguf", disk / "x" / "y" / "e.gguf"),
    ]
    assert list(places(disk / "flat")) == [("flat", disk / "flat")]
    assert list(places(disk / "nowhere")) == []


def test_one_that_may_not_be_read_hides_no_other(disk, monkeypatch):
    refused = write(disk / "a" / "b", model_files()).parent
    write(disk / "c", model_files())
    iterate = Path.iterdir

    def iterdir(path):
        if path == refused:
            raise PermissionError(13, "Permission denied")
        return iterate(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert [name for name, _ in places(disk)] == ["c"]
