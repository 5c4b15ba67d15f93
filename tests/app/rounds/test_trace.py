"""Folding keeps the laws whatever the events, and lines survive being cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rounds.trace import (
    Folder,
    Piece,
    from_lines,
    pieces,
    rounds,
    to_document,
    to_lines,
)
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Event,
    Judgement,
    Stats,
    Text,
    Verdict,
    WrittenToken,
    from_json,
)
from engine.stats import tally
from tests.app.rounds.traces import text_of, traces


def written(found: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in found if piece.kind != "rejected")


@given(events=traces())
def test_what_was_not_rejected_is_the_answer(events: tuple[Event, ...]) -> None:
    folder = Folder()
    for end, event in enumerate(events, start=1):
        folder.push(event)
        assert written(folder.pieces) == text_of(events[:end])


@given(events=traces())
def test_a_push_says_what_it_left_alone(events: tuple[Event, ...]) -> None:
    folder, seen = Folder(), list[Piece]()
    for event in events:
        kept = folder.push(event)
        seen[kept:] = folder.since(kept)
        assert tuple(seen) == folder.pieces
        assert len(folder) == len(seen)


@given(events=traces())
def test_pieces_and_rounds_agree_with_the_figures(events: tuple[Event, ...]) -> None:
    stats, found, judged = tally(events), pieces(events), rounds(events)
    kinds = [piece.kind for piece in found]
    assert kinds.count("accepted") == stats.accepted
    assert kinds.count("correction") == stats.corrections
    assert kinds.count("bonus") == stats.bonuses
    assert kinds.count("plain") == stats.plain
    fates = [fate for one in judged for fate in one.fates]
    assert fates.count("accepted") == stats.accepted
    assert fates.count("rejected") == stats.rejected
    assert fates.count("discarded") == stats.discarded
    assert len(judged) == stats.rounds


@given(events=traces())
def test_rejected_pieces_stand_in_draft_order_before_the_correction(
    events: tuple[Event, ...],
) -> None:
    found = pieces(events)
    assert [piece.round for piece in found] == sorted(piece.round for piece in found)
    for one in rounds(events):
        of_round = [piece for piece in found if piece.round == one.number]
        drafted = [piece for piece in of_round if piece.position]
        assert [piece.position for piece in drafted] == list(range(1, len(drafted) + 1))
        fallen = [piece for piece in drafted if piece.kind == "rejected"]
        assert drafted[: one.accepted] + fallen == drafted
        assert bool(fallen) == (of_round[-1].kind == "correction")
        texts = [token.text for token in one.drafted[one.accepted :]]
        assert [piece.text for piece in fallen] == (texts if fallen else [])
        assert all(piece.q == one.drafted[piece.position - 1].q for piece in drafted)


@given(events=traces())
def test_lines_are_the_events(events: tuple[Event, ...]) -> None:
    assert from_lines(to_lines(events)) == events


@given(events=traces(), data=st.data())
def test_a_cut_last_line_costs_itself_only(events: tuple[Event, ...], data: st.DataObject) -> None:
    lines = to_lines(events)
    cut = data.draw(st.integers(0, len(lines)))
    kept = from_lines(lines[:cut])
    assert kept == events[: len(kept)]
    assert len(kept) >= lines[:cut].count("\n")


@given(
    lines=st.text()
    | st.lists(st.sampled_from(['{"event": "text"}', "[]", "{", "", "\x00"])).map("\n".join)
)
def test_whatever_is_read_is_events_or_refused(lines: str) -> None:
    try:
        events = from_lines(lines)
    except ValueError as error:
        assert "not an event" in str(error)  # noqa: PT017
    else:
        assert from_lines(to_lines(events)) == events


def test_a_bad_line_in_the_middle_is_no_cut() -> None:
    good = to_lines([Text("g", "a")])
    with pytest.raises(ValueError, match="not an event"):
        from_lines(good + "nonsense\n" + good)


@given(events=traces())
def test_the_document_is_one_json_array(events: tuple[Event, ...]) -> None:
    values = json.loads(to_document(events))
    assert tuple(from_json(json.dumps(value)) for value in values) == events


def verdict(number: int, chances: list[float], accepted: int, own: WrittenToken | None) -> Verdict:
    judgements = tuple(Judgement(chance / 2, chance) for chance in chances)
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 3")


def draft(number: int, *texts: str) -> Draft:
    return Draft("g", number, tuple(DraftedToken(7, text, 0.5) for text in texts), "model")


def test_a_round_by_hand() -> None:
    events: list[Event] = [
        draft(1, "The", " cat", " sat"),
        verdict(1, [1.0, 0.2, 0.4], 1, WrittenToken(3, " dog", 0.75, "correction")),
        Text("g", "The dog"),
        verdict(2, [], 0, WrittenToken(4, " ran", 0.5, "plain")),
        Text("g", " ran"),
    ]
    assert pieces(events) == (
        Piece("The", "accepted", 1, 1, 0.5, 0.5, 1.0, "model"),
        Piece(" cat", "rejected", 1, 2, 0.1, 0.5, 0.2, "model"),
        Piece(" sat", "rejected", 1, 3, 0.2, 0.5, 0.4, "model"),
        Piece(" dog", "correction", 1, 0, 0.75, None, None, "model"),
        Piece(" ran", "plain", 2, 0, 0.5, None, None, ""),
    )
    assert rounds(events)[0].fates == ("accepted", "rejected", "discarded")


def test_a_character_in_two_halves_belongs_to_the_second() -> None:
    events: list[Event] = [
        draft(1, "a \ufffd", "\ufffd", "b"),
        verdict(1, [1, 1, 1], 3, WrittenToken(3, "<end>", 0.9, "bonus")),
        Text("g", "a éb"),
    ]
    assert [piece.text for piece in pieces(events)] == ["a ", "é", "b", ""]


def test_what_a_stop_string_cut_off_gives_nothing() -> None:
    events: list[Event] = [
        draft(1, "one", "\nUser", ":"),
        verdict(1, [1, 1, 1], 3, WrittenToken(3, " two", 0.9, "bonus")),
        Text("g", "one"),
        Done("g", "stop", Stats(), cut="\nUser: two"),
    ]
    assert [piece.text for piece in pieces(events)] == ["one", "", "", ""]


def test_drafts_behind_an_end_of_text_were_not_rejected() -> None:
    events: list[Event] = [draft(1, "so", "<end>", "and"), verdict(1, [1, 1, 1], 2, None)]
    assert [piece.kind for piece in pieces(events)] == ["accepted", "accepted"]
    assert rounds(events)[0].fates == ("accepted", "accepted", "discarded")


def test_a_draft_of_another_round_is_not_judged() -> None:
    own = WrittenToken(3, "x", 0.9, "plain")
    (one,) = rounds([draft(1, "lost"), verdict(2, [], 0, own)])
    assert (one.drafted, one.drafter) == ((), "")


def test_text_without_tokens_is_not_lost() -> None:
    (piece,) = pieces([Text("g", "from "), Text("g", "nowhere")])
    assert (piece.text, piece.kind, piece.round) == ("from nowhere", "plain", 0)
