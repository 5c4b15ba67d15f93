"""Answers: stops, ends, prompts, what is learned of them, and events that keep their laws."""

import itertools
from dataclasses import replace
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine import earlier_answers
from engine.conversation.session import Session
from engine.device import CPU, GPU
from engine.draft_length.policy import Fixed
from engine.events import Done, Draft, Text, Verdict
from engine.request import ChatMessage, Request, Sampling, ToolCall
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
    scripted,
    text_of,
    tiny_model,
    tokens_of,
    use,
)
from tests.support.engine.shares import clipped, shares
from tests.support.engine.tiny import byte_tokenizer
from tests.support.mostly_slow import mostly_slow

# One answer


def test_a_template_is_told_of_thinking(tmp_path):
    byte_tokenizer(tmp_path)
    own = load_tokenizer(tmp_path, eos_token_ids=[END])
    own.chat_template = "{{ '' if thinking is defined and thinking else 'calm' }}<assistant>"
    session = Session(loaded(tiny_model("llama"), own))
    read = [
        done_of(list(session.answer(QUESTION, Request(max_tokens=1, thinking=thinking))))
        for thinking in ("on", "off")
    ]
    assert read[1].stats.prompt_tokens == read[0].stats.prompt_tokens + len("calm")


@pytest.mark.parametrize("kind", mostly_slow(DRAFTERS, quick=["trees"]))
def test_laws_hold_for_samples(kind, tokenizer):
    for seed in range(2):
        session = new_session(tokenizer, "qwen3", kind)
        request = Request(sampling=Sampling(temperature=1.0, seed=seed), max_tokens=16)
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


# Stop strings


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


@pytest.mark.parametrize("length", mostly_slow([2, 5, 9], quick=[5]))
def test_stop_string_in_the_rejected_tail_does_not_stop(length, tokenizer):
    session = scripted(tokenizer, b"abcdefghijkl", prompt=4, length=length, draft=b"abSTOP.STOP.")
    events = collect(session, session.complete(range(4), Request(stops=["STOP"])))
    assert any("S" in token.text for e in events if isinstance(e, Draft) for token in e.tokens)
    assert text_of(events) == "abcdefghijkl"
    assert done_of(events).cut == ""


# Which token gave what


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


# Ending early


@pytest.mark.parametrize(
    ("architecture", "kind"),
    mostly_slow(
        itertools.product(CORE, ["none", "model", "lookup"]), quick=[("gemma3_text", "model")]
    ),
)
def test_ending_early_leaves_the_session_whole(architecture, kind, tokenizer):
    """Cancelled, and closed as by one who hears no more of it."""
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
    for count in (1, 6, 13):
        session = new_session(tokenizer, architecture, kind)
        stream = session.answer(QUESTION, request)
        events = [next(stream) for _ in range(count)]
        stream.close()
        check_laws(events, tokenizer, whole=False)
        check_caches(session)
        assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected


# Prompts


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


def test_session_survives_an_error_in_the_model(tokenizer):
    session = new_session(tokenizer, "qwen3_5", "model")
    request = Request(max_tokens=12)
    expected = tokens_of(collect(session, session.answer(QUESTION, request)))
    read, passes = session.decoder.read, iter(range(100))

    def failing(tokens):
        if next(passes) == 3:
            raise RuntimeError("out of memory")
        return read(tokens)

    session.decoder.read = failing
    with pytest.raises(RuntimeError, match="out of memory"):
        list(session.answer(QUESTION, request))
    session.decoder.read = read

    check_caches(session)
    assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected


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

OTHER = [ChatMessage("user", "What is the shortest way to the sea?")]
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


def test_what_is_forgotten_after_the_end_of_an_answer_is_not_learned_then(folder, tokenizer):
    events = learning(tokenizer, folder).answer(QUESTION, LEARNED)
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
    list(session.answer(QUESTION, LEARNED))
    list(session.another().answer(OTHER, LEARNED))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
