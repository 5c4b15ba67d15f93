"""How many guesses were copied from documents, and how many of them stood."""

from dataclasses import replace

from app.documents.copied_guesses import CopiedGuesses, copied_guesses
from engine.documents.prompt import Attached, write_message
from engine.events import Draft, Event, Source, Verdict
from tests.support.app.made_traces import made_trace
from tests.support.documents.marked_answers import MANUAL

SENT = write_message("What does it say?", [Attached(1, MANUAL)])
INSIDE = SENT.text.index("harmonic")
QUESTION = SENT.text.index("What does")


def trace(source: Source | None) -> list[Event]:
    """Rounds whose drafts are all from there."""
    events = made_trace("one two three four five six seven eight nine ten")
    return [replace(e, source=source) if isinstance(e, Draft) else e for e in events]


def of(source: Source | None) -> CopiedGuesses:
    return copied_guesses(trace(source), [None, SENT])


def test_guesses_from_a_document_are_counted_with_those_that_stood() -> None:
    events = trace(Source(1, INSIDE))
    drafted = {event.round for event in events if isinstance(event, Draft)}
    verdicts = [e for e in events if isinstance(e, Verdict) and e.round in drafted]
    assert drafted
    assert of(Source(1, INSIDE)) == CopiedGuesses(
        sum(len(verdict.judgements) for verdict in verdicts),
        sum(verdict.accepted for verdict in verdicts),
    )


def test_others_are_not() -> None:
    for source in (None, Source(0, INSIDE), Source(7, INSIDE), Source(1, QUESTION)):
        assert of(source) == CopiedGuesses()
        assert str(of(source)) == ""


def test_they_are_said_in_a_line() -> None:
    assert str(CopiedGuesses(40, 18)) == "18 of 40 guesses copied from documents stood"
