"""A new file has the newest tables; one of another version is left as it is."""

import sqlite3

import pytest

from app.conversations import schema
from app.conversations.backup import backups
from app.conversations.store import Store, backups_of
from models.errors import Problem
from tests.support.app.store_samples import asked, raw


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_new_file_has_the_newest_version_and_is_private(path):
    Store.open(path).close()
    with raw(path) as connection:
        assert schema.version(connection) == schema.VERSION
        schema.check(connection)
    assert path.stat().st_mode & 0o077 == 0
    assert backups(backups_of(path)) == ()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("version", "message", "remedy"),
    [
        (schema.VERSION + 1, "newer version", "newest version"),
        (schema.VERSION - 1, "before the first release", "Move conversations.sqlite elsewhere"),
    ],
)
def test_a_file_of_another_version_is_refused_and_not_touched(
    path, killed, version, message, remedy
):
    with Store.open(path) as store:
        asked(store)
    with raw(path) as connection:
        if killed:  # its last changes stand in the log only
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA user_version = {version}")
    before = everything(path.parent)
    assert any(name.endswith("-wal") and data for name, data in before.items()) == killed
    for _ in range(2):
        with pytest.raises(Problem, match=message) as caught:
            Store.open(path)
        assert remedy in caught.value.remedy
        after = everything(path.parent)
        assert {name: after[name] for name in before if "shm" not in name} == {
            name: data for name, data in before.items() if "shm" not in name
        }


def test_an_older_file_can_be_moved_away_whatever_its_backups(path):
    with Store.open(path) as store:
        asked(store)
        assert store.back_up_if_due().result()
    (backup,) = backups(backups_of(path))
    for file in (path, backup.path):
        with raw(file) as connection:
            connection.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    path.rename(path.with_suffix(".old"))
    for _ in range(2):
        with Store.open(path) as store:
            assert store.conversations().result() == ()
    assert backups(backups_of(path)) == (backup,)


def test_another_programs_file_is_refused_and_not_touched(path):
    path.parent.mkdir()
    with raw(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    with pytest.raises(Problem, match="another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_second_slipstream_is_told(path, monkeypatch):
    monkeypatch.setattr("app.conversations.database._WAIT_SECONDS", 0.0)  # the first stays
    with Store.open(path) as store:
        question = asked(store)
        with pytest.raises(Problem, match="another Slipstream"):
            Store.open(path)
        assert store.message(question.id).result() == question
    with Store.open(path) as store:
        assert store.message(question.id).result() == question


def test_no_reference_leads_out_of_its_conversation(path):
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
