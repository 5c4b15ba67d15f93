"""The harness of these tests: calls on several processes, which end however a call ends."""

import os
import time

import psutil
import pytest

from engine.cluster.group import Group, broadcast
from tests.support.engine.ranks import RankFailed, Ranks, started


def sum_of(group: Group, number: int) -> tuple[int, list[int]]:
    return group.rank(), broadcast(group, [number], length=1)


def fail_on_one(group: Group) -> None:
    if group.rank() == 1:
        raise ValueError("no")
    broadcast(group, [1], length=1)


def end_on_one(group: Group) -> None:
    if group.rank() == 1:
        os._exit(3)
    time.sleep(60)


@pytest.mark.slow
def test_every_rank_answers_call_after_call(two: Ranks) -> None:
    assert two.call(sum_of, 7) == [(0, [7]), (1, [7])]
    assert two.call(sum_of, 8) == [(0, [8]), (1, [8])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "said", "seconds"),
    [(fail_on_one, "ValueError: no", 60.0), (end_on_one, "it has ended", 60.0)],
)
def test_failure_of_one_ends_all(function: object, said: str, seconds: float) -> None:
    with started(2) as ranks, pytest.raises(RankFailed) as failed:
        ranks.call(function, seconds=seconds)  # type: ignore[arg-type]
    assert said in failed.value.failures[1]
    assert not [each for each in ranks.processes if psutil.pid_exists(each.pid)]
