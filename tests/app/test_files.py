"""Names that every file system takes, and files written whole or not at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.files import file_name, write_text
from models.errors import Problem


@given(st.text(max_size=200))
def test_any_title_gives_a_name(tmp_path_factory: pytest.TempPathFactory, title: str) -> None:
    name = file_name(f"{title}.json")
    assert name.endswith(".json")
    assert len(name) <= 90
    path = tmp_path_factory.getbasetemp() / name
    assert path.parent == tmp_path_factory.getbasetemp(), "nowhere else"
    path.write_text("")
    path.unlink()


def test_a_title_stays_readable() -> None:
    assert file_name("What is 3/4 of 1.5?.md") == "What is 3 4 of 1.5.md"
    assert file_name("...md") == "Conversation.md"


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    write_text(path, "one")
    write_text(path, "zwei, zwölf")
    assert path.read_text(encoding="utf-8") == "zwei, zwölf"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        write_text(tmp_path / "missing" / "out.md", "one")
    assert caught.value.remedy
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(Problem):
        write_text(tmp_path / "folder.md", "one")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.md"]
