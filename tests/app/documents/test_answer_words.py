"""What is known of the words of an answer, as values."""

import pytest

from app.documents.answer_words import AnswerWords, place_in_words, sentence, words_of
from engine.documents import Document, Section
from engine.documents.copied import CopiedPlace, WordIndex
from tests.support.documents.marked_answers import CONTRACT, DOCUMENTS

INDEXES = {number: WordIndex(document.text) for number, document in DOCUMENTS.items()}
COPY = "The Seller warrants the pumps for 36 months from acceptance"


def of(answer: str, *said: str) -> AnswerWords:
    return words_of(answer, documents=DOCUMENTS, indexes=INDEXES, said=said)


def test_copied_and_missing_words_are_told_with_their_places() -> None:
    answer = f"It says: {COPY}, so Peter Stern says."
    found = of(answer)
    assert [answer[span.start : span.end] for span in found.copied] == [COPY]
    assert [answer[each.start : each.end] for each in found.missing] == ["Peter Stern"]
    (tip,) = found.tips
    assert "contract.pdf, page 3" in tip
    assert f"{COPY}." in tip
    assert "word for word: contract.pdf p. 3" in found.line
    assert "1 not found" in found.line


def test_what_the_person_said_is_not_missing() -> None:
    assert of("So Peter Stern says.", "What does Peter Stern say?").missing == ()


def test_what_was_thought_aloud_is_no_part_of_the_answer() -> None:
    thought = f"<think>{COPY}, and Peter Stern?</think>"
    answer = f"{thought}\n\nIt says: {COPY}."
    found = of(answer)
    (span,) = found.copied
    assert span.start == answer.rindex(COPY)
    assert found.missing == ()
    assert found.line == of(f"It says: {COPY}.").line


def test_of_an_answer_with_nothing_of_either_there_is_no_line() -> None:
    assert of("Nothing to say.") == AnswerWords()


def test_places_in_several_documents_are_all_told() -> None:
    (tip,) = of("This agreement is governed by the laws of England and Wales.").tips
    assert [line[0] for line in tip.splitlines()[:2]] == ["A", "C"]


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("One. Two three four. Five.", "three", "Two three four."),
        ("Head\n\nTwo\nthree.", "three", "Two three."),
        ("One. Two three. Four.", "three.", "Two three."),
        ("a " * 200 + "here" + " b" * 200, "here", "here"),
        ("是。二三四。五", "三", "二三四。"),
    ],
)
def test_the_sentence_around_a_place(text: str, words: str, shown: str) -> None:
    start = text.index(words)
    found = sentence(text, start, start + len(words))
    assert shown in found
    assert len(found) < 400
    assert "\n" not in found
    assert len(text) > 100 or found == shown


def test_a_place_is_named_by_its_section_where_there_are_several() -> None:
    assert place_in_words(CopiedPlace(1, 0, 5), CONTRACT) == "contract.pdf, page 1"
    single = Document("a.txt", "text", "", (Section("lines", 1, "text"),))
    assert place_in_words(CopiedPlace(1, 0, 4), single) == "a.txt"
