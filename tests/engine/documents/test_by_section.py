"""A question that is asked of every part of a document, then of the notes."""

from collections.abc import Callable

import pytest

from engine.documents import Document, Section
from engine.documents.by_section import (
    NOTE_TOKENS,
    REASONING_TOKENS,
    Ask,
    Said,
    section_by_section,
)
from engine.documents.prompt import Sent, sent_from_json
from models.errors import Problem

QUESTION = "Which fruits are there?"


def document(name: str, pages: int, words: int = 190) -> Document:
    sections = tuple(
        Section("page", i, f"fruit{i} " + "word " * words) for i in range(1, pages + 1)
    )
    return Document(name, "pdf", name, sections)


def count(text: str) -> int:
    return len(text.split())


def played(
    documents: dict[int, Document], answer: Callable[[Ask], str | Said], *, room: int = 1200
) -> tuple[list[Ask], Sent]:
    """All that is asked, where `answer` answers; and the message that is answered at last."""
    asks = section_by_section(QUESTION, documents, count=count, room=room)
    asked = list[Ask]()
    try:
        ask = next(asks)
        while True:
            asked.append(ask)
            said = answer(ask)
            ask = asks.send(Said(said) if isinstance(said, str) else said)
    except StopIteration as end:
        return asked, end.value


def fruits(text: str) -> str:
    found = [word for word in text.split() if word.startswith("fruit") and word[5:].isdigit()]
    return " ".join(found)


def told(ask: Ask) -> str:
    return fruits(ask.prompt)


def test_every_part_of_a_table_has_its_header_and_fits() -> None:
    rows = ["number | fruit | price per kilogram", *(f"{n} | fruit{n} | {n}" for n in range(900))]
    sections = tuple(
        Section("sheet", 1 + at, "\n".join(rows[at : at + 50]), "One") for at in range(0, 901, 50)
    )
    parts, _ = played({1: Document("a.xlsx", "xlsx", "00", sections)}, told, room=1800)
    assert len(parts) > 1
    for part in parts:
        assert part.prompt.count("price per kilogram") == 1
        assert count(part.prompt) <= 1800 + count(QUESTION)


def test_every_part_is_asked_once_and_the_notes_at_last() -> None:
    parts, sent = played({1: document("a.pdf", 20), 2: document("b.pdf", 2)}, told)
    assert [ask.number for ask in parts] == list(range(1, len(parts) + 1))
    assert {ask.among for ask in parts} == {len(parts)}
    found = " ".join(map(told, parts)).split()
    assert found == [f"fruit{i}" for i in (*range(1, 21), 1, 2)]
    assert fruits(sent.text).split() == found
    assert parts[0].place == "a.pdf, page 1 to page 5"
    for text in (*(ask.prompt for ask in parts), sent.text):
        assert QUESTION in text
        assert count(text) <= 1200 + count(QUESTION)


def test_notes_are_of_one_document_each_and_can_be_kept_and_deleted() -> None:
    parts, sent = played({1: document("a.pdf", 20), 2: document("b.pdf", 2)}, told)
    assert sent.question == QUESTION
    assert [(one.name, one.notes, one.among) for one in sent.documents] == [
        ("a.pdf", len(parts) - 1, len(parts) - 1),
        ("b.pdf", 1, 1),
    ]
    assert all(one.noted and not one.deleted and not one.whole for one in sent.documents)
    assert fruits(sent.given(2)) == "fruit1 fruit2"
    assert sent_from_json(sent.to_json()) == sent
    rest = sent.without(1)
    assert fruits(rest.text) == "fruit1 fruit2"
    assert [one.deleted for one in rest.documents] == [True, False]
    assert rest.question == QUESTION


def test_before_each_part_there_is_a_message_with_the_notes_so_far() -> None:
    parts, _ = played({1: document("a.pdf", 20)}, told)
    noted = [(one.notes, one.among) for ask in parts for one in ask.sent.documents]
    assert noted == [(n, len(parts)) for n in range(len(parts))]
    for n, ask in enumerate(parts):
        assert ask.sent.question == QUESTION
        assert fruits(ask.sent.text) == " ".join(map(told, parts[:n]))


def test_a_part_that_has_nothing_leaves_no_note() -> None:
    def answer(ask: Ask) -> str:
        return "Two of them." if ask.number == 2 else " Nothing."

    _, sent = played({1: document("a.pdf", 20)}, answer)
    assert "Two of them." in sent.text
    assert "Nothing" not in sent.text
    assert sent.documents[0].notes == sent.documents[0].among


@pytest.mark.parametrize(
    "word", ["Nothing", "“Nothing.”", '"Nothing."', "**Nothing.**", "nothing!"]
)
def test_the_word_alone_is_no_note(word: str) -> None:
    _, sent = played({1: document("a.pdf", 2)}, lambda ask: word)
    assert word not in sent.text


@pytest.mark.parametrize(
    "note",
    [
        "Nothing was decided on the merger; the budget of 4 million was approved.",
        "Nothing.\nBut on page 2: 40 plums.",
        "Nothingness is mentioned twice.",
    ],
)
def test_a_note_may_begin_with_that_word(note: str) -> None:
    _, sent = played({1: document("a.pdf", 2)}, lambda ask: note)
    assert note in sent.text


def reasoning(ask: Ask) -> Said:
    """Says something behind reasoning, where there are tokens for both."""
    return Said("A plum." if ask.most_tokens > NOTE_TOKENS else None, reasoned=True)


def test_reasoning_has_tokens_of_its_own() -> None:
    asked, sent = played({1: document("a.pdf", 20)}, reasoning)
    among = asked[0].among
    assert [ask.number for ask in asked] == [1, *range(1, among + 1)]
    assert asked[1].prompt == asked[0].prompt
    most = [ask.most_tokens for ask in asked]
    assert most == [NOTE_TOKENS, *[NOTE_TOKENS + REASONING_TOKENS] * among]
    assert sent.text.count("A plum.") == among


def test_a_first_note_that_reasoning_left_few_tokens_is_made_again() -> None:
    def answer(ask: Ask) -> Said:
        return Said("A pl" if ask.most_tokens == NOTE_TOKENS else "A plum.", reasoned=True)

    asked, sent = played({1: document("a.pdf", 20)}, answer)
    assert len(asked) == asked[0].among + 1
    assert sent.text.count("A plum.") == asked[0].among


def test_tokens_for_reasoning_make_no_note_longer() -> None:
    said = Said("so " * 900, reasoned=True)
    _, sent = played({1: document("a.pdf", 60)}, lambda ask: said)
    assert max(map(count, sent.text.split("\n"))) <= NOTE_TOKENS


def test_reasoning_without_an_end_is_refused() -> None:
    asked = list[Ask]()

    def answer(ask: Ask) -> Said:
        asked.append(ask)
        return Said(None, reasoned=True)

    with pytest.raises(Problem) as refused:
        played({1: document("a.pdf", 20)}, answer)
    assert refused.value.remedy
    assert len(asked) == 2


def test_notes_that_are_too_long_are_read_again() -> None:
    documents = {1: document("a.pdf", 60), 2: document("b.pdf", 1)}
    asked, sent = played(documents, lambda ask: f"note of {ask.place} " + "so " * 250)
    again = [ask for ask in asked if ask.place.startswith("notes on a.pdf")]
    assert again
    assert all("note of a.pdf" in ask.prompt for ask in again)
    assert again[0].place.startswith("notes on a.pdf, page 1 to page ")
    assert count(sent.text) <= 1200 + count(QUESTION)
    assert "note of notes on a.pdf" in sent.given(1)
    assert "note of b.pdf" in sent.given(2)
    lengths = [count(ask.sent.text) for ask in again]
    assert lengths == sorted(lengths, reverse=True), "what was read again takes the place of it"


def test_notes_on_too_many_documents_are_refused() -> None:
    documents = {n: document(f"{n}.pdf", 1) for n in range(1, 9)}
    with pytest.raises(Problem):
        played(documents, lambda ask: "so " * 250)


def test_a_document_without_text_has_no_part() -> None:
    empty = Document("scan.pdf", "pdf", "0", (Section("page", 1, ""),))
    assert played({1: empty}, told) == ([], Sent(QUESTION))


def test_without_room_there_is_a_clear_line() -> None:
    with pytest.raises(Problem):
        played({1: document("a.pdf", 2)}, told, room=300)
