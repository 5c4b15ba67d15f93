"""Folders, the archive and deletions: many at once, and taken back as if nothing had been."""

from datetime import timedelta
from unittest import mock

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
    assert (work.instruction, work.files) == ("", ())
    store.move(one, three, folder=work.id).result()
    assert filed(store) == {one: (work.id, False), two: (None, False), three: (work.id, False)}
    assert [folder.name for folder in store.folders().result()] == ["Home", "work"]
    store.rename_folder(home.id, "Zoo").result()
    store.open_folder(work.id, opened=False).result()
    store.set_up_folder(home.id, instruction="Be brief.", files=["/a b.txt", "/ü.pdf"]).result()
    found = store.folders().result()
    assert [(each.name, each.open, each.instruction, each.files) for each in found] == [
        ("work", False, "", ()),
        ("Zoo", True, "Be brief.", ("/a b.txt", "/ü.pdf")),
    ]
    store.move(one, folder=None).result()
    store.archive(one, archived=True).result()
    assert filed(store)[one] == (None, True)
    store.say(one, "more").result()
    assert filed(store)[one] == (None, False), "a new message takes it out of the archive"
    inside = store.create(folder=home.id).result()
    assert inside.folder == home.id
    deletion = store.delete_folder(home.id).result()
    assert (filed(store)[inside.id], len(store.folders().result())) == ((None, False), 1)
    store.undo(deletion).result()
    assert store.folders().result() == found
    assert filed(store)[inside.id] == (home.id, False)
    assert store.make_folder("\ud800 <b>").result().name == "\ufffd <b>"


def test_a_change_of_many_is_made_whole_or_not_at_all(store):
    ids = made(store, 3)
    assert isinstance(store.move(*ids, folder=99).exception(), Problem)
    assert set(filed(store).values()) == {(None, False)}
    deletion = store.delete(*ids[:2]).result()
    assert [filing.conversation for filing in deletion.filings] == ids[:2]
    later = store.delete(*ids).result()  # two of them are deleted already
    assert [filing.conversation for filing in later.filings] == ids[2:]
    for attempt in (
        store.delete(*ids),
        store.say(ids[0], "x"),
        store.ask(ids[0], "x", target="t", drafter="d"),
        store.archive(ids[0], archived=True),
        store.set_up_folder(99, instruction="", files=()),
        store.rename_folder(99, "x"),
        store.open_folder(99, opened=True),
        store.delete_folder(99),
    ):
        assert isinstance(attempt.exception(), Problem)


def test_deleting_forgets_what_was_learned_from_answers_or_deletes_nothing(store):
    kept, other = asked(store, "One?").conversation, asked(store, "Two?").conversation
    store.delete(kept).result()
    assert not store.earlier_answers.exists(), "nothing is made where nothing was kept"

    earlier_answers.begin(store.earlier_answers)
    file = store.earlier_answers / "some.json"
    file.write_text("[]")
    store.archive(other, archived=True).result()
    assert file.exists()
    with mock.patch.object(earlier_answers, "forget", side_effect=OSError(13, "no")):
        assert isinstance(store.delete(other).exception(), Problem)
    assert filed(store) == {other: (None, True)}
    undo = store.delete(other).result()
    assert list(store.earlier_answers.iterdir()) == []
    store.undo(undo).result()
    assert list(store.earlier_answers.iterdir()) == []


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
