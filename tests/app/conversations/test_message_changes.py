"""Messages: nothing is overwritten, answers are saved as they grow, edited, deleted and put back,
and conversations copied."""

import random
from dataclasses import dataclass
from itertools import permutations

import pytest

from app.conversations.records import Unsent
from app.conversations.store import Store
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, contents, raw, round_of
from tests.support.mostly_slow import examples


@pytest.fixture
def branch(store):
    """Two questions with their answers."""
    question = asked(store, "One?")
    answer = answered(store, question, "One.")
    second = store.say(question.conversation, "Two?").result()
    return (question, answer, second, answered(store, second, "Two."))


def shown(store, branch):
    return contents(store.branch(branch[0].conversation).result())


def everything(store, branch):
    """The whole conversation, its shown branch, and the traces."""
    conversation = branch[0].conversation
    traces = [store.trace(message.id).result() for message in branch]
    return store.chat(conversation).result(), store.branch(conversation).result(), traces


def test_a_message_goes_alone_and_comes_back_also_after_others_were_said(store, branch):
    before, said = everything(store, branch), ["One?", "One.", "Two?", "Two."]
    for place, message in enumerate(branch):
        change = store.delete_message(message.id).result()
        assert shown(store, branch) == said[:place] + said[place + 1 :]
        assert isinstance(store.message(message.id).exception(), Problem)
        hits = store.search(message.content).result()
        assert message.id not in [hit.message for hit in hits]
        store.undo(change).result()
        assert everything(store, branch) == before, place
    for message in branch[:3]:
        change = store.delete_message(message.id).result()
        store.say(branch[0].conversation, "More?").result()
        store.undo(change).result()
        said.append("More?")
        assert shown(store, branch) == said, message.content


def test_a_version_goes_with_what_was_said_to_it(store, branch):
    before = everything(store, branch)
    other = store.edit(branch[1].id, "Uno.").result()
    store.switch(branch[3].id).result()
    change = store.delete_message(branch[1].id).result()
    assert shown(store, branch) == ["One?", "Uno."]
    assert "2" in change.in_words
    store.undo(change).result()
    assert shown(store, branch) == ["One?", "One.", "Two?", "Two."]
    store.delete_message(other.id).result()
    chat, shown_now, traces = everything(store, branch)
    assert (shown_now, traces) == before[1:], "a version that is not shown"
    assert chat.entries == before[0].entries
    answer = store.begin_answer(branch[2].id, target="t", drafter="d").result()
    assert isinstance(store.delete_message(answer.id).exception(), Problem)
    assert shown(store, branch)[-1] == ""


def test_an_edited_answer_is_marked_and_claims_no_rounds(store, branch):
    edited = store.edit(branch[3].id, "<think>hm</think>Two, I say.").result()
    assert (edited.role, edited.edited, edited.place) == ("assistant", True, 2)
    assert (edited.target, edited.figures) == ("Qwen3", None)
    assert store.trace(edited.id).result() == ()
    assert store.trace(branch[3].id).result() == round_of(0), "nothing is overwritten"
    assert not store.edit(branch[2].id, "Twice?").result().edited
    chat = store.chat(branch[0].conversation).result()
    assert [entry.edited for entry in chat.entries] == [False] * 4 + [True, False]
    (copy,) = store.add([chat]).result()
    assert store.chat(copy.id).result().entries == chat.entries


def test_a_conversation_is_copied_whole_or_up_to_a_message(store, branch):
    conversation = branch[0].conversation
    store.edit(branch[3].id, "Two!").result()
    copy = store.duplicate(conversation).result()
    assert copy.title == "One? (copy)"
    assert store.duplicate(store.create().result().id).result().title == "", "it has none yet"
    whole, other = store.chat(conversation).result(), store.chat(copy.id).result()
    assert (other.entries, other.leaf) == (whole.entries, whole.leaf)
    part = store.duplicate(conversation, message=branch[1].id).result()
    copies = store.branch(part.id).result()
    assert contents(copies) == ["One?", "One."]
    assert store.trace(copies[1].id).result() == round_of(0)
    assert copies[1].figures == branch[1].figures
    store.say(part.id, "Other?").result()
    assert shown(store, branch) == ["One?", "One.", "Two?", "Two!"]
    assert store.undo(store.delete(part.id).result()).result() is None


@pytest.mark.parametrize("again", [*permutations(range(3))], ids=str)
@pytest.mark.parametrize("gone", [(0, 1, 2), (1, 2, 3), (2, 1, 3), (3, 2, 0)], ids=str)
@pytest.mark.quick(12)
def test_messages_are_restored_in_any_order_later(store, path, branch, gone, again):
    before = everything(store, branch)
    for place in gone:
        store.delete_message(branch[place].id).result()
    store.close()
    with Store.open(path) as later:
        listed = [entry.change for entry in reversed(later.deleted().result())]
        waiting = [listed[place] for place in again]
        while waiting:
            refused = [change for change in waiting if later.undo(change).exception()]
            assert len(refused) < len(waiting), "one of them can always be restored"
            waiting = refused
        assert everything(later, branch) == before
        assert later.deleted().result() == ()


def test_a_message_finds_a_place_when_the_one_before_it_is_gone_for_good(store, branch):
    answer = store.delete_message(branch[3].id).result()
    question = store.delete_message(branch[2].id).result()
    refusal = store.undo(answer).exception()
    assert isinstance(refusal, Problem)
    assert "first" in refusal.remedy
    store.erase(question).result()
    store.undo(answer).result()
    assert shown(store, branch) == ["One?", "One.", "Two."]
    assert isinstance(store.undo(question).exception(), Problem)


def test_a_question_and_its_answer_are_begun_together_or_not_at_all(store, monkeypatch):
    record, branch = store.ask(None, "Why?", target="Qwen3", drafter="lookup").result()
    conversation, names = record.id, {"target": "t", "drafter": "d"}
    assert (record.title, record.leaf, record.titled) == ("Why?", branch[-1].id, False)
    assert [(m.role, m.content, m.state, m.target) for m in branch] == [
        ("user", "Why?", "complete", ""),
        ("assistant", "", "streaming", "Qwen3"),
    ]
    same, branch = store.ask(conversation, "And?", **names).result()
    assert same.id == conversation
    assert contents(branch) == ["Why?", "", "And?", ""]
    _, branch = store.ask(conversation, "Who?", instead_of=branch[0].id, **names).result()
    assert contents(branch) == ["Who?", ""]
    assert branch[0].siblings == 2
    store.keep_queued(conversation, ("Two?", "\ud800 Three?")).result()
    store.keep_unsent(conversation, "unsent").result()
    with monkeypatch.context() as broken:
        broken.setattr("app.conversations.tree.begin", None)
        failed = store.ask(conversation, "Two?", queued=True, **names)
        first = store.ask(None, "Why?", **names)
        assert None not in (failed.exception(), first.exception())
    (kept,) = store.conversations().result()
    assert kept.queued == ("Two?", "\ufffd Three?")
    record, branch = store.ask(conversation, "Two?", queued=True, **names).result()
    assert (record.queued, record.unsent) == (("\ufffd Three?",), "unsent")
    assert contents(branch) == ["Who?", "", "Two?", ""]


def test_what_waited_to_be_sent_takes_only_itself_along(store):
    question = asked(store, "One?")
    answer, chat = answered(store, question), question.conversation
    store.keep_queued(chat, ("Two?", "Three?")).result()
    before = store.conversation(chat).result()
    store.edit(question.id, "Other?").result()
    more = {"as_of": before, "target": "t", "drafter": "d"}
    for unsent, left in (
        (Unsent("Two?"), Unsent()),
        (Unsent("What came after it"), Unsent("What came after it")),
        (Unsent("Two?", 1, "Won?"), Unsent("", 1, "Won?")),
    ):
        store.keep_unsent(chat, unsent.stored).result()
        record, branch = store.ask(chat, "Two?", **more).result()
        assert (Unsent.read(record.unsent), branch[-2].parent) == (left, answer.id)
    store.keep_queued(chat, ("Three?",)).result()  # it was taken out meanwhile
    record, _ = store.ask(chat, "Two?", queued=True, **more).result()
    assert record.queued == ("Three?",)
    store.delete_message(answer.id).result()
    assert isinstance(store.ask(chat, "Two?", **more).exception(), Problem)


def test_an_answer_is_saved_as_it_grows_and_left_where_its_trace_is_damaged(path, store):
    question = asked(store)
    answer = store.begin_answer(question.id, target="t", drafter="d").result()
    events = []
    for number in range(3):
        events.extend(round_of(number))
        sent = list(events)
        flushed = store.flush_answer(answer.id, "token " * (2 * number + 2), sent)
        sent.clear()  # whatever the caller does with its list later
        flushed.result()
        assert store.trace(answer.id).result() == tuple(events)
        assert store.message(answer.id).result().content == "token " * (2 * number + 2)
    store.flush_answer(answer.id, "token " * 6, events).result()
    events.extend(round_of(3))
    done = store.finish_answer(answer.id, "all", events, state="cancelled").result()
    assert (done.content, done.state) == ("all", "cancelled")
    for late in (
        store.flush_answer(answer.id, "late", round_of(1) * 9),
        store.finish_answer(answer.id, "late", round_of(1) * 9, state="complete"),
    ):
        assert isinstance(late.exception(), Problem)
    assert store.trace(answer.id).result() == tuple(events)
    store.close()
    with raw(path) as connection:
        parts = connection.execute("SELECT part, events FROM traces").fetchall()
        connection.execute("UPDATE traces SET lines = x'00'")
    assert parts == [(0, 12)]
    with Store.open(path) as store:
        assert store.message(answer.id).result() == done
        assert isinstance(store.trace(answer.id).exception(), Problem)


def test_what_is_not_there_is_a_problem_and_finishing_as_streaming_a_mistake(store):
    answer = store.begin_answer(asked(store).id, target="t", drafter="d").result()
    wrong = store.finish_answer(answer.id, "x", (), state="streaming")
    assert isinstance(wrong.exception(), ValueError)
    assert store.message(answer.id).result() == answer
    for attempt in (
        store.message(7),
        store.siblings(7),
        store.switch(7),
        store.edit(7, "x"),
        store.begin_answer(7, target="t", drafter="d"),
        store.flush_answer(7, "x", ()),
        store.say(7, "x"),
        store.chat(7),
    ):
        assert isinstance(attempt.exception(), Problem)
    assert store.trace(7).result() == ()


@dataclass
class Node:
    """What the store should hold of a message."""

    chat: int
    parent: int | None
    content: str
    state: str = "complete"


def test_any_order_of_changes_gives_the_tree_that_they_say(tmp_path):
    for seed in range(examples(25)):
        noise, nodes, path = random.Random(seed), {}, tmp_path / f"{seed}.sqlite"
        store = Store.open(path)
        leaves = {store.create().result().id: None for _ in range(2)}
        for step in range(25):
            chat, message = noise.choice([*leaves]), noise.choice([*nodes, None])
            home = nodes[message].chat if message else chat
            kind = noise.choice(["say", "ask", "edit", "begin", "finish", "switch", "reopen"])
            added = []
            if kind == "say" or message is None:
                said = store.say(chat, f"{step}").result()
                added = [(said.id, Node(chat, leaves[chat], f"{step}"))]
                home = chat
            elif kind == "ask":
                _, branch = store.ask(chat, f"{step}", target="t", drafter="d").result()
                question = Node(chat, leaves[chat], f"{step}")
                answer = Node(chat, branch[-2].id, "", "streaming")
                added, home = [(branch[-2].id, question), (branch[-1].id, answer)], chat
            elif kind == "edit":
                node = Node(home, nodes[message].parent, f"{step}")
                added = [(store.edit(message, f"{step}").result().id, node)]
            elif kind == "begin":
                begun = store.begin_answer(message, target="t", drafter="d", content="so")
                added = [(begun.result().id, Node(home, message, "so", "streaming"))]
            elif kind == "finish":
                done = store.finish_answer(message, f"{step}", (), state="failed")
                written = nodes[message].state == "streaming"
                assert (done.exception() is None) == written, (seed, step)
                if written:
                    nodes[message].content, nodes[message].state = f"{step}", "failed"
            elif kind == "switch":
                store.switch(message).result()
                leaves[home] = message
                while after := [id for id, node in nodes.items() if node.parent == leaves[home]]:
                    leaves[home] = max(after)
            else:
                store.close()
                store = Store.open(path)
                for node in nodes.values():
                    node.state = node.state.replace("streaming", "interrupted")
            for id, node in added:
                assert id not in nodes, (seed, step)
                nodes[id], leaves[home] = node, id
            assert found_in(store, leaves) == expected_of(nodes, leaves), (seed, step, kind)
        store.close()


def found_in(store, chats):
    """The shown branch of each chat: each message, its versions and its place among them."""
    return {
        chat: [
            (m.id, Node(chat, m.parent, m.content, m.state), m.siblings, m.place)
            for m in store.branch(chat).result()
        ]
        for chat in chats
    }


def expected_of(nodes, leaves):
    shown = {}
    for chat, id in leaves.items():
        shown[chat] = []
        while id is not None:
            node = nodes[id]
            versions = [n for n in nodes if (nodes[n].chat, nodes[n].parent) == (chat, node.parent)]
            shown[chat].insert(0, (id, node, len(versions), versions.index(id) + 1))
            id = node.parent
    return shown
