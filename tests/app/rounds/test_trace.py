"""A trace keeps its laws for any events, and can be replayed a round at a time."""

import json
from collections import Counter
from dataclasses import replace
from operator import attrgetter

from hypothesis import given

from app.rounds.trace import Piece, Replay, Trace, to_document
from engine.conversation.rounds import Token, judged
from engine.conversation.stats import tally
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
)
from tests.support.app.store_samples import round_of
from tests.support.app.traces import recorded, text_of, traces, tree_round


def written(found):
    return "".join(piece.text for piece in found if piece.written)


@given(events=traces())
def test_what_was_not_rejected_is_the_answer_and_what_is_final_stays(events):
    trace, before = Trace(), ()
    for end, event in enumerate(events, start=1):
        trace.push(event)
        assert written(trace.pieces) == written(trace.final) == text_of(events[:end])
        assert trace.final[: len(before)] == before
        before = trace.final
    assert trace.pieces[: len(before)] == before
    assert tuple(trace.events) == events
    values = json.loads(to_document(events))
    assert tuple(from_json(json.dumps(value)) for value in values) == events


@given(events=traces())
def test_a_piece_has_what_the_engine_said_of_its_token(events):
    pieces, rounds, stats = Trace(events).pieces, judged(events), tally(events)
    found = [piece for piece in pieces if piece.written]
    addresses = [(one.number, index) for one in rounds for index in range(len(one.committed))]
    by_address = dict(zip(addresses, found, strict=True))
    for text in events:
        if isinstance(text, Text):
            place = 0
            for span in text.spans:
                piece = by_address[span.round, span.index]
                assert piece.round == span.round
                assert piece.text == text.delta[place : place + span.length]
                place += span.length
    kinds = Counter(piece.kind for piece in pieces)
    fates = Counter(token.fate for one in rounds for token in one.tokens)
    counted = (stats.corrections, stats.bonuses, stats.plain, stats.forced)
    assert tuple(kinds[kind] for kind in ("correction", "bonus", "plain", "forced")) == counted
    assert kinds["accepted"] == fates["accepted"] == stats.accepted
    assert (fates["rejected"], fates["discarded"]) == (stats.rejected, stats.discarded)
    assert len([one for one in rounds if not one.verdict.forced]) == stats.rounds


@given(events=traces())
def test_rejected_pieces_stand_in_draft_order_before_the_correction_as_its_alternatives(events):
    found = Trace(events).pieces
    assert [piece.round for piece in found] == sorted(piece.round for piece in found)
    for one in judged(events):
        of_round = [piece for piece in found if piece.round == one.number]
        drafted = [piece for piece in of_round if piece.position]
        assert drafted == [piece for piece in of_round if piece.q is not None]
        assert [piece.position for piece in drafted] == list(range(1, len(drafted) + 1))
        dropped = [piece for piece in drafted if not piece.written]
        accepted = [piece for piece in drafted if piece.kind == "accepted"]
        assert accepted + dropped == drafted
        assert bool(dropped) == (of_round[-1].kind == "correction")
        assert [piece.kind for piece in dropped] == ["rejected", *["discarded"] * len(dropped)][
            : len(dropped)
        ]
        path = one.best_path if dropped else one.best_path[: len(accepted)]
        assert [piece.q for piece in drafted] == [token.q for token in path]
        assert [piece.text for piece in dropped] == [t.text for t in path[len(accepted) :]]
        assert not any(piece.alternatives for piece in dropped)
        tried = [other for piece in of_round for other in piece.alternatives]
        rejected = [token for token in one.drafted if token.fate == "rejected"]
        key = attrgetter("text", "q", "p", "parent")
        assert Counter(map(key, tried)) == Counter(map(key, rejected))
        tokens = [token for token in one.drafted if token.fate == "accepted"]
        for piece, token in zip(of_round, tokens, strict=False):
            assert {other.parent for other in piece.alternatives} <= {token.parent}


def verdict(number, chances, accepted, own):
    judgements = tuple(TokenVerdict(chance / 2, chance) for chance in chances)
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 3")


def draft(number, *texts):
    return Draft("g", number, tuple(DraftedToken(7, text, 0.5) for text in texts), "model")


CAT = Token(7, " cat", "rejected", 0.5, 0.1, 0.2, parent=0)


def test_a_round_by_hand():
    events = [
        draft(1, "The", " cat", " sat"),
        verdict(1, [1.0, 0.2, 0.4], 1, WrittenToken(3, " dog", 0.75, "correction")),
        Text("g", "The dog", (Span(1, 0, 3), Span(1, 1, 4))),
        verdict(2, [], 0, WrittenToken(4, " ran", 0.5, "plain")),
        Text("g", " ran", (Span(2, 0, 4),)),
    ]
    assert Trace(events).pieces == (
        Piece("The", "accepted", 1, 1, 0.5, 0.5, 1.0, "model"),
        Piece(" cat", "rejected", 1, 2, 0.1, 0.5, 0.2, "model"),
        Piece(" sat", "discarded", 1, 3, 0.2, 0.5, 0.4, "model"),
        Piece(" dog", "correction", 1, 0, 0.75, None, None, "model", alternatives=(CAT,)),
        Piece(" ran", "plain", 2, 0, 0.5, None, None, ""),
    )


def test_a_tree_by_hand():
    _, judged = tree_round(
        4,
        *((" a", -1, 0.6), (" the", -1, 0.75), (" dog", 1, 0.5), (" cat", 1, 0.5)),
        *((" ran", 2, 0.9), (" sat", 3, 0.4), (" lay", 3, 0.2), (" on", 5, 0.9)),
        path=(1, 3),
    )
    draft = Draft(
        *("g", 4, tuple(DraftedToken(t.id, t.text, t.q or 0.0) for t in judged.drafted), "head"),
        judged.tree.parents,
    )
    pieces = Trace([draft, judged.verdict, Text("g", " the cat own", _spans(4, 4, 4, 4))]).pieces
    assert [(piece.text, piece.kind, piece.position) for piece in pieces] == [
        (" the", "accepted", 1),
        (" cat", "accepted", 2),
        (" sat", "rejected", 3),
        (" on", "discarded", 4),
        (" own", "correction", 0),
    ]
    assert [[(t.text, t.q, t.p) for t in piece.alternatives] for piece in pieces] == [
        [(" a", 0.6, 0.3)],
        [(" dog", 0.5, 0.25)],
        [],
        [],
        [(" sat", 0.4, 0.2), (" lay", 0.2, 0.1)],
    ]


def _spans(number, *lengths):
    return tuple(Span(number, index, length) for index, length in enumerate(lengths))


def test_a_drafters_own_confidence_stays_with_its_piece():
    event = Draft("g", 1, (DraftedToken(7, "The", 0.5, 0.25),), "DSpark")
    own = WrittenToken(3, " dog", 0.75, "bonus")
    pieces = Trace([event, verdict(1, [1.0], 1, own)]).pieces
    assert [piece.confidence for piece in pieces] == [0.25, None]


def test_a_text_has_the_tokens_of_its_spans_alone():
    """No search in the text could tell which of two equal tokens was left out."""
    for drafted, text, lengths, pieces in (
        (("a", "a"), "ab", (0, 1, 1), ["", "a", "b"]),
        (("one.\nU", "ser", ":"), "one.", (4, 0, 0, 0), ["one.", "", "", ""]),  # a stop string
    ):
        own = WrittenToken(3, "b", 0.9, "bonus")
        events = [
            draft(1, *drafted),
            verdict(1, [1] * len(drafted), len(drafted), own),
            Text("g", text, _spans(1, *lengths)),
        ]
        assert [piece.text for piece in Trace(events).pieces] == pieces


def test_drafts_behind_an_end_of_text_were_not_rejected():
    events = [draft(1, "so", "<end>", "and"), verdict(1, [1, 1, 1], 2, None)]
    assert [piece.kind for piece in Trace(events).pieces] == ["accepted", "accepted"]


def test_text_of_no_known_token_is_not_lost():
    plain = verdict(1, [], 0, WrittenToken(3, " x", 0.5, "plain"))
    events = [Text("", "from elsewhere"), plain, Text("g", " x", (Span(1, 0, 2),))]
    assert [(piece.text, piece.round) for piece in Trace(events).pieces] == [
        ("from elsewhere", 0),
        (" x", 1),
    ]
    assert [piece.text for piece in Replay(events[:1]).pieces_until(0)] == ["from elsewhere"]
    of_no_round = [plain, Text("g", "x", (Span(7, 0, 1),))]
    assert [(piece.text, piece.round) for piece in Trace(of_no_round).pieces] == [("", 1), ("x", 0)]


@given(events=traces())
def test_places_grow_round_by_round_to_the_whole_answer(events):
    replay = Replay(events)
    assert replay.rounds == judged(events)
    assert len(replay.stats) == len(replay) + 1
    for place in range(len(replay)):
        judged_by_then = tally(each.verdict for each in replay.rounds[:place] if each.verdict)
        assert replay.stats[place].committed == judged_by_then.committed
        numbers = {piece.round for piece in replay.pieces_until(place)}
        assert numbers == {one.number for one in replay.rounds[:place]}
    assert replay.stats[-1] == tally(events) == Trace(events).stats
    assert replay.pieces_until(len(replay)) == Trace(events).pieces


def test_a_recorded_answer():
    replay = Replay(recorded("stories_early_exit.jsonl"))
    assert len(replay) == 42
    assert written(replay.pieces_until(3)) == "named Lily. She"
    assert replay.pieces_until(0) == ()
    done = replay.events[-1]
    assert isinstance(done, Done)
    known = replace(replay.stats[42], plain_round_seconds=())
    assert done.stats == known  # an earlier version wrote it


def test_lines_stand_behind_the_pieces_at_their_places():
    events = [Text("g", "one two"), *round_of(1, "x "), Text("g", "three")]
    replay = Replay(events, [(7, "read_file a.md"), (7, "add 1"), (11, "read_file b.md")])
    texts = [piece.text for piece in replay.pieces]
    assert texts == ["one two", "x ", "x ", "three"]
    assert list(replay.lines) == [0, 2]
    assert [line.split("\n")[1] for line in replay.lines.values()] == [
        "▸ read_file a.md",
        "▸ read_file b.md",
    ]
    assert "▸ add 1" in replay.lines[0]
