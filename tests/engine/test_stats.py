"""The laws of the events hold for whatever is counted, at any moment of a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Event,
    Origin,
    Prefill,
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)
from engine.stats import ENOUGH_PLAIN_ROUNDS, ratio_to_plain, tally, update


def verdict(number: int, proposed: int, accepted: int, *, ended: bool = False) -> Verdict:
    origin: Origin = "correction" if accepted < proposed else "bonus" if proposed else "plain"
    own = None if ended else WrittenToken(7, "x", 0.5, origin)
    judgements = (TokenVerdict(0.5, 0.5),) * proposed
    return Verdict("g", number, accepted, judgements, own, 0.25, 0.5, 1.0, "full")


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """The events of a generation, and how its last round may end the text."""
    events: list[Event] = [Prefill("g", 0, 12, 4, 0.0), Prefill("g", 12, 12, 4, 0.75)]
    shapes = draw(st.lists(st.integers(0, 5).flatmap(_shape), max_size=10))
    for number, (proposed, accepted) in enumerate(shapes):
        if proposed:
            guesses = (DraftedToken(1, "x", 0.5),) * proposed
            events.append(Draft("g", number, guesses, "model"))
        last = number == len(shapes) - 1
        ended = last and accepted > 0 and draw(st.booleans())
        events += [verdict(number, proposed, accepted, ended=ended), Text("g", "x")]
    return [*events, Done("g", "stop", tally(events))]


def _shape(proposed: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.just(proposed), st.integers(0, proposed))


@given(events=runs())
def test_the_laws_hold_for_any_prefix(events: list[Event]) -> None:
    for end in range(len(events) + 1):
        prefix = events[:end]
        stats = tally(prefix)
        verdicts = [event for event in prefix if isinstance(event, Verdict)]
        committed = sum(event.accepted + (event.next is not None) for event in verdicts)
        assert stats.proposed == stats.accepted + stats.rejected + stats.discarded
        assert stats.committed == committed
        assert stats.committed == (stats.accepted + stats.corrections + stats.bonuses + stats.plain)
        assert stats.rejected == stats.corrections
        assert stats.rounds == len(verdicts)
        assert stats.proposed == sum(len(event.judgements) for event in verdicts)
        assert min(stats.rejected, stats.discarded) >= 0
        assert stats.decode_seconds == len(verdicts)
        assert stats.own_seconds == pytest.approx(0.25 * len(verdicts))


@given(events=runs())
def test_positions_add_up(events: list[Event]) -> None:
    stats = tally(events)
    proposed, accepted = stats.proposed_by_position, stats.accepted_by_position
    assert (sum(proposed), sum(accepted)) == (stats.proposed, stats.accepted)
    assert list(proposed) == sorted(proposed, reverse=True)
    assert list(accepted) == sorted(accepted, reverse=True)
    assert len(accepted) <= len(proposed)
    assert all(stood <= guessed for stood, guessed in zip(accepted, proposed, strict=False))


@given(events=runs(), data=st.data())
def test_counting_can_be_resumed(events: list[Event], data: st.DataObject) -> None:
    middle = data.draw(st.integers(0, len(events)))
    stats = tally(events[:middle])
    for event in events[middle:]:
        stats = update(stats, event)
    assert stats == tally(events)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.stats == stats


def test_a_run_by_hand() -> None:
    stats = tally(
        [
            Prefill("g", 100, 100, 60, 0.5),
            verdict(0, 0, 0),
            verdict(1, 4, 2),
            verdict(2, 2, 2),
            verdict(3, 3, 1, ended=True),
        ]
    )
    assert stats == Stats(
        prompt_tokens=100,
        reused_tokens=60,
        prefill_seconds=0.5,
        rounds=4,
        proposed=9,
        accepted=5,
        rejected=1,
        discarded=3,
        corrections=1,
        bonuses=1,
        plain=1,
        plain_seconds=1.0,
        draft_seconds=1.0,
        verify_seconds=2.0,
        decode_seconds=4.0,
        proposed_by_position=(3, 3, 2, 1),
        accepted_by_position=(3, 2),
    )
    assert stats.committed == 8
    assert stats.acceptance_rate == pytest.approx(5 / 9)
    assert (stats.acceptance_length, stats.tokens_per_second) == (2.0, 2.0)


def test_nothing_happened_yet() -> None:
    stats = tally([])
    assert stats == Stats()
    assert stats.committed == 0
    assert stats.acceptance_rate is stats.acceptance_length is stats.tokens_per_second is None
    assert math.isclose(stats.own_seconds, 0.0)


def _drafted(*, tokens_per_pass: float, seconds: float) -> Stats:
    """Ten rounds of a second's tenth each, or what `seconds` there are."""
    accepted = round(10 * (tokens_per_pass - 1))
    return Stats(rounds=10, proposed=40, accepted=accepted, bonuses=10, decode_seconds=seconds)


def _plain(seconds_each: float, rounds: int = ENOUGH_PLAIN_ROUNDS) -> Stats:
    return Stats(plain=rounds, plain_seconds=rounds * seconds_each)


def test_the_ratio_to_plain_decoding() -> None:
    answer = _drafted(tokens_per_pass=2.0, seconds=1.6)  # 12.5 tokens a second
    assert ratio_to_plain(answer, _plain(0.1)) == pytest.approx(1.25)
    assert ratio_to_plain(answer, _plain(0.05)) == pytest.approx(0.625)
    assert ratio_to_plain(answer, _plain(0.1, rounds=ENOUGH_PLAIN_ROUNDS - 1)) is None
    assert ratio_to_plain(Stats(rounds=9, bonuses=9, decode_seconds=1.0), _plain(0.1)) is None


def test_no_ratio_is_above_the_tokens_of_a_pass() -> None:
    answer = _drafted(tokens_per_pass=2.0, seconds=1.0)
    assert ratio_to_plain(answer, _plain(0.1)) == pytest.approx(2.0)
    assert ratio_to_plain(answer, _plain(0.105)) == pytest.approx(2.0)  # so much clocks may err
    assert ratio_to_plain(answer, _plain(0.4)) is None  # a machine that was busier then
