"""Messages: nothing is overwritten, answers are saved as they grow, branches are switched."""

import pytest

from app.conversations.records import Unsent
from app.conversations.store import Store
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, contents, raw, round_of


def test_a_question_and_its_answer_are_begun_together(store):
    record, branch = store.ask(None, "Why?", target="Qwen3", drafter="lookup").result()
    assert (record.title, record.leaf, record.titled) == ("Why?", branch[-1].id, False)
    assert [(m.role, m.content, m.state, m.target) for m in branch] == [
        ("user", "Why?", "complete", ""),
        ("assistant", "", "streaming", "Qwen3"),
    ]
    same, branch = store.ask(record.id, "And?", target="t", drafter="d").result()
    assert same.id == record.id
    assert contents(branch) == ["Why?", "", "And?", ""]
    _, branch = store.ask(
        record.id, "Who?", instead_of=branch[0].id, target="t", drafter="d"
    ).result()
    assert contents(branch) == ["Who?", ""]
    assert branch[0].siblings == 2


def test_a_queued_message_leaves_the_queue_with_its_answer_or_not_at_all(store, monkeypatch):
    question = asked(store, "One?")
    answered(store, question)
    conversation = question.conversation
    store.keep_queued(conversation, ("Two?", "\ud800 Three?")).result()
    store.keep_unsent(conversation, "unsent").result()
    with monkeypatch.context() as broken:
        broken.setattr("app.conversations.tree.begin", None)
        failed = store.ask(conversation, "Two?", queued=True, target="t", drafter="d")
        first = store.ask(None, "Why?", target="t", drafter="d")
        assert None not in (failed.exception(), first.exception())
    (kept,) = store.conversations().result()
    assert kept.queued == ("Two?", "\ufffd Three?")
    record, branch = store.ask(conversation, "Two?", queued=True, target="t", drafter="d").result()
    assert (record.queued, record.unsent) == (("\ufffd Three?",), "unsent")
    assert contents(branch) == ["One?", "Because.", "Two?", ""]


@pytest.mark.parametrize(
    ("unsent", "left"),
    [
        (Unsent("Two?"), Unsent()),
        (Unsent("What came after it"), Unsent("What came after it")),
        (Unsent("Two?", 1, "Won?"), Unsent("", 1, "Won?")),
    ],
)
def test_what_waited_to_be_sent_takes_only_itself_along(store, unsent, left):
    question = asked(store, "One?")
    answer = answered(store, question)
    store.keep_queued(question.conversation, ("Two?", "Three?")).result()
    before = store.conversation(question.conversation).result()
    store.edit(question.id, "Other?").result()
    store.keep_unsent(question.conversation, unsent.stored).result()
    more = {"as_of": before, "target": "t", "drafter": "d"}
    record, branch = store.ask(question.conversation, "Two?", **more).result()
    assert (Unsent.read(record.unsent), branch[-2].parent) == (left, answer.id)
    store.keep_queued(question.conversation, ("Three?",)).result()  # it was taken out meanwhile
    record, _ = store.ask(question.conversation, "Two?", queued=True, **more).result()
    assert record.queued == ("Three?",)
    store.delete_message(answer.id).result()
    assert isinstance(store.ask(question.conversation, "Two?", **more).exception(), Problem)


def test_an_answer_is_saved_as_it_grows(path, store):
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
        with pytest.raises(Problem, match="finished"):
            late.result()
    assert store.trace(answer.id).result() == tuple(events)
    store.close()
    with raw(path) as connection:
        parts = connection.execute("SELECT part, events FROM traces").fetchall()
    assert parts == [(0, 12)]


def test_finishing_as_streaming_is_a_mistake(store):
    answer = store.begin_answer(asked(store).id, target="t", drafter="d").result()
    with pytest.raises(ValueError, match="streaming"):
        store.finish_answer(answer.id, "x", (), state="streaming").result()
    assert store.message(answer.id).result() == answer


def test_what_is_not_there_is_a_problem(store):
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
        with pytest.raises(Problem, match="no longer exists"):
            attempt.result()
    assert store.trace(7).result() == ()


def test_a_damaged_trace_leaves_the_answer(path):
    with Store.open(path) as store:
        answer = store.begin_answer(asked(store).id, target="t", drafter="d").result()
        store.flush_answer(answer.id, "a", round_of(0)).result()
    with raw(path) as connection:
        connection.execute("UPDATE traces SET lines = x'00'")
    with Store.open(path) as store:
        assert store.message(answer.id).result().content == "a"
        with pytest.raises(Problem, match="cannot be shown"):
            store.trace(answer.id).result()
