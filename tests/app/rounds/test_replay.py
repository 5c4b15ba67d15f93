"""A replay goes from nothing to the whole answer, a round at a time."""

from hypothesis import given

from app.rounds.trace import Replay, pieces
from engine.events import Done, Event, Text
from engine.rounds import judged
from engine.stats import tally
from tests.support.app.traces import recorded, text_of, traces


@given(events=traces())
def test_places_grow_round_by_round(events: tuple[Event, ...]) -> None:
    replay = Replay(events)
    assert replay.rounds == judged(events)
    for place in range(len(replay)):
        until = replay.events_until(place)
        assert tally(until).rounds == place
        assert len(replay.pieces_until(place)) == len(pieces(until))
        assert len(until) <= len(replay.events_until(place + 1))
        numbers = {piece.round for piece in replay.pieces_until(place)}
        assert numbers == {one.number for one in replay.rounds[:place]}


@given(events=traces())
def test_the_last_place_is_the_whole_answer(events: tuple[Event, ...]) -> None:
    replay = Replay(events)
    assert replay.events_until(len(replay)) == events
    assert replay.pieces_until(len(replay)) == pieces(events)


def test_a_recorded_answer() -> None:
    replay = Replay(recorded("stories_early_exit.jsonl"))
    assert len(replay) == 42
    assert text_of(replay.events_until(3)) == "named Lily. She"
    assert text_of(replay.events_until(0)) == ""
    done = replay.events[-1]
    assert isinstance(done, Done)
    assert done.stats == tally(replay.events_until(42))


def test_text_without_rounds_is_replayed_too() -> None:
    replay = Replay([Text("g", "old")])
    assert len(replay) == 0
    assert [piece.text for piece in replay.pieces_until(0)] == ["old"]
