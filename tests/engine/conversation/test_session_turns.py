"""Conversations of several turns: what was read is not read again, and nothing else changes."""

from itertools import product

import pytest

from engine.conversation.session import Session
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.policy import Automatic
from engine.drafters.model import ModelDrafter
from engine.events import Done, Event, Text
from engine.near_ties import alike
from engine.request import ChatMessage, Request, chat
from tests.support.engine.helpers import CORE
from tests.support.engine.sessions import (
    QUESTION,
    check_caches,
    collect,
    loaded,
    new_session,
    reused_of,
    text_of,
    tiny_model,
    tokens_of,
)
from tests.support.engine.tiny import ARCHITECTURES
from tests.support.mostly_slow import mostly_slow


def reply(text):
    return ChatMessage("assistant", text)


def conversation(tokenizer, architecture, kind):
    """A session after three turns, and its messages."""
    session = new_session(tokenizer, architecture, kind)
    messages = list(QUESTION)
    for question in ("And then? Tell me more about it.", "Why so, of all things?", None):
        fresh = new_session(tokenizer, architecture, "none")
        request = Request(max_tokens=8)
        before = list(session._tokens)
        prompt = session.encode(chat(messages))
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == tokens_of(list(fresh.answer(messages, request)))
        check_reuse(session, events, before, prompt)
        if question is not None:
            messages += [reply(text_of(events)), ChatMessage("user", question)]
    return session, messages


def check_reuse(session, events, before, prompt):
    """As much was reused as the caches allow."""
    common = min(alike(before, prompt), len(prompt) - 1)
    reused = reused_of(events)
    assert reused <= common
    if session.target.model.model_type in ("llama", "qwen2", "qwen3"):
        assert reused >= min(common, max(0, len(before) - 1))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(
        product(CORE, ["model", "cascade"]),
        quick=[("llama", "cascade"), ("gemma3_text", "model"), ("qwen3_5", "model")],
    ),
)
def test_turns_are_answered_as_by_fresh_sessions(architecture, kind, tokenizer):
    session, messages = conversation(tokenizer, architecture, kind)
    request = Request(max_tokens=12)

    # The same again, twice.
    expected = tokens_of(
        list(new_session(tokenizer, architecture, "none").answer(messages, request))
    )
    prompt = session.encode(chat(messages))
    for _ in range(2):
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == expected
        assert reused_of(events) == len(prompt) - 1, "the prompt was read again"

    # An earlier question, edited.
    edited = [*messages[:2], ChatMessage("user", "And then something else"), *messages[3:]]
    other = new_session(tokenizer, architecture, "none")
    before = list(session._tokens)
    events = collect(session, session.answer(edited, request))
    assert tokens_of(events) == tokens_of(list(other.answer(edited, request)))
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
    before = list(session._tokens)
    assert len(session.plain_passes(request)) == ENOUGH_PLAIN_ROUNDS
    assert session.plain_passes(request, going_on=lambda: False) == ()
    assert session._tokens == before
    check_caches(session)
    messages = [*QUESTION, reply(text_of(answered)), ChatMessage("user", "And then?")]
    again = collect(session, session.answer(messages, request))
    fresh = new_session(tokenizer, architecture, "none")
    assert tokens_of(again) == tokens_of(list(fresh.answer(messages, request)))


def test_an_answer_is_sent_with_what_it_is_compared_with(tokenizer):
    session = new_session(tokenizer)
    asked = []

    def compare():
        asked.append(True)
        return True

    request = Request(max_tokens=24)
    seen = []
    for event in session.answer(QUESTION, request, compare=compare):
        assert not asked or isinstance(event, Done), "measured before the last text"
        seen.append(event)
    done = seen[-1]
    assert isinstance(done, Done)
    assert len(done.stats.reference_seconds) == ENOUGH_PLAIN_ROUNDS
    assert min(done.stats.reference_seconds) > 0
    fresh = new_session(tokenizer)
    assert tokens_of(seen) == tokens_of(list(fresh.answer(QUESTION, request)))
    check_caches(session)


@pytest.mark.parametrize("ending", ["cancelled", "at once", "meanwhile", "plain"])
def test_nothing_is_measured_behind_an_answer_where_something_else_waits(ending, tokenizer):
    session = new_session(tokenizer, kind="none" if ending == "plain" else "model")
    asked, events = 0, list[Event]()

    def compare():
        nonlocal asked
        asked += 1
        return ending != "at once" and (ending != "meanwhile" or asked < 4)

    def cancelled():
        return ending == "cancelled" and sum(isinstance(event, Text) for event in events) > 2

    answer = session.answer(QUESTION, Request(max_tokens=24), cancelled=cancelled, compare=compare)
    for event in answer:
        events.append(event)
    done = events[-1]
    assert isinstance(done, Done)
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
    # One pass goes before them, and one behind them.
    room = target.context_length - len(session._tokens) - 2
    assert session.plain_passes(passes=room + 1) == ()
    assert len(session.plain_passes(passes=room)) == room


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, quick=["qwen3_5"]))
def test_last_turn_but_one_is_still_remembered(architecture, tokenizer):
    """Going back to the second of three questions reads nothing before it again."""
    session, messages = conversation(tokenizer, architecture, "model")
    second = messages[:3]
    events = collect(session, session.answer(second, Request(max_tokens=12)))
    assert reused_of(events) == len(session.encode(chat(second))) - 1


@pytest.mark.parametrize(
    "architecture", mostly_slow(["llama", "qwen3_5", "gemma3_text"], quick=["qwen3_5"])
)
def test_drafter_reads_no_more_than_is_new(architecture, tokenizer):
    """Counted in rows of its prefill, by the lengths that it yields."""
    session = new_session(tokenizer, architecture, "model")
    drafter = session.drafter
    assert isinstance(drafter, ModelDrafter)
    own = drafter._decoder
    request = Request(max_tokens=10)

    answer = text_of(collect(session, session.answer(QUESTION, request)))
    messages = [*QUESTION, reply(answer), ChatMessage("user", "Go on")]
    before = list(session._tokens)
    drafter.rewind(alike(before, session.encode(chat(messages))))
    assert own.length >= len(session.encode(chat(QUESTION))) - 1
    collect(session, session.answer(messages, request))

    # Regenerating: the prompt is read but for its last token.
    prompt = session.encode(chat(messages))
    session.drafter.rewind(len(prompt) - 1)
    assert own.length == len(prompt) - 1
    assert list(drafter.prepare(prompt)) == []


def test_a_drafter_that_does_not_pay_waits_with_the_prompt(tokenizer):
    session = new_session(tokenizer, "llama", "model")
    dear = DraftCosts("model", 0.0, step_seconds=50.0, read_seconds=10.0)
    passes = PassCosts(24, (1, 16), (0.01, 0.02))
    session.policy = Automatic(Calibration(passes, (dear,)))
    drafter = session.drafter
    assert isinstance(drafter, ModelDrafter)
    plain = new_session(tokenizer, "llama", "none")
    read = []
    for question in ("Why?", "And then?", "Tell me more."):
        messages = [ChatMessage("user", question)]
        events = collect(session, session.answer(messages, Request(max_tokens=8)))
        assert tokens_of(events) == tokens_of(list(plain.answer(messages, Request(max_tokens=8))))
        read.append(drafter._decoder.length > 0)
        drafter.rewind(0)
        if question == "And then?":
            session.policy.restart()
    assert read == [True, False, True], "nothing is known at first, and after a new start"


def test_an_answer_goes_on_where_it_was_cut(tokenizer):
    """No new turn begins: the prompt ends with what was written so far."""
    session = new_session(tokenizer)
    begun = "It depends, as"
    prompt = session.encode(chat([*QUESTION, reply(begun)]))
    assert prompt == session.encode(chat(QUESTION)) + tokenizer.encode(begun)
    assert tokenizer.decode(prompt).endswith(f"<assistant>{begun}")
