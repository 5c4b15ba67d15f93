"""Sessions that learn from earlier answers write what they would write without; others learn
nothing."""

from dataclasses import replace
from unittest import mock

import pytest

from engine import earlier_answers
from engine.conversation.session import Session
from engine.draft_length.policy import Fixed
from engine.events import Done, Verdict
from engine.request import ChatMessage, Request
from models.installed.resolve import Drafters, NamedDrafter
from tests.support.engine.sessions import (
    QUESTION,
    collect,
    done_of,
    loaded,
    new_session,
    tiny_model,
    tokens_of,
)
from tests.support.mostly_slow import mostly_slow

OTHER = [ChatMessage("user", "What is the shortest way to the sea?")]
DRAFTERS = Drafters("suffix", (NamedDrafter("suffix"),))
REQUEST = Request(max_tokens=24)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "answers"
    earlier_answers.begin(folder)
    return folder


def learning(tokenizer, folder, architecture="llama"):
    target = loaded(tiny_model(architecture), tokenizer)
    return Session(target, drafter=DRAFTERS, policy=Fixed(4), earlier=folder)


def plain(tokenizer, question, architecture="llama"):
    return tokens_of(list(new_session(tokenizer, architecture, "none").answer(question, REQUEST)))


@pytest.mark.parametrize(
    "architecture", mostly_slow(["llama", "gemma3_text", "qwen3_5"], quick=["llama"])
)
def test_what_is_remembered_changes_no_token(folder, tokenizer, architecture):
    expected = {
        question[0].content: plain(tokenizer, question, architecture)
        for question in (QUESTION, OTHER)
    }
    passes = []
    for _ in range(2):
        session = learning(tokenizer, folder, architecture)
        for question in (QUESTION, OTHER, QUESTION):
            events = collect(session, session.answer(question, REQUEST))
            assert tokens_of(events) == expected[question[0].content]
            stats = done_of(events).stats
            passes.append(stats.committed / stats.rounds)
    assert min(passes[2:]) > 2 * passes[0], "it was asked before, and was copied"


def test_a_cancelled_answer_is_not_learned(folder, tokenizer):
    session = learning(tokenizer, folder)
    calls = iter([False] * 12 + [True] * 1000)
    list(session.answer(QUESTION, REQUEST, cancelled=lambda: next(calls)))
    closed = session.answer(OTHER, REQUEST)
    while not isinstance(next(closed), Verdict):
        pass
    closed.close()
    list(session.answer(QUESTION, replace(REQUEST, private=True)))
    assert list(folder.iterdir()) == []


def test_an_answer_that_is_cancelled_at_its_very_end_is_not_learned(folder, tokenizer):
    """As where its conversation is deleted at that moment, and with it what was learned."""
    session = learning(tokenizer, folder)
    calls = mock.Mock(return_value=False)
    list(session.answer(QUESTION, REQUEST, cancelled=calls))
    before = calls.call_count - 1  # all but the last, once the text has ended
    earlier_answers.forget(folder)
    late = mock.Mock(side_effect=[*[False] * before, *[True] * 9])
    events = list(session.another().answer(QUESTION, REQUEST, cancelled=late))
    assert done_of(events).reason != "cancelled"
    assert list(folder.iterdir()) == []


def test_what_is_forgotten_behind_the_end_of_an_answer_is_not_learned_then(folder, tokenizer):
    events = learning(tokenizer, folder).answer(QUESTION, REQUEST)
    while not isinstance(next(events), Done):
        pass
    assert len(list(folder.iterdir())) == 1
    earlier_answers.forget(folder)
    assert list(events) == []
    assert list(folder.iterdir()) == []


def test_switched_off_nothing_is_read_or_written(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    earlier_answers.begin(earlier_answers.earlier_answers_folder())  # by another process
    refused = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr("engine.conversation.session.EarlierAnswers", refused)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    session = learning(tokenizer, None)
    list(session.answer(QUESTION, REQUEST))
    list(session.another().answer(OTHER, REQUEST))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
