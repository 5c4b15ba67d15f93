"""Versions of the file: older ones are brought on after a backup, newer ones are left alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations import schema
from app.conversations.backup import backups
from app.conversations.store import Store, backups_of
from engine.request import ChatMessage
from models.errors import Problem
from tests.support.app.store_samples import asked, contents, raw


def make_version_1(path: Path) -> None:
    """A file from before there was a search, with a chat of two messages."""
    path.parent.mkdir(parents=True)
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        schema.migrate(connection, back_up=pytest.fail, steps=schema.STEPS[:1])
        connection.execute(
            "INSERT INTO conversations (title, created_ms, updated_ms) VALUES ('Old', 1, 1)"
        )
        connection.execute(
            "INSERT INTO messages (conversation, parent, role, state, created_ms, content) "
            "VALUES (1, NULL, 'user', 'complete', 1, 'ancient'), "
            "(1, 1, 'assistant', 'streaming', 1, '<think>Hm.</think>42.')"
        )
        connection.execute("UPDATE conversations SET leaf = 2")


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_new_file_has_the_newest_version_and_is_private(path: Path) -> None:
    Store.open(path).close()
    with raw(path) as connection:
        assert schema.version(connection) == len(schema.STEPS)
        schema.check(connection)
    assert path.stat().st_mode & 0o077 == 0
    assert backups(backups_of(path)) == ()


def test_an_older_file_is_brought_on_and_searched(path: Path) -> None:
    make_version_1(path)
    with Store.open(path) as store:
        assert store.notice is None
        assert contents(store.branch(1).result()) == ["ancient", "<think>Hm.</think>42."]
        assert store.message(2).result().state == "interrupted"
        assert [hit.message for hit in store.search("ancient").result()] == [1]
        assert [hit.message for hit in store.search("old").result()] == [None]
        (record,) = store.conversations().result()
        assert (record.folder, record.archived, record.queued) == (None, False, ())
        assert not store.message(2).result().edited
        assert store.message(2).result().as_chat == (
            ChatMessage("assistant", "42.", reasoning="Hm."),
        )
        assert record.titled, "the model replaces no title of before"
        store.move(1, folder=store.make_folder("Work").result().id).result()
        assert store.say(1, "more").result().id == 3


def test_a_backup_of_the_older_version_was_made_before(path: Path) -> None:
    make_version_1(path)
    Store.open(path).close()
    (backup,) = backups(backups_of(path))
    with raw(backup.path) as connection:
        assert schema.version(connection) == 1
        assert connection.execute("SELECT content FROM messages").fetchall() == [
            ("ancient",),
            ("<think>Hm.</think>42.",),
        ]
    Store.open(path).close()
    assert backups(backups_of(path)) == (backup,)


def test_without_a_backup_nothing_is_touched(path: Path) -> None:
    make_version_1(path)
    backups_of(path).touch()  # where the folder should be
    before = everything(path.parent)
    with pytest.raises(Problem, match="No backup could be made"):
        Store.open(path)
    assert everything(path.parent)[path.name] == before[path.name]


def test_a_step_that_fails_changes_nothing() -> None:
    steps = (*schema.STEPS, ("CREATE TABLE new (id)", "INSERT INTO nowhere VALUES (1)"))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            schema.migrate(connection, back_up=pytest.fail, steps=steps)
        assert schema.version(connection) == len(schema.STEPS)
        tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'new'").fetchall()
        assert tables == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_newer_file_is_refused_and_not_touched(path: Path, killed: bool) -> None:
    with Store.open(path) as store:
        asked(store)
    with raw(path) as connection:
        if killed:  # its last changes stand in the log only
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA user_version = {len(schema.STEPS) + 1}")
    before = everything(path.parent)
    assert any(name.endswith("-wal") and data for name, data in before.items()) == killed
    for _ in range(2):
        with pytest.raises(Problem, match="newer version") as caught:
            Store.open(path)
        assert "newest version" in caught.value.remedy
        after = everything(path.parent)
        assert {name: after[name] for name in before if "shm" not in name} == {
            name: data for name, data in before.items() if "shm" not in name
        }


def test_another_programs_file_is_refused_and_not_touched(path: Path) -> None:
    path.parent.mkdir()
    with raw(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    with pytest.raises(Problem, match="another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_second_slipstream_is_told(path: Path) -> None:
    with Store.open(path) as store:
        question = asked(store)
        with pytest.raises(Problem, match="another Slipstream"):
            Store.open(path)
        assert store.message(question.id).result() == question
    with Store.open(path) as store:
        assert store.message(question.id).result() == question


def test_no_reference_leads_out_of_its_conversation(path: Path) -> None:
    with Store.open(path) as store:
        first, second = asked(store), asked(store)
    with raw(path) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement, values in (
            ("UPDATE messages SET parent = ? WHERE id = ?", (first.id, second.id)),
            ("UPDATE conversations SET leaf = ? WHERE id = ?", (first.id, second.conversation)),
            ("DELETE FROM messages WHERE id = ?", (first.id,)),
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement, values)
