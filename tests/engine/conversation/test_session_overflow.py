"""Conversations that are longer than the context: what is left out, and what that costs."""

import pytest

from engine.conversation.session import Session
from engine.events import Prefill
from engine.request import ChatMessage, Request, chat
from models.errors import Problem
from tests.support.engine.sessions import (
    QUESTION,
    collect,
    loaded,
    reused_of,
    text_of,
    tiny_model,
    tokens_of,
)


def chatted(session, overflow, *, turns):
    """The events of so many turns, each with a question of its own."""
    messages = [ChatMessage("system", "Be brief.")]
    seen = []
    for number in range(turns):
        messages.append(ChatMessage("user", f"Why {number}?"))
        request = Request(max_tokens=4, overflow=overflow)
        events = collect(session, session.answer(messages, request))
        messages.append(ChatMessage("assistant", text_of(events) or "."))
        seen.append(events)
    return seen


@pytest.mark.quick(1)
@pytest.mark.parametrize(("overflow", "first"), [("rolling", 1), ("middle", 3)])
def test_a_conversation_goes_on_beyond_the_context(overflow, first, tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=240))
    turns = chatted(session, overflow, turns=24)
    gaps = []
    for events in turns:
        told = {(e.left_out_from, e.left_out, e.context) for e in events if isinstance(e, Prefill)}
        (gap,) = told
        gaps.append(gap)
        assert 0 < len(tokens_of(events)) <= 4
    assert gaps[0] == (0, 0, 0)
    wide = [gap for gap in gaps if gap[1]]
    assert {(start, context) for start, _, context in wide} == {(first, 240)}
    assert all(count % 2 == 0 for _, count, _ in wide)
    # In large steps: most prompts begin as the one before, and of those little is read.
    changes = [n for n in range(1, 24) if gaps[n] != gaps[n - 1]]
    assert 0 < len(changes) <= 4
    for number in range(3, 24):
        whole = next(e.total for e in turns[number] if isinstance(e, Prefill))
        assert (reused_of(turns[number]) > whole / 2) == (number not in changes)


def test_what_is_left_out_is_not_in_the_prompt(tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=300))
    talk = [
        ChatMessage(role, f"{role} {number} {'x' * 30}")
        for number in range(8)
        for role in ("user", "assistant")
    ]
    asked = [ChatMessage("system", "s"), *talk, ChatMessage("user", "the last")]
    list(session.answer(asked, Request(max_tokens=10, overflow="middle")))
    prompt = session.target.tokenizer.decode(session._tokens)
    assert "user 0" in prompt
    assert "assistant 0" in prompt
    assert "the last" in prompt
    assert "user 1" not in prompt
    whole = session.encode(chat(asked))
    assert len(session._tokens) < 300 < len(whole)


@pytest.mark.parametrize("overflow", ["stop", "rolling", "middle"])
def test_a_message_that_is_too_long_is_refused(overflow, tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=100))
    short = [ChatMessage("user", "a"), ChatMessage("assistant", "b")]
    for before in ([], short, short * 20):
        with pytest.raises(Problem, match="can look at 100"):
            session.answer([*before, ChatMessage("user", "x" * 120)], Request(overflow=overflow))


def test_what_may_not_be_left_out_is_refused(tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=100))
    with pytest.raises(Problem, match="can look at 100"):
        session.answer([ChatMessage("user", "a"), ChatMessage("assistant", "b")] * 20 + QUESTION)
