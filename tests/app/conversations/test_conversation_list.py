"""The list of conversations: order, titles, settings, folders, the archive; deletions, many at
once, and taken back as if nothing had been."""

from datetime import timedelta
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from app.conversations.records import (
    LONGEST_TITLE,
    Entry,
    ExportedChat,
    clean,
    settings_from_json,
    settings_to_json,
    title_from,
)
from app.conversations.store import Store
from engine import earlier_answers
from engine.request import Request, Sampling
from models.errors import Problem
from models.in_words import one_line
from tests.support.app.store_samples import asked


def titles(store):
    return [conversation.title for conversation in store.conversations().result()]


def test_pinned_come_first_then_the_latest_whatever_they_are_called(store):
    ids = {title: store.create(title=title).result().id for title in ("a", "b", "c")}
    assert titles(store) == ["c", "b", "a"]
    store.pin(ids["b"], pinned=True).result()
    store.say(ids["a"], "hello").result()
    assert titles(store) == ["b", "a", "c"]
    store.pin(ids["b"], pinned=False).result()
    assert titles(store) == ["a", "c", "b"]
    store.rename(ids["c"], "C").result()
    store.keep_unsent(ids["c"], "half a thou").result()
    sampling = Sampling(temperature=0.5, top_k=7, logit_bias={3: -1.5}, seed=2**64 - 1)
    settings = Request(sampling=sampling, max_tokens=10**6, stops=("x", "\n"))
    store.configure(ids["b"], system_prompt="Be brief.", settings=settings).result()
    assert titles(store) == ["a", "C", "b"]
    assert store.conversation(ids["c"]).result().unsent == "half a thou"
    found = store.conversation(ids["b"]).result()
    assert (found.system_prompt, found.settings) == ("Be brief.", settings)


def test_the_first_message_gives_the_title_and_a_given_title_stays(store):
    untitled, titled = store.create().result(), store.create(title="Mine").result()
    for conversation in (untitled, titled):
        store.say(conversation.id, "\n  Why is the\tsky blue?  \nTell me.").result()
        store.keep_unsent(conversation.id, "And green?").result()
        store.say(conversation.id, "And green?").result()
        assert store.conversation(conversation.id).result().unsent == ""
    assert titles(store) == ["Mine", "Why is the sky blue?"]
    named, given, kept, late = (asked(store, "Why?").conversation for _ in range(4))
    store.rename(given, "Mine").result()
    store.delete(late).result()
    for conversation, title, taken in (
        (named, "The reason", True),
        (given, "The reason", False),
        (kept, None, False),
        (kept, "Too late", False),
        (late, "Gone", False),
    ):
        assert store.set_generated_title(conversation, title).result() == taken, title
    found = {c.id: (c.title, c.titled) for c in store.conversations().result()}
    assert [found.get(id) for id in (named, given, kept, late)] == [
        ("The reason", True), ("Mine", True), ("Why?", True), None,
    ]  # fmt: skip


def test_purging_takes_only_what_was_deleted_long_ago(store, clock):
    recent, kept = asked(store), asked(store)
    entries = tuple(  # deeper than SQLite lets triggers call each other
        Entry(parent=index - 1 if index else None, role="user", content="on")
        for index in range(1500)
    )
    (old,) = store.add([ExportedChat(title="old", entries=entries, leaf=1499)]).result()
    assert old.leaf is not None
    old_deletion = store.delete(old.id).result()
    clock.now += timedelta(days=31)
    deletion = store.delete(recent.conversation).result()
    assert store.purge().result() == 1
    store.undo(old_deletion).result()  # there is nothing left to put back
    for gone in (store.conversation(old.id), store.message(old.leaf)):
        assert isinstance(gone.exception(), Problem)
    store.undo(deletion).result()
    assert [found.id for found in store.conversations().result()] == [
        kept.conversation,
        recent.conversation,
    ]
    assert store.message(kept.id).result() == kept
    assert asked(store).id > old.leaf, "an id is not used again"


def test_closing_waits_for_what_was_asked_for_and_what_comes_later_is_a_problem(path):
    store = Store.open(path)
    made = [store.create(title=str(number)) for number in range(20)]
    store.close()
    store.close()
    assert all(future.done() for future in made)
    for late in (store.conversations(), store.create(), store.kept_bytes()):
        assert isinstance(late.exception(), Problem)
    with Store.open(path) as again:
        assert len(again.conversations().result()) == 20


TITLES = (
    ("Explain **everything** about *boats*", "Explain everything about boats"),
    ("## A heading", "A heading"),
    ("- `print(x)` fails", "print(x) fails"),
    ("> see [the page](https://example.org/a_b)", "see the page"),
    ("__init__ and snake_case_name", "__init__ and snake_case_name"),
    ("2 * 3 * 4 = 24", "2 * 3 * 4 = 24"),
    ("***", "***"),
    ("3. third", "third"),
    ("word " * 30, "word " * 10 + "word…"),
    ("w" * 100, "w" * (LONGEST_TITLE - 1) + "…"),
    ("*a " * 100_000, "*a " * 18 + "*a…"),  # at once
)


def test_a_title_has_no_marks_of_markdown():
    assert [(line, title_from(line)) for line, _ in TITLES] == [*TITLES]


@given(st.text(st.characters(exclude_categories=[])))
def test_a_title_is_one_short_line_and_any_text_becomes_one_that_can_be_stored(content):
    cleaned = clean(content)
    assert clean(cleaned.encode().decode()) == cleaned
    assert cleaned == content or any("\ud800" <= character < "\ue000" for character in content)
    assert clean("\ud83d\ude00 \ud83d") == "😀 �"
    title = title_from(cleaned)
    assert len(title) <= LONGEST_TITLE
    assert title.splitlines() in ([], [title])
    assert title == one_line(title)
    assert bool(title) == bool(one_line(cleaned))


def test_settings_that_are_not_understood_are_the_defaults():
    assert settings_from_json(settings_to_json(None)) is None
    texts = (
        *("{", "[]", "3", "null", "[" * 10**5, '{"command": "quit"}', '{"new": 1}'),
        *('{"max_tokens": 0}', '{"max_tokens": "1"}', '{"stops": [1]}'),
        '{"sampling": {"temperature": 1e999}}',
    )
    assert [text for text in texts if settings_from_json(text) is not None] == []


def made(store, count):
    """So many conversations, with a message each."""
    said = (Entry(parent=None, role="user", content="on"),)
    chats = (ExportedChat(title=str(n), entries=said, leaf=0) for n in range(count))
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
