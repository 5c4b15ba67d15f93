"""`Automatic` where a drafter copies: drafts grow while copies stand, if their rows are cheap."""

from itertools import pairwise

import pytest

import engine.draft_length.policy
from engine.draft_length import LONGEST, LONGEST_COPY, DraftCandidate, MeasuredRound
from engine.draft_length.costs import Calibration, DraftCosts, PassCosts
from engine.draft_length.policy import Automatic
from tests.support.engine.policies import HEAD

COPY = DraftCandidate("lookup", 1000, match=32)
ROWS = (1, 2, 4, 8, 16, 32, 64)


def drafted(slope, accepted, *, candidate=COPY, most=1000, rounds=60):
    """The lengths of drafts of which so many tokens are accepted, where each row after the first
    costs `slope` of a plain pass; 0 for a plain round."""

    def seconds(rows):
        return 0.02 * (1.0 + slope * (rows - 1))

    passes = PassCosts(24, ROWS, tuple(map(seconds, ROWS)))
    policy = Automatic(Calibration(passes, (DraftCosts(candidate.drafter, 0.0, 0.0),)))
    lengths, context = list[int](), 100
    for _ in range(rounds):
        length = policy.choose([candidate], most=most, context=context).length
        stood = accepted(length) if length else 0
        name, match = (candidate.drafter, candidate.match) if length else ("", 0)
        policy.observe(
            MeasuredRound(
                *(length, stood, 0.0, seconds(length + 1), context),
                drafter=name,
                match=match,
                asked=length,
            )
        )
        context += stood + 1
        lengths.append(length)
    return lengths


def test_copies_that_stand_grow():
    lengths = [length for length in drafted(0.005, lambda length: length) if length]
    assert max(lengths) == LONGEST_COPY
    assert all(after <= max(LONGEST, 2 * before) for before, after in pairwise(lengths))


def test_a_copy_is_at_most_twice_as_long_as_what_stood_of_the_last():
    lengths = [length for length in drafted(0.005, lambda length: min(length, 20)) if length]
    assert LONGEST < max(lengths) <= 40
    assert max(drafted(0.005, lambda length: min(length, 6))) <= LONGEST


def test_no_draft_is_longer_than_there_is_room():
    assert max(drafted(0.005, lambda length: length, most=24)) == 24
    few = DraftCandidate("lookup", 20, match=32)
    assert max(drafted(0.005, lambda length: length, candidate=few)) == 20


def test_what_does_not_copy_drafts_as_before():
    assert max(drafted(0.005, lambda length: length, candidate=HEAD)) == LONGEST


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_where_rows_are_dear_nothing_changes(share, monkeypatch):
    lengths = drafted(0.5, lambda length: int(share * length))
    monkeypatch.setattr(engine.draft_length.policy, "LONGEST_COPY", LONGEST)
    assert lengths == drafted(0.5, lambda length: int(share * length))
