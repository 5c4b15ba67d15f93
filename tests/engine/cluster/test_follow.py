"""How a follower finds the model that rank 0 has."""

import json
import shutil
from pathlib import Path

import pytest

from engine.cluster.control import Find
from engine.cluster.follow import digest, find
from models.errors import Problem
from models.files import models_folder
from models.model_folder import ModelFolder
from tests.support.engine.ended import change_json
from tests.support.engine.tiny import write_folder


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder on rank 0's Mac; there is nothing on this one yet."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "theirs" / "story"
    path.parent.mkdir()
    write_folder("llama", path, layers=1)
    return path


def wanted(path: Path) -> Find:
    folder = ModelFolder(path)
    return Find(folder.fingerprint, digest(folder), folder.name, str(path), "Copy it.")


def test_it_is_where_rank_0_has_it(theirs: Path) -> None:
    assert find(wanted(theirs)).path == theirs


def test_it_is_found_anywhere_under_any_name(theirs: Path) -> None:
    known = wanted(theirs)
    models_folder().mkdir(parents=True)
    write_folder("qwen2", models_folder() / "another", layers=1)
    theirs.rename(models_folder() / "renamed")
    assert find(known).path == models_folder() / "renamed"


def test_one_that_is_not_there_has_the_remedy_of_rank_0(theirs: Path) -> None:
    known = wanted(theirs)
    shutil.rmtree(theirs)
    with pytest.raises(Problem, match="story is not on it") as caught:
        find(known)
    assert caught.value.remedy == "Copy it."


@pytest.mark.parametrize("at", ["the same place", "our folder"])
def test_other_weights_of_that_name_are_not_the_model(theirs: Path, at: str) -> None:
    known = wanted(theirs)
    shutil.rmtree(theirs)
    other = theirs if at == "the same place" else models_folder() / "story"
    other.parent.mkdir(parents=True, exist_ok=True)
    write_folder("llama", other, seed=1, layers=1)
    with pytest.raises(Problem, match="other weights"):
        find(known)


def test_the_same_weights_with_another_config_are_not_the_model(theirs: Path) -> None:
    known = wanted(theirs)
    change_json(theirs / "config.json", rope_theta=5e5)
    with pytest.raises(Problem, match="another config"):
        find(known)


def test_a_config_is_the_same_however_it_is_written_down(theirs: Path) -> None:
    known = wanted(theirs)
    path = theirs / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(values.items()))))
    assert find(known).path == theirs


def test_a_broken_folder_does_not_hide_another(theirs: Path) -> None:
    known = wanted(theirs)
    models_folder().mkdir(parents=True)
    shutil.copytree(theirs, models_folder() / "whole")
    (theirs / "config.json").write_text("{")
    assert find(known).path == models_folder() / "whole"
