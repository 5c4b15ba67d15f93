"""Heads are found by what their target's weights are, the user's own first, broken ones never."""

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from models.drafters import folders as drafter_folders
from models.drafters.folders import describe_drafter, find_head, is_drafter, own_module
from models.drafters.kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.errors import Problem
from models.files import HOME_VARIABLE
from models.model_folder import ModelFolder
from tests.support.models.drafter_configs import drafter_layout, write_drafter

TARGET = "0123456789abcdef"
CONFIG = {"model_type": HEAD_MODEL_TYPE, "target": "A target", "target_fingerprint": TARGET}


def head(folder, **changes):
    folder.mkdir(parents=True)
    save_file({"kept": numpy.arange(4)}, folder / HEAD_WEIGHTS_NAME)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def place_of(found):
    return found and found.path


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of those that come along."""
    place = tmp_path / "shipped"
    monkeypatch.setattr(drafter_folders, "_SHIPPED", place)
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    return place


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def test_a_folder_of_something_else(tmp_path, subtests):
    for number, changes in enumerate([
        {"model_type": "llama"}, {"model_type": None},
        {"target_fingerprint": None}, {"target_fingerprint": 7},
    ]):  # fmt: skip
        with subtests.test(changes=changes):
            folder = head(tmp_path / f"other-{number}", **changes)
            with pytest.raises(Problem, match=r"drafter|weights"):
                describe_drafter(folder)


@pytest.mark.parametrize("spelling", ["mtp-huggingface", "mtp-mlx-4bit"])
def test_a_module_in_a_file_beside_the_target(tmp_path, spelling):
    """As merged targets have it; mlx-lm does not load that file."""
    target = drafter_layout("mtp-huggingface-inside")
    trunk = {key: each for key, each in target.tensors.items() if not key.startswith("mtp.")}
    settings = {"quantization": {"bits": 4, "group_size": 32}}
    folder = write_drafter(
        tmp_path / "target", replace(target, config=target.config | settings, tensors=trunk)
    )
    assert own_module(ModelFolder(folder)) is None
    beside = write_drafter(tmp_path / "module", drafter_layout(spelling), weights="mtp.safetensors")
    (beside / "mtp.safetensors").rename(folder / "mtp.safetensors")
    assert not is_drafter(folder)
    module = own_module(ModelFolder(folder))
    assert module.kind == "mtp"
    assert module.weights == (folder / "mtp.safetensors",)
    assert module.layouts == drafter_layout(spelling).tensors


def test_a_target_gets_the_first_of_the_users_own_then_one_that_came_along(home, shipped):
    other = head(shipped / "another", target_fingerprint="fedcba9876543210")
    theirs = head(shipped / "theirs")
    assert place_of(find_head(TARGET, home=home)) == theirs
    for name in ("m", "b", "x"):
        head(home / "drafters" / name)
    assert place_of(find_head(TARGET, home=home)) == home / "drafters" / "b"
    assert place_of(find_head("fedcba9876543210", home=home)) == other
    assert find_head("f" * 16, home=home) is None


def test_a_broken_one_hides_no_sound_one(home, shipped, monkeypatch):
    drafters, sound = home / "drafters", head(shipped / "sound")
    for name, data in (("a", b""), ("b", b"\xa5" * 200), ("c", b"\x10\0\0\0\0\0\0\0{}")):
        (head(drafters / name) / HEAD_WEIGHTS_NAME).write_bytes(data)
    (head(drafters / "d") / "config.json").write_text("{")
    (head(drafters / "e") / "config.json").unlink()
    (head(drafters / "f") / HEAD_WEIGHTS_NAME).unlink()
    (drafters / "a file").write_text("")
    (drafters / "gone").symlink_to(home / "nowhere")
    refused, is_file = head(drafters / "refused"), Path.is_file

    def refusing(path):
        if refused in path.parents:
            raise PermissionError(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    assert place_of(find_head(TARGET, home=home)) == sound
