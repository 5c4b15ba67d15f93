"""Two distillations are never mixed, and nothing of the user's is written over."""

import pytest

from engine.distil.run import WorkFolder
from models.errors import Problem

PLAN = {"--tokens": "1000", "target": "0123"}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "deep" / "drafter"


def test_begin_go_on_and_end(out):
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


def test_an_empty_folder_will_do(out):
    out.mkdir(parents=True)
    WorkFolder(out).check(PLAN, resume=False)
    # As a begin that was killed leaves it.
    (out / "work").mkdir()
    (out / "work" / ".plan.partial.json").write_text("{")
    WorkFolder(out).check(PLAN, resume=False)
    WorkFolder(out).begin(PLAN)
    WorkFolder(out).check(PLAN, resume=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_plan(out, text):
    WorkFolder(out).begin(PLAN)
    (out / "work" / "plan.json").write_text(text)
    with pytest.raises(Problem, match="cannot be used"):
        WorkFolder(out).check(PLAN, resume=True)
