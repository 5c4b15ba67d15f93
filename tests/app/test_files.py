"""Names that every file system takes, and files written whole or not at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget

from app.files import ask_to_save, file_name, last_folder, set_last_folder, write_text
from models.errors import Problem


@given(st.text(max_size=200))
def test_any_title_gives_a_name_which_stays_readable(tmp_path_factory, title):
    name = file_name(f"{title}.json")
    assert name.endswith(".json")
    assert len(name) <= 90
    path = tmp_path_factory.getbasetemp() / name
    assert path.parent == tmp_path_factory.getbasetemp(), "nowhere else"
    path.write_text("")
    path.unlink()
    assert file_name("What is 3/4 of 1.5?.md") == "What is 3 4 of 1.5.md"
    assert file_name("...md") == "Conversation.md"


def test_a_dialog_starts_in_documents_and_then_where_it_was_last(qtbot, tmp_path, monkeypatch):
    parent = QWidget()
    qtbot.addWidget(parent)
    set_last_folder("")
    folders = {"DocumentsLocation": tmp_path / "Documents", "HomeLocation": tmp_path}
    monkeypatch.setattr(QStandardPaths, "writableLocation", lambda place: str(folders[place.name]))
    assert last_folder() == str(tmp_path)
    documents = str(tmp_path / "Documents")
    Path(documents).mkdir()
    chosen = []
    ask_to_save(parent, "Save", "A title?.md", chosen.append)
    (dialog,) = parent.findChildren(QFileDialog)
    assert dialog.directory().absolutePath() == documents
    assert Path(dialog.selectedFiles()[0]).name == "A title.md"
    dialog.setDirectory(str(tmp_path))
    dialog.selectFile("out.md")
    dialog.accept()
    assert chosen == [tmp_path / "out.md"]
    assert last_folder() == str(tmp_path)
    set_last_folder(str(tmp_path / "gone"))
    assert last_folder() == documents


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(Problem) as caught:
        write_text(tmp_path / "missing" / "out.md", "one")
    assert caught.value.remedy
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(Problem):
        write_text(tmp_path / "folder.md", "one")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.md"]
