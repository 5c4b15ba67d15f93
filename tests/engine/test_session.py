"""Conversations: turns that reuse what was read, stops, ends, and events that keep their laws."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from engine.decoder import Decoder
from engine.draft_length import Fixed
from engine.drafters import Drafter
from engine.drafters.cascade import Cascade
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.none import NoDrafter
from engine.events import Done, Draft, Event, Prefill, Text, Verdict, from_json, to_json
from engine.loading import LoadedModel
from engine.sampling import Sampling
from engine.session import Message, Request, Session
from engine.stats import tally
from models.errors import Problem
from tests.engine.helpers import (
    CORE,
    EVERYWHERE,
    Known,
    Scripted,
    assert_as_fresh,
    ids_held,
    now_and_then,
)
from tests.engine.tiny import ARCHITECTURES, build, byte_tokenizer, noisy

END = 256
VOCABULARY = 260
DRAFTERS = ("none", "model", "early-exit", "lookup", "cascade")
QUESTION = [Message("user", "How long is a piece of string, and why?")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    byte_tokenizer(folder)
    return load_tokenizer(folder, eos_token_ids=[END])


@functools.cache
def tiny_model(architecture: str) -> Any:
    return build(architecture, vocabulary=VOCABULARY)


@functools.cache
def noisy_model(architecture: str) -> Any:
    return noisy(tiny_model(architecture))


def loaded(model: Any, tokenizer: Any, *, context: int = 4096) -> LoadedModel:
    return LoadedModel(
        folder=Path("tiny"),
        model=model,
        tokenizer=tokenizer,
        ends=frozenset({END}),
        context_length=context,
        precision="float32",
    )


def use(session: Session, kind: str, architecture: str, *, length: int = 4) -> Session:
    """Draft with a drafter of this kind."""
    target = session.decoder

    def model() -> Drafter:
        return ModelDrafter(Decoder(noisy_model(architecture)), vocabulary=target.vocabulary)

    drafters: dict[str, Any] = {
        "none": NoDrafter,
        "model": model,
        "early-exit": lambda: EarlyExitDrafter(target, layers=2),
        "lookup": LookupDrafter,
        "cascade": lambda: Cascade(LookupDrafter(), model()),
    }
    session.drafter = drafters[kind]()
    session.policy = Fixed(length)
    return session


def new_session(tokenizer: Any, architecture: str = "llama", kind: str = "model") -> Session:
    return use(Session(loaded(tiny_model(architecture), tokenizer)), kind, architecture)


def scripted(
    tokenizer: Any,
    text: bytes,
    *,
    prompt: int,
    length: int,
    draft: bytes | None = None,
    wrong: Any = (),
) -> Session:
    """A session whose target answers a prompt of so many tokens with `text`, then ends.

    The drafter proposes `draft`, by default the answer itself.
    """
    script = [*range(prompt), *text, END, END]
    session = Session(loaded(Scripted(script, vocabulary=VOCABULARY), tokenizer))
    guesses = script if draft is None else [*range(prompt), *draft]
    session.drafter = Known(guesses, vocabulary=VOCABULARY, wrong=wrong)
    session.policy = Fixed(length)
    return session


# The laws of events


def check_laws(events: Sequence[Event], tokenizer: Any, *, whole: bool = True) -> None:
    """Everything that `engine.events` promises of a generation; `whole` unless it was closed."""
    assert len({event.generation for event in events}) == 1
    assert [from_json(to_json(event)) for event in events] == list(events)
    prefills = [event for event in events if isinstance(event, Prefill)]
    assert list(events[: len(prefills)]) == prefills, "prefill after the first round"
    processed = [prefill.processed for prefill in prefills]
    assert processed == sorted(processed)
    assert all(p.reused <= p.processed <= p.total for p in prefills)

    rounds: list[Verdict] = []
    committed: list[int] = []
    draft: Draft | None = None
    for event in events:
        match event:
            case Draft():
                assert draft is None, "two drafts in a round"
                assert event.tokens
                assert event.round == len(rounds) + 1
                draft = event
            case Verdict():
                rounds.append(event)
                assert event.round == len(rounds)
                drafted = draft.tokens if draft else ()
                assert len(event.judgements) == len(drafted)
                committed += [token.id for token in drafted[: event.accepted]]
                assert 0 <= event.accepted <= len(drafted)
                if event.next is None:
                    assert committed[-1] == END, "no token of its own, and no end"
                else:
                    clean = event.accepted == len(drafted)
                    swept = "bonus" if clean else "correction"
                    assert event.next.origin == (swept if drafted else "plain")
                    committed.append(event.next.id)
                draft = None
            case _:
                assert draft is None, "something between a draft and its verdict"
    assert END not in committed[:-1], "something behind the end"
    if not whole:
        return
    assert draft is None, "a draft without a verdict"
    done = events[-1]
    assert isinstance(done, Done)
    assert sum(isinstance(event, Done) for event in events) == 1
    stats = done.stats
    assert stats == tally(events)
    assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
    assert stats.committed == stats.accepted + stats.corrections + stats.bonuses + stats.plain
    assert stats.committed == len(committed)
    assert stats.rounds == len(rounds)
    decoded = tokenizer.decode(committed, skip_special_tokens=True)
    assert text_of(events) + done.cut == decoded, "the events do not give the text"


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, Text))


def tokens_of(events: Sequence[Event]) -> list[int]:
    """The committed tokens, put together from drafts and verdicts."""
    tokens: list[int] = []
    drafted: list[int] = []
    for event in events:
        if isinstance(event, Draft):
            drafted = [token.id for token in event.tokens]
        elif isinstance(event, Verdict):
            tokens += drafted[: event.accepted]
            tokens += [event.next.id] if event.next else []
            drafted = []
    return tokens


def collect(session: Session, stream: Iterator[Event]) -> list[Event]:
    """All events, their laws and the session's caches checked."""
    events = list(stream)
    check_laws(events, session.target.tokenizer)
    check_caches(session)
    return events


def check_caches(session: Session) -> None:
    """Target and drafter hold the committed tokens and nothing else."""
    model = session.target.model
    if isinstance(model, Scripted):
        assert ids_held(session.decoder) == session._tokens[: session.decoder.length]
    else:
        assert_as_fresh(session.decoder, session._tokens, Decoder(model))
    if isinstance(session.drafter, ModelDrafter):
        own = session.drafter._decoder
        assert_as_fresh(own, session._tokens, Decoder(own.model))


def done_of(events: Sequence[Event]) -> Done:
    assert isinstance(events[-1], Done)
    return events[-1]


def reused_of(events: Sequence[Event]) -> int:
    return done_of(events).stats.reused_tokens


# One answer


@pytest.mark.parametrize("architecture", CORE)
def test_answer_is_the_same_with_every_drafter(architecture: str, tokenizer: Any) -> None:
    answers = {}
    for kind in DRAFTERS:
        session = new_session(tokenizer, architecture, kind)
        events = collect(session, session.answer(QUESTION, Request(max_tokens=30)))
        answers[kind] = tokens_of(events), text_of(events), done_of(events).reason
    assert len(set(map(str, answers.values()))) == 1, answers


@pytest.mark.parametrize("kind", DRAFTERS)
def test_laws_hold_for_samples(kind: str, tokenizer: Any) -> None:
    for seed in range(4):
        session = new_session(tokenizer, "qwen3", kind)
        request = Request(sampling=Sampling(temperature=1.0, seed=seed), max_tokens=25)
        events = collect(session, session.answer(QUESTION, request, generation="g"))
        assert events[0].generation == "g"
        again = new_session(tokenizer, "qwen3", kind)
        assert tokens_of(list(again.answer(QUESTION, request))) == tokens_of(events)


@pytest.mark.parametrize("length", [0, 1, 3, 8])
@pytest.mark.parametrize("wrong", [(), EVERYWHERE, now_and_then(2)])
def test_whole_text_and_its_end(length: int, wrong: Any, tokenizer: Any) -> None:
    text = "Grüße, 日本, and 🙂!"
    session = scripted(tokenizer, text.encode(), prompt=4, length=length, wrong=wrong)
    events = collect(session, session.complete(range(4)))
    assert text_of(events) == text
    assert done_of(events).reason == "stop"
    assert done_of(events).cut == ""
    assert tokens_of(events)[-1] == END


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 8])
def test_max_tokens(length: int, tokenizer: Any) -> None:
    for count in range(1, length + 3):
        session = scripted(tokenizer, b"abcdefghijklmnop", prompt=4, length=length)
        events = collect(session, session.complete(range(4), Request(max_tokens=count)))
        assert text_of(events) == "abcdefghijklmnop"[:count]
        assert done_of(events).reason == "length"


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7])
def test_character_split_across_tokens(length: int, tokenizer: Any) -> None:
    """No half a character is ever shown, wherever the draft's edge lies in it."""
    for prefix in ("", "a", "ab", "abc"):
        session = scripted(tokenizer, f"{prefix}🙂é".encode(), prompt=4, length=length)
        events = collect(session, session.complete(range(4)))
        assert text_of(events) == f"{prefix}🙂é"
        assert not any("\ufffd" in event.delta for event in events if isinstance(event, Text))


def test_half_a_character_at_the_end_is_shown_as_such(tokenizer: Any) -> None:
    session = scripted(tokenizer, "ab🙂".encode(), prompt=4, length=3)
    events = collect(session, session.complete(range(4), Request(max_tokens=4)))
    assert text_of(events) == "ab\ufffd"


# Stop strings


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("wrong", [(), now_and_then(3)])
def test_stop_string_across_a_drafts_edge(length: int, wrong: Any, tokenizer: Any) -> None:
    for prefix in ("", "a", "ab", "abc", "abcd"):
        text = f"{prefix}STOP and more"
        session = scripted(tokenizer, text.encode(), prompt=4, length=length, wrong=wrong)
        events = collect(session, session.complete(range(4), Request(stops=["STOP"])))
        assert text_of(events) == prefix
        assert done_of(events).reason == "stop"
        assert done_of(events).cut.startswith("STOP")


@pytest.mark.parametrize("length", [2, 5, 9])
def test_stop_string_in_the_rejected_tail_does_not_stop(length: int, tokenizer: Any) -> None:
    session = scripted(tokenizer, b"abcdefghijkl", prompt=4, length=length, draft=b"abSTOP.STOP.")
    events = collect(session, session.complete(range(4), Request(stops=["STOP"])))
    assert any("S" in token.text for e in events if isinstance(e, Draft) for token in e.tokens)
    assert text_of(events) == "abcdefghijkl"
    assert done_of(events).cut == ""


@pytest.mark.parametrize("length", [0, 3])
def test_beginning_of_a_stop_string_is_shown_in_the_end(length: int, tokenizer: Any) -> None:
    session = scripted(tokenizer, b"abcSTO", prompt=4, length=length)
    events = collect(session, session.complete(range(4), Request(stops=["STOP"])))
    assert text_of(events) == "abcSTO"


def test_half_a_character_behind_a_stop_string_belongs_to_the_cut(tokenizer: Any) -> None:
    """A draft may reach beyond the stop string, and end in the middle of a character."""
    session = scripted(tokenizer, "aXé more".encode(), prompt=4, length=2)
    events = collect(session, session.complete(range(4), Request(stops=["X"])))
    assert text_of(events) == "a"
    assert done_of(events).cut == "X\ufffd"


@pytest.mark.parametrize("stop", ["a", "o", " "])
def test_session_goes_on_after_a_stop_string(stop: str, tokenizer: Any) -> None:
    session = scripted(tokenizer, b"abcdef o ghi", prompt=4, length=5)
    first = collect(session, session.complete(range(4), Request(stops=[stop])))
    again = collect(session, session.complete(range(4), Request(stops=[stop])))
    assert text_of(first) == text_of(again)
    assert reused_of(again) == 3


# Ending early


@pytest.mark.parametrize("architecture", CORE)
@pytest.mark.parametrize("kind", ["none", "model"])
def test_cancelling_leaves_the_session_whole(architecture: str, kind: str, tokenizer: Any) -> None:
    expected = answer_of(tokenizer, architecture)
    for patience in (0, 1, 3):
        session = new_session(tokenizer, architecture, kind)
        asked = iter(range(1000))
        events = collect(
            session,
            session.answer(
                QUESTION,
                Request(max_tokens=24),
                cancelled=lambda asked=asked, patience=patience: next(asked) >= patience,
            ),
        )
        written = tokens_of(events)
        assert done_of(events).reason == ("stop" if END in written else "cancelled")
        assert written == expected[: len(written)]
        events = collect(session, session.answer(QUESTION, Request(max_tokens=24)))
        assert tokens_of(events) == expected


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "qwen3_5"])
@pytest.mark.parametrize("kind", ["none", "model", "lookup"])
def test_closing_the_generator_leaves_the_session_whole(
    architecture: str, kind: str, tokenizer: Any
) -> None:
    expected = answer_of(tokenizer, architecture)
    for count in range(1, 14, 4):
        session = new_session(tokenizer, architecture, kind)
        stream = session.answer(QUESTION, Request(max_tokens=24))
        events = [next(stream) for _ in range(count)]
        stream.close()
        check_laws(events, tokenizer, whole=False)
        check_caches(session)
        events = collect(session, session.answer(QUESTION, Request(max_tokens=24)))
        assert tokens_of(events) == expected


def answer_of(tokenizer: Any, architecture: str) -> list[int]:
    """What a fresh session without a drafter answers."""
    session = new_session(tokenizer, architecture, "none")
    return tokens_of(collect(session, session.answer(QUESTION, Request(max_tokens=24))))


# Turns


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    return next(
        (i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]),
        min(len(a), len(b)),
    )


def reply(text: str) -> Message:
    return Message("assistant", text)


def conversation(tokenizer: Any, architecture: str, kind: str) -> tuple[Session, list[Message]]:
    """A session after three turns, and its messages."""
    session = new_session(tokenizer, architecture, kind)
    messages = list(QUESTION)
    for question in ("And then? Tell me more about it.", "Why so, of all things?", None):
        fresh = new_session(tokenizer, architecture, "none")
        request = Request(max_tokens=24)
        before = list(session._tokens)
        prompt = session.encode(messages)
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == tokens_of(list(fresh.answer(messages, request)))
        check_reuse(session, events, before, prompt)
        if question is not None:
            messages += [reply(text_of(events)), Message("user", question)]
    return session, messages


def check_reuse(
    session: Session, events: Sequence[Event], before: Sequence[int], prompt: Sequence[int]
) -> None:
    """As much was reused as the caches allow."""
    common = min(common_prefix(before, prompt), len(prompt) - 1)
    reused = reused_of(events)
    assert reused <= common
    if session.target.model.model_type in ("llama", "qwen2", "qwen3"):
        assert reused >= min(common, max(0, len(before) - 1))


@pytest.mark.parametrize("architecture", CORE)
@pytest.mark.parametrize("kind", ["model", "cascade"])
def test_turns_are_answered_as_by_fresh_sessions(
    architecture: str, kind: str, tokenizer: Any
) -> None:
    session, messages = conversation(tokenizer, architecture, kind)
    request = Request(max_tokens=24)

    # The same again, twice.
    expected = tokens_of(
        list(new_session(tokenizer, architecture, "none").answer(messages, request))
    )
    prompt = session.encode(messages)
    for _ in range(2):
        events = collect(session, session.answer(messages, request))
        assert tokens_of(events) == expected
        assert reused_of(events) == len(prompt) - 1, "the prompt was read again"

    # An earlier question, edited.
    edited = [*messages[:2], Message("user", "And then something else"), *messages[3:]]
    other = new_session(tokenizer, architecture, "none")
    before = list(session._tokens)
    events = collect(session, session.answer(edited, request))
    assert tokens_of(events) == tokens_of(list(other.answer(edited, request)))
    check_reuse(session, events, before, session.encode(edited))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_last_turn_but_one_is_still_remembered(architecture: str, tokenizer: Any) -> None:
    """Going back to the second of three questions reads nothing before it again."""
    session, messages = conversation(tokenizer, architecture, "model")
    second = messages[:3]
    events = collect(session, session.answer(second, Request(max_tokens=24)))
    assert reused_of(events) == len(session.encode(second)) - 1


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5", "gemma3_text"])
def test_drafter_reads_no_more_than_is_new(architecture: str, tokenizer: Any) -> None:
    """Counted in rows of its prefill, by the lengths that it yields."""
    session = new_session(tokenizer, architecture, "model")
    drafter = session.drafter
    assert isinstance(drafter, ModelDrafter)
    own = drafter._decoder
    request = Request(max_tokens=24)

    answer = text_of(collect(session, session.answer(QUESTION, request)))
    messages = [*QUESTION, reply(answer), Message("user", "Go on")]
    before = list(session._tokens)
    drafter.rewind(common_prefix(before, session.encode(messages)))
    assert own.length >= len(session.encode(QUESTION)) - 1
    collect(session, session.answer(messages, request))

    # Regenerating: the prompt is read but for its last token.
    prompt = session.encode(messages)
    session.drafter.rewind(len(prompt) - 1)
    assert own.length == len(prompt) - 1
    assert list(drafter.prepare(prompt)) == []


@pytest.mark.parametrize("kind", DRAFTERS)
def test_drafter_may_change_between_turns(kind: str, tokenizer: Any) -> None:
    session = new_session(tokenizer, "llama", "lookup")
    first = collect(session, session.answer(QUESTION, Request(max_tokens=24)))
    use(session, kind, "llama")
    again = collect(session, session.answer(QUESTION, Request(max_tokens=24)))
    assert tokens_of(again) == tokens_of(first)


# Prompts


def test_empty_prompt_is_refused(tokenizer: Any) -> None:
    session = new_session(tokenizer)
    for empty in ([], [Message("user", " \n")]):
        with pytest.raises(Problem, match="empty"):
            session.answer(empty)
    with pytest.raises(Problem, match="empty"):
        session.complete([])


@pytest.mark.parametrize("architecture", CORE)
def test_prompt_of_one_token(architecture: str, tokenizer: Any) -> None:
    expected = None
    for kind in DRAFTERS:
        session = new_session(tokenizer, architecture, kind)
        events = collect(session, session.complete([65], Request(max_tokens=12)))
        expected = expected or tokens_of(events)
        assert tokens_of(events) == expected
        again = collect(session, session.complete([65], Request(max_tokens=12)))
        assert tokens_of(again) == expected


@pytest.mark.parametrize("kind", ["none", "model", "early-exit"])
def test_context_limit(kind: str, tokenizer: Any) -> None:
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
        with pytest.raises(Problem, match=f"has {too_long} tokens"):
            Session(target).complete([65] * too_long)


def test_session_survives_a_refused_prompt(tokenizer: Any) -> None:
    session = new_session(tokenizer)
    first = collect(session, session.answer(QUESTION, Request(max_tokens=10)))
    with pytest.raises(Problem):
        session.complete([1] * 5000)
    again = collect(session, session.answer(QUESTION, Request(max_tokens=10)))
    assert tokens_of(again) == tokens_of(first)


def test_session_survives_an_error_in_the_model(tokenizer: Any) -> None:
    session = new_session(tokenizer, "qwen3_5", "model")
    request = Request(max_tokens=24)
    expected = tokens_of(collect(session, session.answer(QUESTION, request)))
    read, passes = session.decoder.read, iter(range(100))

    def failing(tokens: mx.array) -> mx.array:
        if next(passes) == 3:
            raise RuntimeError("out of memory")
        return read(tokens)

    session.decoder.read = failing  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="out of memory"):
        list(session.answer(QUESTION, request))
    session.decoder.read = read  # type: ignore[method-assign]

    check_caches(session)
    assert tokens_of(collect(session, session.answer(QUESTION, request))) == expected
