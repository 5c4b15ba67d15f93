"""Answers are held back, saved again and interrupted, and their end is always saved."""

import pytest
from hypothesis import given

from app.chat.activity import AwaitingModel
from app.chat.writing import Writing
from app.conversations.records import Message, from_milliseconds
from app.rounds.trace import Trace
from engine.events import Done, Draft, Failed, Verdict, Waiting
from models.errors import Problem
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import Talk
from tests.support.app.traces import text_of, traces
from tests.support.app.window_maker import events_file


def writing(content="", before=()):
    moment = from_milliseconds(0)
    message = Message(1, 1, None, "assistant", content, "streaming", "tiny", "lookup", moment, 1, 1)
    return Writing(message, before=before)


@given(traces())
def test_text_and_tokens_agree_at_every_moment(events):
    answer = writing()
    for event in events:
        answer.push(event)
        told = "".join(piece.text for piece in answer.pieces if piece.written)
        assert told == answer.text
    assert answer.text == text_of(events)
    assert tuple(answer.events) == events
    ended = bool(events) and isinstance(events[-1], Done)
    assert (answer.state != "streaming") == ended


@given(traces(), traces())
def test_an_answer_that_goes_on_has_one_trace(first, second):
    before = tuple(event for event in first if not isinstance(event, Done))
    answer = writing(text_of(before), before)
    for event in second:
        answer.push(event)
    told = "".join(piece.text for piece in Trace(answer.events).pieces if piece.written)
    assert told == answer.text == text_of(first) + text_of(second)
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


def test_what_is_held_back_is_asked_for_later(talk):
    assert talk.answers.busy
    assert talk.conversation.writing.activity == AwaitingModel()
    assert not talk.engine.answering
    assert talk.stored()[-1] == ("assistant", "", "streaming")
    talk.answers.release()
    talk.until_told("saved")
    assert talk.shown[-1] == ("assistant", "served", "complete")


def test_what_is_held_back_can_be_stopped(talk):
    talk.conversation.stop()
    talk.until_told("saved")
    assert talk.shown[-1] == ("assistant", "", "cancelled")
    talk.answers.release()
    assert not talk.engine.answering


def test_what_is_held_back_fails_where_there_will_be_no_model(talk):
    talk.answers.refuse(Problem("There is no network.", "Connect to one."))
    talk.until_told("saved")
    assert talk.shown[-1] == ("assistant", "", "failed")
    trace = talk.store.trace(talk.conversation.branch[-1].id).result()
    assert isinstance(trace[-1], Failed)
    assert trace[-1].message == "There is no network."


def test_what_cannot_be_saved_is_saved_later(talk, monkeypatch):
    def refuse(*arguments, **options):
        raise Problem("The disk is full.", "Make room.")

    monkeypatch.setattr("app.conversations.tree._write", refuse)
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


@pytest.mark.parametrize(
    ("steps", "texts"),
    [
        (
            "as:2 waiting:1 as:3 waiting:0 text:x as:2 text:a as:3 text:y done as:2 text:b done",
            [("second", "xy", "complete"), ("first", "ab", "complete")],
        ),
        (
            "as:2 text:a as:3 text:x failed as:2 text:b done",
            [("second", "x", "failed"), ("first", "ab", "complete")],
        ),
    ],
    ids=["complete", "failed"],
)
def test_answers_that_are_written_at_once_keep_apart(begin, steps, texts):
    talk = begin(f"ready take load take take {steps} take")
    ended = []
    talk.answers.finished.connect(ended.append)
    for number, text in enumerate(("first", "second"), start=1):
        talk.conversation.new()
        talk.conversation.say(text)
        talk.until_told("begun", number)
    talk.until_told("saved", 2)
    assert [(writing.title, writing.text, writing.state) for writing in ended] == texts
    for writing in ended:
        told = talk.store.trace(writing.message.id).result()
        assert text_of(told) == writing.text
        assert not any(isinstance(event, Waiting) for event in told), "waiting is no part of it"
