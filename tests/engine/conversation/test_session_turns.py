"""Conversations of several turns: what was read is not read again, and nothing else changes."""

from itertools import product

import pytest

from engine.conversation.session import Session
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS
from engine.events import Prefill, Text
from engine.near_ties import alike
from engine.request import ChatMessage, Request, chat
from models.errors import Problem
from tests.support.engine.helpers import CORE
from tests.support.engine.sessions import (
    QUESTION,
    check_caches,
    check_laws,
    collect,
    loaded,
    new_session,
    reused_of,
    text_of,
    tiny_model,
    tokens_of,
)
from tests.support.mostly_slow import mostly_slow


def check_reuse(session, events, before, prompt):
    """As much was reused as the caches allow."""
    common = min(alike(before, prompt), len(prompt) - 1)
    reused = reused_of(events)
    assert reused <= common
    if session.target.model.model_type in ("llama", "qwen2", "qwen3"):
        assert reused >= min(common, max(0, len(before) - 1))


@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(product(CORE, ["model", "cascade"]), quick=[("qwen3_5", "model")]),
)
def test_turns_are_answered_as_by_fresh_sessions(architecture, kind, tokenizer):
    session, messages = new_session(tokenizer, architecture, kind), list(QUESTION)
    request = Request(max_tokens=8)

    def fresh(asked):
        new = new_session(tokenizer, architecture, "none")
        return tokens_of(list(new.answer(asked, request)))

    for question in ("And then? Tell me more about it.", "Why so, of all things?", None):
        before, prompt = session.tokens, session.encode(chat(messages))
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == fresh(messages)
        check_reuse(session, events, before, prompt)
        if question is not None:
            reply = ChatMessage("assistant", text_of(events))
            messages += [reply, ChatMessage("user", question)]

    # The same again, twice.
    expected, prompt = fresh(messages), session.encode(chat(messages))
    for _ in range(2):
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == expected
        assert reused_of(events) == len(prompt) - 1, "the prompt was read again"

    # The second of three questions: nothing before it is read again.
    second = messages[:3]
    events = collect(session, session.answer(second, request))
    assert reused_of(events) == len(session.encode(chat(second))) - 1

    # An earlier question, edited.
    edited = [*messages[:2], ChatMessage("user", "And then something else"), *messages[3:]]
    before = session.tokens
    events = collect(session, session.answer(edited, request))
    assert tokens_of(events) == fresh(edited)
    check_reuse(session, events, before, session.encode(chat(edited)))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(product(CORE, ["model", "head"]), quick=[("llama", "head"), ("qwen3_5", "model")]),
)
def test_measuring_plain_rounds_leaves_the_session_as_it_was(architecture, kind, tokenizer):
    session = new_session(tokenizer, architecture, kind)
    request = Request(max_tokens=12)
    assert session.plain_passes(request) == ()  # before the first answer
    answered = collect(session, session.answer(QUESTION, request))
    before = session.tokens
    assert len(session.plain_passes(request)) == ENOUGH_PLAIN_ROUNDS
    assert session.plain_passes(request, going_on=lambda: False) == ()
    assert session.tokens == before
    check_caches(session)
    reply = ChatMessage("assistant", text_of(answered))
    messages = [*QUESTION, reply, ChatMessage("user", "And then?")]
    again = collect(session, session.answer(messages, request))
    fresh = new_session(tokenizer, architecture, "none")
    assert tokens_of(again) == tokens_of(list(fresh.answer(messages, request)))


@pytest.mark.parametrize("ending", ["cancelled", "at once", "meanwhile", "plain"])
def test_nothing_is_measured_after_an_answer_where_something_else_waits(ending, tokenizer):
    session = new_session(tokenizer, kind="none" if ending == "plain" else "model")
    asked, events = 0, []

    def compare():
        nonlocal asked
        asked += 1
        return ending != "at once" and (ending != "meanwhile" or asked < 4)

    def cancelled():
        return ending == "cancelled" and sum(isinstance(event, Text) for event in events) > 2

    answer = session.answer(QUESTION, Request(max_tokens=24), cancelled=cancelled, compare=compare)
    for event in answer:  # not all at once: "cancelled" looks at what has come
        events.append(event)
    done = events[-1]
    assert done.stats.reference_seconds == ()
    assert (done.reason == "cancelled") == (ending == "cancelled")
    assert asked == {"cancelled": 0, "at once": 1, "meanwhile": 4, "plain": 0}[ending]
    check_caches(session)


def test_plain_rounds_need_room(tokenizer):
    target = loaded(tiny_model("llama"), tokenizer, context=100)
    session = Session(target)
    list(session.answer(QUESTION, Request(max_tokens=200)))
    assert session.plain_passes() == ()
    list(session.answer(QUESTION, Request(max_tokens=10)))
    # One pass goes before them, and one after them.
    room = target.context_length - len(session.tokens) - 2
    assert session.plain_passes(passes=room + 1) == ()
    assert len(session.plain_passes(passes=room)) == room


@pytest.mark.quick(1)
@pytest.mark.parametrize(("overflow", "first"), [("rolling", 1), ("middle", 3)])
def test_a_conversation_goes_on_beyond_the_context(overflow, first, tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=240))
    messages, gaps, read, reused = [ChatMessage("system", "Be brief.")], [], [], []
    for number in range(24):
        messages.append(ChatMessage("user", f"Why {number}?"))
        request = Request(max_tokens=4, overflow=overflow)
        events = list(session.answer(messages, request))
        check_laws(events, tokenizer)
        messages.append(ChatMessage("assistant", text_of(events) or "."))
        told = [event for event in events if isinstance(event, Prefill)]
        (gap,) = {(each.left_out_from, each.left_out, each.context) for each in told}
        gaps.append(gap)
        read.append(told[0].total)
        reused.append(reused_of(events))
        assert 0 < len(tokens_of(events)) <= 4
    check_caches(session)
    assert gaps[0] == (0, 0, 0)
    wide = [gap for gap in gaps if gap[1]]
    assert {(start, context) for start, _, context in wide} == {(first, 240)}
    assert all(count % 2 == 0 for _, count, _ in wide)
    # In large steps: most prompts begin as the one before, and of those little is read.
    changes = [n for n in range(1, 24) if gaps[n] != gaps[n - 1]]
    assert 0 < len(changes) <= 4
    for number in range(3, 24):
        assert (reused[number] > read[number] / 2) == (number not in changes)


@pytest.mark.parametrize("overflow", ["stop", "rolling", "middle"])
def test_a_message_that_is_too_long_is_refused(overflow, tokenizer):
    session = Session(loaded(tiny_model("llama"), tokenizer, context=100))
    short = [ChatMessage("user", "a"), ChatMessage("assistant", "b")]
    for before in ([], short, short * 20):
        with pytest.raises(Problem):
            session.answer([*before, ChatMessage("user", "x" * 120)], Request(overflow=overflow))
    with pytest.raises(Problem):  # none may be left out
        session.answer([*short * 20, *QUESTION])
