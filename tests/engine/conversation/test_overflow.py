"""Which turns of a long conversation are read, whatever their lengths are."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from engine.conversation.overflow import left_out

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=60)
DROPPING = st.sampled_from(["rolling", "middle"])


def read(system, turns, gap):
    """The tokens of the system prompt and of the turns that are not left out."""
    return system + sum(length for place, length in enumerate(turns) if place not in gap)


@given(st.integers(0, 300), LENGTHS, st.integers(1, 2000))
@example(0, [900, 50, 100], 1000)
def test_the_others_fit_or_only_the_last_turn_is_read(system, turns, limit):
    rolling = left_out(system, turns, overflow="rolling", limit=limit)
    middle = left_out(system, turns, overflow="middle", limit=limit)
    for gap in (rolling, middle):
        assert gap.stop < len(turns)
        assert read(system, turns, gap) <= limit or gap == range(len(turns) - 1)
    assert rolling.start == 0
    small = system + turns[0] <= limit // 2
    if middle and system + turns[0] + turns[-1] <= limit:
        assert middle.start == (1 if small else 0)


@given(st.integers(0, 300), LENGTHS, st.integers(1, 400), st.integers(1, 2000), DROPPING)
def test_the_gap_stays_until_it_no_longer_suffices(system, turns, more, limit, overflow):
    """So that the next prompt begins as this one did, and the cache is of use."""
    assume(max(*turns, more) + system + turns[0] <= limit)
    before = left_out(system, turns, overflow=overflow, limit=limit)
    after = left_out(system, [*turns, more], overflow=overflow, limit=limit)
    if read(system, [*turns, more], before) <= limit:
        assert after == before
    else:
        assert after.start == before.start or not before
        assert after.stop > before.stop
        kept = read(system, turns, after) - system - (turns[0] if after.start else 0)
        assert kept <= limit // 2


@pytest.mark.parametrize(
    ("overflow", "stops"),
    [("rolling", [0] * 10 + [5] * 5 + [10] * 5), ("middle", [0] * 10 + [6] * 5 + [11] * 5)],
)
def test_the_gap_grows_in_large_steps(overflow, stops):
    grown = [left_out(0, [100] * count, overflow=overflow, limit=1000) for count in range(1, 21)]
    assert [gap.stop if gap else 0 for gap in grown] == stops


@given(st.integers(0, 50), LENGTHS, st.integers(1, 399), DROPPING)
def test_an_answer_changes_nothing_that_is_left_out(system, turns, answer, overflow):
    """The turn that made the gap wider is longer once it is answered; none takes half the room."""
    before = left_out(system, turns[:-1], overflow=overflow, limit=1000)
    asked = left_out(system, turns, overflow=overflow, limit=1000)
    answered = [*turns[:-1], turns[-1] + answer]
    assume(max(answered) <= (1000 - system - answered[0]) // 2)
    if asked != before:
        assert left_out(system, answered, overflow=overflow, limit=1000) == asked
