"""How another Mac finds rank 0's target: by its weights and its config, wherever it is."""

import shutil

import pytest

from engine.process.macs import Find, digest
from engine.process.rank import find
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.ended import change_json
from tests.support.engine.tiny import write_folder


@pytest.mark.parametrize(
    ("place", "seed", "config", "found"),
    [
        ("theirs/story", 0, {}, "story"),
        ("models/renamed", 0, {}, "renamed"),
        ("theirs/story", 1, {}, "Its story has other weights, or another config.json."),
        ("theirs/story", 0, {"rope_theta": 5e5}, "Its story has other weights, or another"),
        ("elsewhere/story", 0, {}, "story is not on it. Copy it."),
    ],
)
def test_a_model_is_found_by_its_weights_and_config(
    tmp_path, monkeypatch, place, seed, config, found
):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    theirs = ModelFolder(tmp_path / "theirs" / "story")
    write_folder("llama", theirs.path, layers=1)
    wanted = Find(theirs.fingerprint, digest(theirs), "story", str(theirs.path), "Copy it.")
    shutil.rmtree(theirs.path)
    write_folder("llama", tmp_path / place, seed=seed, layers=1)
    change_json(tmp_path / place / "config.json", **config)
    if found in place:
        assert find(wanted).path == tmp_path / place
        return
    with pytest.raises(Problem, match=found):
        find(wanted)
