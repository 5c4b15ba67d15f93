"""Many chats in one file: all come back, names do not collide, a cancelled one leaves nothing."""

import zipfile

import pytest

from app.conversations.chat_archive import ChatArchive
from app.conversations.exchange import read_chats
from app.conversations.records import Entry, ExportedChat
from models.errors import Problem

SAID = (Entry(parent=None, role="user", content="Why?"),)


def chat(title, folder="", *, archived=False):
    return ExportedChat(title=title, entries=SAID, leaf=0, folder=folder, archived=archived)


CHATS = (
    chat("Boats"),
    chat("boats"),
    chat("Boats", "Work / home"),
    chat("../../etc/passwd"),
    chat(""),
    chat("conversations"),
    chat("old", archived=True),
)


def test_all_come_back_and_each_has_a_name(tmp_path):
    path = tmp_path / "all.zip"
    archive = ChatArchive(path)
    archive.add(CHATS[:4])
    assert not path.exists()
    archive.add(CHATS[4:])
    archive.finish()
    archive.close()
    assert archive.count == len(CHATS)
    assert list(tmp_path.iterdir()) == [path]
    assert read_chats(path) == CHATS
    with zipfile.ZipFile(path) as written:
        names = [name for name in written.namelist() if name.endswith(".md")]
        assert written.read("Boats.md").decode().startswith("# Boats")
    assert names == [
        "Boats.md",
        "boats 2.md",
        "Work home/Boats.md",
        "etc passwd.md",
        "Conversation.md",
        "conversations.md",
        "Archived/old.md",
    ]


def test_one_that_is_not_finished_leaves_nothing(tmp_path):
    path = tmp_path / "all.zip"
    path.write_text("before")
    archive = ChatArchive(path)
    archive.add(CHATS)
    archive.close()
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "before"


def test_one_that_is_closed_while_a_thread_writes_it_leaves_nothing(tmp_path):
    archive = ChatArchive(tmp_path / "all.zip")

    def some():
        yield CHATS[0]
        archive.close()  # as the window does that closes meanwhile
        yield CHATS[1]

    for write in (lambda: archive.add(some()), lambda: archive.add(CHATS), archive.finish):
        with pytest.raises(Problem):
            write()
        assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_a_problem(tmp_path):
    archive = ChatArchive(tmp_path / "missing" / "all.zip")
    with pytest.raises(Problem):
        archive.add(CHATS)
    archive.close()
