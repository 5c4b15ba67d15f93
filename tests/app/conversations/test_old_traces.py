"""Conversations that were stored before texts had spans open with their provenance as it was."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given

from app.conversations.old_traces import with_spans
from app.conversations.store import Store
from app.rounds.trace import Trace
from engine.conversation.rounds import judged
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio, against_plain, tally
from engine.events import Done, Event, Text
from tests.support.app.made_traces import made_trace
from tests.support.app.traces import text_of, traces

DATA = Path(__file__).parents[1] / "data"
# A file of protocol 1, and the pieces (text, kind, round, position) that its version showed of
# each of its answers: drafted by two drafters, of bytes and with a stop string, sampled at 3.0,
# cancelled, failed, interrupted, and going on with another answer or an imported text.
OLD = DATA / "old_conversations.sqlite"
PIECES: dict[str, list[list[object]]] = json.loads((DATA / "old_pieces.json").read_text())


def test_an_old_answer_is_shown_as_it_was(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "conversations.sqlite")
    with Store.open(tmp_path / "conversations.sqlite") as store:
        messages = {answer: store.message(int(answer)).result() for answer in PIECES}
        traces = {answer: store.trace(int(answer)).result() for answer in PIECES}
    for answer, events in traces.items():
        assert text_of(events) == messages[answer].content
        check_laws(events)
        # That version called a discarded token rejected, too.
        found = [
            [piece.text, piece.kind if piece.written else "rejected", piece.round, piece.position]
            for piece in Trace(events).pieces
        ]
        assert found == PIECES[answer]
        assert all(one.tree.is_chain for one in judged(events)), "there were no trees then"
        stats = tally(events)
        assert stats.reference_seconds == ()
        own = stats.plain >= ENOUGH_PLAIN_ROUNDS and stats.proposed > 0
        assert own or isinstance(against_plain(stats), NoRatio), "only from its own plain rounds"


def check_laws(events: Sequence[Event]) -> None:
    """Those of `engine.events` on spans; text of no known token comes before the first verdict."""
    told: list[tuple[int, int]] = []
    for end, event in enumerate(events):
        numbers = [
            (one.number, n) for one in judged(events[:end]) for n in range(len(one.committed))
        ]
        if isinstance(event, Text) and (event.spans or numbers):
            assert sum(span.length for span in event.spans) == len(event.delta)
            told += [(span.round, span.index) for span in event.spans]
            assert told == numbers[: len(told)]
            assert event.delta or isinstance(events[end + 1], Done)
        elif isinstance(event, Done):
            assert told == numbers


def without_spans(events: Sequence[Event]) -> tuple[Event, ...]:
    bare = (replace(event, spans=()) if isinstance(event, Text) else event for event in events)
    return tuple(event for event in bare if not (isinstance(event, Text) and not event.delta))


@given(events=traces())
def test_what_is_found_again_keeps_the_laws(events: tuple[Event, ...]) -> None:
    found = with_spans(without_spans(events))
    assert text_of(found) == text_of(events)
    assert [e for e in found if not isinstance(e, Text)] == [
        e for e in events if not isinstance(e, Text)
    ]
    check_laws(found)


def test_tokens_that_spell_their_text_are_found_where_they_were() -> None:
    for seed in range(5):
        events = made_trace("An answer of some words, and of some more. " * 20, seed=seed)
        assert with_spans(without_spans(events)) == events


@given(events=traces())
def test_a_trace_of_today_stays_as_it_is(events: tuple[Event, ...]) -> None:
    assert with_spans(events) == events
