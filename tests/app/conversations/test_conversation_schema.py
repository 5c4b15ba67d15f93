"""A new file has the newest tables, and an old one whose tables were made step by step opens with
all that is in it; one of another version is left as it is."""

import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from app.conversations import schema
from app.conversations.backup import backups
from app.conversations.store import Store, backups_of
from app.rounds.trace import Trace
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio, against_plain, tally
from models.errors import Problem
from tests.support.app.store_samples import asked, contents, raw
from tests.support.app.traces import text_of


def everything(folder):
    """Each file with its bytes, without what SQLite shares between processes."""
    files = (path for path in folder.iterdir() if path.is_file() and "shm" not in path.name)
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("version", [schema.VERSION + 1, schema.VERSION - 1])
def test_a_file_of_another_version_is_refused_and_not_touched(path, killed, version):
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
        with pytest.raises(Problem) as caught:
            Store.open(path)
        newer = version > schema.VERSION
        assert ("newer" in caught.value.message) == newer
        assert (path.name in caught.value.remedy) != newer, "what cannot be read is moved away"
        after = everything(path.parent)
        assert {name: after[name] for name in before} == before


def test_an_older_file_can_be_moved_away_whatever_its_backups_and_a_new_one_is_private(path):
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
    assert path.stat().st_mode & 0o077 == 0


def test_other_programs_files_a_second_slipstream_and_a_folder_in_its_place_are_told(
    path, monkeypatch
):
    monkeypatch.setattr("app.conversations.database._WAIT_SECONDS", 0.0)  # the first stays
    other = path.with_name("other.sqlite")
    for _ in range(2):
        with Store.open(path) as store:
            question = asked(store)
            with pytest.raises(Problem, match="Slipstream"):
                Store.open(path)
            assert store.message(question.id).result() == question
    with raw(other) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = other.read_bytes()
    with pytest.raises(Problem, match="program"):
        Store.open(other)
    assert other.read_bytes() == before
    folder = path.with_name("folder.sqlite")
    (folder / "x").mkdir(parents=True)
    with pytest.raises(Problem, match="cannot be written") as refused:
        Store.open(folder)
    assert str(path.parent) in refused.value.remedy


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


# Conversations of protocol 1, whose texts do not say which tokens gave them: answers drafted by two
# drafters, of bytes and with a stop string, cancelled, failed, interrupted, and going on with
# another answer. Then a folder, a call of a tool, an edited answer, a queue, and deleted things.
OLD = Path(__file__).parents[1] / "data" / "old_conversations.sqlite"


@pytest.fixture
def old(path):
    path.parent.mkdir()
    return shutil.copy(OLD, path)


def test_all_is_there_and_old_answers_have_their_text_and_figures(old):
    with Store.open(old) as store:
        assert store.notice is None
        listed = [each for each in store.conversations().result() if each.id < 10]
        branches = [store.branch(conversation.id).result() for conversation in listed]
        answers = [each for branch in branches for each in branch if each.role == "assistant"]
        assert len(answers) == 9
        for answer in answers:
            events = store.trace(answer.id).result()
            assert text_of(events) == answer.content
            stats = tally(events)
            assert len(Trace(events).committed) == stats.committed
            own = stats.plain >= ENOUGH_PLAIN_ROUNDS and stats.proposed > 0
            assert own or isinstance(against_plain(stats), NoRatio), "from its own plain rounds"
        (folder,) = store.folders().result()
        kept = (folder.name, folder.instruction, folder.files)
        assert kept == ("Work", "Be brief.", ("/notes.md",))
        filed = {each.title: each for each in store.conversations().result()}
        assert filed["Tools"].folder == folder.id
        _, called = store.branch(filed["Tools"].id).result()
        calls = [call.name for step in called.steps for call in step.calls]
        assert calls == ["read_file", "write_file"]
        asking = filed["Where is the needle?"]
        assert asking.queued == ("Next?",)
        _, edited = store.branch(asking.id).result()
        assert (edited.edited, edited.siblings) == (True, 2)
        assert [hit.message for hit in store.search("haystack").result()] == [edited.id - 1]
        assert store.search("tool_call").result() == store.search("think").result() == ()
        deleted = store.deleted().result()
        assert len(deleted) == 3
        for each in deleted:
            store.undo(each.change).result()
        assert contents(store.branch(asking.id).result())[-1] == "Deleted words"
        assert asked(store, "after").id > edited.id
        assert store.purge(older_than=timedelta(0)).result() == 0


def test_its_tables_are_those_of_a_new_file(old, tmp_path):
    new, columns = tmp_path / "new.sqlite", []
    Store.open(new).close()
    for file in (new, old):
        with raw(file) as connection:
            found = connection.execute(
                """
                SELECT s.type, s.name, c.name, c.type, c."notnull", c.dflt_value, c.pk
                FROM sqlite_schema s LEFT JOIN pragma_table_xinfo(s.name) c
                """
            )
            columns.append((schema.version(connection), set(found)))
    assert columns[0] == columns[1]
