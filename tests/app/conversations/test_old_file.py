"""A file whose tables were made step by step opens, with all that is in it."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from app.conversations import schema
from app.conversations.store import Store
from app.rounds.trace import Trace
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio, against_plain, tally
from tests.support.app.store_samples import asked, contents, raw
from tests.support.app.traces import text_of

# Conversations of protocol 1, whose texts do not say which tokens gave them: answers drafted by two
# drafters, of bytes and with a stop string, cancelled, failed, interrupted, and going on with
# another answer. Then a folder, a call of a tool, an edited answer, a queue, and deleted things.
OLD = Path(__file__).parents[1] / "data" / "old_conversations.sqlite"


@pytest.fixture
def old(path):
    path.parent.mkdir()
    return shutil.copy(OLD, path)


def test_an_old_answer_is_shown_with_its_text_and_figures(old):
    with Store.open(old) as store:
        listed = [each for each in store.conversations().result() if each.id < 10]
        branches = [store.branch(conversation.id).result() for conversation in listed]
        answers = [each for branch in branches for each in branch if each.role == "assistant"]
        traces = [store.trace(answer.id).result() for answer in answers]
    assert len(answers) == 9
    for answer, events in zip(answers, traces, strict=True):
        assert text_of(events) == answer.content
        trace, stats = Trace(events), tally(events)
        assert len(trace.committed) == stats.committed
        own = stats.plain >= ENOUGH_PLAIN_ROUNDS and stats.proposed > 0
        assert own or isinstance(against_plain(stats), NoRatio), "only from its own plain rounds"


def test_all_is_there(old):
    with Store.open(old) as store:
        assert store.notice is None
        (folder,) = store.folders().result()
        assert (folder.name, folder.instruction, folder.files) == (
            "Work",
            "Be brief.",
            ("/notes.md",),
        )
        filed = {each.title: each for each in store.conversations().result()}
        assert filed["Tools"].folder == folder.id
        _, called = store.branch(filed["Tools"].id).result()
        assert [call.name for step in called.steps for call in step.calls] == [
            "read_file",
            "write_file",
        ]
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
    Store.open(tmp_path / "new.sqlite").close()
    tables = []
    for file in (old, tmp_path / "new.sqlite"):
        with raw(file) as connection:
            assert schema.version(connection) == schema.VERSION
            tables.append(
                set(
                    connection.execute(
                        """
                        SELECT s.type, s.name, c.name, c.type, c."notnull", c.dflt_value, c.pk
                        FROM sqlite_schema s LEFT JOIN pragma_table_xinfo(s.name) c
                        """
                    )
                )
            )
    assert tables[0] == tables[1]
