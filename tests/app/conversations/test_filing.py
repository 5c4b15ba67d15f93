"""Folders, the archive and deletions: many at once, and taken back as if nothing had been."""

import tempfile
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.records import Entry, ExportedChat
from app.conversations.store import Store
from engine import earlier_answers
from models.errors import Problem
from tests.support.app.store_samples import asked

SAID = (Entry(parent=None, role="user", content="on"),)


def made(store, count):
    """So many conversations, with a message each."""
    chats = (ExportedChat(title=str(n), entries=SAID, leaf=0) for n in range(count))
    return [conversation.id for conversation in store.add(chats).result()]


def filed(store):
    """Folder and archive of each conversation that is not deleted."""
    return {c.id: (c.folder, c.archived) for c in store.conversations().result()}


def test_folders_hold_conversations_and_are_sorted_by_name(store):
    one, two, three = made(store, 3)
    work, home = store.make_folder("work").result(), store.make_folder("Home").result()
    store.move(one, three, folder=work.id).result()
    assert filed(store) == {one: (work.id, False), two: (None, False), three: (work.id, False)}
    assert [folder.name for folder in store.folders().result()] == ["Home", "work"]
    store.rename_folder(home.id, "Zoo").result()
    store.open_folder(work.id, opened=False).result()
    found = store.folders().result()
    assert [(folder.name, folder.open) for folder in found] == [("work", False), ("Zoo", True)]
    store.move(one, folder=None).result()
    store.archive(one, archived=True).result()
    assert filed(store)[one] == (None, True)
    store.say(one, "more").result()
    assert filed(store)[one] == (None, False), "a new message takes it out of the archive"


def test_a_folder_keeps_what_begins_in_it_and_leaves_it_when_it_is_deleted(store):
    folder = store.make_folder("Work").result()
    assert (folder.instruction, folder.files) == ("", ())
    store.set_up_folder(folder.id, instruction="Be brief.", files=["/a b.txt", "/ü.pdf"]).result()
    (kept,) = store.folders().result()
    assert (kept.instruction, kept.files) == ("Be brief.", ("/a b.txt", "/ü.pdf"))
    inside = store.create(folder=folder.id).result()
    assert inside.folder == folder.id
    deletion = store.delete_folder(folder.id).result()
    assert (filed(store), store.folders().result()) == ({inside.id: (None, False)}, ())
    store.undo(deletion).result()
    assert store.folders().result() == (kept,)
    assert store.conversation(inside.id).result().folder == folder.id
    assert store.make_folder("\ud800 <b>").result().name == "\ufffd <b>"
    for attempt in (
        store.set_up_folder(99, instruction="", files=()),
        store.rename_folder(99, "x"),
        store.open_folder(99, opened=True),
        store.delete_folder(99),
    ):
        with pytest.raises(Problem, match="folder"):
            attempt.result()


def test_a_change_of_many_is_made_whole_or_not_at_all(store):
    ids = made(store, 3)
    with pytest.raises(Problem):
        store.move(*ids, folder=99).result()
    assert set(filed(store).values()) == {(None, False)}
    deletion = store.delete(*ids[:2]).result()
    assert [filing.conversation for filing in deletion.filings] == ids[:2]
    later = store.delete(*ids).result()  # two of them are deleted already
    assert [filing.conversation for filing in later.filings] == ids[2:]
    for attempt in (store.delete(*ids), store.archive(ids[0], archived=True)):
        with pytest.raises(Problem, match="no longer exists"):
            attempt.result()


def test_folder_and_archive_are_exported(store, tmp_path):
    (one,) = made(store, 1)
    store.move(one, folder=store.make_folder("Work").result().id).result()
    store.archive(one, archived=True).result()
    (chat,) = store.chats([one, 99]).result()
    assert (chat.folder, chat.archived) == ("Work", True)
    with Store.open(tmp_path / "other.sqlite") as other:
        for _ in range(2):
            other.add([chat]).result()
        (folder,) = other.folders().result()
        assert set(filed(other).values()) == {(folder.id, True)}
        assert folder.name == "Work"


changes = st.lists(
    st.tuples(
        st.sampled_from(["delete", "archive", "unarchive", "move", "delete_folder"]),
        st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True),
        st.none() | st.integers(1, 2),
    ),
    max_size=8,
)


@given(changes)
def test_changes_undone_in_reverse_leave_everything_as_it_was(wanted):
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "c.sqlite") as store,
    ):
        made(store, 4)
        for name in ("a", "b"):
            store.make_folder(name).result()
        store.move(1, 2, folder=1).result()
        before = (store.conversations().result(), store.folders().result())
        done = []
        for what, ids, number in wanted:
            attempts = {
                "delete": lambda ids=ids: store.delete(*ids),
                "archive": lambda ids=ids: store.archive(*ids, archived=True),
                "unarchive": lambda ids=ids: store.archive(*ids, archived=False),
                "move": lambda ids=ids, number=number: store.move(*ids, folder=number),
                "delete_folder": lambda number=number: store.delete_folder(number or 1),
            }
            future = attempts[what]()
            if future.exception() is None:
                done.append(future.result())
        for change in reversed(done):
            store.undo(change).result()
        assert (store.conversations().result(), store.folders().result()) == before


def test_deleting_forgets_what_was_learned_from_answers(store):
    kept, other = asked(store, "One?").conversation, asked(store, "Two?").conversation
    store.delete(kept).result()
    assert not store.earlier_answers.exists(), "nothing is made where nothing was kept"

    earlier_answers.begin(store.earlier_answers)
    file = store.earlier_answers / "some.json"
    file.write_text("[]")
    store.archive(other, archived=True).result()
    assert file.exists()
    undo = store.delete(other).result()
    assert list(store.earlier_answers.iterdir()) == []
    store.undo(undo).result()
    assert list(store.earlier_answers.iterdir()) == []


def test_what_cannot_be_forgotten_is_not_deleted(store):
    conversation = asked(store, "One?").conversation
    with (
        mock.patch.object(earlier_answers, "forget", side_effect=OSError(13, "no")),
        pytest.raises(Problem),
    ):
        store.delete(conversation).result()
    assert [one.id for one in store.conversations().result()] == [conversation]


def test_all_that_is_deleted_is_listed_restored_and_erased_after_a_restart(path, clock):
    with Store.open(path, clock=clock) as store:
        one, two, three, four = made(store, 4)
        folder = store.make_folder("Work").result()
        store.set_up_folder(folder.id, instruction="Be brief.", files=[]).result()
        store.move(one, folder=folder.id).result()
        message = store.say(four, "Oh & no").result().id
        before = (store.conversations().result(), store.folders().result())
        store.delete(one).result()
        store.delete(two, three).result()
        store.delete_folder(folder.id).result()
        store.delete_message(message).result()
    with Store.open(path, clock=clock) as store:
        found = store.deleted().result()
        assert [entry.title for entry in found] == [
            "Message in 3: Oh & no", "Folder Work", "2 conversations", "0",
        ]  # fmt: skip
        assert found == tuple(sorted(found, key=lambda entry: entry.when, reverse=True))
        for entry in found:
            store.undo(entry.change).result()
        assert store.deleted().result() == ()
        now = (store.conversations().result(), store.folders().result())
        assert set(now[0]) == set(before[0])
        assert now[1] == before[1], "with its instruction"
        for entry in found:
            store.erase(entry.change).result()
        assert set(store.conversations().result()) == set(before[0]), "they are not deleted now"
        store.delete(one).result()
        store.delete_folder(folder.id).result()
        store.delete_message(message).result()
        first, *others = store.deleted().result()
        store.erase(first.change).result()
        assert list(store.deleted().result()) == others
        clock.now += timedelta(days=31)
        assert store.purge().result() == 1
        assert store.deleted().result() == ()
