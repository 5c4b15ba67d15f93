"""Messages are deleted and put back, answers edited, and conversations copied."""

from itertools import permutations

import pytest

from app.conversations.store import Store
from models.errors import Problem
from tests.support.app.store_samples import answered, asked, contents, round_of


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


@pytest.mark.parametrize("place", range(4))
def test_a_message_goes_alone_and_comes_back(store, branch, place):
    before = everything(store, branch)
    change = store.delete_message(branch[place].id).result()
    left = ["One?", "One.", "Two?", "Two."]
    del left[place]
    assert shown(store, branch) == left
    assert change.in_words == "Deleted a message"
    with pytest.raises(Problem):
        store.message(branch[place].id).result()
    hits = store.search(branch[place].content).result()
    assert branch[place].id not in [hit.message for hit in hits]
    store.undo(change).result()
    assert everything(store, branch) == before


def test_one_of_several_versions_goes_with_what_was_said_to_it(store, branch):
    before = everything(store, branch)
    other = store.edit(branch[1].id, "Uno.").result()
    store.switch(branch[3].id).result()
    change = store.delete_message(branch[1].id).result()
    assert shown(store, branch) == ["One?", "Uno."]
    assert change.in_words == "Deleted a version and the 2 messages after it"
    store.undo(change).result()
    assert shown(store, branch) == ["One?", "One.", "Two?", "Two."]
    store.delete_message(other.id).result()
    chat, shown_now, traces = everything(store, branch)
    assert (shown_now, traces) == before[1:], "a version that is not shown"
    assert chat.entries == before[0].entries


def test_what_was_said_since_stays_and_what_is_written_is_not_deleted(store, branch):
    change = store.delete_message(branch[1].id).result()
    store.say(branch[0].conversation, "Three?").result()
    store.undo(change).result()
    assert shown(store, branch) == ["One?", "One.", "Two?", "Two.", "Three?"]
    answer = store.begin_answer(branch[2].id, target="t", drafter="d").result()
    with pytest.raises(Problem, match="being written"):
        store.delete_message(answer.id).result()
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
def test_deleted_messages_are_restored_in_any_order_after_a_restart(
    store, path, branch, gone, again
):
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
