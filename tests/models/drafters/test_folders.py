"""Heads are found by what their target's weights are, the user's own first, broken ones never."""

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file

from models.drafters import folders as drafter_folders
from models.drafters.folders import (
    DrafterFolder,
    describe_drafter,
    find_head,
    is_drafter,
    own_module,
    read_drafter,
)
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
def home(tmp_path, shipped):
    return tmp_path / "home"


def test_what_a_head_is_for(tmp_path):
    folder = head(tmp_path / "any name", hidden_size=64)
    assert is_drafter(folder)
    described = describe_drafter(folder)
    assert (described.path, described.kind) == (folder, "head")
    assert described.description.verifier == "A target"
    assert described.description.demands.fingerprint == TARGET
    assert described.config == CONFIG | {"hidden_size": 64}


def test_a_folder_of_something_else(tmp_path, subtests):
    for number, changes in enumerate(
        [
            {"model_type": "llama"},
            {"model_type": None},
            {"target_fingerprint": None},
            {"target_fingerprint": 7},
        ]
    ):
        with subtests.test(changes=changes):
            folder = head(tmp_path / f"other-{number}", **changes)
            with pytest.raises(Problem, match=r"drafter|weights"):
                describe_drafter(folder)


def test_a_config_that_is_none(tmp_path, home, subtests):
    folder = head(home / "drafters" / "broken")
    for text in ["", "{", "[]", "7", "\x00", "[" * 100_000]:
        with subtests.test(text=text):
            (folder / "config.json").write_text(text)
            with pytest.raises(Problem, match=r"config\.json"):
                describe_drafter(folder)
            assert find_head(TARGET, home=home) is None


def test_a_folder_without_weights_is_no_use(tmp_path, home):
    folder = head(home / "drafters" / "half")
    (folder / HEAD_WEIGHTS_NAME).unlink()
    with pytest.raises(Problem, match="no weights"):
        describe_drafter(folder)
    assert not is_drafter(tmp_path / "none")
    assert find_head(TARGET, home=home) is None


def test_drafters_of_others(tmp_path, subtests):
    """Some are told from models by the names of their tensors only."""
    for name in ["medusa", "mtp-huggingface", "eagle-3-angelslim", "eagle-1"]:
        for weights in ["model.safetensors", "model-00001-of-00001.safetensors"]:
            with subtests.test(name=name, weights=weights):
                layout = drafter_layout(name)
                folder = write_drafter(tmp_path / name / weights[:-12], layout, weights=weights)
                assert is_drafter(folder)
                found = read_drafter(ModelFolder(folder))
                assert found == describe_drafter(folder)
                assert found.kind == layout.expected["kind"]


@pytest.mark.parametrize(
    ("name", "weights"),
    [("medusa", "medusa_lm_head.safetensors"), ("mtp-huggingface", "mtp.safetensors")],
)
def test_weights_by_another_name(tmp_path, name, weights):
    layout = drafter_layout(name)
    found = describe_drafter(write_drafter(tmp_path / name, layout, weights=weights))
    assert found.weights == (found.path / weights,)
    assert found.layouts == layout.tensors


def test_an_ordinary_model_is_no_drafter(tmp_path):
    folder = write_drafter(tmp_path / "model", drafter_layout("whole-model"))
    assert not is_drafter(folder)
    assert read_drafter(ModelFolder(folder)) is None
    assert own_module(ModelFolder(folder)) is None
    assert DrafterFolder.of_model(ModelFolder(folder)).kind == "model"


@pytest.mark.parametrize(
    "name", ["mtp-huggingface-inside", "mtp-deepseek-inside", "mtp-mimo-inside"]
)
def test_a_targets_own_module(tmp_path, name):
    layout = drafter_layout(name)
    folder = write_drafter(tmp_path / "target", layout)
    assert not is_drafter(folder)
    module = own_module(ModelFolder(folder))
    assert (module.kind, module.path) == ("mtp", folder)
    prefixes = tuple(layout.expected["inside"]["prefixes"])
    assert set(module.layouts) == {key for key in layout.tensors if key.startswith(prefixes)}
    assert module.weights == (folder / "model.safetensors",)


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


def test_only_its_own_target_gets_it(home, shipped):
    folder = head(shipped / "theirs")
    other = head(shipped / "another", target_fingerprint="fedcba9876543210")
    assert place_of(find_head(TARGET, home=home)) == folder
    assert place_of(find_head("fedcba9876543210", home=home)) == other
    assert find_head("f" * 16, home=home) is None


def test_the_users_own_comes_first(home, shipped):
    head(shipped / "a")
    own = head(home / "drafters" / "z")
    assert place_of(find_head(TARGET, home=home)) == own


def test_the_same_one_every_time(home, shipped):
    for name in ("m", "b", "x"):
        head(home / "drafters" / name)
    assert place_of(find_head(TARGET, home=home)) == home / "drafters" / "b"


def test_the_home_may_be_named_by_a_variable(home, shipped, monkeypatch):
    own = head(home / "drafters" / "own")
    head(shipped / "theirs")
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    assert place_of(find_head(TARGET)) == own
    monkeypatch.setenv(HOME_VARIABLE, str(home.with_name("elsewhere")))
    assert place_of(find_head(TARGET)) == shipped / "theirs"


@pytest.mark.parametrize("data", [b"", b"\xa5" * 200, b"\x10\0\0\0\0\0\0\0{}"])
def test_a_broken_one_hides_no_sound_one(home, shipped, data):
    (head(home / "drafters" / "a") / HEAD_WEIGHTS_NAME).write_bytes(data)
    (head(home / "drafters" / "b") / "config.json").write_text("{")
    (head(home / "drafters" / "c") / "config.json").unlink()
    (home / "drafters" / "a file").write_text("")
    (home / "drafters" / "gone").symlink_to(home / "nowhere")
    sound = head(shipped / "sound")
    assert place_of(find_head(TARGET, home=home)) == sound


def test_a_folder_that_may_not_be_read(home, shipped, monkeypatch):
    refused = head(home / "drafters" / "refused")
    sound = head(shipped / "sound")
    is_file = Path.is_file

    def refusing(path):
        if refused in path.parents:
            raise PermissionError(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    assert place_of(find_head(TARGET, home=home)) == sound


def test_a_file_in_place_of_the_users_folder(home, shipped):
    home.mkdir()
    (home / "drafters").write_text("")
    assert find_head(TARGET, home=home) is None
