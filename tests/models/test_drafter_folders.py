"""Heads are found by what their target's weights are, the user's own first, broken ones never."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.numpy import save_file

from models import drafter_folders
from models.drafter_folders import (
    DrafterFolder,
    describe_drafter,
    find_head,
    is_drafter,
)
from models.drafter_kinds import HEAD_MODEL_TYPE, HEAD_WEIGHTS_NAME
from models.errors import Problem
from models.files import HOME_VARIABLE

TARGET = "0123456789abcdef"
CONFIG = {"model_type": HEAD_MODEL_TYPE, "target": "A target", "target_fingerprint": TARGET}


def head(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    save_file({"kept": numpy.arange(4)}, folder / HEAD_WEIGHTS_NAME)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def place_of(found: DrafterFolder | None) -> Path | None:
    return found and found.path


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of those that come along."""
    place = tmp_path / "shipped"
    monkeypatch.setattr(drafter_folders, "_SHIPPED", place)
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    return place


@pytest.fixture
def home(tmp_path: Path, shipped: Path) -> Path:
    return tmp_path / "home"


def test_what_a_head_is_for(tmp_path: Path) -> None:
    folder = head(tmp_path / "any name", hidden_size=64)
    assert is_drafter(folder)
    described = describe_drafter(folder)
    assert (described.path, described.kind) == (folder, "head")
    assert described.description.verifier == "A target"
    assert described.description.demands.fingerprint == TARGET
    assert described.config == CONFIG | {"hidden_size": 64}


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "llama"},
        {"model_type": None},
        {"target_fingerprint": None},
        {"target_fingerprint": 7},
    ],
    ids=str,
)
def test_a_folder_of_something_else(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = head(tmp_path / "other", **changes)
    with pytest.raises(Problem, match=r"drafter|weights"):
        describe_drafter(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "\x00", "[" * 100_000])
def test_a_config_that_is_none(tmp_path: Path, home: Path, text: str) -> None:
    folder = head(home / "drafters" / "broken")
    (folder / "config.json").write_text(text)
    with pytest.raises(Problem, match=r"config\.json"):
        describe_drafter(folder)
    assert find_head(TARGET, home=home) is None


def test_a_folder_without_weights_is_no_head(tmp_path: Path, home: Path) -> None:
    folder = head(home / "drafters" / "half")
    (folder / HEAD_WEIGHTS_NAME).unlink()
    assert not is_drafter(folder)
    assert not is_drafter(tmp_path / "none")
    assert find_head(TARGET, home=home) is None


def test_nothing_is_there(home: Path) -> None:
    assert find_head(TARGET, home=home) is None


def test_only_its_own_target_gets_it(home: Path, shipped: Path) -> None:
    folder = head(shipped / "theirs")
    other = head(shipped / "another", target_fingerprint="fedcba9876543210")
    assert place_of(find_head(TARGET, home=home)) == folder
    assert place_of(find_head("fedcba9876543210", home=home)) == other
    assert find_head("f" * 16, home=home) is None


def test_the_users_own_comes_first(home: Path, shipped: Path) -> None:
    head(shipped / "a")
    own = head(home / "drafters" / "z")
    assert place_of(find_head(TARGET, home=home)) == own


def test_the_same_one_every_time(home: Path, shipped: Path) -> None:
    for name in ("m", "b", "x"):
        head(home / "drafters" / name)
    assert place_of(find_head(TARGET, home=home)) == home / "drafters" / "b"


def test_the_home_may_be_named_by_a_variable(
    home: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = head(home / "drafters" / "own")
    head(shipped / "theirs")
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    assert place_of(find_head(TARGET)) == own
    monkeypatch.setenv(HOME_VARIABLE, str(home.with_name("elsewhere")))
    assert place_of(find_head(TARGET)) == shipped / "theirs"


@pytest.mark.parametrize("data", [b"", b"\xa5" * 200, b"\x10\0\0\0\0\0\0\0{}"])
def test_a_broken_one_hides_no_sound_one(home: Path, shipped: Path, data: bytes) -> None:
    (head(home / "drafters" / "a") / HEAD_WEIGHTS_NAME).write_bytes(data)
    (head(home / "drafters" / "b") / "config.json").write_text("{")
    (head(home / "drafters" / "c") / "config.json").unlink()
    (home / "drafters" / "a file").write_text("")
    (home / "drafters" / "gone").symlink_to(home / "nowhere")
    sound = head(shipped / "sound")
    assert place_of(find_head(TARGET, home=home)) == sound


def test_a_folder_that_may_not_be_read(
    home: Path, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = head(home / "drafters" / "refused")
    sound = head(shipped / "sound")
    is_file = Path.is_file

    def refusing(path: Path) -> bool:
        if refused in path.parents:
            raise PermissionError(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    assert place_of(find_head(TARGET, home=home)) == sound


def test_a_file_in_place_of_the_users_folder(home: Path, shipped: Path) -> None:
    home.mkdir()
    (home / "drafters").write_text("")
    assert find_head(TARGET, home=home) is None
