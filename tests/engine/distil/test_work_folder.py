"""Two distillations are never mixed, and nothing of the user's is written over."""

from pathlib import Path

import pytest

from engine.distil.run import WorkFolder
from models.errors import Problem

PLAN = {"--tokens": "1000", "target": "0123"}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "drafter"


def test_begin_go_on_and_end(out: Path) -> None:
    folder = WorkFolder(out)
    folder.check(PLAN, resume=False)
    assert not out.exists(), "checking makes nothing"
    folder.begin(PLAN)
    folder.checkpoint.write_text("")
    again = WorkFolder(out)
    again.check(PLAN, resume=True)
    again.begin(PLAN)
    assert again.checkpoint.is_file()
    (out / "config.json").write_text("")
    again.remove()
    assert [path.name for path in out.iterdir()] == ["config.json"]


def test_an_empty_folder_will_do(out: Path) -> None:
    out.mkdir(parents=True)
    WorkFolder(out).check(PLAN, resume=False)
    # As a begin that was killed leaves it.
    (out / "work").mkdir()
    (out / "work" / ".plan.partial.json").write_text("{")
    WorkFolder(out).check(PLAN, resume=False)
    WorkFolder(out).begin(PLAN)
    WorkFolder(out).check(PLAN, resume=True)


def test_a_folder_with_something_in_it(out: Path) -> None:
    out.mkdir(parents=True)
    (out / "letters.txt").write_text("")
    with pytest.raises(Problem, match="not empty"):
        WorkFolder(out).check(PLAN, resume=False)
    with pytest.raises(Problem, match="nothing to resume"):
        WorkFolder(out).check(PLAN, resume=True)


def test_one_that_was_begun(out: Path) -> None:
    WorkFolder(out).begin(PLAN)
    with pytest.raises(Problem, match="not empty") as caught:
        WorkFolder(out).check(PLAN, resume=False)
    assert "--resume" in caught.value.remedy


@pytest.mark.parametrize("name", PLAN)
def test_another_plan(out: Path, name: str) -> None:
    WorkFolder(out).begin(PLAN)
    with pytest.raises(Problem, match=f"begun with other {name}") as caught:
        WorkFolder(out).check(PLAN | {name: "7"}, resume=True)
    assert "as it was" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_plan(out: Path, text: str) -> None:
    WorkFolder(out).begin(PLAN)
    (out / "work" / "plan.json").write_text(text)
    with pytest.raises(Problem, match="cannot be used"):
        WorkFolder(out).check(PLAN, resume=True)


def test_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "drafter"):
        folder = WorkFolder(out)
        with pytest.raises(Problem, match="cannot be used"):
            folder.begin(PLAN)
    with pytest.raises(Problem, match="cannot be used"):
        WorkFolder(tmp_path / "file").check(PLAN, resume=False)
