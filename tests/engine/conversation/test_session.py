"""Answers, alone and in turns: stops, ends, prompts, what is learned of them, and events that keep
their laws."""

import itertools
import random
from dataclasses import replace
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from engine import earlier_answers
from engine.conversation.loops import loops
from engine.conversation.overflow import left_out
from engine.conversation.session import Session
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS
from engine.device import CPU, GPU
from engine.draft_length.policy import Fixed
from engine.events import Done, Draft, Prefill, Text, Verdict
from engine.near_ties import alike
from engine.request import ChatMessage, Request, Sampling, ToolCall, chat
from models.errors import Problem
from models.installed.resolve import Drafters, NamedDrafter
from tests.engine.conversation.test_text import STORIES, broken_bytes, byte_level
from tests.support.engine.backends import computing_as
from tests.support.engine.helpers import CORE, Known, Scripted, now_and_then
from tests.support.engine.sessions import (
    DRAFTERS,
    END,
    QUESTION,
    check_caches,
    check_laws,
    collect,
    done_of,
    loaded,
    new_session,
    reused_of,
    scripted,
    text_of,
    tiny_model,
    tokens_of,
    use,
)
from tests.support.engine.shares import clipped, shares
from tests.support.mostly_slow import mostly_slow

OTHER = [ChatMessage("user", "What is the shortest way to the sea?")]


@pytest.mark.parametrize("kind", mostly_slow(DRAFTERS, quick=["trees"]))
def test_laws_hold_for_samples(kind, tokenizer):
    session = new_session(tokenizer, "qwen3", kind)
    request = Request(sampling=Sampling(temperature=1.0, seed=1), max_tokens=16)
    events = collect(session, session.answer(QUESTION, request, generation="g"))
    assert events[0].generation == "g"
    again = new_session(tokenizer, "qwen3", kind)
    assert tokens_of(list(again.answer(QUESTION, request))) == tokens_of(events)


def test_without_a_sampling_the_models_own_holds(tokenizer):
    own = Sampling(temperature=1.3, top_k=50, seed=7)
    session = new_session(tokenizer, "qwen3", "model")
    session.target = replace(session.target, sampling=own)
    answers = [
        tokens_of(list(session.answer(QUESTION, Request(sampling=sampling, max_tokens=8))))
        for sampling in (None, own, Sampling())
    ]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize("length", mostly_slow([0, 1, 3, 4, 9], quick=[0, 4]))
def test_stop_string_across_a_drafts_edge(length, tokenizer):
    for prefix, wrong in itertools.product(("", "a", "ab", "abc", "abcd"), ((), now_and_then(3))):
        text = f"{prefix}STOP and more"
        session = scripted(tokenizer, text.encode(), prompt=4, length=length, wrong=wrong)
        events = collect(session, session.complete(range(4), Request(stops=["STOP"])))
        assert text_of(events) == prefix
        assert done_of(events).reason == "stop"
        assert done_of(events).cut.startswith("STOP")
        assert length or len(tokens_of(events)) == len(f"{prefix}STOP")


@pytest.mark.parametrize("tokenizer", [STORIES, byte_level()], ids=["stories", "byte-level"])
@given(data=st.data())
def test_every_committed_token_is_told_what_it_gave(tokenizer, data):
    """Whatever is written, however it is drafted, and wherever it ends."""
    encoded = tokenizer.encode("a naïve 世界 👩, b", add_special_tokens=False)
    ids = st.sampled_from(encoded) | broken_bytes(tokenizer)
    end, vocabulary = 2, len(tokenizer)
    script = [7, 8, 9, *data.draw(st.lists(ids, max_size=20)), end, end]
    session = Session(
        replace(loaded(Scripted(script, vocabulary=vocabulary), tokenizer), ends=frozenset({end}))
    )
    wrong = data.draw(st.sets(st.integers(3, 24)))
    session.drafter = Known(script, vocabulary=vocabulary, wrong=wrong)
    session.policy = Fixed(data.draw(st.integers(0, 5)))
    stops = data.draw(st.lists(st.text("ab 世👩\ufffd", min_size=1, max_size=3), max_size=2))
    request = Request(stops=stops, max_tokens=data.draw(st.integers(1, 24)))
    asked, patience = itertools.count(), data.draw(st.integers(2, 20))
    events = list(session.complete(script[:3], request, cancelled=lambda: next(asked) >= patience))
    check_laws(events, tokenizer, end=end)
    given = shares(tokenizer, tokens_of(events))
    spans = [span for event in events if isinstance(event, Text) for span in event.spans]
    assert [span.length for span in spans] == clipped(given, len(text_of(events)))


@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(
        itertools.product(CORE, ["none", "model", "lookup"]), quick=[("gemma3_text", "model")]
    ),
)
def test_ending_early_leaves_the_session_whole(architecture, kind, tokenizer):
    """Cancelled, closed as by one who hears no more of it, and by an error in the model."""
    request, plain = Request(max_tokens=12), new_session(tokenizer, architecture, "none")
    expected = tokens_of(collect(plain, plain.answer(QUESTION, request)))
    for patience in (0, 3):
        session, asked = new_session(tokenizer, architecture, kind), iter(range(1000))

        def cancelled(asked=asked, patience=patience):
            return next(asked) >= patience

        events = collect(session, session.answer(QUESTION, request, cancelled=cancelled))
        written = tokens_of(events)
        assert done_of(events).reason == ("stop" if END in written else "cancelled")
        assert written == expected[: len(written)]
        assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected
    for count in (1, 8):
        session = new_session(tokenizer, architecture, kind)
        stream = session.answer(QUESTION, request)
        events = [next(stream) for _ in range(count)]
        stream.close()
        check_laws(events, tokenizer, whole=False)
        check_caches(session)
        assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected
    read = session.decoder.read
    effects = [*[mock.DEFAULT] * 3, RuntimeError("out of memory")]
    failing = mock.Mock(side_effect=effects, wraps=read)
    with mock.patch.object(session.decoder, "read", failing), pytest.raises(RuntimeError):
        list(session.answer(OTHER, request))
    check_caches(session)
    assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected


def test_empty_prompts_and_calls_without_results_are_refused(tokenizer):
    session = new_session(tokenizer)
    calls = ChatMessage("assistant", "", tool_calls=(ToolCall("1", "add", "{}"),))
    with pytest.raises(Problem, match="tools"):
        session.answer([ChatMessage("user", "Add."), calls])
    for ask, prompt in (
        (session.answer, []),
        (session.answer, [ChatMessage("user", " \n")]),
        (session.complete, []),
    ):
        with pytest.raises(Problem, match="empty"):
            ask(prompt)


@pytest.mark.parametrize("kind", mostly_slow(["none", "model", "early-exit"], quick=["model"]))
def test_context_limit(kind, tokenizer):
    """A prompt may fill it but for one token, and no answer goes beyond it."""
    context = 40
    target = loaded(tiny_model("llama"), tokenizer, context=context)
    for room in (1, 2, 5):
        session = use(Session(target), kind, "llama")
        prompt = [65 + i % 26 for i in range(context - room)]
        events = collect(session, session.complete(prompt))
        assert done_of(events).reason == "length"
        assert len(tokens_of(events)) == room
    for too_long in (context, context + 1):
        with pytest.raises(Problem, match=f"{too_long}"):
            Session(target).complete([65] * too_long)


class Overflowing(Known):
    """Gives its third draft and all after it NaN as a probability."""

    name = "overflowing"

    def propose(self, *asked):
        draft = super().propose(*asked)
        self.drafts = getattr(self, "drafts", 0) + 1
        if draft is None or self.drafts < 3:
            return draft
        return replace(draft, q=mx.full(draft.q.shape, mx.nan))

    def fork(self, target):
        return Overflowing(self._script)


@pytest.mark.parametrize("beside_host", [False, True])
def test_a_drafter_that_is_switched_off_is_named_once(tokenizer, beside_host):
    """The answer goes on without it, and so do the next ones, another conversation's too."""
    prompt, text = list(range(8)), b"one two three four five six"
    request = Request(max_tokens=40, prediction="something else")
    with computing_as(GPU if beside_host else CPU):
        session = scripted(tokenizer, text, prompt=len(prompt), length=2)
        session.drafter = Overflowing([*prompt, *text, END, END])
        first = collect(session, session.complete(prompt, request))
        again = collect(session, session.complete(prompt, request))
        other = list(session.another().complete(prompt, request))
    assert [text_of(each) for each in (first, again, other)] == 3 * [text.decode()]
    assert "overflowing" in done_of(first).remark
    assert done_of(again).remark == ""
    drafted = [
        sum(isinstance(each, Draft) and each.drafter == "overflowing" for each in events)
        for events in (first, again, other)
    ]
    assert drafted == [2, 0, 0]


# Earlier answers

LEARNED = Request(max_tokens=24)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "answers"
    earlier_answers.begin(folder)
    return folder


def learning(tokenizer, folder, architecture="llama"):
    target = loaded(tiny_model(architecture), tokenizer)
    suffix = Drafters("suffix", (NamedDrafter("suffix"),))
    return Session(target, drafter=suffix, policy=Fixed(4), earlier=folder)


def plain(tokenizer, question, architecture="llama"):
    return tokens_of(list(new_session(tokenizer, architecture, "none").answer(question, LEARNED)))


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
            events = collect(session, session.answer(question, LEARNED))
            assert tokens_of(events) == expected[question[0].content]
            stats = done_of(events).stats
            passes.append(stats.committed / stats.rounds)
    assert min(passes[2:]) > 2 * passes[0], "it was asked before, and was copied"


def test_what_is_private_or_cancelled_up_to_its_very_end_is_not_learned(folder, tokenizer):
    """As where its conversation is deleted at that moment, and with it what was learned."""
    session = learning(tokenizer, folder)
    calls = iter([False] * 12 + [True] * 1000)
    list(session.answer(QUESTION, LEARNED, cancelled=lambda: next(calls)))
    assert list(folder.iterdir()) == []
    closed = session.answer(OTHER, LEARNED)
    while not isinstance(next(closed), Verdict):
        pass
    closed.close()
    assert list(folder.iterdir()) == []
    list(session.answer(QUESTION, replace(LEARNED, private=True)))
    assert list(folder.iterdir()) == []
    calls = mock.Mock(return_value=False)
    list(learning(tokenizer, folder).answer(QUESTION, LEARNED, cancelled=calls))
    before = calls.call_count - 1  # all but the last, once the text has ended
    earlier_answers.forget(folder)
    late = mock.Mock(side_effect=[*[False] * before, *[True] * 9])
    events = list(learning(tokenizer, folder).answer(QUESTION, LEARNED, cancelled=late))
    assert done_of(events).reason != "cancelled"
    assert list(folder.iterdir()) == []
    events = learning(tokenizer, folder).answer(QUESTION, LEARNED)
    while not isinstance(next(events), Done):
        pass
    assert len(list(folder.iterdir())) == 1
    earlier_answers.forget(folder)  # nor is it learned after that
    assert [*events, *folder.iterdir()] == []


def test_switched_off_nothing_is_read_or_written(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    earlier_answers.begin(earlier_answers.earlier_answers_folder())  # by another process
    refused = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr("engine.conversation.session.EarlierAnswers", refused)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    session = learning(tokenizer, None)
    list(session.answer(QUESTION, LEARNED))
    list(session.another().answer(OTHER, LEARNED))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# Several turns: what was read is not read again, and nothing else changes


def check_reuse(session, events, before, prompt):
    """As much was reused as the caches allow."""
    common = min(alike(before, prompt), len(prompt) - 1)
    reused = reused_of(events)
    assert reused <= common
    if session.target.model.model_type in ("llama", "qwen2", "qwen3"):
        assert reused >= min(common, max(0, len(before) - 1))


@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(itertools.product(CORE, ["model", "cascade"]), quick=[("qwen3_5", "model")]),
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

    # The same again.
    prompt, before = session.encode(chat(messages)), tokens_of(events)
    events = collect(session, session.answer(messages, request))
    assert tokens_of(events) == before
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
    mostly_slow(
        itertools.product(CORE, ["model", "head"]), quick=[("llama", "head"), ("qwen3_5", "model")]
    ),
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


# Which turns of a long conversation are read, whatever their lengths are


LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=60)
DROPPING = st.sampled_from(["rolling", "middle"])


def read(system, turns, gap):
    """The tokens of the system prompt and of the turns that are not left out."""
    return system + sum(length for place, length in enumerate(turns) if place not in gap)


@given(st.integers(0, 300), LENGTHS, st.integers(1, 2000))
@example(0, [900, 50, 100], 1000)
def test_the_others_fit_or_only_the_last_turn_is_read(system, turns, limit):
    rolling = left_out(system, turns, overflow="rolling", limit=limit)
    middle = left_out(system, turns, overflow="middle", limit=limit)
    for gap in (rolling, middle):
        assert gap.stop < len(turns)
        assert read(system, turns, gap) <= limit or gap == range(len(turns) - 1)
    assert rolling.start == 0
    small = system + turns[0] <= limit // 2
    if middle and system + turns[0] + turns[-1] <= limit:
        assert middle.start == (1 if small else 0)


@given(st.integers(0, 300), LENGTHS, st.integers(1, 400), st.integers(1, 2000), DROPPING)
def test_the_gap_stays_until_it_no_longer_suffices(system, turns, more, limit, overflow):
    """So that the next prompt begins as this one did, and the cache is of use."""
    assume(max(*turns, more) + system + turns[0] <= limit)
    before = left_out(system, turns, overflow=overflow, limit=limit)
    after = left_out(system, [*turns, more], overflow=overflow, limit=limit)
    if read(system, [*turns, more], before) <= limit:
        assert after == before
    else:
        assert after.start == before.start or not before
        assert after.stop > before.stop
        kept = read(system, turns, after) - system - (turns[0] if after.start else 0)
        assert kept <= limit // 2


def test_turns_that_just_fit_in_half_of_the_room_stay():
    for overflow, gap in (("rolling", range(5)), ("middle", range(1, 6))):
        assert left_out(0, [100] * 11, overflow=overflow, limit=1000) == gap


@given(st.integers(0, 50), LENGTHS, st.integers(1, 399), DROPPING)
def test_an_answer_changes_nothing_that_is_left_out(system, turns, answer, overflow):
    """The turn that made the gap wider is longer once it is answered; none takes half the room."""
    before = left_out(system, turns[:-1], overflow=overflow, limit=1000)
    asked = left_out(system, turns, overflow=overflow, limit=1000)
    answered = [*turns[:-1], turns[-1] + answer]
    assume(max(answered) <= (1000 - system - answered[0]) // 2)
    if asked != before:
        assert left_out(system, answered, overflow=overflow, limit=1000) == asked


# Answers that go round in circles


TOKENS = st.integers(0, 50_000)
CIRCLES = st.lists(TOKENS, min_size=1, max_size=120)


def various(count, *, seed=0):
    """Tokens of which hardly four in a row come twice."""
    return random.Random(seed).choices(range(50_000), k=count)


@given(st.lists(TOKENS, max_size=300), CIRCLES, st.data())
def test_a_circle_is_told_once_it_has_come_often_enough(before, circle, data):
    rounds = 2 + -(-80 // len(circle)) + 1
    begun = data.draw(st.integers(0, len(circle)))
    assert loops([*before, *circle * rounds, *circle[:begun]])


EXAMPLES = {
    "twice": (various(100) * 2, False),
    "three times": (various(100) * 3, True),
    "begun": ([*various(300), *[1, 2, 3, 4, 5] * 11], False),
    "counting": ([t for n in range(12) for t in (n, *various(17))], True),
    "rows": ([t for n in range(40) for t in (1, 2, 3, 60 + n, 4, 5, 6, 160 + n)], False),
    "long": (various(170) * 3, True),
}


@pytest.mark.parametrize(("tokens", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_circle_is_told_from_what_is_only_alike(tokens, expected):
    """Each number of the module is judged by one of these."""
    assert loops(tokens) == expected
