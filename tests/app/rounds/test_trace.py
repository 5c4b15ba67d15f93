"""A trace keeps its laws for any events, comes at a pace, can be replayed, and becomes a page."""

import json
import re
from collections import Counter
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rounds.pace import GATHER_SECONDS, SHOWN_SECONDS, Pace, PaceTimer
from app.rounds.replay_page import replay_page
from app.rounds.trace import Replay, Trace, to_document
from engine.conversation.rounds import judged
from engine.conversation.stats import tally
from engine.events import (
    Draft,
    DraftedToken,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
)
from tests.support.app.html_page import Page
from tests.support.app.store_samples import round_of
from tests.support.app.traces import made_round, recorded, text_of, traces


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
        values = [(token.q, token.p, token.chance, one.drafter) for token in path]
        assert [(piece.q, piece.p, piece.chance, piece.drafter) for piece in drafted] == values
        own = [piece.p for piece in of_round if not piece.position]
        assert own == [token.p for token in one.committed[len(accepted) :]]
        assert [piece.text for piece in dropped] == [t.text for t in path[len(accepted) :]]
        assert not any(piece.alternatives for piece in dropped)
        tried = [other for piece in of_round for other in piece.alternatives]
        rejected = [token for token in one.drafted if token.fate == "rejected"]
        key = attrgetter("text", "q", "p", "parent")
        assert Counter(map(key, tried)) == Counter(map(key, rejected))
        tokens = [token for token in one.drafted if token.fate == "accepted"]
        for piece, token in zip(of_round, tokens, strict=False):
            beside = [other for other in rejected if other.parent == token.parent]
            assert Counter(map(key, piece.alternatives)) == Counter(map(key, beside))


def verdict(number, chances, accepted, own):
    judgements = tuple(TokenVerdict(chance / 2, chance) for chance in chances)
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 3")


def draft(number, *texts):
    return Draft("g", number, tuple(DraftedToken(7, text, 0.5) for text in texts), "model")


def _spans(number, *lengths):
    return tuple(Span(number, index, length) for index, length in enumerate(lengths))


def read(events):
    return [(piece.text, piece.round, piece.kind) for piece in Trace(events).pieces]


@pytest.mark.parametrize(
    ("drafted", "text", "lengths", "pieces"),
    [
        pytest.param(("a", "a"), "ab", (0, 1, 1), ["", "a", "b"], id="of two equal tokens one"),
        pytest.param(("s.\nU", "r", ":"), "s.", (2, 0, 0, 0), ["s.", "", "", ""], id="cut off"),
    ],
)
def test_a_text_has_the_tokens_of_its_spans_alone(drafted, text, lengths, pieces):
    count, own = len(drafted), WrittenToken(3, "b", 0.9, "bonus")
    text = Text("g", text, _spans(1, *lengths))
    kinds = ["accepted"] * count + ["bonus"]
    found = read([draft(1, *drafted), verdict(1, [1] * count, count, own), text])
    assert found == [(piece, 1, kind) for piece, kind in zip(pieces, kinds, strict=True)]


def test_what_follows_an_end_was_not_rejected_and_text_of_no_known_token_is_not_lost():
    tokens = DraftedToken(7, "so", 0.5, 0.25), *draft(1, "<end>", "and").tokens
    pieces = Trace([Draft("g", 1, tokens, "DSpark"), verdict(1, [1, 1, 1], 2, None)]).pieces
    assert [(piece.kind, piece.confidence) for piece in pieces] == [
        ("accepted", 0.25),
        ("accepted", None),
    ]
    plain = verdict(1, [], 0, WrittenToken(3, " x", 0.5, "plain"))
    events = [Text("", "elsewhere"), plain, Text("g", " x", (Span(1, 0, 2),))]
    assert read(events) == [("elsewhere", 0, "plain"), (" x", 1, "plain")]
    assert [piece.text for piece in Replay(events[:1]).pieces_until(0)] == ["elsewhere"]
    of_no_round = [plain, Text("g", "x", (Span(7, 0, 1),))]
    assert read(of_no_round) == [("", 1, "plain"), ("x", 0, "plain")]


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


def test_lines_stand_after_the_pieces_at_their_places():
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


EVENTS = recorded("stories_early_exit.jsonl")


def test_it_has_every_round_with_its_tokens_and_calls():
    text = replay_page(Replay(EVENTS), title="A story", question="Tell a story")
    page = Page(text)
    data = json.loads(page.texts["data"])
    written = "".join(
        piece
        for one in data["rounds"]
        for piece, kind in one["pieces"]
        if kind not in ("rejected", "discarded")
    )
    assert written == text_of(EVENTS)
    assert len(data["rounds"]) == len(Replay(EVENTS))
    assert {kind for one in data["rounds"] for _, kind in one["pieces"]} > {"accepted", "rejected"}
    assert all(one["seconds"] > 0 for one in data["rounds"])
    assert (data["title"], data["question"]) == ("A story", "Tell a story")
    assert "tokens/s" in f"{data['gain']} {data['under']}"
    assert not dict(page.attributes).keys() & {"src", "href"}, "it needs nothing else"
    assert not re.search(r"https?:|@import|url\(", text)
    assert "default-src 'none'" in text
    assert json.loads(Page(replay_page(Replay(()), title="")).texts["data"])["rounds"] == []
    lines = [(len(text_of(EVENTS)), "read_file </script>\u202e")]
    data = json.loads(Page(replay_page(Replay(EVENTS, lines), title="A story")).texts["data"])
    assert data["rounds"][-1]["pieces"][-1] == ["\n▸ read_file </script>\n", "line"]


def test_texts_stay_texts():
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb"
    hostile = f"</script><script>alert(1)</script><!-- \u202e \u2028 &amp; {joined}"
    drafted = (DraftedToken(1, hostile, 0.5),)
    own = WrittenToken(2, hostile, 0.5, "correction")
    events = [
        Draft("g", 1, drafted, "model"),
        Verdict("g", 1, 0, (TokenVerdict(0.1, 0.2),), own, 0, 1, 1, "r"),
        Text("g", hostile, (Span(1, 0, len(hostile)),)),
    ]
    usual = Page(replay_page(Replay(EVENTS), title="t"))
    page = Page(replay_page(Replay(events), title=hostile, question=hostile))
    assert page.tags == usual.tags
    ((first, _), (second, _)) = json.loads(page.texts["data"])["rounds"][0]["pieces"]
    assert first == second
    assert "<script>" in first
    assert "\u202e" not in page.texts["data"]
    assert first.endswith(joined)


# Text and drafts are handed on together, at a rate that can be followed


class Shown(NamedTuple):
    """A time of handing on, with all text so far and the round after it."""

    at: float
    text: str
    round: object


def said_in(number):
    return f"<{number}>"


def play(rounds):
    """Play rounds, each of two times, a number of drafted tokens, and how many of them are
    accepted. Returns all that was handed on, and when the text of each round came."""
    pace, now, text = Pace(), 0.0, ""
    seen = []
    came = {}

    def wait(until):
        nonlocal text
        while (due := pace.due()) is not None and due <= until:
            delta, shown = pace.take(due)
            text += delta
            seen.append(Shown(due, text, shown))

    for number, (drafting, verifying, drafted, accepted) in enumerate(rounds, start=1):
        words = [f" {n}" for n in range(drafted)]
        draft, verdict = made_round(number, *words, accepted=min(accepted, drafted))
        now += drafting
        wait(now)
        if drafted:
            pace.push(draft, now)
        now += verifying
        wait(now)
        pace.push(verdict, now)
        pace.push(Text("g", said_in(number), ()), now)
        came[number] = now
    wait(now + 10.0)
    return seen, came


times = st.floats(0.0, 0.6)
games = st.lists(
    st.tuples(times, times, st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20
)


@given(game=games)
def test_all_text_is_handed_on_in_order_and_soon_and_a_draft_stands_after_the_text_before_it(game):
    seen, came = play(game)
    whole = "".join(map(said_in, range(1, len(game) + 1)))
    assert seen[-1].text == whole
    assert all(whole.startswith(each.text) for each in seen)
    for number, at in came.items():
        settled = next(each.at for each in seen if said_in(number) in each.text)
        assert settled <= at + 2 * SHOWN_SECONDS + GATHER_SECONDS + 1e-9
    for each in seen:
        if each.round is not None:
            last = each.round.number - (each.round.verdict is None)
            assert each.text == "".join(map(said_in, range(1, last + 1)))
    for before, after in pairwise(seen):  # drafts change ten times a second at most
        assert before.round is None or after.at - before.at >= SHOWN_SECONDS - 1e-9


def test_a_slow_round_shows_its_draft_its_rejection_and_then_the_next_draft():
    for drafting in (0.01, 0.0):  # after the verdict, and before that was handed on
        seen, _ = play([(0.5, 0.5, 3, 1), (drafting, 0.5, 2, 2)])
        shown = [(each.round.number, each.round.verdict is not None) for each in seen if each.round]
        assert shown == [(1, False), (1, True), (2, False), (2, True)]


def test_of_fast_rounds_the_newest_draft_is_shown():
    seen, _ = play([(0.002, 0.008, 2, 2)] * 100)
    drafts = [each.round.number for each in seen if each.round and each.round.verdict is None]
    assert len(seen) <= 13
    assert drafts[0] == 1
    assert all(later - earlier > 5 for earlier, later in pairwise(drafts[1:]))


def test_text_without_drafts_does_not_wait_and_the_timer_sends_what_is_due_and_then_all(qtbot):
    pace = Pace()
    pace.push(Text("g", "a", ()), 5.0)
    assert pace.due() == 5.0
    assert pace.take(5.0) == ("a", None)
    pace.push(Text("g", "b", ()), 5.01)
    assert pace.due() == 5.01
    timer = PaceTimer()
    sent = []
    timer.due.connect(lambda text, shown: sent.append((text, shown)))
    draft, _ = made_round(1, " a", " b")
    timer.push(draft)
    qtbot.waitUntil(lambda: sent == [("", draft)])
    timer.push(Text("g", "x", ()))
    timer.flush()
    assert sent[1:] == [("x", None)]
    timer.push(Text("g", "y", ()))
    timer.clear()
    qtbot.wait(30)
    assert len(sent) == 2
