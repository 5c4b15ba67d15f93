"""What is known of the words of an answer, as values."""

from dataclasses import replace

import pytest

from app.documents.answer_words import (
    AnswerWords,
    CopiedDrafts,
    copied_drafts,
    format_place,
    sentence,
    words_of,
)
from engine.documents import Document, Section
from engine.documents.copied import CopiedPlace, WordIndex
from engine.documents.prompt import Attached, write_message
from engine.events import Draft, Source, Verdict
from tests.support.app.made_traces import made_trace
from tests.support.documents.marked_answers import CONTRACT, DOCUMENTS, MANUAL

INDEXES = {number: WordIndex(document.text) for number, document in DOCUMENTS.items()}
COPY = "The Seller warrants the pumps for 36 months from acceptance"
SENT = write_message("What does it say?", [Attached(1, MANUAL)])
INSIDE = SENT.text.index("harmonic")
QUESTION = SENT.text.index("What does")


def of(answer, *said):
    return words_of(answer, documents=DOCUMENTS, indexes=INDEXES, said=said)


def test_copied_and_missing_words_are_told_with_their_places():
    answer = f"It says: {COPY}, so “Peter Stern” says."
    found = of(answer)
    assert [answer[span.start : span.end] for span in found.copied] == [COPY]
    assert [answer[each.start : each.end] for each in found.missing] == ["Peter Stern"]
    assert of(answer, "What does Peter Stern say?").missing == ()
    (tip,) = found.tips
    assert "contract.pdf, page 3" in tip
    assert f"{COPY}." in tip
    assert "word for word: contract.pdf p. 3" in found.line
    assert "1 not found" in found.line
    (tip,) = of("This agreement is governed by the laws of England and Wales.").tips
    assert [line[0] for line in tip.splitlines()[:2]] == ["A", "C"]
    assert of("Nothing to say.") == AnswerWords()
    assert format_place(CopiedPlace(1, 0, 5), CONTRACT) == "contract.pdf, page 1"
    single = Document("a.txt", "text", "", (Section("lines", 1, "text"),))
    assert format_place(CopiedPlace(1, 0, 4), single) == "a.txt"


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
def test_the_sentence_around_a_place(text, words, shown):
    start = text.index(words)
    found = sentence(text, start, start + len(words))
    assert shown in found
    assert len(found) < 400
    assert "\n" not in found
    assert len(text) > 100 or found == shown


def trace(source):
    """Rounds whose drafts are all from there."""
    events = made_trace("one two three four five six seven eight nine ten")
    return [replace(e, source=source) if isinstance(e, Draft) else e for e in events]


def guesses(source):
    return copied_drafts(trace(source), [None, SENT, "result"])


def test_drafts_from_a_document_are_counted_with_their_accepted_tokens():
    events = trace(Source(1, INSIDE))
    drafted = {event.round for event in events if isinstance(event, Draft)}
    verdicts = [e for e in events if isinstance(e, Verdict) and e.round in drafted]
    assert drafted
    counted = guesses(Source(1, INSIDE))
    assert counted == CopiedDrafts(
        sum(len(verdict.judgements) for verdict in verdicts),
        sum(verdict.accepted for verdict in verdicts),
    )
    assert str(counted).startswith(f"{counted.accepted} of {counted.drafted} ")
    assert guesses(Source(2, 0)) == counted, "and those from a result"
    for source in (None, Source(0, INSIDE), Source(7, INSIDE), Source(1, QUESTION)):
        assert guesses(source) == CopiedDrafts()
    assert str(CopiedDrafts()) == ""
