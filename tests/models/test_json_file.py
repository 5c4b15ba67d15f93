"""A file of ours has its old content or its new one, whatever happens in between."""

import json
import os
from pathlib import Path

import pytest

from models.errors import Problem
from models.json_file import write_json


def test_written_and_written_again(tmp_path: Path):
    path = tmp_path / "new" / "a.json"
    for value in ({"a": [1, "é"]}, []):
        write_json(path, value)
        assert json.loads(path.read_text()) == value
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_content_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    path = tmp_path / "a.json"
    write_json(path, "old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    else:
        monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(Problem, match=r"a\.json cannot be written.*No space left"):
        write_json(path, "new")
    assert json.loads(path.read_text()) == "old"
    monkeypatch.undo()
    write_json(path, "new")  # what the failure left is no hindrance
    assert json.loads(path.read_text()) == "new"


def test_what_is_no_json_leaves_the_old_content(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, "old")
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == "old"
