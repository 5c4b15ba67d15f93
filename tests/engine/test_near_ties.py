"""The law by which a greedy text may differ on a GPU."""

from math import inf

import pytest

from tests.support.engine.near_ties import Fork, Rounding, first_fork

PLAIN = [5, 6, 7, 8]
MARGINS = [3.0, 0.25, 0.0, 1.0]


def fork(written, difference=0.125):
    roundings = [Rounding(2, 4, 0.5 * difference, 0), Rounding(5, 4, difference, 1)]
    return first_fork(PLAIN, written, margins=MARGINS, roundings=roundings)


def test_the_same_text_has_no_fork():
    assert fork(PLAIN) is None


@pytest.mark.parametrize(
    ("written", "difference", "near"),
    [
        ([5, 9, 7, 8], 0.126, True),
        ([5, 9, 7, 8], 0.125, False),  # as far apart as rounding could move both: not nearer
        ([5, 6, 9, 8], 0.001, True),
        ([5, 6, 9, 8], 0.0, False),  # equal logits, but kernels that round alike choose alike
        ([9, 9, 9, 9], 0.126, False),
    ],
)
def test_the_first_fork_is_judged(written, difference, near):
    found = fork(written, difference)
    assert found is not None
    at = next(i for i, token in enumerate(written) if token != PLAIN[i])
    assert (found.at, found.plain, found.written) == (at, PLAIN[at], written[at])
    assert (found.margin, found.allowed) == (MARGINS[at], 2 * difference)
    assert found.near_tie == near


@pytest.mark.parametrize("written", [PLAIN[:3], [*PLAIN, 9], []])
def test_a_text_that_ends_elsewhere_is_different(written):
    found = fork(written, difference=100.0)
    assert (found.at, found.margin, found.near_tie) == (min(len(written), 4), inf, False)


def test_nothing_is_allowed_where_nothing_was_measured():
    found = first_fork(PLAIN, [1, 2, 3, 4], margins=MARGINS, roundings=[])
    assert found == Fork(0, 5, 1, 3.0, 0.0)
    assert not found.near_tie
