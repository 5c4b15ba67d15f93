"""What is said is stored before it is answered; versions, branches and failures lose nothing."""

from concurrent.futures import Future
from dataclasses import replace
from threading import Event

import pytest

from app.chat.conversation import DEFAULTS, can_go_on
from app.chat.listing import Listing
from app.conversations.store import Store
from app.rounds.trace import Trace
from engine.documents.prompt import Sent
from engine.events import Done, Stats, Text
from engine.request import ChatMessage, Grammar, Request, Sampling
from engine.stretches import Stretch
from engine.tools.turn import Permissions
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import refuse, refused
from tests.support.app.window_maker import events_file

ONE = "take text:one done"
SERVE = "ready take load serve"
NEVER = Permissions(never=frozenset({("files", "read")}))


def test_a_message_is_stored_with_its_answer_and_answered_with_all_that_was_said(begin, watch):
    talk = begin(SERVE)
    asked = watch(talk.engine)
    talk.conversation.configure(system_prompt="Be brief.", settings=Request(max_tokens=5))
    talk.until_told("described")
    talk.listing.refresh()  # read before the message is stored
    talk.conversation.say("one")
    talk.conversation.permit(NEVER)  # after it
    talk.until_told("saved")
    expected = [("user", "one", "complete"), ("assistant", "served", "complete")]
    assert talk.shown == talk.stored() == expected
    assert (talk.conversation.record.title, talk.conversation.permissions) == ("one", NEVER)
    answer = talk.conversation.branch[-1]
    assert (answer.target, answer.drafter) == ("tiny", "lookup")
    assert not talk.conversation.busy
    talk.ask("two")
    assert [[f"{line.role}: {line.content}" for line in one.lines] for one in asked] == [
        ["system: Be brief.", "user: one"],
        ["system: Be brief.", "user: one", "assistant: served", "user: two"],
    ]
    assert talk.conversation.settings.max_tokens == 5
    talk.conversation.configure(system_prompt="Be kind.", settings=Request(max_tokens=7))
    talk.conversation.think("off")  # before these are read
    talk.until(lambda: talk.conversation.settings.thinking == "off")
    chosen = "Be kind.", Request(max_tokens=7, thinking="off")
    assert talk.conversation.configured == chosen


def test_a_queue_or_permission_that_cannot_be_stored_loses_nothing_that_is_new(begin, monkeypatch):
    talk = begin(SERVE)
    talk.ask("one")
    talk.conversation.set_queued(["two"])
    talk.listing.refresh()
    unsaved = []
    talk.answers.unsaved.connect(unsaved.append)
    monkeypatch.setattr(talk.store, "keep_queued", refused)
    monkeypatch.setattr(talk.store, "permit", refused)
    for count, texts in enumerate((["two", "three"], []), start=1):
        talk.conversation.set_queued(texts)
        talk.until(lambda count=count: len(talk.problems) == count)
        assert (talk.conversation.queued, talk.refused) == (("two",), ["three"])
    talk.conversation.permit(NEVER)
    talk.until(lambda: len(talk.problems) == 3)
    assert (unsaved, talk.conversation.permissions) == ([], NEVER), "no answer is to be saved"


@pytest.mark.parametrize(
    ("sampling", "told"), [(Sampling(), 1), (Sampling(temperature=0.7, seed=5), 0), (None, 0)]
)
def test_regenerating_gives_other_words_or_says_that_it_does_not(begin, watch, sampling, told):
    talk = begin(SERVE)
    remarks = []
    talk.conversation.remarked.connect(remarks.append)
    settings = Request(sampling=sampling)
    talk.beginning = ("", settings)
    asked = watch(talk.engine)
    talk.ask("one")
    assert remarks == []
    talk.conversation.regenerate(talk.conversation.branch[-1].id)
    talk.until_told("saved", 2)
    assert len(remarks) == told
    assert asked[0].request == settings
    again = asked[1].request.sampling
    assert again == (sampling and replace(sampling, seed=None))
    assert talk.conversation.settings == settings


def test_regenerating_keeps_both_answers_and_editing_begins_another_branch(begin):
    talk = begin(f"ready take load {ONE} take text:two done {ONE}")
    talk.ask("hello")
    first = talk.conversation.branch[-1]
    begun = []
    talk.answers.begun.connect(begun.append)
    talk.conversation.regenerate(first.id)
    talk.conversation.permit(NEVER)  # before it begins
    talk.until_told("saved", 2)
    assert begun[0].calling.permissions == NEVER
    last = talk.conversation.branch[-1]
    assert (last.content, last.place, last.siblings) == ("two", 2, 2)
    talk.conversation.switch(last.id, 1)
    talk.until(lambda: talk.shown[-1][1] == "one")
    talk.conversation.switch(first.id, 9)  # there is none
    talk.conversation.switch(first.id, 2)
    talk.until(lambda: talk.shown[-1][1] == "two")
    question = talk.conversation.branch[0].id
    talk.conversation.edit(question, "other")
    talk.until_told("saved", 3)
    assert [content for _, content, _ in talk.shown] == ["other", "one"]
    talk.conversation.switch(talk.conversation.branch[0].id, 1)
    talk.until(lambda: [content for _, content, _ in talk.shown] == ["hello", "two"])


def test_going_on_keeps_text_and_trace(begin, tmp_path):
    first, rest = made_trace("It begins here, "), made_trace("and goes on.", seed=1)
    stats = first[-1].stats
    cut = events_file(tmp_path, (*first[:-1], Done("g", "length", stats)), name="cut")
    more = events_file(tmp_path, rest, name="more")
    talk = begin(f"ready take load take play:{cut} take play:{more} take")
    talk.ask("go")
    before = talk.conversation.branch[-1]
    states = ("length", "cancelled", "complete")
    assert [can_go_on(replace(before, state=state)) for state in states] == [True, True, False]
    talk.conversation.go_on(before.id)
    talk.until_told("saved", 2)
    whole = "It begins here, and goes on."
    assert talk.shown[-1] == ("assistant", whole, "complete")
    trace = talk.store.trace(talk.conversation.branch[-1].id).result()
    told = Trace(trace).pieces
    assert "".join(piece.text for piece in told if piece.written) == whole
    assert [piece.round for piece in told] == sorted(piece.round for piece in told)
    assert sum(isinstance(event, Done) for event in trace) == 1
    assert talk.store.message(before.id).result().content == "It begins here, "


HARMONY = Text(
    "g",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Four.",
    stretches=tuple(
        Stretch(kind, length)
        for kind, length in (("mark", 30), ("reasoning", 3), ("mark", 52), ("content", 5))
    ),
)


def test_an_answer_goes_on_with_its_own_marks_without_its_grammar_and_its_reasoning_is_apart(
    begin, watch, tmp_path
):
    cut = events_file(tmp_path, (HARMONY, Done("g", "length", Stats())))
    talk = begin(f"ready take load take play:{cut} take text:!! done serve")
    asked = watch(talk.engine)
    grammar = Grammar("json schema", '{"type": "object"}')
    talk.beginning = ("", replace(DEFAULTS, grammar=grammar))
    talk.ask("2+2?")
    talk.conversation.go_on(talk.conversation.branch[-1].id)
    talk.until_told("saved", 2)
    talk.ask("Sure?")
    assert [one.lines[1] for one in asked[1:]] == [
        ChatMessage("assistant", "", written=HARMONY.delta),
        ChatMessage("assistant", "Four.!!", reasoning="Hm."),
    ]
    assert [one.request.grammar for one in asked] == [grammar, None, grammar]
    assert talk.conversation.settings.grammar == grammar
    answer = talk.conversation.branch[1]
    assert answer.content == HARMONY.delta + "!!"
    assert answer.tagged == "<think>\nHm.\n</think>\n\nFour.!!"
    talk.conversation.edit_answer(answer.id, answer.tagged.replace("Four", "Five"))
    talk.until(lambda: len(talk.conversation.branch) == 2)
    assert talk.conversation.branch[1].as_chat == (
        ChatMessage("assistant", "Five.!!", reasoning="Hm."),
    )


def test_going_on_with_what_has_no_trace(begin):
    talk = begin(f"ready take load take text:more done {ONE}")
    record = talk.store.create(title="imported").result()
    question = talk.store.say(record.id, "go").result()
    answer = talk.store.begin_answer(question.id, target="other", drafter="none").result()
    talk.store.finish_answer(answer.id, "Some text ", (), state="length").result()
    talk.conversation.open(record.id)
    talk.until_told("opened")
    talk.conversation.go_on(answer.id)
    talk.until_told("saved")
    assert talk.shown[-1][1] == "Some text more"
    told = Trace(talk.store.trace(talk.conversation.branch[-1].id).result()).pieces
    assert [(piece.text, piece.round) for piece in told] == [("Some text ", 0), ("more", 0)]


def test_while_an_answer_is_written_nothing_is_said_and_another_conversation_may_be_opened(begin):
    talk = begin("ready take load take text:half rest")
    talk.conversation.say("one")
    talk.until(lambda: talk.conversation.writing and talk.conversation.writing.text)
    talk.conversation.say("two")
    assert talk.refused == ["two"]
    assert talk.problems[0].remedy
    talk.conversation.regenerate(talk.conversation.branch[-1].id)
    assert len(talk.stored()) == 2
    first = talk.conversation.record
    talk.conversation.new()
    assert talk.conversation.branch == ()
    assert not talk.conversation.busy
    talk.conversation.open(talk.store.create_temporary().result().id)
    talk.until(lambda: talk.conversation.temporary)
    talk.conversation.configure(system_prompt="Be brief.", settings=None)
    talk.conversation.open(first.id)
    talk.until(lambda: talk.conversation.branch)
    talk.until(talk.listing.refresh().done)  # after all that was asked of the store
    assert talk.conversation.record.id == first.id
    assert talk.conversation.writing.text == "half"


def test_a_message_that_was_found_is_reached_on_its_branch(begin):
    talk = begin(SERVE)
    talk.ask("first")
    question, answer = talk.conversation.branch
    talk.conversation.edit(question.id, "second")
    talk.until_told("saved", 2)
    record = talk.conversation.record
    talk.conversation.new()
    talk.conversation.open(77)  # it is gone
    talk.until(lambda: talk.problems)
    assert talk.conversation.record is None
    talk.conversation.open(record.id, at=answer.id, words="served now")
    talk.until_told("reached")
    assert talk.shown[0][1] == "first"
    assert talk.words == ["served now"]
    talk.conversation.open(record.id, at=question.id)  # read before these are changed
    talk.conversation.set_queued(["next"])
    talk.conversation.permit(NEVER)
    talk.until_told("reached", 2)
    assert (talk.conversation.queued, talk.conversation.permissions) == (("next",), NEVER)
    talk.store.keep_queued(record.id, ())  # sent without the window, which was about to leave
    talk.conversation.open(record.id, at=question.id)
    talk.until_told("reached", 3)
    assert (talk.conversation.queued, talk.conversation.permissions) == ((), NEVER)


def chats(talk):
    """What is stored in each conversation, the oldest first."""
    records = sorted(talk.store.conversations().result(), key=lambda record: record.id)
    return [[m.content for m in talk.store.branch(record.id).result()] for record in records]


def here(talk):
    """The conversation that is shown, and not only about to be."""
    return getattr(talk.conversation.record, "id", None)


WAITING = {
    "a message": lambda open, first, sent: open.say("secret", sent=sent),
    "a queued message": lambda open, first, sent: open.say("secret", queued=True, sent=sent),
    "an answer again": lambda open, first, sent: open.regenerate(first + 1),
    "an answer that goes on": lambda open, first, sent: open.go_on(first + 1),
}


@pytest.mark.parametrize("waiting", [*WAITING, "a first message", "one after a setting"])
@pytest.mark.parametrize("then", ["open", "opening", "new", "there and back"])
@pytest.mark.quick(9)
def test_what_waits_stays_where_it_was_sent(begin, waiting, then):
    talk = begin("ready take load take text:half done serve")
    other = talk.store.create(title="other").result().id
    first = waiting not in WAITING
    sent = Future()
    if first:
        if waiting == "one after a setting":
            talk.conversation.configure(system_prompt="Be brief.", settings=None)
        talk.conversation.say("secret", sent=sent)
    else:
        talk.ask("before")
        question, answer = talk.conversation.branch
        if waiting == "an answer that goes on":
            talk.conversation.branch = (question, replace(answer, state="length"))
        talk.conversation.set_queued(["secret"] if "queued" in waiting else [])
        WAITING[waiting](talk.conversation, question.id, sent)
    home = talk.conversation.shown
    if then == "new":
        talk.conversation.new()
    else:
        talk.conversation.open(other)
        if then != "opening":
            talk.until(lambda: here(talk) == other)
    if then == "there and back" and home is not None:
        talk.conversation.open(home)
        talk.until(lambda: here(talk) == home)
        assert talk.conversation.busy or "an answer" in waiting, "nothing else is sent there"
    sent.set_result(Sent("secret"))
    talk.until_told("saved", 1 if first else 2)
    talk.until(lambda: talk.conversation.shown == here(talk))
    theirs = {
        "an answer again": ["before", "served"],
        "an answer that goes on": ["before", "halfserved"],
    }
    said = ["secret", "half"] if first else ["before", "half", "secret", "served"]
    assert chats(talk) == [[], theirs.get(waiting, said)]
    back = then == "there and back" and home is not None
    assert talk.conversation.shown == {"new": None}.get(then, home if back else other)
    assert [content for _, content, _ in talk.shown] == (chats(talk)[1] if back else [])
    assert talk.problems == []
    for record in talk.store.conversations().result():
        assert record.queued == ()


def test_a_message_is_answered_as_was_chosen_when_it_was_sent_and_a_new_one_as_others(begin, watch):
    talk = begin(SERVE)
    asked = watch(talk.engine)
    first = talk.beginning = "First", Request(max_tokens=1, overflow="rolling")
    assert talk.conversation.configured == first
    assert [line.role for line in talk.conversation.asked("one")] == ["system", "user"]
    for count in (1, 2, 3):
        sent = Future()
        talk.conversation.say("secret", sent=sent)
        talk.beginning = "Other", Request(max_tokens=9)
        if count == 1:
            talk.until(lambda: talk.conversation.record)
            assert talk.conversation.configured == first
        else:
            talk.conversation.think("off")
        settings = Request(max_tokens=count + 1, thinking="on")
        talk.conversation.configure(system_prompt=f"Then {count + 1}", settings=settings)
        sent.set_result(Sent("secret"))
        talk.until_told("saved", count)
    given = [(one.lines[0].content, one.request.max_tokens, one.request.thinking) for one in asked]
    assert given == [("First", 1, ""), ("Then 2", 2, "on"), ("Then 3", 3, "on")]
    talk.beginning = ("", None)
    talk.conversation.new()
    assert talk.conversation.configured == ("", None)
    assert talk.conversation.settings == DEFAULTS


def test_a_message_follows_what_was_shown_when_it_was_sent(begin):
    talk = begin(SERVE)
    talk.ask("one")
    talk.conversation.edit(talk.conversation.branch[0].id, "two")
    talk.until_told("saved", 2)
    sent = Future()
    talk.conversation.say("to two", sent=sent)
    talk.conversation.switch(talk.conversation.branch[0].id, 1)
    talk.until(lambda: talk.shown[0][1] == "one")
    sent.set_result(Sent("to two"))
    talk.until_told("saved", 3)
    assert [content for _, content, _ in talk.shown] == ["two", "served", "to two", "served"]
    talk.conversation.set_queued(["three"])
    talk.conversation.say("three", queued=True)
    talk.conversation.set_queued([*talk.conversation.queued, "four"])  # before it is stored
    talk.until_told("saved", 4)
    record = talk.store.conversation(talk.conversation.record.id).result()
    assert talk.conversation.queued == record.queued == ("four",)


def test_what_was_refused_is_given_back_and_can_be_sent_again(begin, monkeypatch):
    talk = begin(SERVE)
    with monkeypatch.context() as full:
        both = Event()
        full.setattr("app.conversations.tree.begin", lambda *_, **__: refuse(both.wait()))
        talk.conversation.say("one")
        talk.conversation.configure(system_prompt="Be brief.", settings=None)
        both.set()
        talk.until(lambda: len(talk.problems) == 2)
    talk.ask("one")
    with monkeypatch.context() as full:
        full.setattr("app.conversations.tree.insert", refuse)
        talk.conversation.say("two")
        talk.until(lambda: len(talk.refused) == 2)
        assert (len(talk.shown), talk.conversation.busy) == (2, False)
    talk.ask("two")
    assert (talk.refused, chats(talk)) == (["one", "two"], [["one", "served", "two", "served"]])


def test_everybody_has_the_list_before_who_asked_for_it_goes_on_or_why_it_cannot_be_read(
    tmp_path, until, monkeypatch
):
    with Store.open(tmp_path / "conversations.sqlite") as store:
        record, folder = store.create(title="One").result(), store.make_folder("Work").result()
        listing = Listing(store)
        told = []
        listing.changed.connect(lambda: told.append(done.done()))
        assert listing.find(record.id) is None
        done = listing.refresh()
        until(done.done)
        assert told == [False]
        assert (listing.conversations, listing.folders) == ((record,), (folder,))
        assert (listing.find(record.id), listing.find(record.id + 1)) == (record, None)
        problems = []
        listing.failed.connect(problems.append)
        monkeypatch.setattr(store, "listing", refused)
        until(listing.refresh().done)
        listing.close()
        listing.refresh()
        assert (len(problems), len(told)) == (1, 1)
