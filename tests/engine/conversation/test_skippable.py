"""A drafter skips the passages of documents that the last question is not about, and nothing that
is not a document. The answer is the target's all the same."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from engine.conversation.session import Session
from engine.conversation.skippable import skippable
from engine.conversation.sources import Sources
from engine.conversation.template import encode_prompt
from engine.core.decoder import Decoder
from engine.documents import Document, Section
from engine.documents.prompt import Attached, write_message
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters.cascade import Cascade
from engine.drafters.model import ModelDrafter
from engine.drafters.suffix import SuffixDrafter
from engine.events import Prefill
from engine.request import ChatMessage, Prompt, Request
from tests.support.engine.helpers import assert_as_fresh
from tests.support.engine.sessions import (
    VOCABULARY,
    done_of,
    loaded,
    noisy_model,
    text_of,
    tiny_model,
    tokens_of,
)
from tests.support.mostly_slow import mostly_slow

MOST_READ = 430  # bytes, in place of so many tokens
SUBJECTS = ("anchors", "dragons", "ferries", "guitars")
PAGES = tuple(  # of as many words as a passage has
    Section("page", n, f"About {name}. " + "A b c d e. " * 32)
    for n, name in enumerate(SUBJECTS, start=1)
)
LONG = Document("long.pdf", "pdf", "0", PAGES)
SHORT = Document("short.pdf", "pdf", "1", PAGES[:1])


@pytest.fixture(autouse=True)
def few_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.conversation.skippable.MOST_READ", MOST_READ)


def asking(question: str, *documents: Document) -> ChatMessage:
    sent = write_message(question, [Attached(n, each) for n, each in enumerate(documents, start=1)])
    return ChatMessage("user", sent.text, attached=sent.attached)


def drafters_text(tokenizer: Any, *messages: ChatMessage) -> str:
    """The text of the chat that a drafter reads."""
    prompt = Prompt(messages=messages)
    tokens = encode_prompt(tokenizer, prompt)
    gaps = skippable(messages, Sources(tokenizer, prompt, tokens))
    assert gaps == sorted(gaps, key=lambda gap: gap.start)
    assert all(one.stop <= other.start for one, other in pairwise(gaps))
    left_out = {place for gap in gaps for place in gap}
    text: str = tokenizer.decode([t for n, t in enumerate(tokens) if n not in left_out])
    return text


def subjects(text: str) -> list[str]:
    return [name for name in SUBJECTS if f"About {name}" in text]


def test_the_passages_that_the_question_is_about_are_read(tokenizer: Any) -> None:
    text = drafters_text(tokenizer, asking("Are dragons heavy, or just old dragons?", LONG))
    assert "dragons" in subjects(text)
    assert len(subjects(text)) < len(SUBJECTS)
    assert "Are dragons heavy, or just old dragons?" in text
    assert len(text) < MOST_READ + 200  # a token is a byte


def test_no_question_is_too_vague(tokenizer: Any) -> None:
    """Then it is the beginning."""
    text = drafters_text(tokenizer, asking("What is that?", LONG))
    assert subjects(text)[0] == SUBJECTS[0]
    assert len(subjects(text)) < 3


def test_the_last_question_counts_and_the_one_before_where_it_refers_to_it(tokenizer: Any) -> None:
    first, answer = asking("What of guitars?", LONG), ChatMessage("assistant", "They are old.")
    for question, name in [("What of ferries?", "ferries"), ("And are they heavy?", "guitars")]:
        text = drafters_text(tokenizer, first, answer, ChatMessage("user", question))
        assert name in subjects(text)
        assert len(subjects(text)) < 4
        assert "They are old." in text
        assert "What of guitars?" in text


def test_documents_of_several_messages_share_the_room(tokenizer: Any) -> None:
    first, answer = asking("What of anchors?", SHORT), ChatMessage("assistant", "Old.")
    other = replace(LONG, sections=PAGES[1:])
    text = drafters_text(tokenizer, first, answer, asking("And what of guitars, the heavy?", other))
    assert "guitars" in subjects(text)
    assert len(text) < MOST_READ + 400


@pytest.mark.parametrize(
    "messages",
    [
        [asking("What of anchors?", SHORT)],
        [ChatMessage("user", "What of anchors?" * 400)],
        [ChatMessage("system", "Be brief."), ChatMessage("user", "Hello")],
        [],
    ],
)
def test_what_is_short_or_no_document_is_read(messages: list[ChatMessage], tokenizer: Any) -> None:
    prompt = Prompt(messages=tuple(messages))
    tokens = encode_prompt(tokenizer, prompt) if messages else [1, 2, 3]
    assert skippable(messages, Sources(tokenizer, prompt, tokens)) == []


def test_where_nothing_is_certain_all_is_read(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sources, "_places", None)
    messages = [asking("What of dragons?", LONG)]
    prompt = Prompt(messages=tuple(messages))
    sources = Sources(tokenizer, prompt, encode_prompt(tokenizer, prompt))
    assert skippable(messages, sources) == []


# In a conversation


def session_of(tokenizer: Any, own: Decoder | None = None) -> Session:
    session = Session(loaded(tiny_model("llama"), tokenizer, context=16384))
    session.policy = Fixed(3)
    if own is not None:
        model = ModelDrafter(own, vocabulary=VOCABULARY)
        session.drafter = Cascade(SuffixDrafter(), model)
    return session


def answered(session: Session, messages: Sequence[ChatMessage]) -> list[int]:
    return tokens_of(list(session.answer(messages, Request(max_tokens=12))))


@pytest.mark.cpu
def test_a_conversation_reads_on_with_other_passages(tokenizer: Any) -> None:
    own = Decoder(noisy_model("llama"))
    session, plain = session_of(tokenizer, own), session_of(tokenizer)
    messages: list[ChatMessage] = []
    for message in (
        asking("Are dragons heavy?", LONG),
        ChatMessage("user", "What of the old ferries?"),
        ChatMessage("user", "Thanks!"),
    ):
        messages.append(message)
        events = list(session.answer(messages, Request(max_tokens=12)))
        assert tokens_of(events) == answered(plain, messages)
        prompt = session.encode(Prompt(messages=tuple(messages)))
        sources = Sources(tokenizer, Prompt(messages=tuple(messages)), prompt)
        gaps = skippable(messages, sources)
        left_out = {place for gap in gaps for place in gap}
        text = [*prompt, *tokens_of(events)]
        kept = [token for place, token in enumerate(text) if place not in left_out]
        assert own.length < len(kept) < MOST_READ + 250 < len(prompt) / 2
        assert_as_fresh(own, kept, Decoder(noisy_model("llama")))
        messages.append(ChatMessage("assistant", text_of(events)))


def test_the_target_reads_everything(tokenizer: Any) -> None:
    session = session_of(tokenizer, Decoder(noisy_model("llama")))
    messages = [asking("Are dragons heavy?", LONG)]
    events = list(session.answer(messages, Request(max_tokens=4)))
    total = max(event.total for event in events if isinstance(event, Prefill))
    assert session.decoder.length >= total > 3 * MOST_READ
    assert done_of(events).stats.proposed > 0


@pytest.mark.parametrize("stop", mostly_slow([2, 5, 40], quick=[5]))
def test_another_answer_and_another_session_are_as_before(tokenizer: Any, stop: int) -> None:
    """Cancelled on the way, measured, beside it, again: nothing that was left out is missed."""
    own = Decoder(noisy_model("llama"))
    session = session_of(tokenizer, own)
    messages = [asking("Are dragons heavy?", LONG)]
    expected = answered(session_of(tokenizer), messages)
    steps = iter(range(stop))
    list(session.answer(messages, cancelled=lambda: next(steps, None) is None))
    session.policy = Automatic()
    session.calibrate()
    session.policy = Fixed(3)
    assert answered(session.another(), messages) == expected
    assert answered(session, messages) == expected
    assert answered(session, [ChatMessage("user", messages[0].content)]) == expected
    assert own.length > 3 * MOST_READ
