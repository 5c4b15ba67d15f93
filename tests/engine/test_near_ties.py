"""The law by which a greedy text may differ on a GPU."""

from math import inf

import pytest

from engine.near_ties import Fork
from tests.support.engine.plain_texts import Rounding, first_fork

PLAIN = [5, 6, 7, 8]
MARGINS = [3.0, 0.25, 0.0, 1.0]


@pytest.mark.parametrize(
    ("written", "difference", "fork", "near"),
    [
        pytest.param(PLAIN, 0.125, None, False, id="the same"),
        pytest.param(
            [5, 9, 7, 8], 0.126, Fork(1, 6, 9, 0.25, 0.252), True, id="nearer than rounding"
        ),
        pytest.param([5, 9, 7, 8], 0.125, Fork(1, 6, 9, 0.25, 0.25), False, id="as near"),
        pytest.param([5, 6, 9, 8], 0.001, Fork(2, 7, 9, 0.0, 0.002), True, id="equal logits"),
        # Kernels that round alike choose alike.
        pytest.param(
            [5, 6, 9, 8], 0.0, Fork(2, 7, 9, 0.0, 0.0), False, id="equal, and no rounding"
        ),
        pytest.param([9, 9, 9, 9], 0.126, Fork(0, 5, 9, 3.0, 0.252), False, id="far apart"),
        pytest.param(PLAIN[:3], 100.0, Fork(3, 8, -1, inf, 200.0), False, id="an earlier end"),
        pytest.param([*PLAIN, 9], 100.0, Fork(4, -1, 9, inf, 200.0), False, id="a later end"),
    ],
)
def test_the_first_fork_is_a_near_tie_where_rounding_explains_it(written, difference, fork, near):
    roundings = [Rounding(2, 4, 0.5 * difference, 0), Rounding(5, 4, difference, 1)]
    found = first_fork(PLAIN, written, margins=MARGINS, roundings=roundings)
    assert found == fork
    assert (found is not None and found.near_tie) is near
