"""A question that is asked of every part of a document, then of the notes."""

from collections.abc import Callable

import pytest

from engine.documents import Document, Section
from engine.documents.by_section import Ask, section_by_section
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
    documents: dict[int, Document], answer: Callable[[Ask], str], *, room: int = 1200
) -> list[Ask]:
    """All that is asked, where `answer` answers."""
    asks = section_by_section(QUESTION, documents, count=count, room=room)
    asked = [next(asks)]
    while asked[-1].place:
        asked.append(asks.send(answer(asked[-1])))
    assert next(asks, None) is None
    return asked


def fruits(ask: Ask) -> str:
    found = [word for word in ask.prompt.split() if word.startswith("fruit") and word[5:].isdigit()]
    return " ".join(found)


def test_every_part_is_asked_once_and_the_notes_at_last() -> None:
    asked = played({1: document("a.pdf", 20), 2: document("b.pdf", 2)}, fruits)
    *parts, last = asked
    assert [ask.number for ask in parts] == list(range(1, len(parts) + 1))
    assert {ask.among for ask in parts} == {len(parts)}
    told = " ".join(map(fruits, parts)).split()
    assert told == [f"fruit{i}" for i in (*range(1, 21), 1, 2)]
    assert fruits(last).split() == told
    assert parts[0].place == "a.pdf, page 1 to page 5"
    for ask in asked:
        assert QUESTION in ask.prompt
        assert count(ask.prompt) <= 1200 + count(QUESTION)


def test_a_part_that_has_nothing_leaves_no_note() -> None:
    def answer(ask: Ask) -> str:
        return "Two of them." if ask.number == 2 else " Nothing."

    last = played({1: document("a.pdf", 20)}, answer)[-1]
    assert "Two of them." in last.prompt
    assert "Nothing" not in last.prompt


def test_notes_that_are_too_long_are_read_again() -> None:
    asked = played({1: document("a.pdf", 60)}, lambda ask: f"note of {ask.place} " + "so " * 250)
    again = [ask for ask in asked if ask.place.startswith("notes")]
    assert again
    assert all("note of a.pdf" in ask.prompt for ask in again)
    assert count(asked[-1].prompt) <= 1200 + count(QUESTION)


def test_a_document_without_text_has_no_part() -> None:
    empty = Document("scan.pdf", "pdf", "0", (Section("page", 1, ""),))
    (last,) = played({1: empty}, fruits)
    assert last.prompt.endswith(QUESTION)


def test_without_room_there_is_a_clear_line() -> None:
    with pytest.raises(Problem):
        played({1: document("a.pdf", 2)}, fruits, room=300)
