"""Answers are held back, saved again and interrupted; what is done for them; notices on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.activity import (
    AwaitingModel,
    AwaitingTurn,
    BeingWritten,
    Reading,
    Stopping,
    long_status,
    progress,
    short_status,
    status_of_several,
)
from app.chat.answer_notices import AnswerNotices
from app.chat.rounds_side import RoundsSide
from app.chat.writing import Writing
from app.conversations.records import Message, from_milliseconds
from app.notices import Notice, Notices
from app.rounds.trace import Trace
from engine.events import (
    Done,
    Draft,
    Failed,
    Prefill,
    Span,
    Stats,
    Text,
    Verdict,
    WrittenToken,
)
from models.errors import Problem
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import Talk, refuse
from tests.support.app.traces import text_of, traces
from tests.support.app.window_maker import events_file


def writing(content, before):
    moment = from_milliseconds(0)
    message = Message(1, 1, None, "assistant", content, "streaming", "tiny", "lookup", moment, 1, 1)
    return Writing(message, before=before)


def told(pieces):
    return "".join(piece.text for piece in pieces if piece.written)


@given(st.just(()) | traces(), traces())
def test_an_answer_also_one_that_goes_on_has_one_trace_with_its_text_at_every_moment(first, second):
    before = tuple(event for event in first if not isinstance(event, Done))
    answer = writing(text_of(before), before)
    for event in second:
        answer.push(event)
        assert told(answer.pieces) == answer.text
    assert told(Trace(answer.events).pieces) == answer.text == text_of(first) + text_of(second)
    assert before or tuple(answer.events) == second
    ended = bool(second) and isinstance(second[-1], Done)
    assert (answer.state != "streaming") == ended
    rounds = [event.round for event in answer.events if isinstance(event, Draft | Verdict)]
    assert rounds == sorted(rounds)


@pytest.fixture
def talk(begin):
    """A talk whose answer is held back."""
    talk = begin("ready take load serve")
    talk.answers.hold()
    talk.conversation.say("hello")
    talk.until_told("begun")
    return talk


NO_NETWORK = Problem("There is no network.", "Connect to one.")
LATER = {
    "complete": lambda talk: talk.answers.release(),
    "cancelled": lambda talk: talk.conversation.stop(),
    "failed": lambda talk: talk.answers.refuse(NO_NETWORK),
}


@pytest.mark.parametrize("end", LATER)
def test_what_is_held_back_is_asked_for_later_or_stopped_or_fails(talk, end):
    assert talk.answers.busy
    assert talk.conversation.writing.activity == AwaitingModel()
    assert not talk.engine.answering
    assert talk.stored()[-1] == ("assistant", "", "streaming")
    LATER[end](talk)
    talk.until_told("saved")
    assert talk.shown[-1] == ("assistant", "served" if end == "complete" else "", end)
    talk.answers.release()
    assert not talk.engine.answering
    trace = talk.store.trace(talk.conversation.branch[-1].id).result()
    failures = [event.message for event in trace if isinstance(event, Failed)]
    assert failures == ([NO_NETWORK.message] if end == "failed" else [])


def test_what_cannot_be_saved_is_saved_later(talk, monkeypatch):
    monkeypatch.setattr("app.conversations.traces.extend", refuse)
    talk.answers.release()
    talk.until_told("finished")
    talk.until(lambda: talk.problems)
    answer = talk.answers.writing(talk.conversation.branch[-1].id)
    assert answer is not None, "kept in memory"
    talk.answers.flush()
    talk.until(lambda: not answer.saving)
    assert len(talk.problems) == 1, "said once"
    assert "saved" not in talk.told
    monkeypatch.undo()
    talk.answers.flush()
    talk.until_told("saved")
    talk.until_told("saving_again")
    assert talk.stored()[-1] == ("assistant", "served", "complete")


def test_closing_interrupts_and_saves(begin, tmp_path):
    events = made_trace("An answer of some words.")
    talk = begin(f"ready take load take part:8:{events_file(tmp_path, events)} take rest")
    talk.conversation.say("go")
    talk.until(lambda: talk.conversation.writing and talk.conversation.writing.text)
    writing = talk.conversation.writing
    talk.close()
    with Talk.reopened(tmp_path) as store:
        message = store.message(writing.message.id).result()
        assert message.state == "interrupted"
        assert message.content == writing.text
        kept = store.trace(message.id).result()
        assert text_of(kept) == writing.text


def test_the_time_left_follows_the_rate_of_what_was_read():
    assert Reading(128, 5447, 128, 0.0).left_seconds is None, "there is no rate yet"
    reading = progress(Prefill("", 1920, 5447, 128, 26.0))
    assert reading.left_seconds == (5447 - 1920) * 26.0 / (1920 - 128)
    assert reading.share == 1920 / 5447
    assert progress(Prefill("", 5447, 5447, 128, 80.0)) == BeingWritten()
    assert all(part in long_status(reading) for part in ("1,920", "5,447", "50 s"))
    assert status_of_several((BeingWritten(),)) == short_status(BeingWritten())
    several = status_of_several((BeingWritten(), AwaitingTurn(1), BeingWritten(), reading))
    assert [word.split()[0] for word in several.split(", ")] == ["2", "1", "1"]


def test_each_answer_is_told_of_by_its_own_events_and_one_that_waits_can_be_stopped(begin, qtbot):
    events = "as:2 text:ab as:3 reading:5:20 as:4 waiting:1 waiting:0"
    talk = begin(f"ready take load take take take {events} take rest")
    begun = []
    talk.answers.begun.connect(begun.append)
    for number in range(1, 4):
        talk.conversation.new()
        talk.conversation.say(f"question {number}")
        talk.until_told("begun", number)
    first, second, third = begun
    talk.until(lambda: third.activity == AwaitingTurn(0))
    assert first.activity == BeingWritten()
    assert second.activity == Reading(5, 20, 0, 0.1)
    panel = RoundsSide(talk.conversation, talk.answers)
    qtbot.addWidget(panel)
    panel.show_answer(second.message.id)
    assert panel.hint.isVisibleTo(panel)  # there are no figures yet
    assert len(talk.answers.unfinished) == 3
    assert talk.answers.activities() == {
        writing.message.conversation: writing.activity for writing in (first, second, third)
    }
    changed = []
    talk.answers.activity_changed.connect(changed.append)
    talk.answers.cancel(third.message.id)
    assert (third.state, third.activity) == ("cancelled", None)
    assert changed == [third], "the others go on as they were"
    talk.answers.cancel(second.message.id)
    assert second.activity == Stopping(), "its prompt is being read"
    assert first.activity == BeingWritten()


def plain(ids):
    """An answer of these tokens, without its end."""
    events = [Prefill("g", 5, 5, 0, 0.1)]
    for number, id in enumerate(ids, start=1):
        own = WrittenToken(id, "x", 0.5, "plain")
        events.append(Verdict("g", number, 0, (), own, 0.0, 0.01, 0.01, "plain"))
        events.append(Text("g", "x", (Span(number, 0, 1),)))
    return events


@pytest.fixture
def notices(qtbot):
    notices = Notices()
    qtbot.addWidget(notices)
    return notices


@pytest.mark.parametrize(("ids", "loops"), [([1, 2, 3] * 40, True), (range(120), False)])
def test_a_loop_is_told_once_while_it_is_written(begin, notices, tmp_path, ids, loops):
    file = events_file(tmp_path, [*plain(ids), Done("g", "stop", Stats())])
    talk = begin(f"ready take load take play:{file} take")
    told = []  # after so many tokens

    def watch(writing, happening):
        if notices.texts:
            told.append(len(writing.text))
            go_on = notices.findChildren(Notice)[0].buttons[1]
            go_on.click()
            assert notices.texts == {}

    AnswerNotices(talk.conversation, talk.answers, notices)
    talk.answers.happened.connect(watch)
    talk.ask("go")
    assert len(told) == loops
    assert not told or 50 < told[0] < 100


@pytest.mark.parametrize(("gap", "told"), [((0, 0, 0), ""), ((3, 12, 8192), "12")])
def test_messages_that_are_not_read_are_told_once(begin, notices, tmp_path, monkeypatch, gap, told):
    prefills = [Prefill("g", read, 5, 0, 0.1, *gap) for read in range(6)]
    file = events_file(tmp_path, prefills)
    talk = begin(f"ready take load take part:6:{file} text:one done take")
    AnswerNotices(talk.conversation, talk.answers, notices)
    said, say = [], notices.say
    monkeypatch.setattr(notices, "say", lambda matter, text: (said.append(text), say(matter, text)))
    talk.ask("go")
    assert len(said) == len(notices.texts) == bool(told)
    assert all(told in text and "8,192" in text for text in said)
    talk.conversation.new()
    assert notices.texts == {}


AGAIN = {
    "a question": lambda open, place: open.edit(open.branch[place].id, "other"),
    "an answer": lambda open, place: open.edit_answer(open.branch[place].id, "other"),
    "an answer, written again": lambda open, place: open.regenerate(open.branch[place].id),
}


@pytest.mark.parametrize(
    ("what", "place", "hidden"),
    [
        ("an answer", 1, "2"),
        ("a question", 0, "3"),
        ("a question", 2, None),  # only its own answer
        ("an answer, written again", 3, None),
    ],
)
def test_what_another_version_hides_is_said_and_can_be_shown(begin, notices, what, place, hidden):
    talk = begin("ready take load serve")
    open = talk.conversation
    AnswerNotices(open, talk.answers, notices)
    talk.ask("one")
    talk.ask("two")
    before = [message.id for message in open.branch]
    AGAIN[what](open, place)
    talk.until(lambda: open.branch[place].id != before[place] and not open.busy)
    if hidden is None:
        assert "hidden" not in notices.texts
        return
    assert hidden in notices.texts["hidden"]
    talk.ask("more")
    assert "hidden" in notices.texts, "it still holds"
    notices.press("hidden")
    talk.until(lambda: [message.id for message in open.branch] == before)
    open.switch(before[place], 2)
    talk.until(lambda: open.branch[place].id != before[place])
    assert "hidden" not in notices.texts, "that is what was asked for"
