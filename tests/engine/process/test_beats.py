"""Which rank is named where a pass of all stands, by what each of them said last."""

import pytest

from engine.process.launch import Beat, silent_link


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([Beat(1, 7, waits=True)], 1),  # it has sent its states, which do not arrive
        ([Beat(1, 6), Beat(2, 7, waits=True)], 2),
        ([Beat(1, 7, waits=True), Beat(2, 7, waits=True)], 1),
        ([Beat(1, 7), Beat(2, 6, waits=True)], 2),  # no message reaches it
        ([Beat(1, 7), Beat(2, 7)], 2),  # both wait for states of the last
    ],
)
def test_the_silent_link_is_that_of_the_first_rank_that_has_done_its_part(others, named):
    assert silent_link([Beat(0, 7, stood=60.0), *others]) == named
